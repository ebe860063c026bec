//! The node that the tasks of a process share: its acquire, hold, release and linger.
//!
//! The local queue decides who is next, and this carries it out: whoever leaves wakes the next
//! waiter, which enters when it is polled. Each waiter that is polled drives the acquire on. If the
//! node is released, its delete is sent before another task of this process can enter under a new
//! one, and the session keeps the order of its requests.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::time::timeout;
use zk_client::Client;

use crate::error::{Cause, Error};
use crate::hold::status::HoldStatus;
use crate::hold::{FencingToken, Hold, Releasing};
use crate::locks::inspect::LockFolder;
use crate::node::{NodeNaming, Role};
use crate::options::Settings;
use crate::queue::{Join, Patience, Queue};
use crate::steady::mutex::lock;
use crate::two_level::local_queue::{
    Action, Bounds, Decision, Entry, LocalQueue, NodeState, OwnerId, Waiter, WaiterId,
};

/// The default of [`Options::local_handoffs`](crate::Options::local_handoffs). With a higher
/// number, two processes of 32 tasks gained next to nothing, and their slowest acquires took longer
/// (tests/benches/two_level.rs).
const LOCAL_HANDOFFS: u32 = 32;

/// For how long a process hands the lock on within itself, by default.
const LOCAL_HANDOFF_TIME: Duration = Duration::from_millis(500);

/// An attempt to get the node, which each waiter drives on when it is polled. `None` if it was a
/// try and the lock was not free.
type Acquiring = Pin<Box<dyn Future<Output = Result<Option<Hold>, Error>> + Send>>;

/// How an owner got in, and its hold. `None` if it was a try and the lock was not free.
type Entered = Result<Option<(Entry, Hold)>, Error>;

/// The node that the tasks of this process share, or will, and their queue: one for all clones of a
/// lock.
pub(crate) struct SharedNode {
    pub(crate) folder: LockFolder,
    local: Mutex<Local>,
    wakers: Arc<Wakers>,
}

struct Local {
    waiters: LocalQueue,
    acquiring: Option<Acquiring>,
    hold: Option<Hold>,
    /// The node that a [`LingerWatch`] is about, if one runs.
    linger_watch_of: Option<FencingToken>,
}

impl SharedNode {
    pub(crate) fn new(
        client: &Client,
        path: &str,
        naming: NodeNaming,
        options: Settings,
    ) -> Result<Arc<Self>, Error> {
        let default = LOCAL_HANDOFF_TIME.min(client.session_timeout() / 4);
        let waiters = LocalQueue::new(Bounds {
            handoffs: options.local_handoffs.unwrap_or(LOCAL_HANDOFFS),
            time: options.local_handoff_time.unwrap_or(default),
            longest: options.max_hold.map(|time| time / 2),
            linger: options.linger,
        });
        let queue = Queue::new(client, path, naming, options)?.with_folder_watch();
        let folder = LockFolder(Arc::new(queue));
        let local = Local { waiters, acquiring: None, hold: None, linger_watch_of: None };
        let (local, wakers) = (Mutex::new(local), Arc::default());
        Ok(Arc::new(Self { folder, local, wakers }))
    }

    fn local(&self) -> MutexGuard<'_, Local> {
        lock(&self.local)
    }

    fn queue(&self) -> &Arc<Queue> {
        self.folder.queue()
    }

    fn now(&self) -> Instant {
        self.queue().client().clock().now()
    }

    /// Lets `owner` in. Returns `None` if it would have to wait, and `patience` is `Tries`.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        owner: OwnerId,
        role: Role,
        patience: Patience,
    ) -> Entered {
        let options = self.queue().options();
        let joined = options.meter.is_some().then(|| self.now());
        let id = self.local().waiters.join(owner, role, patience);
        let waiting = Waiting { node: self, owner, id };
        let entered = poll_fn(|cx| waiting.poll(cx)).await?;
        if let Some((Entry { pass: 1.., depth: 1 }, _)) = &entered
            && let Some(joined) = joined
        {
            options.count(|stats| {
                stats.handed_over_locally += 1;
                stats.waits.record(self.now().saturating_duration_since(joined));
            });
        }
        Ok(entered)
    }

    /// Takes `owner` out of one level. Returns the release of the node if it is released.
    pub(crate) fn leave(self: &Arc<Self>, owner: OwnerId) -> Option<Releasing> {
        let mut local = self.local();
        let Local { waiters, hold, .. } = &mut *local;
        let action = waiters.leave(owner, || self.state(hold.as_ref()));
        self.carry_out(local, action)
    }

    pub(crate) fn would_deadlock(&self) -> Error {
        Cause::WouldDeadlock(self.queue().folder().to_owned()).into()
    }

    /// What the local queue has to know about the node.
    fn state(&self, hold: Option<&Hold>) -> NodeState {
        let status = hold.map(Hold::status);
        let can_hand_on = status.is_some_and(|status| status.can_hand_on());
        NodeState {
            now: self.now(),
            can_hand_on,
            is_lost: !can_hand_on && status.is_some_and(|status| status.known_loss().is_some()),
            has_remote_waiters: status.is_none_or(|status| status.has_others()),
        }
    }

    /// Carries out what the local queue has decided, and wakes the waiters whose turn it is.
    fn carry_out(
        self: &Arc<Self>,
        mut local: MutexGuard<'_, Local>,
        action: Action,
    ) -> Option<Releasing> {
        let (client, wakers) = (self.queue().client(), &self.wakers);
        let mut released = None;
        if action != Action::default() {
            // The delete and the next create are sent together, in this order.
            released = client.batch(|| local.apply(self.queue(), action));
        }
        if let Some(hold) = local.hold.as_ref().filter(|_| local.waiters.is_shared()) {
            // Somebody may delete the node: from the reply on, nobody else enters under it then.
            hold.status().ensure_watched();
        }
        let watch = local.begin_linger_watch(self);
        let woken = local.waiters.take_to_wake();
        drop(local);
        woken.into_iter().filter_map(|id| wakers.lock().remove(&id)).for_each(Waker::wake);
        if action.acquire.is_some() {
            // Whoever is polled has to poll the acquire for the first time.
            wakers.wake_by_ref();
        }
        if let Some((watch, runtime)) = watch.and_then(|watch| Some((watch, client.runtime()?))) {
            // A runtime that has ended drops it here and now.
            runtime.spawn(watch.run(self.queue().options().linger));
        }
        released
    }
}

impl fmt::Debug for SharedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedNode").field(&self.folder).field(&self.local().waiters).finish()
    }
}

impl Local {
    /// Carries out what an action says about the node.
    fn apply(&mut self, queue: &Arc<Queue>, action: Action) -> Option<Releasing> {
        let mut released = None;
        if action.release {
            (self.acquiring, self.linger_watch_of) = (None, None);
            released = self.hold.take().map(|hold| hold.let_go());
        }
        if let Some(Waiter { role, patience, .. }) = action.acquire {
            let join = Join::send(queue, role, patience);
            self.acquiring = Some(match patience {
                Patience::Tries => Box::pin(Hold::if_first(join)),
                Patience::Waits => Box::pin(async move { Hold::when_first(join).await.map(Some) }),
            });
        }
        released
    }

    /// The watch that is to run over the node, if the node lingers and none runs.
    fn begin_linger_watch(&mut self, node: &Arc<SharedNode>) -> Option<LingerWatch> {
        let hold = self.hold.as_ref()?;
        let token = hold.token();
        if self.waiters.unused_since().is_none() || self.linger_watch_of == Some(token) {
            return None;
        }
        let status = Arc::clone(hold.status());
        status.ensure_watched();
        self.linger_watch_of = Some(token);
        Some(LingerWatch { node: Arc::downgrade(node), status, token })
    }
}

/// Watches over a node that lingers, on the runtime of the session. When this is dropped, an unused
/// node is released: its time is over, another contender wants it, or there is no such runtime.
struct LingerWatch {
    node: Weak<SharedNode>,
    status: Arc<HoldStatus>,
    token: FencingToken,
}

impl LingerWatch {
    /// Waits until another contender wants the lock, or the time of the unused node is over.
    async fn run(self, linger: Duration) {
        let mut rest = linger;
        while !rest.is_zero() && timeout(rest, self.status.disturbed()).await.is_err() {
            rest = self.rest(linger).unwrap_or_default();
        }
    }

    /// For how long to go on watching. A node that is used is looked at after the whole time.
    fn rest(&self, linger: Duration) -> Option<Duration> {
        let node = self.node.upgrade()?;
        let local = node.local();
        let since = local.waiters.unused_since();
        let unused = since.map(|since| node.now().saturating_duration_since(since));
        let rest = linger.saturating_sub(unused.unwrap_or_default());
        (local.linger_watch_of == Some(self.token)).then_some(rest)
    }
}

impl Drop for LingerWatch {
    fn drop(&mut self) {
        let Some(node) = self.node.upgrade() else {
            return;
        };
        let mut local = node.local();
        if local.linger_watch_of.take_if(|token| *token == self.token).is_some()
            && local.waiters.unused_since().is_some()
        {
            // The node is released as if the session were in doubt.
            let state = NodeState { can_hand_on: false, ..node.state(local.hold.as_ref()) };
            let action = local.waiters.decide(state);
            drop(node.carry_out(local, action));
        }
    }
}

/// The wakers of the waiting tasks that were polled since they were last woken. As a waker, they
/// wake all of these tasks.
///
/// They have a lock of their own: a future may call its waker while it is polled, and the acquire
/// is polled under the lock of the local queue.
#[derive(Default)]
struct Wakers(Mutex<BTreeMap<WaiterId, Waker>>);

impl Wakers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<WaiterId, Waker>> {
        lock(&self.0)
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        let all = std::mem::take(&mut *self.lock());
        all.into_values().for_each(Waker::wake);
    }
}

/// A wait in the local queue.
struct Waiting<'n> {
    node: &'n Arc<SharedNode>,
    owner: OwnerId,
    id: WaiterId,
}

impl Waiting<'_> {
    /// Ready with `None` if the owner would have to wait, and does not want to.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Entered> {
        let (node, id, wakers) = (self.node, self.id, &self.node.wakers);
        loop {
            let mut local = node.local();
            let Local { waiters, hold, .. } = &mut *local;
            let (decision, mut action) = waiters.poll(id, || node.state(hold.as_ref()));
            if decision != Decision::Waits {
                return Poll::Ready(self.end(local, decision, action));
            }
            if action == Action::default() {
                // This comes before anything can wake this waiter.
                wakers.lock().insert(id, cx.waker().clone());
                let acquired = local.acquiring.as_mut().map(|one| {
                    let driver = Waker::from(Arc::clone(wakers));
                    one.as_mut().poll(&mut Context::from_waker(&driver))
                });
                let Some(Poll::Ready(acquired)) = acquired else {
                    drop(node.carry_out(local, action));
                    return Poll::Pending;
                };
                local.acquiring = None;
                // This waiter is being polled, so it need not be woken.
                wakers.lock().remove(&id);
                action = match acquired {
                    Ok(Some(hold)) => {
                        let state = node.state(Some(&hold));
                        local.hold = Some(hold);
                        local.waiters.on_granted(state)
                    }
                    Ok(None) => local.waiters.on_refused(),
                    Err(error) => {
                        let action = local.waiters.on_failed(id);
                        drop(node.carry_out(local, action));
                        return Poll::Ready(Err(error));
                    }
                };
            }
            drop(node.carry_out(local, action));
        }
    }

    /// Ends this wait with its outcome.
    fn end(&self, local: MutexGuard<'_, Local>, decision: Decision, action: Action) -> Entered {
        let (node, mut entered) = (self.node, None);
        if let Decision::Entered(entry) = decision {
            entered = local.hold.as_ref().map(|hold| (entry, hold.with_pass(entry.pass)));
        }
        drop(node.carry_out(local, action));
        if decision == Decision::WouldDeadlock {
            return Err(node.would_deadlock());
        }
        // The lock that the owner has already may have been lost since.
        if let Some((Entry { depth: 2.., .. }, hold)) = &entered
            && let Some(loss) = hold.status().known_loss()
        {
            drop(node.leave(self.owner));
            return Err(hold.status().lost_error(loss));
        }
        Ok(entered)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.node.wakers.lock().remove(&self.id);
        let mut local = self.node.local();
        if !local.waiters.is_waiting(self.id) {
            return;
        }
        let state = self.node.state(local.hold.as_ref());
        let action = local.waiters.cancel(self.id, state);
        // The client deletes the node.
        drop(self.node.carry_out(local, action));
    }
}
