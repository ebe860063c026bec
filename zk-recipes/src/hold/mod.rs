//! Holding a lock: what every guard reports and does, whichever lock it belongs to.
//!
//! A [`Hold`] owns the node; [`ownership`] keeps what is known about it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use zk_client::{
    Committed, Deletion, Error as ClientError, Lapse, LeaseState, Marker, Op, Operations, Outcome,
    OwnedNode, Reply,
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

/// The result of releasing a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// The lock was ours until now.
    Released,
    /// Somebody deleted the node, or the session ended, before the release was carried out. Or the
    /// lock was released before, by another task that shares the guard.
    AlreadyLost,
}

/// The state and the methods that all guards share: every guard dereferences to it.
///
/// # What it does not promise
///
/// A result may be outdated when the caller acts on it, because a process can be stopped between
/// the two. Where that would do harm, let the resource decide: by the [`token`](Self::token), or in
/// one transaction with the data, by [`fenced`](Self::fenced).
pub struct Hold {
    ownership: Arc<Ownership>,
    /// `None` once it was released. It is apart from the rest, which futures may keep for longer.
    node: Arc<Mutex<Option<OwnedNode>>>,
    token: FencingToken,
    /// True once this holder has released it. Others may hold it still, under the same node. Locked
    /// while a fenced transaction is sent, so that none goes out behind a release.
    is_released: Mutex<bool>,
}

impl Hold {
    /// Turns the head of the queue into a hold, once it is [confirmed](Self::confirm).
    pub(crate) async fn new(place: Place) -> Result<Self, Error> {
        let hold = Self::unconfirmed(place);
        hold.confirm().await?;
        Ok(hold)
    }

    /// Turns the head of the queue into a hold that is not confirmed yet.
    pub(crate) fn unconfirmed(place: Place) -> Self {
        let (ownership, node) = Ownership::new(place);
        let token = FencingToken::new(ownership.czxid.0, 0);
        Self {
            ownership: Arc::new(ownership),
            node: Arc::new(Mutex::new(Some(node))),
            token,
            is_released: Mutex::new(false),
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

    /// Takes the lock if it is free at once. Returns `None` if it is not.
    pub(crate) async fn try_acquire(queue: &Arc<Queue>, role: Role) -> Result<Option<Self>, Error> {
        Self::if_first(Join::send(queue, role, Patience::Tries)).await
    }

    /// Joins the queue, and leaves it again if somebody is ahead.
    pub(crate) async fn if_first(join: Join) -> Result<Option<Self>, Error> {
        let (place, standing) = join.finish().await?;
        match place.is_first(standing.as_ref()).await? {
            true => Self::new(place).await.map(Some).map_err(Error::while_waiting),
            false => Ok(None),
        }
    }

    /// The same hold for a later holder under the same node.
    pub(crate) fn with_pass(&self, pass: u32) -> Self {
        let token = FencingToken::new(self.token.czxid(), pass);
        Self {
            ownership: Arc::clone(&self.ownership),
            node: Arc::clone(&self.node),
            token,
            is_released: Mutex::new(false),
        }
    }

    /// Gives this hold the next token behind that of `earlier`, whose place in the queue it took
    /// over with a node of its own. That node is newer than those of all contenders that wait
    /// there, although their turns are still to come.
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
        self.loss_if(*self.is_released())
    }

    fn loss_if(&self, is_released: bool) -> Option<Loss> {
        match is_released {
            true => Some(Loss::Released),
            false => self.ownership.known_loss(),
        }
    }

    fn is_released(&self) -> MutexGuard<'_, bool> {
        self.is_released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this holder releases the lock, which all who share the guard see from now on.
    /// False if that was noted before.
    pub(crate) fn mark_released(&self) -> bool {
        let is_first = !std::mem::replace(&mut *self.is_released(), true);
        if is_first {
            self.ownership.changes.notify();
        }
        is_first
    }

    /// Takes the node out, to release it in another way. `None` if that was done before.
    pub(crate) fn take_node(&self) -> Option<OwnedNode> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// True if the node is still here to be released, and not known to be lost.
    pub(crate) fn has_node(&self) -> bool {
        let node = self.node.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        node && self.known_loss().is_none()
    }

    /// The fencing token, which orders this holder after all earlier ones.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The path of the node that stands for this holder in the queue.
    pub fn node(&self) -> &str {
        &self.ownership.path
    }

    /// The current state of the lock.
    ///
    /// This reads the clock, so a process that was stopped for too long finds at its first call
    /// that the lock is lost.
    ///
    /// On Linux and Android the time for which the machine was suspended counts, too. On other
    /// systems it does not count by default: after a suspension this may return `Held` although the
    /// ensemble has given the lock away. See [`Clock`](zk_client::Clock) for what to do there.
    ///
    /// The first call may set a watch on the node. Before the reply to that, this cannot report
    /// that somebody deleted the node.
    pub fn state(&self) -> LockState {
        if *self.is_released() {
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
    /// While the connection works, each proof from the ensemble extends this time. The method reads
    /// the clock, and counts suspensions of the machine where [`state`](Self::state) does.
    pub fn remaining(&self) -> Duration {
        match self.state() {
            LockState::Lost(_) => Duration::ZERO,
            LockState::Held | LockState::Suspended { .. } => self.ownership.lease.remaining(),
        }
    }

    /// Waits until the lock is lost, and returns how.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. Any number of tasks may wait.
    pub async fn lost(&self) -> Loss {
        let loss = || match self.state() {
            LockState::Lost(loss) => Some(loss),
            _ => None,
        };
        self.ownership.wait_until(loss).await
    }

    /// Runs `work` until it is done or the lock is lost, whichever comes first.
    ///
    /// When the lock is lost, `work` is dropped where it stands.
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
        let lost = async { Err(self.ownership.lost_error(self.lost().await)) };
        first_of(lost, async { Ok(work.await) }).await
    }

    /// Waits until somebody asks for the lock back. Nothing happens to the lock.
    ///
    /// A caller asks by [`revoke`](crate::Lock::revoke), by Curator's `Revoker`, or by writing
    /// `unlock` to the node.
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
            _ if self.ownership.is_revoke_requested() => Some(Ok(())),
            LockState::Lost(loss) => Some(Err(self.ownership.lost_error(loss))),
            _ => None,
        };
        self.ownership.wait_until(requested).await
    }

    /// Asks the ensemble whether the lock is ours.
    ///
    /// This costs one round trip and a write. `Ok` means that the lock was ours at a moment between
    /// call and return.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if it is not ours. Other errors leave that open.
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

    /// Carries out `ops` in one transaction, only if the lock is still ours at that moment.
    ///
    /// The check is exact, whatever clocks and networks do. It needs the permission to read our
    /// node.
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
    /// [`Lost`](crate::ErrorKind::Lost): the lock was lost, so nothing was carried out. If that was
    /// known before, nothing was sent either. A client's error tells which operation was refused
    /// ([`failed_op`](zk_client::Error::failed_op): 0 is the check of the lock, and the first of
    /// `ops` is 1), or that the outcome is unknown.
    ///
    /// # Cancel safety
    ///
    /// The transaction is on its way when this returns, whether or not the future is awaited.
    pub fn fenced<O: Operations>(&self, ops: O) -> Fenced<O::Results> {
        let ownership = Arc::clone(&self.ownership);
        let is_released = self.is_released();
        let reply = match self.loss_if(*is_released) {
            Some(loss) => Err(loss),
            None => Ok(ownership.queue.client().multi((Op::check(&ownership.path, None), ops))),
        };
        Fenced { reply, ownership }
    }

    /// As [`fenced`](Self::fenced), but finds out whether the transaction was carried out if the
    /// connection breaks before the reply.
    ///
    /// ```
    /// # use zk_client::Client;
    /// # async fn f(client: &Client, guard: &zk_recipes::Guard) -> Result<(), zk_recipes::Error> {
    /// use zk_client::{CreateOptions, Op};
    ///
    /// let path = format!("/invoices/markers/{:032x}-", client.unique());
    /// let options = CreateOptions::ephemeral().sequential();
    /// let node = client.create_owned(&path, b"", &options).await?;
    /// let mut marker = client.resolving().marker(node);
    ///
    /// let options = CreateOptions::persistent().sequential();
    /// guard.fenced_resolving(&mut marker, Op::create("/invoices/paid-", b"42", &options)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The [`Marker`] must be one of the client that holds the lock, so that the session that ends
    /// the one ends the other.
    ///
    /// # Errors
    ///
    /// Those of [`fenced`](Self::fenced). The outcome is unknown only if the session ends, or if
    /// the marker shows nothing for a session timeout: see [`Marker::multi`].
    ///
    /// # Cancel safety
    ///
    /// That of [`Marker::multi`].
    pub async fn fenced_resolving<O>(
        &self,
        marker: &mut Marker,
        ops: O,
    ) -> Result<Committed<O::Results>, Error>
    where
        O: Operations + Send + Sync,
        O::Results: Send,
    {
        let ownership = &self.ownership;
        let mut done = pin!(marker.multi((Op::check(&ownership.path, None), ops)));
        // The first poll sends the transaction.
        let sent = poll_fn(|cx| {
            let is_released = self.is_released();
            Poll::Ready(match self.loss_if(*is_released) {
                Some(loss) => Err(ownership.lost_error(loss)),
                None => Ok(done.as_mut().poll(cx)),
            })
        });
        let done = match sent.await? {
            Poll::Ready(done) => done,
            Poll::Pending => done.await,
        };
        done.map(|done| done.map(|((), results)| results))
            .map_err(|error| ownership.fence_error(error))
    }

    /// Releases the node. Its delete is on its way when this returns.
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

    /// Carries out `ops` and releases the node, in one transaction. If the server refuses, nothing
    /// has happened, and the lock is held as before.
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
                // The node may be gone. If it is not, dropping it here deletes it.
                drop(self.take_node());
                Err(Fault::Unconfirmed(error).into())
            }
            Err(error) => Err(ownership.transaction_error(error)),
        }
    }
}

/// The reply to a transaction under a lock, as a future: see [`Hold::fenced`].
#[must_use = "the transaction happens in any case, but only awaiting it tells how it went"]
pub struct Fenced<R> {
    /// A loss if the lock was known to be lost. Nothing was sent then.
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

/// The error of a transaction with a release in it that was not carried out.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotReleased<G> {
    /// The guard, if the lock is still held: nothing has happened then.
    ///
    /// Without it the lock is lost, or the outcome is unknown and the client goes on releasing the
    /// lock.
    pub guard: Option<G>,
    /// Why the transaction was not carried out.
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
