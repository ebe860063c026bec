//! How a lock is used: what its nodes are called, what they say, and how long it may be held.

use std::time::Duration;

use zk_client::{Acl, CreateOptions};

use crate::node::Layout;

/// How often a process hands a lock on within itself, by default. With more, two processes of 32
/// tasks gained next to nothing, and their slowest acquires took longer (benches/two_level.rs).
const LOCAL_HANDOFFS: u32 = 32;

/// How a lock is used. The default suits most.
///
/// ```
/// use std::time::Duration;
/// use zk_recipes::Options;
///
/// let options = Options::new().data("host 7, process 4711").max_hold(Duration::from_secs(60));
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) layout: Layout,
    pub(crate) data: Vec<u8>,
    pub(crate) acl: Vec<Acl>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) strict_foreign: bool,
    pub(crate) rotate: bool,
    pub(crate) local_handoffs: u32,
    pub(crate) local_handoff_time: Option<Duration>,
    pub(crate) linger: Duration,
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
            max_hold: None,
            strict_foreign: false,
            rotate: false,
            local_handoffs: LOCAL_HANDOFFS,
            local_handoff_time: None,
            linger: Duration::ZERO,
            persistent: false,
        }
    }

    /// The options of a contender's node.
    pub(crate) fn node(&self) -> CreateOptions<'_> {
        CreateOptions::ephemeral().sequential().with_acl(&self.acl)
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

    /// Sets the longest time for which the lock is held. It counts from the moment at which the
    /// node was requested, or, after a wait, from the moment at which the client learnt that it was
    /// first. Then the lock is lost and the node deleted, whatever the holder is doing, so let the
    /// resource refuse old tokens.
    ///
    /// For a [`MultiLock`](crate::MultiLock) that had to wait it counts from when it has all locks.
    ///
    /// For a two-level lock, such as [`ReentrantLock`](crate::ReentrantLock), it counts for the
    /// node, and so for all owners that have it after one another. The lock is handed on among
    /// them, and readers join others, only in the first half of the time; then the process queues
    /// up for a new node. So each owner gets a guard that is good for about half of the time at
    /// least. Guards of one owner end together.
    #[must_use]
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.max_hold = Some(time);
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

    /// Sets how often the owners of one process hand a [`ReentrantLock`](crate::ReentrantLock) on
    /// among themselves while other processes wait. The default is 32; with 0 each acquire queues
    /// up behind the other processes.
    ///
    /// A process that waits behind `m` others gets its turn after at most `m` times this number of
    /// holders, and one more of each.
    #[must_use]
    pub fn local_handoffs(mut self, handoffs: u32) -> Self {
        self.local_handoffs = handoffs;
        self
    }

    /// Sets for how long they hand it on, counted from when their process got the lock; whoever
    /// holds it then finishes. While no other process is known to wait they do so for five seconds,
    /// and then queue up once. The default is half a second, or a quarter of the session timeout if
    /// that is shorter.
    #[must_use]
    pub fn local_handoff_time(mut self, time: Duration) -> Self {
        self.local_handoff_time = Some(time);
        self
    }

    /// Sets for how long a process keeps an unused [`ReentrantLock`](crate::ReentrantLock) or
    /// [`ReentrantRwLock`](crate::ReentrantRwLock), so that taking it again costs no request. By
    /// default the lock is released when its last guard goes.
    ///
    /// The node stays until the time is over, counted from the last use, or until somebody else
    /// joins the queue, asks for the lock back, or deletes the node, or the session is in doubt;
    /// then it is deleted at once. While it stays, the lock is taken again only if it is surely
    /// still ours.
    ///
    /// What it costs: another process that comes waits for one notification and one delete longer.
    /// And a process that dies while the lock lingers blocks others for a session timeout, although
    /// nobody used the lock. A guard's [`release`](crate::ReentrantGuard::release) does not release
    /// the node while it lingers. Dropping the last clone of the lock does.
    ///
    /// Once in so long, and not more often than every five seconds, the process queues up anew at
    /// the next acquire, in case nothing has told it of others.
    ///
    /// A task of the runtime on which the last guard goes watches over the unused node. If there is
    /// no runtime, the node is not kept.
    #[must_use]
    pub fn linger(mut self, time: Duration) -> Self {
        self.linger = time;
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
