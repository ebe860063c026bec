//! The local level of a two-level lock, in action: tasks that wait, and the node that they share.
//!
//! A release is safe because of its order: the delete of the node is sent before another task of
//! this process can get in, and the session keeps the order of its requests. No task of its own
//! carries out the acquire: each waiter that is polled drives it on. A task is spawned only to
//! watch over a node that lingers unused, on the runtime of the session. The cohort decides who is
//! next.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::time::timeout;
use zk_client::Client;

use crate::error::{Error, Fault};
use crate::hold::ownership::Ownership;
use crate::hold::{FencingToken, Hold, Releasing};
use crate::node::{NodeNaming, Role};
use crate::options::Options;
use crate::queue::inspect::LockFolder;
use crate::queue::wakeups::Timer;
use crate::queue::{Join, Patience, Queue};
use crate::two_level::cohort::{Attempt, Cohort, Step, Told, WaitId};
use crate::two_level::holding::{Bounds, Entry, OwnerId, Situation};
use crate::two_level::wakers::{All, First, Wakers};

/// For how long a process hands the lock on within itself, by default.
const LOCAL_HANDOFF_TIME: Duration = Duration::from_millis(500);

/// An attempt to get the node, which each waiter drives on when it is polled. `None` if it would
/// have had to wait, and was not to.
type Acquiring = Pin<Box<dyn Future<Output = Result<Option<Hold>, Error>> + Send>>;

/// The local level of one lock, shared by its clones.
#[derive(Clone)]
pub(crate) struct TwoLevel(Arc<Shared>);

struct Shared {
    folder: LockFolder,
    local: Mutex<Local>,
    wakers: Arc<Wakers>,
    /// Wakes one waiter, which drives the acquire on.
    driver: Waker,
    /// Wakes all waiters.
    alarm: Waker,
}

struct Local {
    cohort: Cohort,
    acquiring: Option<Acquiring>,
    hold: Option<Hold>,
    /// The node over which a task watches while it is not used.
    watched_over: Option<FencingToken>,
    /// Wakes all waiters after a time, since one that was called may not be polled.
    alarm: Timer,
}

/// A wait at the local level.
struct Waiting<'l> {
    level: &'l TwoLevel,
    owner: OwnerId,
    /// `None` once the outcome is known.
    id: Option<WaitId>,
}

impl TwoLevel {
    pub(crate) fn new(
        client: &Client,
        path: &str,
        naming: NodeNaming,
        options: Options,
    ) -> Result<Self, Error> {
        let default = LOCAL_HANDOFF_TIME.min(client.session_timeout() / 4);
        let time = options.local_handoff_time.unwrap_or(default);
        let longest = options.max_hold.map(|time| time / 2);
        let cohort = Cohort::new(Bounds {
            passes: options.local_handoffs,
            time,
            longest,
            linger: options.linger,
        });
        let queue = Queue::new(client, path, naming, options)?.with_folder_watch();
        let folder = LockFolder(Arc::new(queue));
        let local = Local {
            cohort,
            acquiring: None,
            hold: None,
            watched_over: None,
            alarm: Timer::default(),
        };
        let wakers = Arc::<Wakers>::default();
        let driver = Waker::from(Arc::new(First(Arc::clone(&wakers))));
        let alarm = Waker::from(Arc::new(All(Arc::clone(&wakers))));
        Ok(Self(Arc::new(Shared { folder, local: Mutex::new(local), wakers, driver, alarm })))
    }

    /// True if there is another clone.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    fn local(&self) -> MutexGuard<'_, Local> {
        self.0.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn folder(&self) -> &LockFolder {
        &self.0.folder
    }

    fn queue(&self) -> &Arc<Queue> {
        self.0.folder.queue()
    }

    /// Lets `owner` in. Returns `None` if it would have to wait, and `patience` is `Tries`.
    pub(crate) async fn enter(
        &self,
        owner: OwnerId,
        role: Role,
        patience: Patience,
    ) -> Result<Option<(Entry, Hold)>, Error> {
        let asked = self.queue().options().meter.is_some().then(|| self.now());
        let id = self.local().cohort.ask(owner, role, patience == Patience::Tries);
        let mut waiting = Waiting { level: self, owner, id: Some(id) };
        let entered = poll_fn(|cx| waiting.poll(cx)).await?;
        if let (Some((Entry { pass: 1.., depth: 1 }, _)), Some(asked)) = (&entered, asked) {
            let waited = self.now().saturating_duration_since(asked);
            self.queue().options().count(|stats| {
                stats.handed_over_locally += 1;
                stats.waits.record(waited);
            });
        }
        Ok(entered)
    }

    fn now(&self) -> Instant {
        self.queue().client().clock().now()
    }

    /// Takes `owner` out of one level. Returns the release of the node if it is released.
    pub(crate) fn leave(&self, owner: OwnerId) -> Option<Releasing> {
        let mut local = self.local();
        let situation = local.situation(self.queue());
        let step = local.cohort.leave(owner, situation);
        self.carry_out(local, step)
    }

    pub(crate) fn would_deadlock(&self) -> Error {
        Fault::WouldDeadlock(self.queue().folder().to_owned()).into()
    }

    /// Carries out a step of the cohort, and wakes the waiters that it has called.
    fn carry_out(&self, mut local: MutexGuard<'_, Local>, step: Step) -> Option<Releasing> {
        let queue = self.queue();
        let mut released = None;
        if step != Step::default() {
            // The delete and the next create are sent together, in this order.
            released = queue.client().batch(|| local.apply(queue, step));
        }
        let mut spawned = None;
        if released.is_none() && local.lingers_unwatched() {
            // The runtime of the last user may live without being polled.
            match queue.client().runtime() {
                Some(runtime) => {
                    spawned = self.watch_over(&mut local).map(|watch| (runtime, watch));
                }
                None => released = self.give_up_unused(&mut local),
            }
        }
        let calls = local.cohort.take_calls();
        drop(local);
        calls.into_iter().for_each(|id| self.0.wakers.wake(id));
        if let Some((runtime, watch)) = spawned {
            // A runtime that has ended drops it here and now.
            runtime.spawn(watch.linger(queue.options().linger));
        }
        released
    }

    /// Makes what a task needs to watch over the node.
    fn watch_over(&self, local: &mut Local) -> Option<LingerWatch> {
        let hold = local.hold.as_ref()?;
        let (ownership, token) = (Arc::clone(hold.ownership()), hold.token());
        ownership.ensure_watched();
        local.watched_over = Some(token);
        Some(LingerWatch { shared: Arc::downgrade(&self.0), ownership, token })
    }

    /// Releases the node if it is unused, as if the session were in doubt.
    fn give_up_unused(&self, local: &mut Local) -> Option<Releasing> {
        let situation = Situation { can_hand_on: false, ..local.situation(self.queue()) };
        let step = local.cohort.settle(situation);
        self.queue().client().batch(|| local.apply(self.queue(), step))
    }
}

/// Watches over a node that lingers. If this is dropped, because its runtime ends, an unused node
/// is released.
struct LingerWatch {
    shared: Weak<Shared>,
    ownership: Arc<Ownership>,
    token: FencingToken,
}

impl LingerWatch {
    /// Releases an unused node once its time is over or another contender wants the lock.
    async fn linger(mut self, mut pause: Duration) {
        while let Some(next) = self.wait_and_look(pause).await {
            pause = next;
        }
        // Another task may watch over the node by now.
        self.shared = Weak::new();
    }

    /// Returns after what time to look again, if this task still has to.
    async fn wait_and_look(&self, pause: Duration) -> Option<Duration> {
        let is_disturbed = timeout(pause, self.ownership.disturbed()).await.is_ok();
        let level = TwoLevel(self.shared.upgrade()?);
        let mut local = level.local();
        let token = local.hold.as_ref().map(Hold::token);
        if token != Some(self.token) || local.watched_over != token {
            return None;
        }
        let situation = local.situation(level.queue());
        let step = local.cohort.settle(situation);
        let linger = level.queue().options().linger;
        let unused = local.cohort.unused_since();
        let unused = unused.map(|since| situation.now.saturating_duration_since(since));
        // A node that is used, or wanted in this process again, is looked at after the whole time.
        let rest = unused.and_then(|unused| linger.checked_sub(unused));
        if is_disturbed {
            // If it lingers again later, another task watches over it.
            local.watched_over = None;
        }
        drop(level.carry_out(local, step));
        (!is_disturbed).then(|| rest.filter(|rest| !rest.is_zero()).unwrap_or(linger))
    }
}

impl Drop for LingerWatch {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let level = TwoLevel(shared);
        let mut local = level.local();
        if local.watched_over != Some(self.token) {
            return;
        }
        local.watched_over = None;
        if local.cohort.unused_since().is_some() {
            drop(level.give_up_unused(&mut local));
        }
    }
}

impl fmt::Debug for TwoLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TwoLevel")
            .field("folder", &self.0.folder.path())
            .field("cohort", &self.local().cohort)
            .finish_non_exhaustive()
    }
}

impl Local {
    /// True if a node lingers, and no task watches over it.
    fn lingers_unwatched(&self) -> bool {
        let token = self.hold.as_ref().map(Hold::token);
        self.cohort.unused_since().is_some() && token.is_some() && self.watched_over != token
    }

    fn situation(&self, queue: &Queue) -> Situation {
        situation(self.hold.as_ref(), queue)
    }

    /// Carries out what a step says about the node.
    fn apply(&mut self, queue: &Arc<Queue>, step: Step) -> Option<Releasing> {
        let mut released = None;
        if step.let_go {
            self.acquiring = None;
            released = self.hold.take().map(|hold| hold.let_go());
        }
        if let Some(Attempt { role, tries }) = step.acquire {
            let patience = if tries.is_some() { Patience::Tries } else { Patience::Waits };
            let join = Join::send(queue, role, patience);
            self.acquiring = Some(match patience {
                Patience::Tries => Box::pin(Hold::if_first(join)),
                Patience::Waits => Box::pin(async move { Hold::when_first(join).await.map(Some) }),
            });
        }
        released
    }

    /// Prepares for the hand-over. A watch must report the end of the node. And if a waiter that is
    /// called is not polled, the others must look around in time.
    fn prepare_handover(&mut self, queue: &Queue, waker: &Waker) {
        if let Some(hold) = &self.hold {
            hold.ownership().ensure_watched();
        }
        let time = || {
            let now = queue.client().clock().now();
            self.cohort.due(now).saturating_duration_since(now)
        };
        // If the alarm is due already, the waiters set it anew when they have looked around.
        if self.cohort.waiting() > 1
            && self.alarm.poll(time, &mut Context::from_waker(waker)).is_ready()
        {
            waker.wake_by_ref();
        }
    }
}

/// What the cohort has to know about the world.
fn situation(hold: Option<&Hold>, queue: &Queue) -> Situation {
    let can_hand_on = hold.is_some_and(|hold| hold.ownership().can_hand_on());
    Situation {
        now: queue.client().clock().now(),
        can_hand_on,
        is_lost: !can_hand_on && hold.is_some_and(|hold| hold.ownership().known_loss().is_some()),
        has_remote_waiters: hold.is_none_or(|hold| hold.ownership().has_others()),
    }
}

impl Waiting<'_> {
    /// Ready with `None` if the owner would have to wait, and does not want to.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<(Entry, Hold)>, Error>> {
        let Some(id) = self.id else {
            return Poll::Ready(Ok(None));
        };
        let level = self.level;
        let Shared { folder, wakers, driver, alarm, .. } = &*level.0;
        let queue = folder.queue();
        loop {
            let mut local = level.local();
            let Local { cohort, hold, .. } = &mut *local;
            let (outcome, step) = cohort.poll(id, || situation(hold.as_ref(), queue));
            if outcome != Told::Waits {
                return Poll::Ready(self.end(local, outcome, step));
            }
            if step != Step::default() {
                drop(level.carry_out(local, step));
                continue;
            }
            // This comes before anything can call this waiter.
            wakers.insert(id, cx.waker());
            let mut acquired = Poll::Pending;
            if let Some(acquiring) = &mut local.acquiring {
                acquired = acquiring.as_mut().poll(&mut Context::from_waker(driver));
            }
            let Poll::Ready(acquired) = acquired else {
                local.prepare_handover(queue, alarm);
                drop(level.carry_out(local, step));
                return Poll::Pending;
            };
            local.acquiring = None;
            // This waiter is being polled, so it need not be woken.
            wakers.remove(id);
            let now = queue.client().clock().now();
            match acquired {
                Ok(Some(hold)) => {
                    if local.cohort.waiting() > 1 {
                        hold.ownership().ensure_watched();
                    }
                    local.hold = Some(hold);
                    let situation = local.situation(queue);
                    let step = local.cohort.granted(situation);
                    drop(level.carry_out(local, step));
                }
                Ok(None) => {
                    let step = local.cohort.refused(now);
                    drop(level.carry_out(local, step));
                }
                Err(error) => {
                    self.id = None;
                    let step = local.cohort.failed(id, now);
                    drop(level.carry_out(local, step));
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    /// Ends this wait with its outcome.
    fn end(
        &mut self,
        local: MutexGuard<'_, Local>,
        outcome: Told,
        step: Step,
    ) -> Result<Option<(Entry, Hold)>, Error> {
        let level = self.level;
        if let Some(id) = self.id.take() {
            level.0.wakers.remove(id);
        }
        let hold = match outcome {
            Told::Entered(entry) => local.hold.as_ref().map(|hold| {
                if entry.pass > 0 {
                    // Nobody else gets in under a node that somebody has deleted.
                    hold.ownership().ensure_watched();
                }
                (entry, hold.with_pass(entry.pass))
            }),
            _ => None,
        };
        drop(level.carry_out(local, step));
        if outcome == Told::WouldDeadlock {
            return Err(level.would_deadlock());
        }
        // The lock that the owner has already may have been lost since.
        let again = hold.as_ref().filter(|(entry, _)| entry.depth > 1);
        if let Some((hold, loss)) =
            again.and_then(|(_, hold)| Some((hold, hold.ownership().known_loss()?)))
        {
            let error = hold.ownership().lost_error(loss);
            drop(level.leave(self.owner));
            return Err(error);
        }
        Ok(hold)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.level.0.wakers.remove(id);
            let mut local = self.level.local();
            let situation = local.situation(self.level.queue());
            let step = local.cohort.cancel(id, situation);
            // This waiter may have been woken to drive the acquire on. Now another one has to.
            let is_acquiring = local.acquiring.is_some();
            // The client deletes the node.
            drop(self.level.carry_out(local, step));
            if is_acquiring {
                self.level.0.driver.wake_by_ref();
            }
        }
    }
}
