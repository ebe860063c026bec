//! The settings of a lock: how its nodes are named, what data they have, and how long it may be
//! held.

use std::time::Duration;

use zk_client::{Acl, CreateOptions};

use crate::node::Layout;
use crate::stats::{LockMeter, LockStats};

/// The default of [`Options::local_handoffs`]. With a higher number, two processes of 32 tasks
/// gained next to nothing, and their slowest acquires took longer (benches/two_level.rs).
const LOCAL_HANDOFFS: u32 = 32;

/// The settings of a lock. The defaults suit most uses.
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
    pub(crate) meter: Option<LockMeter>,
    persistent: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// The defaults: Curator's layout, no data, an open access list, and no longest time.
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
            meter: None,
            persistent: false,
        }
    }

    /// The options of a contender's node.
    pub(crate) fn node(&self) -> CreateOptions<'_> {
        CreateOptions::ephemeral().sequential().with_acl(&self.acl)
    }

    /// Sets how the nodes are named, and so with which clients the lock is shared.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets the data of this contender's node, for instance its host and process.
    #[must_use]
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// Sets the access list of this contender's node.
    ///
    /// By default everybody may do everything. Let every contender read the node: servers (3.8.4,
    /// 3.9.2 and later) do not report the end of a node to a client that may not read it, so the
    /// contenders that wait for this one would have to list the queue again and again. Let this
    /// client read it, too: otherwise its guards cannot report that somebody deleted the node, and
    /// a [`ReentrantLock`](crate::ReentrantLock) is not handed on within the process.
    ///
    /// The permission to delete the node is that of the folder. Without it a release is refused,
    /// and the node keeps others waiting until the permission comes back or the session ends.
    #[must_use]
    pub fn acl(mut self, acl: &[Acl]) -> Self {
        self.acl = acl.to_vec();
        self
    }

    /// Sets the longest time for which the lock is held.
    ///
    /// The time counts from the moment at which the node was requested or, after a wait, from the
    /// moment at which the client learnt that it was first. When it is over, the lock is lost and
    /// the node is deleted, whatever the holder is doing. So let the resource refuse old tokens.
    ///
    /// For a [`MultiLock`](crate::MultiLock) that had to wait, it counts from when it has all
    /// locks.
    ///
    /// For a two-level lock, such as [`ReentrantLock`](crate::ReentrantLock), the time counts for
    /// the node, and so for all owners that hold the lock under that node one after another. The
    /// owners hand the lock on, and readers join others, only in the first half of the time; then
    /// the process queues up for a new node. So each owner gets a guard that is valid for about
    /// half of the time at least. The guards of one owner end together.
    #[must_use]
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.max_hold = Some(time);
        self
    }

    /// Makes it an error if a child of the folder looks like a contender of another layout.
    ///
    /// By default such children are ignored, and the first that is seen is written to the trace as
    /// a warning.
    #[must_use]
    pub fn strict_foreign(mut self, strict: bool) -> Self {
        self.strict_foreign = strict;
        self
    }

    /// Makes the folder anew when its sequence numbers are nearly used up.
    ///
    /// An acquire then waits until the folder is empty, deletes it and creates it again. By default
    /// the acquire fails.
    #[must_use]
    pub fn rotate(mut self, rotate: bool) -> Self {
        self.rotate = rotate;
        self
    }

    /// Sets how often a [`ReentrantLock`](crate::ReentrantLock) is handed on within one process.
    ///
    /// The limit counts while other processes wait. The default is 32. With 0 each acquire queues
    /// up behind the other processes.
    ///
    /// A process that waits behind `m` others gets its turn after at most `m` times `handoffs + 1`
    /// holders.
    #[must_use]
    pub fn local_handoffs(mut self, handoffs: u32) -> Self {
        self.local_handoffs = handoffs;
        self
    }

    /// Sets for how long the owners of one process hand a lock on among themselves.
    ///
    /// The time counts from the moment at which their process got the lock. The owner that holds
    /// the lock when the time is over finishes its work. While no other process is known to wait,
    /// the owners hand the lock on for five seconds, or for the [`linger`](Self::linger) time if
    /// that is longer, and then queue up once. The default is half a second, or a quarter of the
    /// session timeout if that is shorter.
    #[must_use]
    pub fn local_handoff_time(mut self, time: Duration) -> Self {
        self.local_handoff_time = Some(time);
        self
    }

    /// Sets for how long a process keeps an unused lock, so that a new acquire costs no request.
    ///
    /// This is for a [`ReentrantLock`](crate::ReentrantLock) or a
    /// [`ReentrantRwLock`](crate::ReentrantRwLock). By default the lock is released with its last
    /// guard.
    ///
    /// The node stays until the time, counted from the last use, is over. It is deleted earlier, at
    /// once, if another contender joins the queue, asks for the lock back or deletes the node, or
    /// if the session is in doubt. While the node stays, the lock is acquired again only if it is
    /// surely still ours. A task on the session's [runtime](zk_client::Client::runtime) sees to
    /// that, whatever becomes of the runtime of the last user.
    ///
    /// The costs: another process that joins the queue waits longer, by one notification and one
    /// delete. And a process that dies while the lock lingers blocks others for a session timeout,
    /// although nobody used the lock. A guard's [`release`](crate::ReentrantGuard::release) does
    /// not release the node while it lingers. Dropping the last clone of the lock does.
    ///
    /// Once in each such time, but not more often than every five seconds, the next acquire queues
    /// up anew, in case no notification has reported other contenders.
    ///
    /// If the session has no runtime, or that one has ended while another one serves the session,
    /// the node is not kept.
    #[must_use]
    pub fn linger(mut self, time: Duration) -> Self {
        self.linger = time;
        self
    }

    /// Sets whether missing folders are created as persistent nodes, not as containers.
    ///
    /// This applies to the folder and its ancestors. Servers remove a container some time after the
    /// last contender has left.
    ///
    /// With [`Layout::KAZOO`] the folders are persistent in any case: kazoo's objects create their
    /// folder once, and fail for good when it is removed.
    #[must_use]
    pub fn persistent_folder(mut self, persistent: bool) -> Self {
        self.persistent = persistent;
        self
    }

    /// Counts what the lock does with this meter, for metrics.
    ///
    /// A meter serves any number of locks. See [`LockStats`] for what it counts.
    #[must_use]
    pub fn meter(mut self, meter: &LockMeter) -> Self {
        self.meter = Some(meter.clone());
        self
    }

    /// Counts with the meter, if there is one.
    pub(crate) fn count(&self, count: impl FnOnce(&mut LockStats)) {
        if let Some(meter) = &self.meter {
            meter.count(count);
        }
    }

    /// How a missing folder is created at the first attempt.
    pub(crate) fn folders(&self) -> CreateOptions<'static> {
        let is_persistent = self.persistent || self.layout == Layout::KAZOO;
        if is_persistent { CreateOptions::persistent() } else { CreateOptions::container() }
    }
}
