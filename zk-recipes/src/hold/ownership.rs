//! What is known of a lock that is held, and who tells of it.
//!
//! A lock is lost in four ways: the session ends, somebody deletes the node, the ensemble may have
//! ended the session without saying so, or the agreed time is over. The client's lease tells of the
//! first, the third and the last. Of the node's end a watch tells: the one that the wait has left,
//! or one that is set when somebody first wants to know.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tracing::debug;
use zk_client::{
    Error as ClientError, EventType, Lapse, Lease, LeaseState, Node, Outcome, OwnedNode, Reply,
    Watcher, Zxid,
};

use crate::error::{Error, Fault, Loss};
use crate::node::Contender;
use crate::queue::place::Place;
use crate::queue::wakeups::{Notifier, QuietWatch};
use crate::queue::{Queue, is_transient};

/// What is written to a holder's node to ask for the lock back: Curator's word, and the one of
/// ZooKeeper's documentation.
const REVOKE: [&[u8]; 2] = [b"__REVOKE__", b"unlock"];

/// One lock that is held, as those know it who hold it.
pub(crate) struct Ownership {
    pub(crate) queue: Arc<Queue>,
    pub(crate) path: String,
    pub(crate) czxid: Zxid,
    pub(crate) own: Contender,
    pub(crate) lease: Lease,
    status: Mutex<NodeStatus>,
    pub(crate) changes: Arc<Notifier>,
}

/// What is known of the node.
#[derive(Debug)]
struct NodeStatus {
    lost: Option<Loss>,
    revoked: bool,
    /// Something has happened to the node, and what is not known yet.
    unclear: bool,
    source: NodeWatch,
    /// Fires when somebody joins or leaves the queue. Not set if others may be there already.
    others: QuietWatch,
}

/// What tells of the node.
#[derive(Debug)]
enum NodeWatch {
    /// Nothing yet, or a watch that was set behind what may have been written.
    Unread(QuietWatch),
    /// A read with a watch that is on its way. Until then the one before tells of the node's end.
    Asked(Reply<(Node, Watcher)>, QuietWatch),
    /// A watch.
    Watched(QuietWatch),
    /// Nothing can: the session is over, or the node may not be read.
    Nothing,
}

impl Ownership {
    /// What is known when a place is first, and its node.
    pub(crate) fn new(place: Place) -> (Self, OwnedNode) {
        let Place { queue, node, own, own_watch, has_waited, others } = place;
        // A contender that had to wait holds the lock from now on.
        let age = queue.client().clock().now().saturating_duration_since(node.requested_at());
        let term = queue
            .options()
            .max_hold
            .map(|term| if has_waited { term.saturating_add(age) } else { term });
        let (lost, revoked, unclear) = (None, false, false);
        let status =
            NodeStatus { lost, revoked, unclear, source: NodeWatch::Unread(own_watch), others };
        let held = Self {
            path: node.path().to_owned(),
            czxid: node.czxid(),
            lease: node.lease(term),
            own,
            status: Mutex::new(status),
            changes: Arc::default(),
            queue,
        };
        (held, node)
    }

    /// Waits until something tells of the node, or the lock is lost.
    pub(crate) async fn node_checked(&self) {
        let mut lapsed = pin!(self.lease.lapsed());
        loop {
            let mut change = pin!(self.changes.notified());
            change.as_mut().enable();
            let lost = self.check_node();
            let asks = matches!(self.status().source, NodeWatch::Asked(..));
            if lost.is_some() || !asks {
                return;
            }
            let is_over = poll_fn(|cx| match lapsed.as_mut().poll(cx) {
                Poll::Ready(_) => Poll::Ready(true),
                Poll::Pending => change.as_mut().poll(cx).map(|()| false),
            });
            if is_over.await {
                return;
            }
        }
    }

    /// How the lock was lost, as far as is known. Waits for nothing. The lease comes first: once it
    /// has lapsed, the client deletes the node by itself.
    pub(crate) fn known_loss(&self) -> Option<Loss> {
        match self.lease.state() {
            LeaseState::Lapsed(lapse) => Some(self.mark_lost(loss_of(lapse))),
            _ => self.noted_loss(),
        }
    }

    /// How the lock was lost, as far as the node tells. Waits for nothing.
    pub(crate) fn noted_loss(&self) -> Option<Loss> {
        self.poll_node(false)
    }

    /// Whether the lock is surely still ours and nobody is known to want it back. Waits for
    /// nothing.
    pub(crate) fn can_hand_on(&self) -> bool {
        self.poll_node(false);
        let NodeStatus { lost, revoked, unclear, .. } = &*self.status();
        lost.is_none()
            && !revoked
            && !unclear
            && matches!(self.lease.state(), LeaseState::Valid { .. })
    }

    /// Whether somebody was seen to ask for the lock back.
    pub(crate) fn is_revoke_requested(&self) -> bool {
        self.status().revoked
    }

    /// Hears what there is to hear of the node, and asks where nothing tells. Says how it was lost,
    /// if it was.
    pub(crate) fn check_node(&self) -> Option<Loss> {
        self.poll_node(true)
    }

    /// Sees to it that something tells of the node's end: the watch that the wait has left is
    /// enough.
    pub(crate) fn ensure_watched(&self) {
        let is_watched =
            matches!(&self.status().source, NodeWatch::Unread(watch) if watch.is_set());
        self.poll_node(!is_watched);
    }

    fn status(&self) -> MutexGuard<'_, NodeStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock is lost; the first way counts.
    pub(crate) fn mark_lost(&self, loss: Loss) -> Loss {
        let first = *self.status().lost.get_or_insert_with(|| {
            debug!(node = self.path, %loss, "lock lost");
            loss
        });
        self.changes.notify();
        first
    }

    pub(crate) fn lost_error(&self, loss: Loss) -> Error {
        Fault::Lost { path: self.path.clone(), loss }.into()
    }

    /// A transaction has shown that the node is gone.
    pub(crate) fn mark_deleted(&self) -> Error {
        self.lost_error(self.mark_lost(Loss::NodeDeleted))
    }

    /// What a failed transaction means whose first operation was the check of the node.
    pub(crate) fn fence_error(&self, error: ClientError) -> Error {
        if error.is_no_node() && error.failed_op() == Some(0) {
            return self.mark_deleted();
        }
        self.transaction_error(error)
    }

    /// What a failed transaction means that does not tell of the node itself. A known loss is the
    /// reason, unless the transaction may have been carried out all the same, or an operation of
    /// its own was refused.
    pub(crate) fn transaction_error(&self, error: ClientError) -> Error {
        let tells_more = error.outcome() == Outcome::Unknown || error.failed_op().is_some();
        match self.known_loss() {
            Some(loss) if !tells_more => self.lost_error(loss),
            _ => error.into(),
        }
    }

    /// Hears what there is to hear of the node, and `asks` where nothing tells. Says how it was
    /// lost, if it was.
    fn poll_node(&self, asks: bool) -> Option<Loss> {
        // Wakes everybody who wants to know.
        let waker = Waker::from(Arc::clone(&self.changes));
        let mut cx = Context::from_waker(&waker);
        let mut status = self.status();
        let mut has_changed = false;
        // Whoever has asked once goes on to.
        let asks = asks || !matches!(status.source, NodeWatch::Unread(_));
        while status.lost.is_none() {
            let Some(next) = self.step(&mut status, asks, &mut cx) else {
                break;
            };
            status.source = next;
            has_changed = true;
        }
        let lost = status.lost;
        drop(status);
        if has_changed {
            self.changes.notify();
        }
        lost
    }

    /// Waits until other contenders may be in the queue, or the lock is no longer surely ours, or
    /// somebody has asked for it back.
    pub(crate) async fn disturbed(&self) {
        loop {
            let mut change = pin!(self.changes.notified());
            change.as_mut().enable();
            let lease = self.lease.state();
            if !self.can_hand_on() || self.has_others() {
                return;
            }
            let mut changed = pin!(self.lease.changed(lease));
            poll_fn(|cx| match change.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => changed.as_mut().poll(cx).map(drop),
            })
            .await;
        }
    }

    /// True if other contenders may be in the queue.
    pub(crate) fn has_others(&self) -> bool {
        let others = &mut self.status().others;
        // A watch fires once, and it is not set again: whoever came may still be there.
        let waker = others.is_set().then(|| Waker::from(Arc::clone(&self.changes)));
        waker.is_none_or(|waker| others.poll_changed(&mut Context::from_waker(&waker)).is_ready())
    }

    /// One thing that is heard; `None` if there is nothing.
    fn step(&self, status: &mut NodeStatus, asks: bool, cx: &mut Context<'_>) -> Option<NodeWatch> {
        let gone = |status: &mut NodeStatus| {
            debug!(node = self.path, "somebody deleted the node");
            status.lost = Some(Loss::NodeDeleted);
            Some(NodeWatch::Nothing)
        };
        let is_unread = matches!(status.source, NodeWatch::Unread(_));
        match &mut status.source {
            NodeWatch::Nothing => None,
            NodeWatch::Asked(reply, before) => {
                match before.poll_changed(cx) {
                    Poll::Pending => {}
                    Poll::Ready(Ok(event)) if event.kind == EventType::NODE_DELETED => {
                        return gone(status);
                    }
                    Poll::Ready(_) => status.unclear = true,
                }
                match Pin::new(reply).poll(cx) {
                    Poll::Pending => None,
                    Poll::Ready(Ok((node, watcher))) => {
                        if node.stat.czxid != self.czxid {
                            return gone(status);
                        }
                        status.revoked |= REVOKE.contains(&&*node.data);
                        status.unclear = false;
                        Some(NodeWatch::Watched(watcher.into()))
                    }
                    Poll::Ready(Err(error)) if error.is_no_node() => gone(status),
                    // Until it is asked again, nobody knows.
                    Poll::Ready(Err(error)) if is_transient(&error) => {
                        status.unclear = true;
                        Some(NodeWatch::Unread(std::mem::take(before)))
                    }
                    Poll::Ready(Err(error)) => {
                        debug!(node = self.path, %error, "nothing tells of the node");
                        let is_final = error.is_session_over() || error.code().is_some();
                        if is_final {
                            return Some(NodeWatch::Nothing);
                        }
                        // A limit of this client's: asked again at the next look.
                        status.unclear = true;
                        status.source = NodeWatch::Unread(std::mem::take(before));
                        None
                    }
                }
            }
            NodeWatch::Unread(watch) | NodeWatch::Watched(watch) => match watch.poll_changed(cx) {
                Poll::Ready(Ok(event)) if event.kind == EventType::NODE_DELETED => gone(status),
                Poll::Ready(Ok(_)) => {
                    status.unclear = true;
                    Some(NodeWatch::Unread(QuietWatch::default()))
                }
                Poll::Ready(Err(_)) => Some(NodeWatch::Nothing),
                Poll::Pending if asks && is_unread => {
                    let reply = self.queue.client().get_data_and_watch(&self.path);
                    Some(NodeWatch::Asked(reply, std::mem::take(watch)))
                }
                Poll::Pending => None,
            },
        }
    }
}

pub(crate) fn loss_of(lapse: Lapse) -> Loss {
    match lapse {
        Lapse::Ended(ended) => Loss::SessionOver(ended),
        Lapse::Term => Loss::TermOver,
        _ => Loss::Deadline,
    }
}
