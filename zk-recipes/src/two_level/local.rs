//! The local level of a two-level lock, put into action: tasks that wait, and the node they share.
//!
//! The order of a release is what makes it safe: the node's delete is on its way before anybody of
//! this process can get in again, and the session keeps the order of its requests. No task does the
//! acquire: whichever waiter is polled goes on with it. A task watches over a node only while that
//! lingers unused. The cohort decides who comes next.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::{Unconstrained, unconstrained};
use tokio::time::{Sleep, sleep, timeout};
use zk_client::Client;

use crate::error::{Error, Fault};
use crate::hold::ownership::Ownership;
use crate::hold::{FencingToken, Hold, Release};
use crate::node::{NodeNaming, Role};
use crate::options::Options;
use crate::queue::Queue;
use crate::queue::join::{Join, Patience};
use crate::two_level::cohort::{
    Attempt, Bounds, Cohort, Entry, Outcome, OwnerId, Situation, Step, Ticket,
};
use crate::two_level::wakers::{All, First, Wakers};

/// The longest that a process hands the lock on within itself, by default.
const LOCAL_HANDOFF_TIME: Duration = Duration::from_millis(500);

/// An attempt to get the node, which goes on with whoever waits and is polled. `None` if it would
/// not wait and would have had to.
type Acquiring = Pin<Box<dyn Future<Output = Result<Option<Hold>, Error>> + Send>>;

/// The release of the node.
pub(crate) type Released = Pin<Box<dyn Future<Output = Result<Release, Error>> + Send>>;

/// The local level of one lock, shared by its clones.
#[derive(Clone)]
pub(crate) struct TwoLevel(Arc<Shared>);

struct Shared {
    queue: Arc<Queue>,
    local: Mutex<Local>,
    wakers: Arc<Wakers>,
    /// Wakes one of those who wait, for the acquire to go on.
    driver: Waker,
    /// Wakes them all.
    alarm: Waker,
}

struct Local {
    cohort: Cohort,
    acquiring: Option<Acquiring>,
    hold: Option<Hold>,
    /// The node that a task watches over while it is not used.
    watched_over: Option<FencingToken>,
    alarm: Option<Alarm>,
}

/// Has all who wait look around, since one that was woken may not be polled.
struct Alarm {
    at: Instant,
    _sleep: Pin<Box<Unconstrained<Sleep>>>,
}

/// A wait at the local level.
struct Waiting<'l> {
    level: &'l TwoLevel,
    owner: OwnerId,
    /// Taken when its outcome is known.
    ticket: Option<Ticket>,
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
        let queue = Arc::new(Queue::new(client, path, naming, options)?.with_folder_watch());
        let local = Local { cohort, acquiring: None, hold: None, watched_over: None, alarm: None };
        let wakers = Arc::<Wakers>::default();
        let driver = Waker::from(Arc::new(First(Arc::clone(&wakers))));
        let alarm = Waker::from(Arc::new(All(Arc::clone(&wakers))));
        Ok(Self(Arc::new(Shared { queue, local: Mutex::new(local), wakers, driver, alarm })))
    }

    fn local(&self) -> MutexGuard<'_, Local> {
        self.0.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.0.queue
    }

    /// Waits until `owner` is let in.
    pub(crate) async fn enter(&self, owner: OwnerId, role: Role) -> Result<(Entry, Hold), Error> {
        match self.wait(owner, role, Patience::Waits).await? {
            Some(entered) => Ok(entered),
            // Who waits is told nothing else.
            None => Err(self.would_deadlock()),
        }
    }

    /// Has `owner` let in if that is possible at once.
    pub(crate) async fn try_enter(
        &self,
        owner: OwnerId,
        role: Role,
    ) -> Result<Option<(Entry, Hold)>, Error> {
        self.wait(owner, role, Patience::Tries).await
    }

    /// Lets `owner` out of one level. If the node is let go, that is its release.
    pub(crate) fn leave(&self, owner: OwnerId) -> Option<Released> {
        let mut local = self.local();
        let situation = local.situation(&self.0.queue);
        let step = local.cohort.leave(owner, situation);
        self.carry_out(local, step)
    }

    async fn wait(
        &self,
        owner: OwnerId,
        role: Role,
        patience: Patience,
    ) -> Result<Option<(Entry, Hold)>, Error> {
        let ticket = self.local().cohort.ask(owner, role, patience == Patience::Tries);
        let mut waiting = Waiting { level: self, owner, ticket: Some(ticket) };
        poll_fn(|cx| waiting.poll(cx)).await
    }

    fn would_deadlock(&self) -> Error {
        Fault::WouldDeadlock(self.0.queue.folder().to_owned()).into()
    }

    /// Does what the cohort wants done, and wakes those whom it has called.
    fn carry_out(&self, mut local: MutexGuard<'_, Local>, step: Step) -> Option<Released> {
        let queue = &self.0.queue;
        let mut released = None;
        if step != Step::default() {
            // The delete and the next create leave together, in this order.
            released = queue.client().batch(|| local.carry_out(queue, step));
        }
        let released = released.or_else(|| self.watch_over(&mut local));
        let calls = local.cohort.take_calls();
        drop(local);
        calls.into_iter().for_each(|ticket| self.0.wakers.wake(ticket));
        released
    }

    /// Sees to it that a task watches over a node that lingers, or lets the node go if there is no
    /// runtime for one.
    fn watch_over(&self, local: &mut Local) -> Option<Released> {
        local.cohort.unused_since()?;
        let hold = local.hold.as_ref()?;
        if local.watched_over == Some(hold.token()) {
            return None;
        }
        let Ok(runtime) = Handle::try_current() else {
            // As if the session were in doubt: an unused node is not kept then.
            let situation = Situation { can_hand_on: false, ..local.situation(self.queue()) };
            let step = local.cohort.look(situation);
            return self.queue().client().batch(|| local.carry_out(&self.0.queue, step));
        };
        hold.ownership().ensure_watched();
        local.watched_over = Some(hold.token());
        let pause = self.queue().options().linger;
        runtime.spawn(linger(
            Arc::downgrade(&self.0),
            Arc::clone(hold.ownership()),
            hold.token(),
            pause,
        ));
        None
    }
}

/// Lets a node go that is not used any more, once its time is over or somebody else wants the lock.
async fn linger(
    shared: Weak<Shared>,
    ownership: Arc<Ownership>,
    token: FencingToken,
    mut pause: Duration,
) {
    loop {
        let is_disturbed = timeout(pause, ownership.disturbed()).await.is_ok();
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let level = TwoLevel(shared);
        let mut local = level.local();
        if local.hold.as_ref().map(Hold::token) != Some(token) {
            return;
        }
        let situation = local.situation(level.queue());
        let step = local.cohort.look(situation);
        let linger = level.queue().options().linger;
        let unused = local.cohort.unused_since();
        let unused = unused.map(|since| situation.now.saturating_duration_since(since));
        // A node that is used, or wanted here again, is looked at after the whole time.
        let rest = unused.and_then(|unused| linger.checked_sub(unused));
        pause = rest.filter(|rest| !rest.is_zero()).unwrap_or(linger);
        if is_disturbed {
            // If it lingers again later, another task watches over it.
            local.watched_over = None;
        }
        drop(level.carry_out(local, step));
        if is_disturbed {
            return;
        }
    }
}

impl fmt::Debug for TwoLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TwoLevel")
            .field("folder", &self.0.queue.folder())
            .field("cohort", &self.local().cohort)
            .finish_non_exhaustive()
    }
}

impl Local {
    fn situation(&self, queue: &Queue) -> Situation {
        situation(self.hold.as_ref(), queue)
    }

    /// Does what the cohort wants done with the node.
    fn carry_out(&mut self, queue: &Arc<Queue>, step: Step) -> Option<Released> {
        let mut released = None;
        if step.let_go {
            self.acquiring = None;
            released = self.hold.take().map(|hold| Box::pin(hold.let_go()) as Released);
        }
        if let Some(attempt) = step.acquire {
            self.acquire(queue, attempt);
        }
        released
    }

    /// Queues up in the folder.
    fn acquire(&mut self, queue: &Arc<Queue>, Attempt { role, tries }: Attempt) {
        let patience = if tries.is_some() { Patience::Tries } else { Patience::Waits };
        let join = Join::send(queue, role, patience);
        self.acquiring = Some(match patience {
            Patience::Tries => Box::pin(Hold::if_first(join)),
            Patience::Waits => Box::pin(async move { Hold::when_first(join).await.map(Some) }),
        });
    }

    /// Prepares for the hand-over: the node's end must be told, and where one that is called is not
    /// polled, the others must look around in time.
    fn prepare_handover(&mut self, queue: &Queue, waker: &Waker) {
        if let Some(hold) = &self.hold {
            hold.ownership().ensure_watched();
        }
        let now = queue.client().clock().now();
        let is_set = self.alarm.as_ref().is_some_and(|alarm| now < alarm.at);
        if is_set || self.cohort.waiting() < 2 || Handle::try_current().is_err() {
            return;
        }
        let at = self.cohort.due(now);
        let time = at.saturating_duration_since(now);
        let mut sleep = Box::pin(unconstrained(sleep(time)));
        // It has the waker from here on.
        let is_pending = sleep.as_mut().poll(&mut Context::from_waker(waker)).is_pending();
        self.alarm = is_pending.then_some(Alarm { at, _sleep: sleep });
    }
}

/// What the cohort must know.
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
    /// Ready with nothing if it would have to wait, and does not want to.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<(Entry, Hold)>, Error>> {
        let Some(ticket) = self.ticket else {
            return Poll::Ready(Ok(None));
        };
        let level = self.level;
        let Shared { queue, wakers, driver, alarm, .. } = &*level.0;
        loop {
            let mut local = level.local();
            let Local { cohort, hold, .. } = &mut *local;
            let (outcome, step) = cohort.poll(ticket, || situation(hold.as_ref(), queue));
            if outcome != Outcome::Waits {
                return Poll::Ready(self.end(local, outcome, step));
            }
            if step != Step::default() {
                drop(level.carry_out(local, step));
                continue;
            }
            // Before anything may call it.
            wakers.insert(ticket, cx.waker());
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
            // Whatever it is called for from here on, it is there.
            wakers.remove(ticket);
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
                    self.ticket = None;
                    let step = local.cohort.failed(ticket, now);
                    drop(level.carry_out(local, step));
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    /// What this wait has come to.
    fn end(
        &mut self,
        local: MutexGuard<'_, Local>,
        outcome: Outcome,
        step: Step,
    ) -> Result<Option<(Entry, Hold)>, Error> {
        let level = self.level;
        if let Some(ticket) = self.ticket.take() {
            level.0.wakers.remove(ticket);
        }
        let hold = match outcome {
            Outcome::Entered(entry) => {
                local.hold.as_ref().map(|hold| (entry, hold.with_pass(entry.pass)))
            }
            _ => None,
        };
        drop(level.carry_out(local, step));
        if outcome == Outcome::WouldDeadlock {
            return Err(level.would_deadlock());
        }
        // What the owner has already may have been lost since.
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
        if let Some(ticket) = self.ticket.take() {
            self.level.0.wakers.remove(ticket);
            let mut local = self.level.local();
            let situation = local.situation(&self.level.0.queue);
            let step = local.cohort.cancel(ticket, situation);
            // The node's end is seen to by the client.
            drop(self.level.carry_out(local, step));
        }
    }
}
