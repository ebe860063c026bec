//! Acquiring and holding a lock, whichever kind of lock it is.
//!
//! [`Hold::acquire`] is the whole way to one lock. The [`Hold`] owns our node in the queue, and is
//! what a guard consists of. Whether the lock is still ours is found out by [`status`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tracing::debug;
use zk_client::{Deletion, Error as ClientError, Lapse, LeaseState, OwnedNode};

use crate::error::{Cause, Error, Loss};
use crate::node::{Contender, Role};
use crate::queue::{Join, Patience, Place, Queue};
use crate::steady::mutex::lock;
use crate::steady::work::while_held;
use crate::trace::COORDINATION;

mod metrics;
mod running_out;
pub(crate) mod status;
mod token;
pub(crate) mod transactions;

use status::HoldStatus;
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
    /// The lock was [lost](Loss) before the release was carried out, or released by another task
    /// that shares the guard. If the node is still there, the client deletes it as soon as it can.
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
        Self::new(place).await
    }

    /// Takes the lock if it is free at once. Returns `None` if it is not.
    pub(crate) async fn try_acquire(queue: &Arc<Queue>, role: Role) -> Result<Option<Self>, Error> {
        Self::if_first(Join::send(queue, role, Patience::Tries)).await
    }

    /// The rest of a try whose requests were sent. It leaves the queue again if somebody is ahead.
    pub(crate) async fn if_first(join: Join) -> Result<Option<Self>, Error> {
        let (place, standing) = join.finish().await?;
        match place.is_first(standing.as_ref()).await? {
            true => Self::new(place).await.map(Some),
            false => Ok(None),
        }
    }

    /// Turns a place that nobody is ahead of into a hold, once that is [confirmed](Self::confirm).
    pub(crate) async fn new(place: Place) -> Result<Self, Error> {
        let hold = Self::unconfirmed(place);
        // A lock that was never handed out is not lost: its node has vanished.
        hold.confirm().await.map_err(Error::while_waiting)?;
        Ok(hold)
    }

    /// A hold that is yet to be confirmed. Its [`Lease`](zk_client::Lease) tells from now on
    /// until when the ensemble surely keeps our node, and so the lock.
    pub(crate) fn unconfirmed(place: Place) -> Self {
        let (status, node) = HoldStatus::new(place);
        let token = FencingToken::new(status.czxid.0, 0);
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
        while !matches!(state, LeaseState::Valid { .. } | LeaseState::Lapsed(_)) {
            // The read goes together with the write whose reply is waited for.
            status.ensure_watched();
            status.lease.changed(state).await;
            if !status.is_watched() {
                status.node_is_read().await;
            }
            state = status.lease.state();
        }
        // The end of the session tells more than that of the node, which it may have caused.
        if let LeaseState::Lapsed(Lapse::Ended(ended)) = state {
            return Err(ClientError::from(ended).into());
        }
        self.ensure_held()?;
        status.note_begin();
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

    /// How the lock was lost, as far as is known. Waits for nothing.
    pub(crate) fn known_loss(&self) -> Option<Loss> {
        match self.is_released() {
            true => Some(Loss::Released),
            false => self.status.known_loss(),
        }
    }

    /// Fails if the lock is known to be lost.
    pub(crate) fn ensure_held(&self) -> Result<(), Error> {
        self.known_loss().map_or(Ok(()), |loss| Err(self.status.lost_error(loss)))
    }

    /// Sends a request unless the lock is known to be lost. If another task releases the lock at
    /// the same time, the request goes out before that, or not at all.
    pub(crate) fn send_if_held<R>(&self, send: impl FnOnce() -> R) -> Result<R, Error> {
        self.ensure_held()?;
        let is_released = lock(&self.is_released);
        match *is_released {
            true => Err(self.status.lost_error(Loss::Released)),
            false => Ok(send()),
        }
    }

    fn is_released(&self) -> bool {
        *lock(&self.is_released)
    }

    /// Notes that this holder releases the lock, which all who share the guard see from now on.
    /// False if that was noted before.
    pub(crate) fn mark_released(&self) -> bool {
        let is_first = !std::mem::replace(&mut *lock(&self.is_released), true);
        if is_first {
            self.status.changes.notify();
        }
        is_first
    }

    /// Takes the node out, to release it in another way. `None` if that was done before.
    pub(crate) fn take_node(&self) -> Option<OwnedNode> {
        self.status.note_let_go();
        lock(&self.node.node).take()
    }

    /// True if the node is still here to be released, and not known to be lost.
    pub(crate) fn has_node(&self) -> bool {
        lock(&self.node.node).is_some() && self.known_loss().is_none()
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
    /// One read, by the first call of this method, [`lost`](Self::lost) or [`run`](Self::run), and
    /// one whenever the node was written to. It is sent in the background.
    pub fn state(&self) -> LockState {
        let lease = self.status.lease.state();
        let loss = match self.is_released() {
            true => Some(Loss::Released),
            false => self.status.loss(lease, true),
        };
        match (loss, lease) {
            (Some(loss), _) => LockState::Lost(loss),
            (None, LeaseState::Suspended { until }) => LockState::Suspended { until },
            (None, _) => LockState::Held,
        }
    }

    /// For how long from now the lock is surely still ours. Zero if it is [lost](LockState::Lost).
    ///
    /// While the connection works, each proof from the ensemble extends this time. The method reads
    /// the clock, and counts suspensions of the machine where [`state`](Self::state) does.
    /// [`running_out`](Self::running_out) waits until little is left.
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
    /// writing to the node: `unlock`, or anything that begins with `__REVOKE__`.
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
        let was_lost = self.known_loss().is_some();
        self.mark_released();
        let deletion = self.take_node().map(OwnedNode::delete);
        Releasing::new(async move {
            let Some(deletion) = deletion else { return Ok(Release::AlreadyLost) };
            match deletion.await {
                Ok(Deletion::Deleted) if !was_lost => Ok(Release::Released),
                Ok(_) => Ok(Release::AlreadyLost),
                Err(error) if error.is_session_over() => Ok(Release::AlreadyLost),
                Err(error) if error.is_connection_loss() && was_lost => Ok(Release::AlreadyLost),
                Err(error) if error.is_connection_loss() => Err(Cause::Unconfirmed(error).into()),
                Err(error) => Err(error.into()),
            }
        })
    }
}

/// A release that is on its way, as a future: see [`Guard::release`](crate::Guard::release).
#[must_use = "the release happens in any case, but only awaiting it tells how it went"]
pub struct Releasing(Progress);

enum Progress {
    /// It asks no server: one task of a process has handed the lock on to another.
    Done(Release),
    Sent(Pin<Box<dyn Future<Output = Result<Release, Error>> + Send>>),
}

impl Releasing {
    /// A release whose requests were sent. `replies` waits for the replies.
    pub(crate) fn new(
        replies: impl Future<Output = Result<Release, Error>> + Send + 'static,
    ) -> Self {
        Self(Progress::Sent(Box::pin(replies)))
    }

    /// A release that asks no server.
    pub(crate) fn known(release: Release) -> Self {
        Self(Progress::Done(release))
    }

    /// Fails if the server has refused the release `of` something. The client goes on with one that
    /// is only unconfirmed.
    pub(crate) async fn unless_refused(self, of: &str) -> Result<(), Error> {
        match self.await {
            Err(error) if error.is_refusal() => Err(error),
            Err(error) => {
                debug!(target: COORDINATION, of, %error, "a release is unconfirmed");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}

impl Future for Releasing {
    type Output = Result<Release, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Progress::Done(release) => Poll::Ready(Ok(*release)),
            Progress::Sent(replies) => replies.as_mut().poll(cx),
        }
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
