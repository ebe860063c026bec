//! What is known about a lock that is held.
//!
//! A lock is lost in four ways: the session ends, somebody deletes the node, the ensemble may have
//! ended the session without saying so, or the agreed time is over. The client's lease reports the
//! first, the third and the last. A watch on the node reports its deletion: either the watch that
//! the wait has left, or one that is set when somebody first asks for the state. If an event for
//! another contender of this client reports it before, the lease knows.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::task::consume_budget;
use tracing::debug;
use zk_client::{
    Error as ClientError, EventType, Lapse, Lease, LeaseState, Node, Outcome, OwnedNode, Reply,
    Watcher, Zxid,
};

use crate::error::{Cause, Error, Loss};
use crate::node::Contender;
use crate::queue::Queue;
use crate::stats::HoldMetrics;
use crate::steady::retries::Retries;
use crate::steady::wakeups::{Notifier, first_of};
use crate::steady::watch::{QuietWatch, RecheckTimer};
use crate::trace::LOCK;

/// The data that asks a holder for the lock back when it is written to the holder's node: Curator's
/// word, and the one in ZooKeeper's documentation.
const REVOKE: [&[u8]; 2] = [b"__REVOKE__", b"unlock"];

/// What is known about a lock that is held. Whoever keeps this does not keep the lock: the node has
/// another owner.
pub(crate) struct HoldStatus {
    pub(crate) queue: Arc<Queue>,
    pub(crate) path: String,
    pub(crate) czxid: Zxid,
    pub(crate) own: Contender,
    pub(crate) lease: Lease,
    pub(crate) metrics: HoldMetrics,
    known: Mutex<Known>,
    pub(crate) changes: Arc<Notifier>,
}

/// What is known about the node.
#[derive(Debug)]
struct Known {
    lost: Option<Loss>,
    revoked: bool,
    /// True if something has happened to the node since it was last read.
    is_unclear: bool,
    /// True if the client has refused to read the node because it was at a limit, or if the read
    /// has failed too often. Nothing tells when it would succeed.
    is_refused: bool,
    /// The reads that failed in a row.
    retries: Retries,
    watch: NodeWatch,
    /// Fires when somebody joins or leaves the queue. Not set if others may be there already.
    others: QuietWatch,
}

/// Which watch reports the end of the node, or a write to it.
#[derive(Debug)]
enum NodeWatch {
    /// The data of the node is not known. The watch may be set: the wait in the queue leaves one.
    WatchOnly(QuietWatch),
    /// The node is being read, with a new watch. Until the reply, the earlier watch reports.
    Reading(Reply<(Node, Watcher)>, QuietWatch),
    /// The data of the node is known, and this watch was set when it was read.
    Known(QuietWatch),
    /// The node could not be read, for instance without the permission, or the session is over. If
    /// there was an earlier watch, it may still report. Nobody gets in under such a node.
    Unreadable(QuietWatch),
}

impl NodeWatch {
    /// The watch that fires first.
    fn event(&mut self) -> &mut QuietWatch {
        match self {
            Self::WatchOnly(watch)
            | Self::Reading(_, watch)
            | Self::Known(watch)
            | Self::Unreadable(watch) => watch,
        }
    }
}

impl HoldStatus {
    pub(crate) fn new(
        queue: Arc<Queue>,
        own: Contender,
        node: &OwnedNode,
        lease: Lease,
        metrics: HoldMetrics,
        own_watch: QuietWatch,
        others: QuietWatch,
    ) -> Self {
        let known = Known {
            lost: None,
            revoked: false,
            is_unclear: false,
            is_refused: false,
            retries: Retries::default(),
            watch: NodeWatch::WatchOnly(own_watch),
            others,
        };
        let (path, czxid) = (node.path().to_owned(), node.czxid());
        let (known, changes) = (Mutex::new(known), Arc::default());
        Self { queue, path, czxid, own, lease, metrics, known, changes }
    }

    /// How the lock was lost, as far as is known. Waits for nothing, and sends no request. The
    /// lease comes first: once it has lapsed, the client deletes the node by itself.
    pub(crate) fn known_loss(&self) -> Option<Loss> {
        match self.lease.state() {
            LeaseState::Lapsed(lapse) => Some(self.mark_lost(loss_of(lapse))),
            _ => self.check_node(false),
        }
    }

    /// Makes sure that the node's end becomes known. The watch that the wait has left is enough.
    pub(crate) fn ensure_watched(&self) {
        self.check_node(!self.is_watched());
    }

    /// True if there is a watch that the wait has left, and it has reported nothing so far.
    pub(crate) fn is_watched(&self) -> bool {
        self.check_node(false);
        matches!(&self.known().watch, NodeWatch::WatchOnly(watch) if watch.is_set())
    }

    /// True if the lock is surely still ours and nobody is known to want it back. Waits for
    /// nothing.
    pub(crate) fn can_hand_on(&self) -> bool {
        self.check_node(false);
        let Known { lost, revoked, is_unclear, watch, .. } = &*self.known();
        let is_readable = !matches!(watch, NodeWatch::Unreadable(_));
        let is_valid = matches!(self.lease.state(), LeaseState::Valid { .. });
        lost.is_none() && !revoked && !is_unclear && is_readable && is_valid
    }

    /// True if a request for the lock back was seen.
    pub(crate) fn is_revoke_requested(&self) -> bool {
        self.known().revoked
    }

    /// True if other contenders may be in the queue.
    pub(crate) fn has_others(&self) -> bool {
        let others = &mut self.known().others;
        // A watch fires once, and it is not set again: a contender that came may still be there.
        let waker = others.is_set().then(|| Waker::from(Arc::clone(&self.changes)));
        waker.is_none_or(|waker| others.poll_changed(&mut Context::from_waker(&waker)).is_ready())
    }

    /// Waits until a look at the lock finds something. Looks again whenever something has happened
    /// to the node or to the lease.
    pub(crate) async fn wait_until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            let mut change = pin!(self.changes.notified());
            change.as_mut().enable();
            let lease = self.lease.state();
            if let Some(found) = look() {
                return found;
            }
            let lease_changed = async {
                self.lease.changed(lease).await;
            };
            let (is_refused, mut recheck) = (self.known().is_refused, RecheckTimer::default());
            let may_retry = poll_fn(|cx| match is_refused {
                true => recheck.poll(self.queue.client(), cx),
                false => Poll::Pending,
            });
            first_of(change, first_of(lease_changed, may_retry)).await;
            // Replies are polled with the waker of `changes`. Outside of a scheduler tokio wakes it
            // at once if the task has used up its budget, and this would loop for ever.
            consume_budget().await;
        }
    }

    /// Waits until the node was read, or cannot be read, or the lock is lost.
    pub(crate) async fn node_is_read(&self) {
        self.wait_until(|| {
            let has_lapsed = matches!(self.lease.state(), LeaseState::Lapsed(_));
            let is_lost = has_lapsed || self.check_node(true).is_some();
            let is_reading = matches!(self.known().watch, NodeWatch::Reading(..));
            (is_lost || !is_reading).then_some(())
        })
        .await;
    }

    /// Waits until other contenders may be in the queue, or the lock is no longer surely ours, or
    /// somebody has asked for it back.
    pub(crate) async fn disturbed(&self) {
        self.wait_until(|| (!self.can_hand_on() || self.has_others()).then_some(())).await;
    }

    /// Notes that the lock is lost. Returns the first reason that was noted.
    pub(crate) fn mark_lost(&self, loss: Loss) -> Loss {
        let mut known = self.known();
        if let Some(first) = known.lost {
            return first;
        }
        known.lost = Some(loss);
        drop(known);
        self.metrics.end(&self.path, || Some(loss));
        self.changes.notify();
        loss
    }

    /// Notes that the node is let go. That is a loss if the lock was lost before.
    pub(crate) fn note_let_go(&self) {
        self.metrics.end(&self.path, || match self.lease.state() {
            LeaseState::Lapsed(lapse) => Some(loss_of(lapse)),
            _ => self.known().lost,
        });
    }

    /// Notes that a transaction has found the node gone.
    pub(crate) fn mark_deleted(&self) -> Error {
        self.lost_error(self.mark_lost(Loss::NodeDeleted))
    }

    pub(crate) fn lost_error(&self, loss: Loss) -> Error {
        Cause::Lost { path: self.path.clone(), loss }.into()
    }

    /// The error of a transaction whose first operation was the check of the node.
    pub(crate) fn fence_error(&self, error: ClientError) -> Error {
        if error.is_no_node() && error.failed_op() == Some(0) {
            return self.mark_deleted();
        }
        self.transaction_error(error)
    }

    /// The error of a transaction that failed for another reason than the node. A known loss is
    /// that reason, unless the transaction may have been carried out all the same, or one of its
    /// own operations was refused.
    pub(crate) fn transaction_error(&self, error: ClientError) -> Error {
        let tells_more = error.outcome() == Outcome::Unknown || error.failed_op().is_some();
        match self.known_loss() {
            Some(loss) if !tells_more => self.lost_error(loss),
            _ => error.into(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of what the watches have reported, and returns how the lock was lost according to
    /// the node alone. With `may_read` it reads the node, and sets a watch, if no watch reports.
    pub(crate) fn check_node(&self, may_read: bool) -> Option<Loss> {
        // Wakes everybody who waits for a change.
        let waker = Waker::from(Arc::clone(&self.changes));
        let mut cx = Context::from_waker(&waker);
        let mut known = self.known();
        let mut has_changed = false;
        // After the first read every write has it read again, whoever looks.
        let may_read = may_read || !matches!(known.watch, NodeWatch::WatchOnly(_));
        while known.lost.is_none()
            && let Some(next) = self.poll_watch(&mut known, may_read, &mut cx)
        {
            has_changed |= !matches!(next, NodeWatch::Reading(..));
            known.watch = next;
        }
        let lost = known.lost;
        drop(known);
        if has_changed {
            self.changes.notify();
        }
        lost
    }

    /// Takes note of one event or reply. Returns how the node is watched from then on, or `None` if
    /// nothing has come.
    fn poll_watch(
        &self,
        known: &mut Known,
        may_read: bool,
        cx: &mut Context<'_>,
    ) -> Option<NodeWatch> {
        if let Poll::Ready(event) = known.watch.event().poll_changed(cx) {
            match (&known.watch, event) {
                (_, Ok(event)) if event.kind == EventType::NODE_DELETED => {
                    return Some(self.note_deleted(known));
                }
                (NodeWatch::Unreadable(_), _) => return None,
                (NodeWatch::Reading(..), _) => known.is_unclear = true,
                (_, Ok(_)) => {
                    known.is_unclear = true;
                    return Some(NodeWatch::WatchOnly(QuietWatch::default()));
                }
                (_, Err(_)) => return Some(NodeWatch::Unreadable(QuietWatch::default())),
            }
        }
        match &mut known.watch {
            NodeWatch::Reading(reply, earlier) => {
                let Poll::Ready(answer) = Pin::new(reply).poll(cx) else {
                    return None;
                };
                let earlier = std::mem::take(earlier);
                self.take_answer(known, answer, earlier)
            }
            NodeWatch::WatchOnly(watch) if may_read => {
                let reply = self.queue.client().get_data_and_watch(&self.path);
                known.is_refused = false;
                Some(NodeWatch::Reading(reply, std::mem::take(watch)))
            }
            _ => None,
        }
    }

    /// Takes note of what a read of the node has found. `earlier` is the watch that it had before.
    fn take_answer(
        &self,
        known: &mut Known,
        answer: Result<(Node, Watcher), ClientError>,
        earlier: QuietWatch,
    ) -> Option<NodeWatch> {
        let error = match answer {
            Ok((node, watcher)) if node.stat.czxid == self.czxid => {
                known.revoked |= REVOKE.contains(&&*node.data);
                known.is_unclear = false;
                known.retries.reset();
                return Some(NodeWatch::Known(watcher.into()));
            }
            Ok(_) => return Some(self.note_deleted(known)),
            Err(error) if error.is_no_node() => return Some(self.note_deleted(known)),
            Err(error) => error,
        };
        let Err(error) = known.retries.count(error) else {
            // The node is read again at once.
            known.is_unclear = true;
            return Some(NodeWatch::WatchOnly(earlier));
        };
        debug!(target: LOCK, node = self.path, %error, "not watched");
        let is_refused = error.code().is_some() && !error.is_transient();
        if error.is_session_over() || is_refused {
            return Some(NodeWatch::Unreadable(earlier));
        }
        // A limit of this client was reached, or the read has failed too often: the next look reads
        // the node again.
        (known.is_unclear, known.is_refused) = (true, true);
        known.watch = NodeWatch::WatchOnly(earlier);
        None
    }

    fn note_deleted(&self, known: &mut Known) -> NodeWatch {
        self.metrics.end(&self.path, || Some(Loss::NodeDeleted));
        known.lost = Some(Loss::NodeDeleted);
        NodeWatch::Unreadable(QuietWatch::default())
    }
}

pub(crate) fn loss_of(lapse: Lapse) -> Loss {
    match lapse {
        Lapse::Ended(ended) => Loss::SessionOver(ended),
        Lapse::MaxDuration => Loss::TermOver,
        Lapse::NodeDeleted => Loss::NodeDeleted,
        _ => Loss::Deadline,
    }
}
