//! Where handles and driver meet: the session under one lock, which is held briefly.
//!
//! A handle encodes its request directly into the session, and wakes the driver if it sleeps. The
//! lock is never held across an await, a wake-up or the user's code. There are three exceptions:
//! the driver's waker is cloned and dropped under the lock, and the function that measures
//! suspensions and the subscriber of `tracing` run under it.

use std::collections::VecDeque;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Waker};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot, watch};

use crate::config::Host;
use crate::driver::attempts::Attempts;
use crate::driver::clock::{Clock, Reading};
use crate::driver::event_queue::EventQueue;
use crate::driver::reply_slot::{ReplyReceiver, ReplySlots, Responder, Spent};
use crate::driver::state_log::StateLog;
use crate::driver::unique_names::UniqueNames;
use crate::error::{Attempt, Ended, Hangup, Rejected, UNANSWERED};
use crate::model::event::{Change, SessionState};
use crate::net::hosts::Hosts;
use crate::session::{Event, Session};
use crate::stats::Stats;

/// At least as many events as one read brings: watch events come in bursts.
const KEPT_EVENTS: usize = 2048;

/// The session, with the channels on which its callers wait.
pub(crate) type Core = Session<Responder, oneshot::Sender<Change>, Arc<EventQueue>>;

/// The core's events for its callers.
pub(crate) type CoreEvent = Event<Responder, oneshot::Sender<Change>, Arc<EventQueue>>;

/// One session, shared by its handles and its driver.
pub(crate) struct SharedSession {
    locked: Mutex<Locked>,
    state: watch::Sender<SessionState>,
    /// This is a `Notify` because the tasks that wait for leases must be woken in order, which a
    /// watch channel does not guarantee.
    leases: Notify,
    /// Notified when an attempt has failed.
    attempt_failed: Notify,
    clock: Clock,
    /// The runtime on which the driver was first polled.
    runtime: OnceLock<Handle>,
}

struct Locked {
    core: Core,
    slots: ReplySlots,
    /// The number of batches being filled: while there are any, nothing is sent.
    corks: usize,
    /// Set while the driver sleeps. A caller that takes it must wake the driver.
    driver: Option<Waker>,
    /// The server that the client is connecting or connected to.
    server: Option<Host>,
    hosts: Hosts,
    attempts: Attempts,
    state_log: StateLog,
    names: UniqueNames,
}

impl Locked {
    fn attempts(&self) -> Vec<Attempt> {
        self.attempts.list(&match self.core.is_shaking_hands() {
            true => format!("no answer yet, {UNANSWERED}"),
            false => "not connected yet".to_owned(),
        })
    }
}

/// Buffers that the driver keeps from turn to turn, so that a turn allocates nothing.
#[derive(Default)]
pub(crate) struct TurnBuffers {
    /// The session's events; empty between turns.
    events: VecDeque<CoreEvent>,
    /// Reply slots that were answered, to be reused.
    spent: Vec<Spent>,
}

/// What the driver needs to know after a turn.
pub(crate) struct TurnResult {
    /// The time of the turn.
    pub(crate) reading: Reading,
    /// When the next turn is due at the latest.
    pub(crate) wake: Option<Instant>,
    pub(crate) ended: Option<Ended>,
    pub(crate) state: SessionState,
    /// Whether the tasks that the events wake are to run before the driver's next turn.
    pub(crate) should_yield: bool,
}

/// The session's events that are for the driver itself.
#[derive(Default)]
pub(crate) struct Delivered {
    /// Whether the state has changed.
    pub(crate) state: bool,
    pub(crate) hangup: Option<Hangup>,
}

impl SharedSession {
    pub(crate) fn new(core: Core, hosts: Hosts, names: UniqueNames, clock: Clock) -> Arc<Self> {
        let (state, _) = watch::channel(SessionState::Connecting);
        let state_log = StateLog::new(SessionState::Connecting);
        let locked = Locked {
            core,
            slots: ReplySlots::default(),
            corks: 0,
            driver: None,
            server: None,
            hosts,
            attempts: Attempts::default(),
            state_log,
            names,
        };
        let (leases, attempt_failed) = (Notify::new(), Notify::new());
        let (locked, runtime) = (Mutex::new(locked), OnceLock::new());
        Arc::new(Self { locked, state, leases, attempt_failed, clock, runtime })
    }

    /// Notes the runtime on which this is called, unless one was noted before.
    pub(crate) fn note_runtime(&self) {
        if let Ok(runtime) = Handle::try_current() {
            self.runtime.get_or_init(|| runtime);
        }
    }

    /// The runtime on which the driver runs.
    pub(crate) fn runtime(&self) -> Option<Handle> {
        self.runtime.get().cloned()
    }

    /// The client's clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// After a panic under this lock the session can still be ended, so ignore the poison.
    fn lock(&self) -> MutexGuard<'_, Locked> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f` on the session for a handle, and wakes the driver.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Core) -> R) -> R {
        self.change(|locked| f(&mut locked.core))
    }

    fn change<R>(&self, f: impl FnOnce(&mut Locked) -> R) -> R {
        let mut locked = self.lock();
        let result = f(&mut locked);
        let driver = if locked.corks == 0 { locked.driver.take() } else { None };
        drop(locked);
        if let Some(driver) = driver {
            driver.wake();
        }
        result
    }

    /// Runs `f` on the session without changing it, and wakes no task.
    pub(crate) fn read<R>(&self, f: impl FnOnce(&Core) -> R) -> R {
        f(&self.lock().core)
    }

    /// Opens a reply slot for a request about this path, and returns both ends.
    pub(crate) fn open_slot(&self, path: &str) -> (Responder, ReplyReceiver) {
        self.lock().slots.open(path)
    }

    /// Opens a slot and submits a request for this path with `f`, under one lock.
    pub(crate) fn submit<R>(
        &self,
        path: &str,
        f: impl FnOnce(&mut Core, Responder) -> Result<R, Rejected>,
    ) -> Result<(R, ReplyReceiver), Rejected> {
        self.change(|Locked { core, slots, .. }| {
            let (responder, receiver) = slots.open(path);
            f(core, responder).map(|submitted| (submitted, receiver))
        })
    }

    /// Runs one turn of the driver. `act` receives the time, and whether requests may be sent now;
    /// the session's events are added to the buffers.
    ///
    /// If there are several events, and they are for several callers or there may be `more` to
    /// read, the driver must schedule itself again, behind the tasks that it wakes. Otherwise the
    /// next change of the session wakes it.
    pub(crate) fn turn(
        &self,
        cx: &Context<'_>,
        TurnBuffers { events, spent }: &mut TurnBuffers,
        more: bool,
        act: impl FnOnce(&mut Core, Instant, bool),
    ) -> TurnResult {
        let mut locked = self.lock();
        let Locked { core, slots, corks, driver, .. } = &mut *locked;
        if !spent.is_empty() {
            slots.keep(spent.drain(..));
            spent.shrink_to(KEPT_EVENTS);
        }
        // Read the clock under the lock, so that time never goes back for the session.
        let reading = self.clock.read();
        act(core, reading.now, *corks == 0);
        core.take_events(events);
        let should_yield = events.len() > 1 && (more || !is_for_one(events));
        if should_yield {
            *driver = None;
        } else if !driver.as_ref().is_some_and(|driver| driver.will_wake(cx.waker())) {
            *driver = Some(cx.waker().clone());
        }
        let (wake, ended, state) = (core.timeout_lower_bound(), core.ended(), core.state());
        TurnResult { reading, wake, ended, state, should_yield }
    }

    /// Runs `f` on the servers, for the driver's choice among them.
    pub(crate) fn hosts<R>(&self, f: impl FnOnce(&mut Hosts) -> R) -> R {
        f(&mut self.lock().hosts)
    }

    /// Replaces the list of servers.
    pub(crate) fn set_servers(&self, servers: Vec<Host>) {
        let now = self.clock.now();
        self.change(|Locked { core, hosts, attempts, .. }| {
            attempts.retain(&servers);
            core.set_server_count(servers.len());
            if hosts.replace(servers, core.state().is_connected()) {
                core.leave(now, Hangup::Moving);
            }
        });
    }

    /// Holds requests back until the cork is dropped.
    pub(crate) fn cork(&self) -> Cork<'_> {
        self.lock().corks += 1;
        Cork(self)
    }

    /// Subscribes to the session's state.
    pub(crate) fn states(&self) -> watch::Receiver<SessionState> {
        self.state.subscribe()
    }

    /// Runs `f` on the log of the last states, for a reader.
    pub(crate) fn state_log<R>(&self, f: impl FnOnce(&StateLog) -> R) -> R {
        f(&self.lock().state_log)
    }

    /// Waits for a change of the leases.
    pub(crate) fn lease_changed(&self) -> Notified<'_> {
        self.leases.notified()
    }

    pub(crate) fn state(&self) -> SessionState {
        *self.state.borrow()
    }

    /// Delivers the session's events to their receivers, in order.
    pub(crate) fn deliver(&self, TurnBuffers { events, spent }: &mut TurnBuffers) -> Delivered {
        let mut delivered = Delivered::default();
        if events.is_empty() {
            return delivered;
        }
        while let Some(event) = events.pop_front() {
            match event {
                Event::Completed { token, result, zxid } => {
                    spent.extend(token.answer((result, zxid)));
                }
                // A caller that has dropped its end does not want the event.
                Event::WatchFired { watcher, change, .. } => {
                    watcher.send(change).unwrap_or_default()
                }
                // The watcher learns this from the end of the channel.
                Event::WatchRemoved { watcher } => drop(watcher),
                Event::StreamEvent { stream, event } => stream.push(event),
                Event::StreamClosed { stream } => stream.close(),
                Event::State(state) => {
                    let mut locked = self.lock();
                    locked.state_log.push(state);
                    if state.is_connected() {
                        locked.attempts.clear();
                    }
                    drop(locked);
                    self.state.send_replace(state);
                    delivered.state = true;
                }
                Event::Leases => {
                    self.leases.notify_waiters();
                }
                Event::Hangup(why) => delivered.hangup = delivered.hangup.or(Some(why)),
            }
        }
        // Release the memory that a burst took.
        events.shrink_to(KEPT_EVENTS);
        delivered
    }

    /// Ends the session on this side, and notifies all callers.
    pub(crate) fn abandon(&self, buffers: &mut TurnBuffers) {
        self.with(|core| {
            core.abandon();
            core.take_events(&mut buffers.events);
        });
        self.deliver(buffers);
    }

    /// Notes which server is being tried.
    pub(crate) fn trying(&self, host: &Host) {
        self.lock().server = Some(host.clone());
    }

    /// The session in numbers, with the server that it is connected to.
    pub(crate) fn stats(&self) -> Stats {
        let now = self.clock.now();
        let locked = self.lock();
        let stats = locked.core.stats(now);
        let server = locked.server.clone().filter(|_| stats.state.is_connected());
        Stats { server, ..stats }
    }

    /// Notes an attempt at a server that begins.
    pub(crate) fn note_attempt(&self, server: String) {
        self.lock().attempts.begin(server);
    }

    /// Notes an attempt that has failed, and wakes those that wait until every server has refused.
    pub(crate) fn note_failed_attempt(&self, attempt: Attempt) {
        self.lock().attempts.fail(attempt);
        self.attempt_failed.notify_waiters();
    }

    /// Waits until the last attempt at every server was refused for good, and returns these
    /// attempts.
    pub(crate) async fn refused_by_all(&self) -> Vec<Attempt> {
        loop {
            let mut failed = pin!(self.attempt_failed.notified());
            failed.as_mut().enable();
            {
                let locked = self.lock();
                if locked.attempts.are_refused_by_all(locked.hosts.all()) {
                    return locked.attempts();
                }
            }
            failed.await;
        }
    }

    /// The last attempt at each server that was tried since the last success.
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        self.lock().attempts()
    }

    /// 128 bits that no other client has.
    pub(crate) fn unique(&self) -> u128 {
        self.lock().names.next()
    }
}

/// Whether all events are for one caller: the events of one stream have one reader.
fn is_for_one(events: &VecDeque<CoreEvent>) -> bool {
    let Some(Event::StreamEvent { stream: first, .. }) = events.front() else {
        return events.len() <= 1;
    };
    events.iter().all(
        |event| matches!(event, Event::StreamEvent { stream, .. } if Arc::ptr_eq(stream, first)),
    )
}

impl fmt::Debug for SharedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().core.fmt(f)
    }
}

/// Holds requests back while it lives.
pub(crate) struct Cork<'a>(&'a SharedSession);

impl Drop for Cork<'_> {
    fn drop(&mut self) {
        self.0.change(|locked| locked.corks -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::SessionConfig;
    use crate::driver::wakes::Wakes;
    use crate::error::Failure;
    use crate::model::event::StreamEvent;
    use crate::random::Random;

    fn shared() -> Arc<SharedSession> {
        let core = Session::new(SessionConfig::new(Duration::from_secs(4), 1));
        let names = UniqueNames { client: 1, random: Random::new(1) };
        SharedSession::new(core, Hosts::new(Vec::new(), 1), names, Clock::new(|| Duration::ZERO))
    }

    #[test]
    fn what_a_burst_took_is_given_back() {
        let shared = shared();
        let mut buffers = TurnBuffers::default();
        let mut answers = Vec::new();
        for _ in 0..10 * KEPT_EVENTS {
            let (token, answer) = shared.open_slot("/a");
            let result = Err(Failure::Ended { sent: false, ended: Ended::Closed });
            buffers.events.push_back(Event::Completed { token, result, zxid: None });
            answers.push(answer);
        }
        shared.deliver(&mut buffers);
        shared.turn(&Context::from_waker(Waker::noop()), &mut buffers, false, |_, _, _| ());
        assert!(buffers.events.capacity() <= 2 * KEPT_EVENTS, "{}", buffers.events.capacity());
        assert!(buffers.spent.capacity() <= 2 * KEPT_EVENTS, "{}", buffers.spent.capacity());
    }

    #[test]
    fn a_driver_comes_again_by_itself_or_is_woken_by_the_next_change() {
        let shared = shared();
        let told = |stream: &Arc<EventQueue>| Event::StreamEvent {
            stream: Arc::clone(stream),
            event: StreamEvent::Rearmed,
        };
        let unwatched = || Event::StreamClosed { stream: Arc::default() };
        let (one, other) = (Arc::default(), Arc::default());
        let cases: [(Vec<CoreEvent>, bool, bool); 7] = [
            (vec![], true, false),
            (vec![told(&one)], true, false),
            (vec![told(&one), told(&one), told(&one)], false, false),
            (vec![told(&one), told(&one)], true, true),
            (vec![told(&one), told(&one), told(&other)], false, true),
            (vec![told(&one), unwatched()], false, true),
            (vec![unwatched(), told(&one)], false, true),
        ];
        for (case, (events, more, should_yield)) in cases.into_iter().enumerate() {
            let wakes = Arc::new(Wakes::default());
            let waker = Waker::from(Arc::clone(&wakes));
            let mut buffers = TurnBuffers { events: events.into(), ..TurnBuffers::default() };
            let cx = Context::from_waker(&waker);
            let result = shared.turn(&cx, &mut buffers, more, |_, _, _| ());
            assert_eq!(result.should_yield, should_yield, "case {case}");
            shared.with(|_| ());
            assert_eq!(wakes.count(), usize::from(!should_yield), "case {case}");
        }
    }
}
