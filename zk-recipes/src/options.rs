//! How a lock is used: what its nodes are called, what they say, and how long it may be held.

use std::time::Duration;

use zk_client::{Acl, CreateOptions};

use crate::node::Layout;

/// How often a process hands a lock on within itself, by default. With more, two processes of 32 tasks
/// gained next to nothing, and the slowest of their acquires took longer (benches/two_level.rs).
const PASSES: u32 = 32;

/// How a lock is used. The default suits most.
///
/// ```
/// use std::time::Duration;
/// use zk_recipes::Options;
///
/// let options = Options::new().data("host 7, process 4711").term(Duration::from_secs(60));
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) layout: Layout,
    pub(crate) data: Vec<u8>,
    pub(crate) acl: Vec<Acl>,
    pub(crate) term: Option<Duration>,
    pub(crate) strict_foreign: bool,
    pub(crate) rotate: bool,
    pub(crate) passes: u32,
    pub(crate) pass_time: Option<Duration>,
    persistent: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// The default: Curator's layout, no data, open to everybody, no end.
    pub fn new() -> Self {
        Self {
            layout: Layout::CURATOR,
            data: Vec::new(),
            acl: Acl::OPEN.to_vec(),
            term: None,
            strict_foreign: false,
            rotate: false,
            passes: PASSES,
            pass_time: None,
            persistent: false,
        }
    }

    /// Sets whose names the nodes have.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets what this contender's node says to whoever looks, for instance host and process.
    #[must_use]
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// Sets the access list of this contender's node, which by default lets everybody do
    /// everything.
    ///
    /// Let every contender read it: servers do not tell of the end of a node that may not be read
    /// (3.8.4, 3.9.2 and later), so those who wait for this one would have to ask again and again.
    #[must_use]
    pub fn acl(mut self, acl: &[Acl]) -> Self {
        self.acl = acl.to_vec();
        self
    }

    /// Sets how long the lock is held at most: from when its node was asked for, or for whoever had to
    /// wait, from when it learnt that it was first. Then it is lost, and the node deleted, whatever
    /// the holder is doing: let the resource refuse old tokens.
    ///
    /// For a [`MultiLock`](crate::MultiLock) that had to wait it counts from when it has all locks.
    ///
    /// For a two-level lock, such as [`ReentrantLock`](crate::ReentrantLock), it counts for the node,
    /// and so for all owners that have it after one another. The lock is handed on among them, and
    /// readers join others, in the first half of the time alone; then the process queues up for a new
    /// node. So each owner gets a guard that is good for about half of the time at least. Guards of
    /// one owner end together.
    #[must_use]
    pub fn term(mut self, term: Duration) -> Self {
        self.term = Some(term);
        self
    }

    /// Makes it an error if a child of the folder looks like a contender of another layout. By
    /// default such children are ignored.
    #[must_use]
    pub fn strict_foreign(mut self, strict: bool) -> Self {
        self.strict_foreign = strict;
        self
    }

    /// When the folder's sequence numbers are nearly used up: waits until nobody is in it, and
    /// makes it anew. By default an acquire fails then.
    #[must_use]
    pub fn rotate(mut self, rotate: bool) -> Self {
        self.rotate = rotate;
        self
    }

    /// Sets how often the owners of one process hand a
    /// [`ReentrantLock`](crate::ReentrantLock) on among themselves while other processes wait.
    /// 32 by default; with 0 each acquire queues up behind them.
    ///
    /// A process that waits behind `m` others gets its turn after at most `m` times this and one
    /// tenures.
    #[must_use]
    pub fn passes(mut self, passes: u32) -> Self {
        self.passes = passes;
        self
    }

    /// Sets for how long they do, counted from when their process got the lock. The tenure that is
    /// under way then comes to its end. While no other process is known to wait they do for five
    /// seconds, and then queue up once. By default it is the shorter of half a second and a quarter
    /// of the session timeout.
    #[must_use]
    pub fn pass_time(mut self, time: Duration) -> Self {
        self.pass_time = Some(time);
        self
    }

    /// Whether the folder and its ancestors are made as persistent nodes where they are missing,
    /// and not as containers, which servers remove some time after the last contender left.
    #[must_use]
    pub fn persistent_folder(mut self, persistent: bool) -> Self {
        self.persistent = persistent;
        self
    }

    /// How missing folders are made first.
    pub(crate) fn folders(&self) -> CreateOptions<'static> {
        if self.persistent { CreateOptions::persistent() } else { CreateOptions::container() }
    }

    /// Whether others than everybody may do things.
    pub(crate) fn has_acl(&self) -> bool {
        self.acl != Acl::OPEN
    }
}
