//! The two-level locks: the tasks of a process queue up among themselves first, and then once for
//! all of them in the folder.
//!
//! The order of a release is what makes it safe: the node's delete is on its way before anybody of
//! this process can get in again, and the session keeps the order of its requests. There is no task
//! behind it: whoever is at the head of the local queue drives the acquire, and leaves it to the
//! next one when it goes.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::timeout;
use zk_client::Client;

use crate::cohort::{Bounds, Cohort, Entry, Outcome, OwnerId, Situation, Step, Ticket};
use crate::error::{Error, Fault};
use crate::hold::{Hold, Release};
use crate::layout::{Names, Role};
use crate::options::Options;
use crate::queue::Queue;
use crate::roster::QueueEntry;
use crate::tenure::Joining;

/// The longest that a process hands the lock on within itself, by default.
const PASS_TIME: Duration = Duration::from_millis(500);

/// Who holds a [`ReentrantLock`]: whoever acquires with the same owner again gets in at once.
///
/// Neither a task nor a thread: branches of one task may be two owners, and one owner may move
/// between tasks, or be shared by those that act as one. Never the same as another one in this
/// process.
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
/// Share one among all tasks of a process: they queue up locally, first come, first served, and have
/// one node among them. Handing the lock on among themselves takes no request. They do so for a
/// [bounded](Options::passes) number of times and [time](Options::pass_time) while other processes
/// wait, and without end while none does.
///
/// In the folder it is a [`Lock`](crate::Lock) like any other, with the same promises.
#[derive(Clone, Debug)]
pub struct ReentrantLock(Level);

impl ReentrantLock {
    /// A lock on the folder `path`, which is made with its ancestors, as containers, when it is
    /// missing. It should hold nothing else.
    ///
    /// # Errors
    ///
    /// The path breaks a rule of ZooKeeper's.
    pub fn new(client: &Client, path: &str) -> Result<Self, Error> {
        Self::with_options(client, path, Options::new())
    }

    /// The same, used in another way.
    ///
    /// # Errors
    ///
    /// The path breaks a rule of ZooKeeper's.
    pub fn with_options(client: &Client, path: &str, options: Options) -> Result<Self, Error> {
        Level::new(client, path, options.layout.mutex(), options).map(Self)
    }

    /// The folder.
    pub fn path(&self) -> &str {
        self.0.0.queue.folder()
    }

    /// Waits until `owner` has the lock. One that has it already gets in again at once.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire). An error is told to whoever was at the head of
    /// the local queue; the next one tries again. [`Lost`](crate::ErrorKind::Lost) if the owner has
    /// the lock and it is lost.
    ///
    /// Whoever waits here behind an owner that has lost the lock waits until that owner lets go of
    /// its guards: [`run`](Hold::run) does so in time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue. Whoever waits behind it locally inherits the place in
    /// the folder.
    pub async fn acquire(&self, owner: &Owner) -> Result<ReentrantGuard, Error> {
        self.0.enter(owner, Role::Exclusive).await
    }

    /// Takes the lock if it is free here and in the folder, in at most one round trip. `None` if it
    /// is not; then nothing is left in the queue.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self, owner: &Owner) -> Result<Option<ReentrantGuard>, Error> {
        self.0.try_enter(owner, Role::Exclusive).await
    }

    /// [`acquire`](Self::acquire) for no longer than `time`, here and in the folder together.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(
        &self,
        owner: &Owner,
        time: Duration,
    ) -> Result<Option<ReentrantGuard>, Error> {
        timeout(time, self.acquire(owner)).await.ok().transpose()
    }

    /// Every process that holds the lock or waits for it, first come first.
    ///
    /// # Errors
    ///
    /// As any read, for instance without permission.
    pub async fn contenders(&self) -> Result<Vec<QueueEntry>, Error> {
        self.0.0.queue.roster().await
    }

    /// Asks whoever holds the lock to give it back: see [`Lock::revoke`](crate::Lock::revoke). A
    /// process that is asked hands it on among its tasks no more.
    ///
    /// # Errors
    ///
    /// As any read and write, for instance without permission.
    pub async fn revoke(&self) -> Result<usize, Error> {
        self.0.0.queue.revoke().await
    }
}

/// A [`ReentrantLock`] that readers share: across processes, and among the tasks of each, which
/// then have one node for all of them.
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
/// An owner that writes may also read. Locally, too, nobody overtakes: a reader that comes while a
/// writer of its process waits does so as well.
#[derive(Clone, Debug)]
pub struct ReentrantRwLock(Level);

impl ReentrantRwLock {
    /// A lock on the folder `path`, which is made with its ancestors, as containers, when it is
    /// missing. It should hold nothing else.
    ///
    /// # Errors
    ///
    /// The path breaks a rule of ZooKeeper's.
    pub fn new(client: &Client, path: &str) -> Result<Self, Error> {
        Self::with_options(client, path, Options::new())
    }

    /// The same, used in another way.
    ///
    /// # Errors
    ///
    /// The path breaks a rule of ZooKeeper's.
    pub fn with_options(client: &Client, path: &str, options: Options) -> Result<Self, Error> {
        Level::new(client, path, options.layout.read_write(), options).map(Self)
    }

    /// The folder.
    pub fn path(&self) -> &str {
        self.0.0.queue.folder()
    }

    /// Waits until no writer is ahead of `owner`.
    ///
    /// # Errors
    ///
    /// As [`ReentrantLock::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`ReentrantLock::acquire`].
    pub async fn read(&self, owner: &Owner) -> Result<ReentrantGuard, Error> {
        self.0.enter(owner, Role::Shared).await
    }

    /// Waits until nobody is ahead of `owner`.
    ///
    /// # Errors
    ///
    /// As [`ReentrantLock::acquire`]; [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) at once if
    /// the owner reads.
    ///
    /// # Cancel safety
    ///
    /// As [`ReentrantLock::acquire`].
    pub async fn write(&self, owner: &Owner) -> Result<ReentrantGuard, Error> {
        self.0.enter(owner, Role::Exclusive).await
    }

    /// [`read`](Self::read) for no longer than `time`, here and in the folder together.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// As [`ReentrantLock::acquire`].
    pub async fn read_within(
        &self,
        owner: &Owner,
        time: Duration,
    ) -> Result<Option<ReentrantGuard>, Error> {
        timeout(time, self.read(owner)).await.ok().transpose()
    }

    /// [`write`](Self::write) for no longer than `time`, here and in the folder together.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// As [`ReentrantLock::acquire`].
    pub async fn write_within(
        &self,
        owner: &Owner,
        time: Duration,
    ) -> Result<Option<ReentrantGuard>, Error> {
        timeout(time, self.write(owner)).await.ok().transpose()
    }

    /// Reads if that is possible at once, in at most one round trip.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// As [`ReentrantLock::acquire`].
    pub async fn try_read(&self, owner: &Owner) -> Result<Option<ReentrantGuard>, Error> {
        self.0.try_enter(owner, Role::Shared).await
    }

    /// Writes if that is possible at once, in at most one round trip.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// As [`ReentrantLock::acquire`].
    pub async fn try_write(&self, owner: &Owner) -> Result<Option<ReentrantGuard>, Error> {
        self.0.try_enter(owner, Role::Exclusive).await
    }

    /// Every process that holds the lock or waits for it, first come first.
    ///
    /// # Errors
    ///
    /// As any read, for instance without permission.
    pub async fn contenders(&self) -> Result<Vec<QueueEntry>, Error> {
        self.0.0.queue.roster().await
    }

    /// Asks whoever holds the lock to give it back: see [`Lock::revoke`](crate::Lock::revoke). A
    /// process that is asked hands it on among its tasks no more.
    ///
    /// # Errors
    ///
    /// As any read and write, for instance without permission.
    pub async fn revoke(&self) -> Result<usize, Error> {
        self.0.0.queue.revoke().await
    }
}

/// Proof of holding a [`ReentrantLock`] or [`ReentrantRwLock`] at one level, until it is dropped or
/// released.
///
/// Guards of one owner may be dropped in any order; the last one hands the lock on or lets it go. It
/// is a [`Hold`], with what [`Guard`](crate::Guard) says of dropping. Its token orders it after all
/// that held before it, in this process and elsewhere; guards of one owner share it.
#[must_use = "dropping it releases the lock"]
pub struct ReentrantGuard {
    level: Level,
    owner: OwnerId,
    depth: u32,
    hold: Hold,
    left: bool,
}

impl ReentrantGuard {
    /// How often the owner had the lock, this time included, when it got this guard.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Leaves this level. If it was the last one and nobody of this process is next, waits until
    /// the server has said that the node is gone: see [`Guard::release`](crate::Guard::release).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// It is done when this returns, whether or not the future is awaited.
    pub fn release(mut self) -> impl Future<Output = Result<Release, Error>> + Send + use<> {
        let lost = self.hold.known_loss().is_some();
        let released = self.leave();
        async move {
            match released {
                Some(released) => released.await,
                None if lost => Ok(Release::AlreadyLost),
                None => Ok(Release::Released),
            }
        }
    }

    fn leave(&mut self) -> Option<Released> {
        if std::mem::replace(&mut self.left, true) {
            return None;
        }
        self.level.change(|local, situation| local.cohort.leave(self.owner, situation))
    }
}

impl Drop for ReentrantGuard {
    fn drop(&mut self) {
        // The node's end is seen to by the client.
        drop(self.leave());
    }
}

impl Deref for ReentrantGuard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}

impl fmt::Debug for ReentrantGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantGuard")
            .field("hold", &self.hold)
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}

/// An attempt to get the node, which whoever is at the head drives. `None` if it would not wait
/// and would have had to.
type Acquiring = Pin<Box<dyn Future<Output = Result<Option<Hold>, Error>> + Send>>;

/// The release of the node.
type Released = Pin<Box<dyn Future<Output = Result<Release, Error>> + Send>>;

/// The local level of one lock, shared by its clones.
#[derive(Clone)]
struct Level(Arc<Shared>);

struct Shared {
    queue: Arc<Queue>,
    local: Mutex<Local>,
}

struct Local {
    cohort: Cohort,
    acquiring: Option<Acquiring>,
    hold: Option<Hold>,
    wakers: BTreeMap<Ticket, Waker>,
}

/// A wait at the local level.
struct Waiting<'l> {
    level: &'l Level,
    /// Taken when its outcome is known.
    ticket: Option<Ticket>,
    owner: OwnerId,
    role: Role,
    patience: Patience,
    /// Whether what it drives was begun for it.
    drives: bool,
}

/// Whether an owner waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    Waits,
    Tries,
}

impl Level {
    fn new(client: &Client, path: &str, names: Names, options: Options) -> Result<Self, Error> {
        let default = PASS_TIME.min(client.session_timeout() / 4);
        let time = options.pass_time.unwrap_or(default);
        let bounds = Bounds { passes: options.passes, time };
        let queue = Queue::new(client, path, names, options)?;
        let (cohort, wakers) = (Cohort::new(bounds), BTreeMap::new());
        let local = Mutex::new(Local { cohort, acquiring: None, hold: None, wakers });
        Ok(Self(Arc::new(Shared { queue, local })))
    }

    fn local(&self) -> MutexGuard<'_, Local> {
        self.0.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn enter(&self, owner: &Owner, role: Role) -> Result<ReentrantGuard, Error> {
        match self.wait(owner, role, Patience::Waits).await? {
            Some(guard) => Ok(guard),
            // Who waits is told nothing else.
            None => Err(self.would_deadlock()),
        }
    }

    async fn try_enter(&self, owner: &Owner, role: Role) -> Result<Option<ReentrantGuard>, Error> {
        self.wait(owner, role, Patience::Tries).await
    }

    async fn wait(
        &self,
        owner: &Owner,
        role: Role,
        patience: Patience,
    ) -> Result<Option<ReentrantGuard>, Error> {
        let mut waiting = self.ask(owner.0, role, patience);
        let entered = poll_fn(|cx| waiting.poll(cx)).await?;
        Ok(entered.map(|(entry, hold)| self.guard(owner, entry, hold)))
    }

    fn would_deadlock(&self) -> Error {
        Fault::WouldDeadlock(self.0.queue.folder().to_owned()).into()
    }

    /// Queues up locally, and in the folder if nobody of this process has.
    fn ask(&self, owner: OwnerId, role: Role, patience: Patience) -> Waiting<'_> {
        let (mut ticket, mut drives) = (None, false);
        self.change(|local, situation| {
            let (asked, mut step) = local.cohort.ask(owner, role, situation);
            ticket = Some(asked);
            drives = step.acquire.is_some();
            if patience == Patience::Tries
                && let Some(role) = step.acquire.take()
            {
                let joining = Joining::begin(&self.0.queue, role);
                local.acquiring = Some(Box::pin(Hold::try_first(joining)));
            }
            step
        });
        Waiting { level: self, ticket, owner, role, patience, drives }
    }

    /// Changes the local level, does what follows from it, and wakes those whom it concerns.
    fn change(&self, change: impl FnOnce(&mut Local, Situation) -> Step) -> Option<Released> {
        let queue = &self.0.queue;
        let mut local = self.local();
        let situation = local.situation(queue);
        // The delete and the next create leave together, in this order.
        let released = queue.client().batch(|| {
            let step = change(&mut local, situation);
            let released = local.carry_out(queue, step);
            if let Some(hold) = local.hold.as_ref().filter(|_| local.cohort.head().is_some()) {
                // It is to be handed on, unless somebody deletes the node.
                hold.attend();
            }
            released
        });
        let woken = local.woken();
        drop(local);
        woken.into_iter().for_each(Waker::wake);
        released
    }

    fn guard(&self, owner: &Owner, entry: Entry, hold: Hold) -> ReentrantGuard {
        let Entry { depth, .. } = entry;
        ReentrantGuard { level: self.clone(), owner: owner.0, depth, hold, left: false }
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Level")
            .field("folder", &self.0.queue.folder())
            .field("cohort", &self.local().cohort)
            .finish_non_exhaustive()
    }
}

impl Local {
    fn situation(&self, queue: &Queue) -> Situation {
        let own = self.hold.as_ref().map_or("", |hold| &hold.own().name);
        Situation {
            now: queue.client().clock().now(),
            is_sound: self.hold.as_ref().is_some_and(Hold::is_sound),
            has_strangers: queue.look(|mirror| mirror.has_strangers(own)).unwrap_or(true),
        }
    }

    /// Does what the cohort wants done with the node.
    fn carry_out(&mut self, queue: &Arc<Queue>, step: Step) -> Option<Released> {
        let mut released = None;
        if step.let_go {
            self.acquiring = None;
            released = self.hold.take().map(|hold| Box::pin(hold.let_go()) as Released);
        }
        if let Some(role) = step.acquire {
            self.acquire(queue, role);
        }
        released
    }

    /// Queues up in the folder.
    fn acquire(&mut self, queue: &Arc<Queue>, role: Role) {
        let joining = Joining::begin(queue, role);
        self.acquiring = Some(Box::pin(async move { Hold::first(joining).await.map(Some) }));
    }

    /// Those who have something to hear, and who has something to drive.
    fn woken(&mut self) -> Vec<Waker> {
        let Self { cohort, wakers, acquiring, .. } = self;
        let driver = cohort.head().filter(|_| acquiring.is_some());
        let mut woken = Vec::new();
        wakers.retain(|ticket, waker| {
            let stays = Some(*ticket) != driver && !cohort.is_done(*ticket);
            if !stays {
                woken.push(waker.clone());
            }
            stays
        });
        woken
    }
}

impl Waiting<'_> {
    /// Ready with nothing if it would have to wait, and does not want to.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<(Entry, Hold)>, Error>> {
        let Some(ticket) = self.ticket else {
            return Poll::Ready(Ok(None));
        };
        let level = self.level;
        loop {
            let mut local = level.local();
            match local.cohort.take(ticket) {
                Some(Outcome::Entered(entry)) => {
                    let hold = local.hold.as_ref().map(|hold| hold.with_pass(entry.pass));
                    drop(local);
                    self.ticket = None;
                    // What it is let into may have been lost since.
                    let is_first = (entry.depth, entry.pass) == (1, 0);
                    let lost = hold.as_ref().filter(|_| !is_first).and_then(Hold::known_loss);
                    let (Some(hold), Some(loss)) = (&hold, lost) else {
                        return Poll::Ready(Ok(hold.map(|hold| (entry, hold))));
                    };
                    level.change(|local, situation| local.cohort.leave(self.owner, situation));
                    if entry.depth > 1 {
                        return Poll::Ready(Err(hold.lost_by(loss)));
                    }
                    *self = level.ask(self.owner, self.role, self.patience);
                    return self.poll(cx);
                }
                Some(Outcome::WouldDeadlock) => {
                    self.ticket = None;
                    return Poll::Ready(Err(level.would_deadlock()));
                }
                None => {}
            }
            let tries_elsewhere = self.patience == Patience::Tries && !self.drives;
            let is_head = local.cohort.head() == Some(ticket) && !tries_elsewhere;
            let Some(acquiring) = local.acquiring.as_mut().filter(|_| is_head) else {
                if self.patience == Patience::Tries {
                    return Poll::Ready(Ok(None));
                }
                local.wakers.insert(ticket, cx.waker().clone());
                return Poll::Pending;
            };
            let Poll::Ready(acquired) = acquiring.as_mut().poll(cx) else {
                local.wakers.insert(ticket, cx.waker().clone());
                return Poll::Pending;
            };
            local.acquiring = None;
            drop(local);
            match acquired {
                Ok(Some(hold)) => {
                    level.change(|local, situation| {
                        let is_sound = hold.is_sound();
                        local.hold = Some(hold);
                        local.cohort.granted(Situation { is_sound, ..situation })
                    });
                }
                // It was tried for somebody who has left.
                Ok(None) if self.patience == Patience::Waits => {
                    level.change(|local, _| local.cohort.again());
                }
                Ok(None) => {
                    self.ticket = None;
                    level.change(|local, _| local.cohort.failed());
                    return Poll::Ready(Ok(None));
                }
                Err(error) => {
                    self.ticket = None;
                    level.change(|local, _| local.cohort.failed());
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            // The node's end is seen to by the client.
            drop(self.level.change(|local, situation| {
                local.wakers.remove(&ticket);
                local.cohort.cancel(ticket, situation)
            }));
        }
    }
}
