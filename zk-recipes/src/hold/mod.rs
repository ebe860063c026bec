//! Holding a lock: what every guard can ask and do, whichever lock it is of.
//!
//! A [`Hold`] owns the node; [`ownership`] is what is known about it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use zk_client::{
    Deletion, Error as ClientError, Lapse, LeaseState, Op, Operations, Outcome, OwnedNode, Reply,
};

use crate::error::{Error, Fault, Loss};
use crate::node::{Contender, Role};
use crate::queue::Queue;
use crate::queue::join::{Join, Patience};
use crate::queue::place::Place;
use crate::queue::wakeups::first_of;

pub(crate) mod ownership;

mod token;

use ownership::{Ownership, loss_of};
pub use token::{FencingToken, InvalidToken};

/// The state of a lock, as its holder knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockState {
    /// It is ours.
    Held,
    /// It is ours until then at least, by the [clock](zk_client::Client::clock) of the client. The
    /// connection is gone or silent, so unless that changes it is lost then.
    /// [`Hold::remaining`] tells how long that is from now.
    Suspended {
        /// When it will be lost.
        until: Instant,
    },
    /// It is no longer ours, for good.
    Lost(Loss),
}

/// What became of a lock that was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// It was ours until now.
    Released,
    /// Somebody deleted the node, or the session ended, before the release was carried out. Or the
    /// lock was released before, by another task that shares the guard.
    AlreadyLost,
}

/// What every guard knows and can do: all guards dereference to it.
///
/// # What it does not promise
///
/// Whatever it says may be outdated when the caller acts on it: a process can be stopped between
/// the two. Where that would harm, let the resource decide: by the [`token`](Self::token), or in
/// one transaction with the data, by [`fenced`](Self::fenced).
pub struct Hold {
    ownership: Arc<Ownership>,
    /// Gone once it was released. Apart from the rest, which futures may keep for longer.
    node: Arc<Mutex<Option<OwnedNode>>>,
    token: FencingToken,
    /// True once this holder has released it. Others may hold it still, under the same node.
    is_released: AtomicBool,
}

impl Hold {
    /// Turns the head of the queue into a hold, once it is [confirmed](Self::confirm).
    pub(crate) async fn new(place: Place) -> Result<Self, Error> {
        let hold = Self::unconfirmed(place);
        hold.confirm().await?;
        Ok(hold)
    }

    /// The same, before it is confirmed.
    pub(crate) fn unconfirmed(place: Place) -> Self {
        let (ownership, node) = Ownership::new(place);
        let token = FencingToken::new(ownership.czxid.0, 0);
        Self {
            ownership: Arc::new(ownership),
            node: Arc::new(Mutex::new(Some(node))),
            token,
            is_released: AtomicBool::new(false),
        }
    }

    /// If the lease is suspended, waits for it to recover, then checks that our node still exists.
    pub(crate) async fn confirm(&self) -> Result<(), Error> {
        let mut state = self.ownership.lease.state();
        loop {
            match state {
                LeaseState::Valid { .. } => break,
                LeaseState::Lapsed(Lapse::Ended(ended)) => {
                    return Err(ClientError::from(ended).into());
                }
                LeaseState::Lapsed(lapse) => return Err(self.ownership.lost_error(loss_of(lapse))),
                _ => {
                    self.ownership.lease.changed(state).await;
                    self.ownership.node_checked().await;
                    state = self.ownership.lease.state();
                }
            }
        }
        match self.ownership.node_loss() {
            Some(loss) => Err(self.ownership.lost_error(loss)),
            None => Ok(()),
        }
    }

    /// Queues up and waits for the turn.
    pub(crate) async fn acquire(queue: &Arc<Queue>, role: Role) -> Result<Self, Error> {
        Self::when_first(Join::send(queue, role, Patience::Waits)).await
    }

    /// The three steps of an acquire: join the queue, wait until nobody is ahead, hold.
    pub(crate) async fn when_first(join: Join) -> Result<Self, Error> {
        let (mut place, standing) = join.finish().await?;
        place.wait(standing).await?;
        Self::new(place).await.map_err(Error::while_waiting)
    }

    /// Takes a turn that is there at once, or none.
    pub(crate) async fn try_acquire(queue: &Arc<Queue>, role: Role) -> Result<Option<Self>, Error> {
        Self::if_first(Join::send(queue, role, Patience::Tries)).await
    }

    /// The same without waiting: leaves the queue if somebody is ahead.
    pub(crate) async fn if_first(join: Join) -> Result<Option<Self>, Error> {
        let (place, standing) = join.finish().await?;
        match place.is_first(standing.as_ref()).await? {
            true => Self::new(place).await.map(Some).map_err(Error::while_waiting),
            false => Ok(None),
        }
    }

    /// The same for who holds it after others, under one node.
    pub(crate) fn with_pass(&self, pass: u32) -> Self {
        let token = FencingToken::new(self.token.czxid(), pass);
        Self {
            ownership: Arc::clone(&self.ownership),
            node: Arc::clone(&self.node),
            token,
            is_released: AtomicBool::new(false),
        }
    }

    /// The same for who took over the place of `earlier` in the queue with a node of its own: that
    /// is newer than those of everybody who waits there, and they are still to come.
    pub(crate) fn in_place_of(self, earlier: &Self) -> Self {
        let (czxid, pass) = (earlier.token.czxid(), earlier.token.pass());
        Self { token: FencingToken::new(czxid, pass.saturating_add(1)), ..self }
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.ownership.queue
    }

    /// What is known about the lock.
    pub(crate) fn ownership(&self) -> &Arc<Ownership> {
        &self.ownership
    }

    pub(crate) fn own(&self) -> &Contender {
        &self.ownership.own
    }

    /// How the lock was lost, as far as is known. Waits for nothing, and asks for nothing.
    pub(crate) fn known_loss(&self) -> Option<Loss> {
        match self.is_released.load(Ordering::Acquire) {
            true => Some(Loss::Released),
            false => self.ownership.known_loss(),
        }
    }

    /// Notes that this holder releases the lock, which all who share the guard see from now on.
    /// False if that was noted before.
    pub(crate) fn mark_released(&self) -> bool {
        let is_first = !self.is_released.swap(true, Ordering::AcqRel);
        if is_first {
            self.ownership.changes.notify();
        }
        is_first
    }

    /// Takes the node out, to let it go in another way. `None` if that was done before.
    pub(crate) fn take_node(&self) -> Option<OwnedNode> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the node is still there to be let go, and not known to be lost.
    pub(crate) fn has_node(&self) -> bool {
        let node = self.node.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        node && self.known_loss().is_none()
    }

    /// Orders this holder after all earlier ones.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The node that stands for this holder in the queue.
    pub fn node(&self) -> &str {
        &self.ownership.path
    }

    /// Where the lock stands now. Reads the clock, so that a process that was stopped for too long
    /// sees at its first look that the lock is lost.
    ///
    /// On Linux and Android the time for which the machine was suspended counts, too. On other
    /// systems it does not count by default: after a suspension this may say `Held` although the
    /// ensemble has given the lock away. See [`Clock`](zk_client::Clock) for what to do there.
    ///
    /// The first call may set a watch on the node, and so can only tell that somebody deleted it
    /// from when that is answered on.
    pub fn state(&self) -> LockState {
        if self.is_released.load(Ordering::Acquire) {
            return LockState::Lost(Loss::Released);
        }
        let ownership = &self.ownership;
        let lease = ownership.lease.state();
        if let LeaseState::Lapsed(lapse) = lease {
            return LockState::Lost(ownership.mark_lost(loss_of(lapse)));
        }
        match ownership.check_node() {
            Some(loss) => LockState::Lost(loss),
            None => match lease {
                LeaseState::Suspended { until } => LockState::Suspended { until },
                _ => LockState::Held,
            },
        }
    }

    /// For how long from now the lock is surely still ours. Zero if it is [lost](LockState::Lost).
    ///
    /// While the connection is well, each proof from the ensemble makes it longer again. It reads
    /// the clock, and counts suspensions of the machine where [`state`](Self::state) does.
    pub fn remaining(&self) -> Duration {
        match self.state() {
            LockState::Lost(_) => Duration::ZERO,
            LockState::Held | LockState::Suspended { .. } => self.ownership.lease.remaining(),
        }
    }

    /// Waits until the lock is lost, and tells how.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. Any number may wait.
    pub async fn lost(&self) -> Loss {
        let loss = || match self.state() {
            LockState::Lost(loss) => Some(loss),
            _ => None,
        };
        self.ownership.wait_until(loss).await
    }

    /// Runs `work` until it is done or the lock is lost, whichever comes first; then `work` is
    /// dropped where it stands.
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
    /// [`Lost`](crate::ErrorKind::Lost): the lock was, before `work` was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`, and nothing else.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Error> {
        let lost = async { Err(self.ownership.lost_error(self.lost().await)) };
        first_of(lost, async { Ok(work.await) }).await
    }

    /// Waits until somebody asks for the lock back, by [`revoke`](crate::Lock::revoke), Curator's
    /// `Revoker`, or by writing `unlock` to the node. Nothing happens to the lock.
    ///
    /// # Errors
    ///
    /// The lock is lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. Once asked, it returns at once.
    pub async fn revoke_requested(&self) -> Result<(), Error> {
        let requested = || match self.state() {
            _ if self.ownership.is_revoke_requested() => Some(Ok(())),
            LockState::Lost(loss) => Some(Err(self.ownership.lost_error(loss))),
            _ => None,
        };
        self.ownership.wait_until(requested).await
    }

    /// Asks the ensemble whether the lock is ours: one round trip and a write. `Ok` means that it
    /// was at a moment between call and return.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if it is not. Other errors leave it open.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn verify(&self) -> Result<(), Error> {
        // It changes nothing, so nothing is open about it.
        self.fenced(()).await.map_err(|error| match self.known_loss() {
            Some(loss) => self.ownership.lost_error(loss),
            None => error,
        })
    }

    /// Carries out `ops` in one transaction, only if the lock is still ours then: exact, whatever
    /// clocks and networks do. It takes the permission to read our node.
    ///
    /// ```
    /// # async fn f(guard: &zk_recipes::Guard) -> Result<(), zk_recipes::Error> {
    /// use zk_client::Op;
    ///
    /// let last = guard.fenced(Op::set_data("/invoices/last", b"42", None)).await?;
    /// println!("written for the {}th time", last.version);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost): the lock was, so nothing was carried out; if that was
    /// known before, nothing was asked either. A client's error tells which operation was refused
    /// ([`failed_op`](zk_client::Error::failed_op): 0 is the check of the lock, and the first of
    /// `ops` is 1), or that the outcome is open.
    ///
    /// # Cancel safety
    ///
    /// The transaction is on its way when this returns, whether or not the future is awaited.
    pub fn fenced<O: Operations>(&self, ops: O) -> Fenced<O::Results> {
        let ownership = Arc::clone(&self.ownership);
        let reply = match self.known_loss() {
            Some(loss) => Err(loss),
            None => Ok(ownership.queue.client().multi((Op::check(&ownership.path, None), ops))),
        };
        Fenced { reply, ownership }
    }

    /// Lets the node go: its delete is on its way.
    pub(crate) fn let_go(&self) -> impl Future<Output = Result<Release, Error>> + Send + use<> {
        let lost = self.known_loss().is_some();
        self.mark_released();
        let deletion = self.take_node().map(OwnedNode::delete);
        async move {
            let Some(deletion) = deletion else {
                return Ok(Release::AlreadyLost);
            };
            match deletion.await {
                Ok(Deletion::Deleted) if !lost => Ok(Release::Released),
                Ok(_) => Ok(Release::AlreadyLost),
                Err(error) if error.is_session_over() => Ok(Release::AlreadyLost),
                Err(error) if error.is_connection_loss() && lost => Ok(Release::AlreadyLost),
                Err(error) if error.is_connection_loss() => Err(Fault::Unconfirmed(error).into()),
                Err(error) => Err(error.into()),
            }
        }
    }

    /// Carries out `ops` and lets the node go, in one transaction. On a refusal nothing has
    /// happened, and the lock is held as before.
    pub(crate) async fn let_go_with<O: Operations>(&self, ops: O) -> Result<O::Results, Error> {
        let ownership = &self.ownership;
        if let Some(loss) = self.known_loss() {
            return Err(self.ownership.lost_error(loss));
        }
        let own = ops.count();
        match ownership.queue.client().multi((ops, Op::delete(&ownership.path, None))).await {
            Ok((results, ())) => {
                if let Some(node) = self.take_node() {
                    node.forget();
                }
                Ok(results)
            }
            Err(error) if error.failed_op() == Some(own) && error.is_no_node() => {
                Err(self.ownership.mark_deleted())
            }
            Err(error) if error.outcome() == Outcome::Unknown => {
                // It may be gone, and must be.
                drop(self.take_node());
                Err(Fault::Unconfirmed(error).into())
            }
            Err(error) => Err(ownership.transaction_error(error)),
        }
    }
}

/// The answer to come of a transaction under a lock: see [`Hold::fenced`].
#[must_use = "the transaction happens in any case, but only awaiting it tells how it went"]
pub struct Fenced<R> {
    /// Nothing was asked if the lock was known to be lost.
    reply: Result<Reply<((), R)>, Loss>,
    ownership: Arc<Ownership>,
}

impl<R> Future for Fenced<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = match &mut self.reply {
            Ok(reply) => ready!(Pin::new(reply).poll(cx)),
            Err(loss) => {
                let loss = *loss;
                return Poll::Ready(Err(self.ownership.lost_error(loss)));
            }
        };
        Poll::Ready(
            reply.map(|((), results)| results).map_err(|error| self.ownership.fence_error(error)),
        )
    }
}

impl<R> fmt::Debug for Fenced<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fenced").field(&self.reply).finish()
    }
}

/// A transaction with a release in it that was not carried out.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotReleased<G> {
    /// The lock, if it is still held: nothing has happened then. Without it the lock is lost, or
    /// the outcome is open and the client goes on releasing it.
    pub guard: Option<G>,
    /// Why.
    pub error: Error,
}

impl<G> fmt::Display for NotReleased<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<G: fmt::Debug> std::error::Error for NotReleased<G> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl<G> From<NotReleased<G>> for Error {
    fn from(refused: NotReleased<G>) -> Self {
        refused.error
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("node", &self.ownership.path)
            .field("token", &self.token())
            .finish()
    }
}
