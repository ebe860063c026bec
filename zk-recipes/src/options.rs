//! The settings of a recipe: how its nodes are named, what data they have, and how long they may
//! be held.

use std::marker::PhantomData;
use std::time::Duration;

use zk_client::{Acl, CreateOptions};

use crate::node::Layout;
use crate::stats::{LockMeter, LockStats};

/// The settings of a recipe. The defaults suit most uses.
///
/// ```
/// use std::time::Duration;
/// use zk_recipes::{Lock, Options, ReentrantLock};
///
/// # fn f(client: &zk_client::Client) -> Result<(), zk_recipes::Error> {
/// let options = Options::new().data("host 7, process 4711").max_hold(Duration::from_secs(60));
/// let lock = Lock::with_options(client, "/locks/report", options)?;
/// let options = Options::new().linger(Duration::from_secs(2));
/// let two_level = ReentrantLock::with_options(client, "/locks/invoice", options)?;
/// # Ok(())
/// # }
/// ```
///
/// The recipe to which they are given says which settings there are: a setting that would do
/// nothing there does not compile.
///
/// ```compile_fail
/// # fn f(client: &zk_client::Client) -> Result<(), zk_recipes::Error> {
/// # use std::time::Duration;
/// # use zk_recipes::{Lock, Options};
/// let options = Options::new().linger(Duration::from_secs(2)); // only two-level locks linger
/// let lock = Lock::with_options(client, "/locks/report", options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Options<K = OfLock> {
    pub(crate) settings: Settings,
    kind: PhantomData<K>,
}

/// The kind of [`Options`] of recipes whose nodes have names and data of their own:
/// [`Group`](crate::Group) and [`DoubleBarrier`](crate::DoubleBarrier).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum OfMember {}

/// The kind of [`Options`] of locks, and of what consists of locks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum OfLock {}

/// The kind of [`Options`] of two-level locks, such as [`ReentrantLock`](crate::ReentrantLock).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum OfTwoLevelLock {}

/// The kinds of [`Options`] of locks, of one level or two.
pub trait OfAnyLock: private::Sealed {}

impl OfAnyLock for OfLock {}

impl OfAnyLock for OfTwoLevelLock {}

mod private {
    pub trait Sealed {}
}

impl private::Sealed for OfLock {}

impl private::Sealed for OfTwoLevelLock {}

/// All settings, whichever recipe they are for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) layout: Layout,
    pub(crate) data: Vec<u8>,
    pub(crate) acl: Option<Vec<Acl>>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) strict_foreign: bool,
    pub(crate) rotate: bool,
    pub(crate) local_handoffs: Option<u32>,
    pub(crate) local_handoff_time: Option<Duration>,
    pub(crate) linger: Duration,
    pub(crate) meter: Option<LockMeter>,
    pub(crate) persistent: bool,
}

impl Settings {
    /// The access list of a contender's node.
    pub(crate) fn acl(&self) -> &[Acl] {
        self.acl.as_deref().unwrap_or(Acl::OPEN)
    }

    /// The options of a contender's node.
    pub(crate) fn node(&self) -> CreateOptions<'_> {
        CreateOptions::ephemeral().sequential().with_acl(self.acl())
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

impl<K> Default for Options<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Options<K> {
    /// The defaults: Curator's layout, no data, an open access list, and no longest time.
    pub fn new() -> Self {
        Self { settings: Settings::default(), kind: PhantomData }
    }

    /// These settings for the members of a group, who are members for as long as they like.
    pub(crate) fn of_members(&self) -> Options<OfMember> {
        let mut settings = self.settings.clone();
        // The numbers of one id cannot begin again while others have members.
        (settings.max_hold, settings.rotate, settings.strict_foreign) = (None, false, false);
        Options { settings, kind: PhantomData }
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
    pub fn acl(mut self, acl: &[Acl]) -> Self {
        self.settings.acl = Some(acl.to_vec());
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
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.settings.max_hold = Some(time);
        self
    }

    /// Sets whether missing folders are created as persistent nodes, not as containers.
    ///
    /// This applies to the folder and its ancestors. Servers remove a container some time after the
    /// last contender has left.
    ///
    /// With [`Layout::KAZOO`] the folders are persistent in any case: kazoo's objects create their
    /// folder once, and fail for good when it is removed.
    pub fn persistent_folder(mut self, persistent: bool) -> Self {
        self.settings.persistent = persistent;
        self
    }

    /// Counts what the lock does with this meter, for metrics.
    ///
    /// A meter serves any number of locks. See [`LockStats`] for what it counts.
    pub fn meter(mut self, meter: &LockMeter) -> Self {
        self.settings.meter = Some(meter.clone());
        self
    }
}

impl<K: OfAnyLock> Options<K> {
    /// Sets how the nodes are named, and so with which clients the lock is shared.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.settings.layout = layout;
        self
    }

    /// Sets the data of this contender's node, for instance its host and process.
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.settings.data = data.into();
        self
    }

    /// Makes it an error if a child of the folder looks like a contender of another layout.
    ///
    /// By default such children are ignored, and the first that is seen is written to the trace as
    /// a warning.
    pub fn strict_foreign(mut self, strict: bool) -> Self {
        self.settings.strict_foreign = strict;
        self
    }

    /// Makes the folder anew when its sequence numbers are nearly used up.
    ///
    /// An acquire then waits until the folder is empty, deletes it and creates it again. By default
    /// the acquire fails.
    pub fn rotate(mut self, rotate: bool) -> Self {
        self.settings.rotate = rotate;
        self
    }
}

impl Options<OfTwoLevelLock> {
    /// Sets how often a [`ReentrantLock`](crate::ReentrantLock) is handed on within one process.
    ///
    /// The limit counts while other processes wait. The default is 32. With 0 each acquire queues
    /// up behind the other processes.
    ///
    /// A process that waits behind `m` others gets its turn after at most `m` times `handoffs + 1`
    /// holders.
    pub fn local_handoffs(mut self, handoffs: u32) -> Self {
        self.settings.local_handoffs = Some(handoffs);
        self
    }

    /// Sets for how long the owners of one process hand a lock on among themselves.
    ///
    /// The time counts from the moment at which their process got the lock. The owner that holds
    /// the lock when the time is over finishes its work. While no other process is known to wait,
    /// the owners hand the lock on for five seconds, or for the [`linger`](Self::linger) time if
    /// that is longer, and then queue up once. The default is half a second, or a quarter of the
    /// session timeout if that is shorter.
    pub fn local_handoff_time(mut self, time: Duration) -> Self {
        self.settings.local_handoff_time = Some(time);
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
    pub fn linger(mut self, time: Duration) -> Self {
        self.settings.linger = time;
        self
    }
}
