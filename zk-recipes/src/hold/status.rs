//! What is known about a lock that is held.
//!
//! A lock is lost in four ways: the session ends, somebody deletes the node, the ensemble may have
//! ended the session without saying so, or the agreed time is over. The client's lease reports the
//! first, the third and the last. A watch on the node reports its deletion: either the watch that
//! the wait has left, or one that is set when somebody first asks for the state. If an event for
//! another contender of this client reports it before, the lease knows.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::consume_budget;
use tracing::debug;
use zk_client::{
    Error as ClientError, EventType, Lapse, Lease, LeaseState, Node, Outcome, OwnedNode, Reply,
    Watcher, Zxid,
};

use crate::error::{Cause, Error, Loss};
use crate::hold::metrics::HoldMetrics;
use crate::node::Contender;
use crate::queue::{Place, Queue};
use crate::steady::mutex::lock;
use crate::steady::retries::Retries;
use crate::steady::wakeups::{Notifier, first_of};
use crate::steady::watch::{QuietWatch, RecheckTimer};
use crate::trace::LOCK;

/// True if this data of a holder's node asks for the lock back: Curator's word, with or without
/// more behind it, such as the earlier data, or the word of ZooKeeper's documentation.
fn asks_back(data: &[u8]) -> bool {
    data.starts_with(b"__REVOKE__") || data == b"unlock"
}

/// What is known about a lock that is held. Keeping this does not keep the lock: the node belongs
/// to the holds.
pub(crate) struct HoldStatus {
    pub(crate) queue: Arc<Queue>,
    pub(crate) path: String,
    pub(crate) czxid: Zxid,
    pub(crate) own: Contender,
    pub(crate) lease: Lease,
    metrics: HoldMetrics,
    known: Mutex<Known>,
    pub(crate) changes: Arc<Notifier>,
}

/// What is known about the node.
#[derive(Debug, Default)]
struct Known {
    lost: Option<Loss>,
    revoked: bool,
    data: Data,
    /// Reports the end of the node, or a write to it. The wait in the queue leaves a watch, and
    /// each read sets a new one.
    watch: QuietWatch,
    /// The read that is under way. Until its reply, the earlier watch reports.
    reading: Option<Reply<(Node, Watcher)>>,
    /// The reads that failed in a row.
    retries: Retries,
    /// Fires when somebody joins or leaves the queue. Not set if others may be there already.
    others: QuietWatch,
}

/// What is known about the data of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Data {
    /// The node was not read, and nothing has happened to it.
    #[default]
    Unread,
    /// Nothing has happened to the node since it was read.
    Known,
    /// Something has happened to the node since, or the read has failed.
    Unclear,
    /// The client has refused to read the node because it was at a limit, or the read has failed
    /// too often. Nothing tells when it would succeed, so a later look reads the node again.
    Refused,
    /// The node could not be read, for instance without the permission, or the session is over. The
    /// watch may still report. Nobody gets in under such a node.
    Unreadable,
}

impl HoldStatus {
    /// What is known at first about the node of this place.
    pub(crate) fn new(place: Place) -> (Self, OwnedNode) {
        let Place { queue, node, own, own_watch, has_waited, others } = place;
        // After a wait the term must count from now, but a lease counts from the create: add what
        // has passed.
        let age = match has_waited {
            true => queue.client().clock().now().saturating_duration_since(node.requested_at()),
            false => Duration::ZERO,
        };
        let term = queue.options().max_hold.map(|term| term.saturating_add(age));
        let status = Self {
            queue,
            path: node.path().to_owned(),
            czxid: node.czxid(),
            own,
            lease: node.lease(term),
            metrics: HoldMetrics::new(has_waited, node.requested_at()),
            known: Mutex::new(Known { watch: own_watch, others, ..Known::default() }),
            changes: Arc::default(),
        };
        (status, node)
    }

    /// How the lock was lost, as far as is known. Waits for nothing, and is not the first to read
    /// the node: once it was read, each change of it has it read again.
    pub(crate) fn known_loss(&self) -> Option<Loss> {
        self.loss(self.lease.state(), false)
    }

    /// How the lock was lost, as far as is known, with the lease in this state. Reads the node if
    /// it may and its data is not known. The lease comes first: once it has lapsed, the client
    /// deletes the node by itself.
    pub(crate) fn loss(&self, lease: LeaseState, may_read: bool) -> Option<Loss> {
        match loss_by(lease) {
            Some(loss) => Some(self.mark_lost(loss)),
            None => self.check_node(may_read),
        }
    }

    /// Makes sure that the node's end becomes known. The watch that the wait has left is enough.
    pub(crate) fn ensure_watched(&self) {
        self.check_node(!self.is_watched());
    }

    /// True if a watch is set, and it has reported nothing so far.
    pub(crate) fn is_watched(&self) -> bool {
        self.check_node(false);
        lock(&self.known).watch.is_set()
    }

    /// True if the lock is surely still ours and nobody is known to want it back. Waits for
    /// nothing.
    pub(crate) fn can_hand_on(&self) -> bool {
        self.check_node(false);
        let Known { lost, revoked, data, .. } = &*lock(&self.known);
        let is_clear = matches!(data, Data::Unread | Data::Known);
        let is_valid = matches!(self.lease.state(), LeaseState::Valid { .. });
        lost.is_none() && !revoked && is_clear && is_valid
    }

    /// True if a request for the lock back was seen.
    pub(crate) fn is_revoke_requested(&self) -> bool {
        lock(&self.known).revoked
    }

    /// True if other contenders may be in the queue.
    pub(crate) fn has_others(&self) -> bool {
        let others = &mut lock(&self.known).others;
        // A watch fires once, and it is not set again: a contender that came may still be there.
        let waker = others.is_set().then(|| Waker::from(Arc::clone(&self.changes)));
        waker.is_none_or(|waker| others.poll_changed(&mut Context::from_waker(&waker)).is_ready())
    }

    /// Waits until a look at the lock finds something. Looks again whenever something has happened
    /// to the node or to the lease.
    pub(crate) async fn wait_until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        self.wait_or_recheck(|| look().ok_or(None)).await
    }

    /// The same for a look that may fail with a time: it looks again after that, too.
    pub(crate) async fn wait_or_recheck<T>(
        &self,
        mut look: impl FnMut() -> Result<T, Option<Duration>>,
    ) -> T {
        loop {
            let mut change = pin!(self.changes.notified());
            change.as_mut().enable();
            let lease = self.lease.state();
            let recheck_in = match look() {
                Ok(found) => return found,
                Err(time) => time,
            };
            let lease_changed = async {
                self.lease.changed(lease).await;
            };
            let client = self.queue.client();
            let is_refused = lock(&self.known).data == Data::Refused;
            let retry_in = is_refused.then(|| client.session_timeout());
            let time = retry_in.into_iter().chain(recheck_in).min();
            let mut timer = RecheckTimer::default();
            let is_due = poll_fn(|cx| match time {
                Some(time) => timer.poll_after(|| time, client, cx),
                None => Poll::Pending,
            });
            first_of(change, first_of(lease_changed, is_due)).await;
            // Replies are polled with the waker of `changes`. Outside of a scheduler tokio wakes it
            // at once if the task has used up its budget, and this would loop for ever.
            consume_budget().await;
        }
    }

    /// Waits until the node was read, or cannot be read, or the lock is lost.
    pub(crate) async fn node_is_read(&self) {
        self.wait_until(|| {
            let is_lost = self.loss(self.lease.state(), true).is_some();
            let Known { reading, data, .. } = &*lock(&self.known);
            // A read that the client has refused is made again.
            (is_lost || reading.is_none() && *data != Data::Refused).then_some(())
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
        let mut known = lock(&self.known);
        if let Some(first) = known.lost {
            return first;
        }
        known.lost = Some(loss);
        drop(known);
        self.note_end(|| Some(loss));
        self.changes.notify();
        loss
    }

    /// Notes that the lock is ours.
    pub(crate) fn note_begin(&self) {
        self.metrics.begin(&self.queue, &self.path);
    }

    /// Notes that the node is let go. That is a loss if the lock was lost before.
    pub(crate) fn note_let_go(&self) {
        self.note_end(|| loss_by(self.lease.state()).or(lock(&self.known).lost));
    }

    /// Notes that the lock is not ours any more. Only the first call counts.
    pub(crate) fn note_end(&self, loss: impl FnOnce() -> Option<Loss>) {
        self.metrics.end(&self.queue, &self.path, loss);
    }

    /// Notes that a transaction has found the node gone.
    pub(crate) fn mark_deleted(&self) -> Error {
        self.lost_error(self.mark_lost(Loss::NodeDeleted))
    }

    pub(crate) fn lost_error(&self, loss: Loss) -> Error {
        Cause::Lost { path: self.path.clone(), loss }.into()
    }

    /// The error of a transaction whose operation `fence` fails if the node is gone. Of another
    /// failure a known loss is the reason, unless the transaction may have been carried out all the
    /// same, or one of its other operations was refused.
    pub(crate) fn transaction_error(&self, fence: usize, error: ClientError) -> Error {
        if error.is_no_node() && error.failed_op() == Some(fence) {
            return self.mark_deleted();
        }
        let tells_more = error.outcome() == Outcome::Unknown || error.failed_op().is_some();
        match self.known_loss() {
            Some(loss) if !tells_more => self.lost_error(loss),
            _ => error.into(),
        }
    }

    /// Takes note of what the watches have reported, and returns how the lock was lost according to
    /// the node alone. With `may_read` it reads the node, and sets a watch, unless the data is
    /// known.
    fn check_node(&self, may_read: bool) -> Option<Loss> {
        // Wakes everybody who waits for a change.
        let waker = Waker::from(Arc::clone(&self.changes));
        let mut cx = Context::from_waker(&waker);
        let mut known = lock(&self.known);
        let (before, mut has_changed) = (known.data, false);
        // After the first read every write has it read again, whoever looks.
        let may_read = may_read || known.reading.is_some() || known.data == Data::Known;
        while known.lost.is_none() && self.learn(&mut known, may_read, &mut cx) {
            has_changed = true;
        }
        let lost = known.lost;
        has_changed |= known.data != before;
        drop(known);
        if has_changed {
            if lost.is_some() {
                self.note_end(|| lost);
            }
            self.changes.notify();
        }
        lost
    }

    /// Takes note of one event or reply. True if more may have come.
    fn learn(&self, known: &mut Known, may_read: bool, cx: &mut Context<'_>) -> bool {
        if let Poll::Ready(event) = known.watch.poll_changed(cx) {
            match event {
                Ok(event) if event.kind == EventType::NODE_DELETED => {
                    (known.lost, known.reading) = (Some(Loss::NodeDeleted), None);
                }
                Ok(_) if known.data == Data::Unreadable => {}
                Ok(_) => known.data = Data::Unclear,
                Err(_) => known.data = Data::Unreadable,
            }
            return true;
        }
        let is_due = !matches!(known.data, Data::Known | Data::Unreadable);
        if is_due && may_read && known.reading.is_none() {
            known.reading = Some(self.queue.client().get_data_and_watch(&self.path));
            if known.data == Data::Refused {
                known.data = Data::Unclear;
            }
        }
        let answer = known.reading.as_mut().map(|reply| Pin::new(reply).poll(cx));
        let Some(Poll::Ready(answer)) = answer else { return false };
        known.reading = None;
        self.take_answer(known, answer)
    }

    /// Takes note of what a read of the node has found. True if there may be more to
    /// [learn](Self::learn) at once.
    fn take_answer(&self, known: &mut Known, answer: Result<(Node, Watcher), ClientError>) -> bool {
        let error = match answer {
            Ok((node, watcher)) if node.stat.czxid == self.czxid => {
                known.revoked |= asks_back(&node.data);
                (known.data, known.watch) = (Data::Known, watcher.into());
                known.retries.reset();
                return true;
            }
            Err(error) if !error.is_no_node() => error,
            _ => {
                known.lost = Some(Loss::NodeDeleted);
                return true;
            }
        };
        let Err(error) = known.retries.count(error) else {
            // The node is read again at once.
            known.data = Data::Unclear;
            return true;
        };
        debug!(target: LOCK, node = self.path, %error, "not watched");
        let is_refused_by_server = error.code().is_some() && !error.is_transient();
        let is_final = error.is_session_over() || is_refused_by_server;
        known.data = if is_final { Data::Unreadable } else { Data::Refused };
        is_final
    }
}

/// How the lock was lost according to the lease alone.
fn loss_by(lease: LeaseState) -> Option<Loss> {
    let LeaseState::Lapsed(lapse) = lease else { return None };
    Some(match lapse {
        Lapse::Ended(ended) => Loss::SessionOver(ended),
        Lapse::MaxDuration => Loss::TermOver,
        Lapse::NodeDeleted => Loss::NodeDeleted,
        _ => Loss::Deadline,
    })
}
