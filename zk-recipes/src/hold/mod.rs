//! Acquiring and holding a lock, whichever kind of lock it is.
//!
//! [`Hold::acquire`] is the whole way to a lock. The [`Hold`] owns our node in the queue, and is
//! what a guard consists of. Whether the lock is still ours is found out by [`status`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use zk_client::{Deletion, Error as ClientError, Lapse, LeaseState, OwnedNode, Reply};

use crate::error::{Cause, Error, Loss};
use crate::node::{Contender, Role};
use crate::queue::{Join, Patience, Place, Queue};
use crate::stats::HoldMetrics;
use crate::steady::work::while_held;

pub(crate) mod status;
mod token;
pub(crate) mod transactions;

use status::{HoldStatus, loss_of};
pub use token::{FencingToken, InvalidToken};

/// The state of a lock, as its holder knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockState {
    /// The lock is ours.
    Held,
    /// The lock is surely ours until then. The connection is gone or silent.
    ///
    /// Unless that changes, the lock is lost then. The time is one of the client's
    /// [clock](zk_client::Client::clock). [`Hold::remaining`] returns how long that is from now.
    Suspended {
        /// When the lock will be lost.
        until: Instant,
    },
    /// The lock is no longer ours, for good.
    Lost(Loss),
}

impl LockState {
    /// How the lock was lost, if it was.
    pub fn loss(self) -> Option<Loss> {
        match self {
            Self::Lost(loss) => Some(loss),
            _ => None,
        }
    }
}

/// The result of releasing a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Release {
    /// The lock was ours until now.
    Released,
    /// Somebody deleted the node, or the session ended, before the release was carried out. Or the
    /// lock was released before, by another task that shares the guard.
    AlreadyLost,
}

/// What can be asked of a lock that is held, and done under it, whichever guard it is.
///
/// Every guard dereferences to this page, so its methods need no import:
///
/// - [`Guard`](crate::Guard), [`ReadGuard`](crate::ReadGuard) and
///   [`WriteGuard`](crate::WriteGuard) of one lock;
/// - [`ReentrantGuard`](crate::ReentrantGuard) of a two-level lock;
/// - [`Membership`](crate::Membership) in a group, and [`Round`](crate::Round) of a double barrier;
/// - [`Shard`](crate::Shard) of a partitioner.
///
/// [`MultiGuard`](crate::MultiGuard) and [`Permit`](crate::Permit) consist of several holds, so
/// they answer the same questions for all of them together, and hand out each.
///
/// # What it does not promise
///
/// A result may be outdated when the caller acts on it, because a process can be stopped between
/// the two. Where that would do harm, let the resource decide: by the [`token`](Self::token), or in
/// one transaction with the data, by [`fenced`](Self::fenced).
pub struct Hold {
    status: Arc<HoldStatus>,
    /// Kept apart from `status`: futures that outlive the guard share that, and must not keep
    /// the lock.
    node: Arc<HeldNode>,
    token: FencingToken,
    /// True once this holder has released it. Others may hold it still, under the same node.
    is_released: Mutex<bool>,
}

impl Hold {
    /// Acquires the lock: joins the queue, waits until nobody is ahead, and holds.
    pub(crate) async fn acquire(queue: &Arc<Queue>, role: Role) -> Result<Self, Error> {
        Self::when_first(Join::send(queue, role, Patience::Waits)).await
    }

    /// The rest of an acquire whose requests to join the queue were sent.
    pub(crate) async fn when_first(join: Join) -> Result<Self, Error> {
        let (mut place, standing) = join.finish().await?;
        place.wait(standing).await?;
        Self::new(place).await.map_err(Error::while_waiting)
    }

    /// Takes the lock if it is free at once. Returns `None` if it is not.
    pub(crate) async fn try_acquire(queue: &Arc<Queue>, role: Role) -> Result<Option<Self>, Error> {
        Self::if_first(Join::send(queue, role, Patience::Tries)).await
    }

    /// The rest of a try whose requests were sent. It leaves the queue again if somebody is ahead.
    pub(crate) async fn if_first(join: Join) -> Result<Option<Self>, Error> {
        let (place, standing) = join.finish().await?;
        match place.is_first(standing.as_ref()).await? {
            true => Self::new(place).await.map(Some).map_err(Error::while_waiting),
            false => Ok(None),
        }
    }

    /// Turns a place that nobody is ahead of into a hold, once that is [confirmed](Self::confirm).
    pub(crate) async fn new(place: Place) -> Result<Self, Error> {
        let hold = Self::unconfirmed(place);
        hold.confirm().await?;
        Ok(hold)
    }

    /// A hold that is yet to be confirmed. Its [`Lease`](zk_client::Lease) tells from now on
    /// until when the ensemble surely keeps our node, and so the lock.
    pub(crate) fn unconfirmed(place: Place) -> Self {
        let Place { queue, node, own, own_watch, has_waited, others } = place;
        let mut term = queue.options().max_hold;
        if has_waited {
            // The term must count from now, but a lease counts from the create: add what has
            // passed.
            let age = queue.client().clock().now().saturating_duration_since(node.requested_at());
            term = term.map(|term| term.saturating_add(age));
        }
        let (lease, token) = (node.lease(term), FencingToken::new(node.czxid().0, 0));
        let (meter, clock) = (queue.options().meter.clone(), queue.client().clock());
        let metrics = HoldMetrics::new(meter, clock.clone(), has_waited, node.requested_at());
        let status = HoldStatus::new(queue, own, &node, lease, metrics, own_watch, others);
        let status = Arc::new(status);
        let node = HeldNode { status: Arc::clone(&status), node: Mutex::new(Some(node)) };
        Self { status, node: Arc::new(node), token, is_released: Mutex::new(false) }
    }

    /// Waits until the lock is surely ours, and will be even if the next replies are late.
    ///
    /// After a long wait, or while the connection is gone, the lease is suspended: the last proof
    /// that the session lives is too old. The lease has sent a write then, whose reply is the next
    /// proof. The watch that the wait has left tells whether our node still exists. If there is
    /// none, the node is read.
    pub(crate) async fn confirm(&self) -> Result<(), Error> {
        let status = &self.status;
        let mut state = status.lease.state();
        loop {
            match state {
                LeaseState::Valid { .. } => break,
                LeaseState::Lapsed(Lapse::Ended(ended)) => {
                    return Err(ClientError::from(ended).into());
                }
                LeaseState::Lapsed(lapse) => return Err(status.lost_error(loss_of(lapse))),
                _ => {
                    // The read goes together with the write whose reply is waited for.
                    if !status.is_watched() {
                        status.check_node(true);
                    }
                    status.lease.changed(state).await;
                    if !status.is_watched() {
                        status.node_is_read().await;
                    }
                    state = status.lease.state();
                }
            }
        }
        status.known_loss().map_or(Ok(()), |loss| Err(status.lost_error(loss)))?;
        status.metrics.begin(&status.path);
        Ok(())
    }

    /// The same hold for a later holder under the same node.
    pub(crate) fn with_pass(&self, pass: u32) -> Self {
        let token = FencingToken::new(self.token.czxid(), pass);
        Self {
            status: Arc::clone(&self.status),
            node: Arc::clone(&self.node),
            token,
            is_released: Mutex::new(false),
        }
    }

    /// Returns this hold with the token `(earlier.czxid, earlier.pass + 1)`. A downgraded writer
    /// has a new node, whose own czxid would exceed the tokens of contenders that are still to
    /// come.
    pub(crate) fn in_place_of(self, earlier: &Self) -> Self {
        let (czxid, pass) = (earlier.token.czxid(), earlier.token.pass());
        Self { token: FencingToken::new(czxid, pass.saturating_add(1)), ..self }
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.status.queue
    }

    /// What is known about the lock.
    pub(crate) fn status(&self) -> &Arc<HoldStatus> {
        &self.status
    }

    pub(crate) fn own(&self) -> &Contender {
        &self.status.own
    }

    /// How the lock was lost, as far as is known. Waits for nothing, and asks for nothing.
    pub(crate) fn known_loss(&self) -> Option<Loss> {
        let is_released = *self.is_released();
        if is_released { Some(Loss::Released) } else { self.status.known_loss() }
    }

    /// Sends a request unless the lock is known to be lost. If another task releases the lock at
    /// the same time, the request goes out before that, or not at all.
    pub(crate) fn send_if_held<R>(&self, send: impl FnOnce() -> R) -> Result<R, Loss> {
        self.known_loss().map_or(Ok(()), Err)?;
        let is_released = self.is_released();
        if *is_released { Err(Loss::Released) } else { Ok(send()) }
    }

    fn is_released(&self) -> MutexGuard<'_, bool> {
        self.is_released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this holder releases the lock, which all who share the guard see from now on.
    /// False if that was noted before.
    pub(crate) fn mark_released(&self) -> bool {
        let is_first = !std::mem::replace(&mut *self.is_released(), true);
        if is_first {
            self.status.changes.notify();
        }
        is_first
    }

    /// Takes the node out, to release it in another way. `None` if that was done before.
    pub(crate) fn take_node(&self) -> Option<OwnedNode> {
        self.status.note_let_go();
        self.node.lock().take()
    }

    /// True if the node is still here to be released, and not known to be lost.
    pub(crate) fn has_node(&self) -> bool {
        self.node.lock().is_some() && self.known_loss().is_none()
    }

    /// The fencing token, which orders this holder after all earlier ones.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The path of the node that stands for this holder in the queue.
    pub fn node(&self) -> &str {
        &self.status.path
    }

    /// The current state of the lock.
    ///
    /// This reads the clock, so a process that was stopped for too long finds at its first call
    /// that the lock is lost.
    ///
    /// On other systems than Linux and Android this may return `Held` after a suspension of the
    /// machine although the ensemble has given the lock away: see [`Clock`](zk_client::Clock).
    ///
    /// The first call looks at the watch on the node that a wait has left. Without one, as on a
    /// lock that was free, it knows the lease alone: it sets a watch, and before the reply to that
    /// it cannot report that somebody deleted the node, however long ago, unless another watch of
    /// the client has told. Without the permission to read the node only that can.
    ///
    /// # Cost
    ///
    /// One read, by the first call of this method, [`lost`](Self::lost) or [`run`](Self::run) on a
    /// lock that has no watch. It is sent in the background. Later calls cost nothing.
    pub fn state(&self) -> LockState {
        if *self.is_released() {
            return LockState::Lost(Loss::Released);
        }
        let status = &self.status;
        let lease = status.lease.state();
        if let LeaseState::Lapsed(lapse) = lease {
            return LockState::Lost(status.mark_lost(loss_of(lapse)));
        }
        match status.check_node(true) {
            Some(loss) => LockState::Lost(loss),
            None => match lease {
                LeaseState::Suspended { until } => LockState::Suspended { until },
                _ => LockState::Held,
            },
        }
    }

    /// For how long from now the lock is surely still ours. Zero if it is [lost](LockState::Lost).
    ///
    /// While the connection works, each proof from the ensemble extends this time. The method reads
    /// the clock, and counts suspensions of the machine where [`state`](Self::state) does.
    pub fn remaining(&self) -> Duration {
        match self.state() {
            LockState::Lost(_) => Duration::ZERO,
            LockState::Held | LockState::Suspended { .. } => self.status.lease.remaining(),
        }
    }

    /// Waits until the lock is lost, and returns how.
    ///
    /// That somebody deleted the node before the first call becomes known within a round trip. It
    /// costs what [`state`](Self::state) does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. Any number of tasks may wait.
    pub async fn lost(&self) -> Loss {
        self.status.wait_until(|| self.state().loss()).await
    }

    /// Runs `work` until it is done or the lock is lost, whichever comes first.
    ///
    /// When the lock is lost, `work` is dropped where it stands. It begins when
    /// [`state`](Self::state) is not `Lost`: if that was never asked before, and no wait has left a
    /// watch, `work` may begin although somebody has deleted the node, and is dropped a round trip
    /// later. [`verify`](Self::verify) first where that would do harm. It costs what
    /// [`state`](Self::state) does.
    ///
    /// ```
    /// # async fn f(guard: &zk_recipes::Guard) -> Result<(), zk_recipes::Error> {
    /// # async fn rebuild() -> u32 { 7 }
    /// let rebuilt = guard.run(rebuild()).await?;
    /// # let _ = rebuilt;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost): the lock was lost before `work` was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`, and nothing else.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Error> {
        let done = while_held(|| self.state().loss(), self.lost(), work).await;
        done.map_err(|loss| self.status.lost_error(loss))
    }

    /// Waits until somebody asks for the lock back. Nothing happens to the lock.
    ///
    /// A caller asks by [`revoke`](crate::LockFolder::revoke), by Curator's `Revoker`, or by
    /// writing `unlock` to the node.
    ///
    /// # Errors
    ///
    /// The lock is lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. After somebody has asked, each call returns at once.
    pub async fn revoke_requested(&self) -> Result<(), Error> {
        let requested = || match self.state() {
            _ if self.status.is_revoke_requested() => Some(Ok(())),
            LockState::Lost(loss) => Some(Err(self.status.lost_error(loss))),
            _ => None,
        };
        self.status.wait_until(requested).await
    }

    /// Releases the node. Its delete is on its way when this returns.
    pub(crate) fn let_go(&self) -> Releasing {
        let lost = self.known_loss().is_some();
        self.mark_released();
        match self.take_node().map(OwnedNode::delete) {
            Some(deletion) => Releasing(Progress::Deleting { deletion, was_lost: lost }),
            None => Releasing::known(Release::AlreadyLost),
        }
    }
}

/// A release that is on its way, as a future: see [`Guard::release`](crate::Guard::release).
#[must_use = "the release happens in any case, but only awaiting it tells how it went"]
pub struct Releasing(Progress);

enum Progress {
    Known(Release),
    Deleting {
        deletion: Reply<Deletion>,
        was_lost: bool,
    },
    /// Of several nodes.
    Several(Pin<Box<dyn Future<Output = Result<Release, Error>> + Send>>),
}

impl Releasing {
    /// The release of several nodes.
    pub(crate) fn several(
        rest: impl Future<Output = Result<Release, Error>> + Send + 'static,
    ) -> Self {
        Self(Progress::Several(Box::pin(rest)))
    }

    /// A release that asks no server.
    pub(crate) fn known(release: Release) -> Self {
        Self(Progress::Known(release))
    }
}

impl Future for Releasing {
    type Output = Result<Release, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Progress::Known(release) => Poll::Ready(Ok(*release)),
            Progress::Deleting { deletion, was_lost } => {
                let was_lost = *was_lost;
                Pin::new(deletion).poll(cx).map(|deleted| released(deleted, was_lost))
            }
            Progress::Several(rest) => rest.as_mut().poll(cx),
        }
    }
}

/// What the reply to the delete of a node says about the release of its lock.
fn released(deleted: Result<Deletion, ClientError>, was_lost: bool) -> Result<Release, Error> {
    match deleted {
        Ok(Deletion::Deleted) if !was_lost => Ok(Release::Released),
        Ok(_) => Ok(Release::AlreadyLost),
        Err(error) if error.is_session_over() => Ok(Release::AlreadyLost),
        Err(error) if error.is_connection_loss() && was_lost => Ok(Release::AlreadyLost),
        Err(error) if error.is_connection_loss() => Err(Cause::Unconfirmed(error).into()),
        Err(error) => Err(error.into()),
    }
}

impl fmt::Debug for Releasing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Releasing").finish_non_exhaustive()
    }
}

/// Our node, which all guards of a hold share. With the last of them it is dropped, and the server
/// is asked to delete it.
struct HeldNode {
    status: Arc<HoldStatus>,
    /// `None` once it was released.
    node: Mutex<Option<OwnedNode>>,
}

impl HeldNode {
    fn lock(&self) -> MutexGuard<'_, Option<OwnedNode>> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldNode {
    fn drop(&mut self) {
        // The end of the hold comes ahead of the delete.
        self.status.note_let_go();
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("node", &self.status.path)
            .field("token", &self.token())
            .finish()
    }
}
