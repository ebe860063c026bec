//! The two-level locks: the tasks of a process queue up among themselves first, and then once for
//! all of them in the folder.
//!
//! A holder is an [`Owner`], which may acquire the lock again at once. The module `node` connects
//! the two levels; this one has the handles and the guard.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zk_client::Client;

use crate::error::Error;
use crate::hold::{Hold, Release, Releasing};
use crate::locks::inspect::LockFolder;
use crate::node::Role;
use crate::options::{OfTwoLevelLock, Options};
use crate::queue::Patience;
use crate::two_level::local_queue::{Entry, OwnerId};
use crate::two_level::node::SharedNode;

/// Identifies a holder of a [`ReentrantLock`], which may acquire it again at once.
///
/// An owner is neither a task nor a thread. Branches of one task may be two owners, and one owner
/// may move between tasks, or be shared by tasks that act as one. No two owners of a process are
/// the same.
#[derive(Debug)]
pub struct Owner(OwnerId);

impl Owner {
    /// An owner that holds nothing yet.
    #[expect(clippy::new_without_default, reason = "a default that is never the same misleads")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A lock of one owner at a time, across processes and the tasks of each.
///
/// ```
/// # async fn f(client: &zk_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_recipes::{Owner, ReentrantLock};
///
/// let stock = ReentrantLock::new(client, "/locks/stock")?; // clone it for other tasks
/// let me = Owner::new();
/// let outer = stock.acquire(&me).await?;
/// let inner = stock.acquire(&me).await?; // no round trip
/// assert_eq!((outer.depth(), inner.depth()), (1, 2));
/// drop(outer);
/// inner.release().await?; // the last one releases
/// # Ok(())
/// # }
/// ```
///
/// Share one among all tasks of a process: they queue up locally, first come, first served, and
/// have one node among them. Handing the lock on among themselves takes no request, but for one
/// watch on each node, which nobody waits for. While other processes wait, they do so for a
/// [bounded](Options::local_handoffs) number of times and [time](Options::local_handoff_time).
/// While no other process is known to wait, they queue up anew once in five seconds, or in
/// [`Options::linger`] if that is longer.
///
/// In the folder it is a [`Lock`](crate::Lock) like any other, with the same promises.
#[derive(Clone, Debug)]
pub struct ReentrantLock(pub(super) Arc<SharedNode>);

impl ReentrantLock {
    /// As [`Lock::new`](crate::Lock::new).
    pub fn new(client: &Client, path: &str) -> Result<Self, Error> {
        Self::with_options(client, path, Options::new())
    }

    /// As [`Lock::with_options`](crate::Lock::with_options).
    pub fn with_options(
        client: &Client,
        path: &str,
        options: Options<OfTwoLevelLock>,
    ) -> Result<Self, Error> {
        SharedNode::new(client, path, options.settings.layout.mutex(), options.settings).map(Self)
    }

    /// Waits until `owner` has the lock. An owner that has it already gets in again at once.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire). If the acquire fails, one of the tasks that wait
    /// in this process gets the error, and the others try again. [`Lost`](crate::ErrorKind::Lost)
    /// if the owner has the lock and it is lost.
    ///
    /// A task that waits in this process behind an owner that has lost the lock waits until that
    /// owner drops its guards: [`run`](Hold::run) does so in time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue. The next local waiter inherits the place in the
    /// folder.
    ///
    /// # Futures that are not polled
    ///
    /// A future that was polled and is neither polled any more nor dropped keeps its place, as with
    /// tokio's `Mutex`. Any other waiter of this process that is polled drives the request on for
    /// all of them. But when its turn has come, all other waiters wait until it is polled or
    /// dropped, in this process and in others.
    ///
    /// So do not await another acquire of the same lock in a branch of `select!` over `&mut
    /// acquire`: that branch would wait for ever for the future that it keeps from being polled.
    /// Drop the first future before, or spawn it as a task.
    ///
    /// ```
    /// # async fn f(lock: &zk_recipes::ReentrantLock) -> Result<(), zk_recipes::Error> {
    /// # use std::time::Duration;
    /// use zk_recipes::Owner;
    ///
    /// let (me, other) = (Owner::new(), Owner::new());
    /// let mut acquire = Box::pin(lock.acquire(&me));
    /// tokio::select! {
    ///     guard = &mut acquire => drop(guard?),
    ///     () = tokio::time::sleep(Duration::from_secs(1)) => {
    ///         drop(acquire); // without this, the next line may wait for ever
    ///         drop(lock.acquire(&other).await?);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self, owner: &Owner) -> Result<ReentrantGuard, Error> {
        ReentrantGuard::enter(&self.0, owner, Role::Exclusive).await
    }

    /// Takes the lock if it is free in this process and in the folder.
    ///
    /// Returns `None` if it is not, and leaves the queue. Unless this process has the node it costs
    /// and waits as [`Lock::try_acquire`](crate::Lock::try_acquire) does.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self, owner: &Owner) -> Result<Option<ReentrantGuard>, Error> {
        ReentrantGuard::enter_with(&self.0, owner, Role::Exclusive, Patience::Tries).await
    }
}

impl Deref for ReentrantLock {
    type Target = LockFolder;

    fn deref(&self) -> &LockFolder {
        &self.0.folder
    }
}

/// A [`ReentrantLock`] that readers share, across processes and among the tasks of each.
///
/// The readers of one process have one node for all of them.
///
/// ```
/// # async fn f(client: &zk_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_recipes::{ErrorKind, Owner, ReentrantRwLock};
///
/// let catalogue = ReentrantRwLock::new(client, "/locks/catalogue")?;
/// let (me, other) = (Owner::new(), Owner::new());
/// let mine = catalogue.read(&me).await?;
/// let others = catalogue.read(&other).await?; // no round trip
/// // It would wait for itself.
/// assert_eq!(catalogue.write(&me).await.unwrap_err().kind(), ErrorKind::WouldDeadlock);
/// # drop((mine, others));
/// # Ok(())
/// # }
/// ```
///
/// An owner that writes may also read. No local waiter overtakes another: a reader that comes while
/// a writer of its process waits has to wait as well. A future that is not polled keeps its place:
/// see [`ReentrantLock::acquire`].
#[derive(Clone, Debug)]
pub struct ReentrantRwLock(Arc<SharedNode>);

impl ReentrantRwLock {
    /// As [`Lock::new`](crate::Lock::new).
    pub fn new(client: &Client, path: &str) -> Result<Self, Error> {
        Self::with_options(client, path, Options::new())
    }

    /// As [`Lock::with_options`](crate::Lock::with_options).
    pub fn with_options(
        client: &Client,
        path: &str,
        options: Options<OfTwoLevelLock>,
    ) -> Result<Self, Error> {
        SharedNode::new(client, path, options.settings.layout.read_write(), options.settings)
            .map(Self)
    }

    /// Waits until no writer is ahead of `owner`.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`ReentrantLock::acquire`].
    pub async fn read(&self, owner: &Owner) -> Result<ReentrantGuard, Error> {
        ReentrantGuard::enter(&self.0, owner, Role::Shared).await
    }

    /// Waits until nobody is ahead of `owner`.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`ReentrantLock::acquire`], and [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) at
    /// once if the owner reads.
    pub async fn write(&self, owner: &Owner) -> Result<ReentrantGuard, Error> {
        ReentrantGuard::enter(&self.0, owner, Role::Exclusive).await
    }

    /// Reads if that is possible at once, as [`ReentrantLock::try_acquire`] does.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`read`](Self::read).
    pub async fn try_read(&self, owner: &Owner) -> Result<Option<ReentrantGuard>, Error> {
        ReentrantGuard::enter_with(&self.0, owner, Role::Shared, Patience::Tries).await
    }

    /// Writes if that is possible at once, as [`ReentrantLock::try_acquire`] does.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`write`](Self::write).
    pub async fn try_write(&self, owner: &Owner) -> Result<Option<ReentrantGuard>, Error> {
        ReentrantGuard::enter_with(&self.0, owner, Role::Exclusive, Patience::Tries).await
    }
}

impl Deref for ReentrantRwLock {
    type Target = LockFolder;

    fn deref(&self) -> &LockFolder {
        &self.0.folder
    }
}

/// Proof of holding a [`ReentrantLock`] or [`ReentrantRwLock`] at one level.
///
/// It lasts until it is dropped or released.
///
/// Guards of one owner may be dropped in any order; the last one hands the lock on or releases it.
/// It is a [`Hold`], with what [`Guard`](crate::Guard) says about dropping. Its token orders it
/// after all earlier holders, in this process and elsewhere; guards of one owner share it.
#[derive(Debug)]
#[must_use = "dropping it releases the lock: bind it to a name (`_` is none)"]
pub struct ReentrantGuard {
    shared: Arc<SharedNode>,
    owner: OwnerId,
    depth: u32,
    hold: Hold,
}

impl ReentrantGuard {
    async fn enter(shared: &Arc<SharedNode>, owner: &Owner, role: Role) -> Result<Self, Error> {
        let entered = Self::enter_with(shared, owner, role, Patience::Waits).await?;
        // An owner that waits gets in, or an error.
        entered.ok_or_else(|| shared.would_deadlock())
    }

    async fn enter_with(
        shared: &Arc<SharedNode>,
        owner: &Owner,
        role: Role,
        patience: Patience,
    ) -> Result<Option<Self>, Error> {
        let entered = shared.enter(owner.0, role, patience).await?;
        let (shared, owner) = (Arc::clone(shared), owner.0);
        Ok(entered.map(|(Entry { depth, .. }, hold)| Self { shared, owner, depth, hold }))
    }

    /// How many times the owner had the lock when it got this guard, this time included.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Leaves this level.
    ///
    /// If it was the last one and no other owner of this process is next, waits until the server
    /// has confirmed that the node is gone: see [`Guard::release`](crate::Guard::release).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// The release is done or on its way when this returns, whether or not the future is awaited.
    pub fn release(&self) -> Releasing {
        let is_lost = self.hold.known_loss().is_some();
        // Another task that shares the guard may have released it meanwhile.
        let is_first = self.hold.mark_released();
        let released = is_first.then(|| self.shared.leave(self.owner)).flatten();
        released.unwrap_or_else(|| {
            Releasing::known(match is_first && !is_lost {
                true => Release::Released,
                false => Release::AlreadyLost,
            })
        })
    }
}

impl Drop for ReentrantGuard {
    fn drop(&mut self) {
        // The lock is handed on, or the client deletes the node.
        if self.hold.mark_released() {
            drop(self.shared.leave(self.owner));
        }
    }
}

impl Deref for ReentrantGuard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}
