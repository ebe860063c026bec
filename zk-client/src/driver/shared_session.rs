//! Where handles and driver meet: the session under one lock, which is held briefly, and the slots
//! in which callers wait for their answers.
//!
//! A handle encodes its request directly into the session, and wakes the driver if it sleeps. The
//! driver puts the answer into the request's slot, and wakes the caller. The lock of the session is
//! never held across an await, a wake-up or the user's code. There are three exceptions: the
//! driver's waker is cloned and dropped under the lock, and the function that measures suspensions
//! and the subscriber of `tracing` run under it.
//!
//! The slots are a second job, and stand here by intention: both ends of a slot are met between two
//! lines of the session's, and a file of their own would be the tenth on the way of a request. It
//! takes nine at most: see the page `internals`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot, watch};
use zk_proto::Zxid;

use crate::config::{Dialect, Host};
use crate::driver::attempts::Attempts;
use crate::driver::clock::{Clock, Reading};
use crate::driver::event_queue::EventQueue;
use crate::driver::state_log::StateLog;
use crate::driver::unique_names::UniqueNames;
use crate::error::{Ended, Failure, Hangup, Rejected};
use crate::model::event::{Change, SessionState};
use crate::net::hosts::Hosts;
use crate::session::{Event, RawReply, Session};
use crate::stats::Stats;

/// At least as many events as one read brings: watch events come in bursts.
const KEPT_EVENTS: usize = 2048;

/// The number of slots that are kept for reuse: less than a MiB of them beside their paths, and
/// more than most clients have requests in flight.
const KEPT_SLOTS: usize = 4096;

/// A slot whose path needs more room than this is not kept.
const KEPT_SLOT_PATH: usize = 256;

/// The result of a request.
pub(crate) type Completion = Result<RawReply, Failure>;

/// The same, with the zxid of the reply if it had one.
pub(crate) type Answered = (Completion, Option<Zxid>);

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
    pub(super) attempt_failed: Notify,
    clock: Clock,
    dialect: Dialect,
    /// The runtime on which the driver was first polled.
    runtime: OnceLock<Handle>,
}

/// What is under the lock.
pub(super) struct Locked {
    pub(super) core: Core,
    slots: ReplySlots,
    /// The number of batches being filled: while there are any, nothing is sent.
    open_batches: usize,
    /// Set while the driver sleeps. A caller that takes it must wake the driver.
    driver: Option<Waker>,
    /// The server that the client is connecting or connected to.
    pub(super) server: Option<Host>,
    pub(super) hosts: Hosts,
    pub(super) attempts: Attempts,
    state_log: StateLog,
    names: UniqueNames,
}

/// Buffers that the driver keeps from turn to turn, so that a turn allocates nothing.
#[derive(Default)]
pub(crate) struct TurnBuffers {
    /// The session's events; empty between turns.
    events: VecDeque<CoreEvent>,
    /// Reply slots that were answered, to be reused.
    spent: Vec<Arc<ReplySlot>>,
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
        let dialect = core.dialect();
        let state_log = StateLog::new(SessionState::Connecting);
        let locked = Locked {
            core,
            slots: ReplySlots::default(),
            open_batches: 0,
            driver: None,
            server: None,
            hosts,
            attempts: Attempts::default(),
            state_log,
            names,
        };
        let (leases, attempt_failed) = (Notify::new(), Notify::new());
        let (locked, runtime) = (Mutex::new(locked), OnceLock::new());
        Arc::new(Self { locked, state, leases, attempt_failed, clock, dialect, runtime })
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
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
    pub(super) fn lock(&self) -> MutexGuard<'_, Locked> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f` on the session for a handle, and wakes the driver.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Core) -> R) -> R {
        self.change(|locked| f(&mut locked.core))
    }

    /// Runs `f` under the lock, and wakes the driver.
    pub(super) fn change<R>(&self, f: impl FnOnce(&mut Locked) -> R) -> R {
        let mut locked = self.lock();
        let result = f(&mut locked);
        let driver = if locked.open_batches == 0 { locked.driver.take() } else { None };
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
    /// If there are several events, and they are not [for one caller](is_for_one) or there may be
    /// `more` to read, the driver must schedule itself again, behind the tasks that it wakes.
    /// Otherwise the next change of the session wakes it.
    pub(crate) fn turn(
        &self,
        cx: &Context<'_>,
        TurnBuffers { events, spent }: &mut TurnBuffers,
        more: bool,
        act: impl FnOnce(&mut Core, Instant, bool),
    ) -> TurnResult {
        let mut locked = self.lock();
        let Locked { core, slots, open_batches, driver, .. } = &mut *locked;
        if !spent.is_empty() {
            slots.keep(spent.drain(..));
            spent.shrink_to(KEPT_EVENTS);
        }
        // Read the clock under the lock, so that time never goes back for the session.
        let reading = self.clock.read();
        act(core, reading.now, *open_batches == 0);
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

    /// Holds requests back until the batch is dropped.
    pub(crate) fn open_batch(&self) -> Batch<'_> {
        self.lock().open_batches += 1;
        Batch(self)
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

    /// The session in numbers, with the server that it is connected to.
    pub(crate) fn stats(&self) -> Stats {
        let now = self.clock.now();
        let locked = self.lock();
        let stats = locked.core.stats(now);
        let server = locked.server.clone().filter(|_| stats.state.is_connected());
        Stats { server, ..stats }
    }

    /// 128 bits that no other client has.
    pub(crate) fn unique(&self) -> u128 {
        self.lock().names.next()
    }
}

/// Whether all events are for one caller: the events of one stream have one reader, and the event
/// of a watch right ahead of a reply is most often of the caller that watches and writes.
fn is_for_one(events: &VecDeque<CoreEvent>) -> bool {
    let first = match (events.front(), events.get(1)) {
        (Some(Event::StreamEvent { stream, .. }), _) => stream,
        (Some(Event::WatchFired { .. }), Some(Event::Completed { .. })) => {
            return events.len() == 2;
        }
        _ => return events.len() <= 1,
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
pub(crate) struct Batch<'a>(&'a SharedSession);

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.0.change(|locked| locked.open_batches -= 1);
    }
}

/// A one-shot channel for the answer to one request. It also keeps the path that errors name. Later
/// requests reuse its memory, so a client that sends one request after the other allocates nothing
/// for them.
#[derive(Debug)]
struct ReplySlot {
    /// The path, as the caller wrote it.
    path: String,
    state: Mutex<SlotState>,
}

#[derive(Debug)]
enum SlotState {
    /// No answer yet. Holds the waker of the task that waits, if any.
    Waiting(Option<Waker>),
    Answered(Answered),
    /// The driver will not answer any more, or the caller has dropped its end.
    Closed,
}

impl ReplySlot {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the state and returns the old one, so that the caller of this function wakes and
    /// drops without the lock.
    fn put(&self, state: SlotState) -> SlotState {
        std::mem::replace(&mut *self.state(), state)
    }
}

/// The driver's end. Dropping it notifies the receiver that there will be no answer.
#[derive(Debug)]
pub(crate) struct Responder(Option<Arc<ReplySlot>>);

impl Responder {
    /// Stores the answer, wakes the task that waits for it, and returns the slot for reuse.
    #[inline]
    fn answer(mut self, answered: Answered) -> Option<Arc<ReplySlot>> {
        let slot = self.0.take()?;
        let mut state = slot.state();
        // A caller that has dropped its end does not want the answer.
        if let SlotState::Waiting(waker) = &mut *state {
            let waker = waker.take();
            *state = SlotState::Answered(answered);
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        } else {
            drop(state);
        }
        Some(slot)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if let Some(slot) = &self.0
            && let SlotState::Waiting(Some(waker)) = slot.put(SlotState::Closed)
        {
            waker.wake();
        }
    }
}

/// The caller's end.
#[derive(Debug)]
pub(crate) struct ReplyReceiver {
    slot: Arc<ReplySlot>,
    /// Whether the answer was taken.
    done: bool,
}

impl ReplyReceiver {
    /// The path of the request, as the caller wrote it.
    pub(crate) fn path(&self) -> &str {
        &self.slot.path
    }

    /// Returns the answer, once; `None` if there will be none. Only the last task that polled is
    /// woken.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Option<Answered>> {
        let mut state = self.slot.state();
        match &mut *state {
            SlotState::Waiting(Some(waker)) if waker.will_wake(cx.waker()) => Poll::Pending,
            SlotState::Waiting(waker) => {
                let earlier = waker.replace(cx.waker().clone());
                drop(state);
                // Dropping a waker may run the user's code.
                drop(earlier);
                Poll::Pending
            }
            SlotState::Answered(_) | SlotState::Closed => {
                self.done = true;
                match std::mem::replace(&mut *state, SlotState::Closed) {
                    SlotState::Answered(answered) => Poll::Ready(Some(answered)),
                    SlotState::Waiting(_) | SlotState::Closed => Poll::Ready(None),
                }
            }
        }
    }
}

impl Drop for ReplyReceiver {
    fn drop(&mut self) {
        if !self.done {
            // Drop an answer that was not read now, and not when the slot is reused.
            drop(self.slot.put(SlotState::Closed));
        }
    }
}

/// Slots to be reused, the longest unused first.
#[derive(Debug, Default)]
struct ReplySlots(VecDeque<Arc<ReplySlot>>);

impl ReplySlots {
    /// Both ends of a slot for a request about this path.
    #[inline]
    fn open(&mut self, path: &str) -> (Responder, ReplyReceiver) {
        let slot = self.reuse(path).unwrap_or_else(|| {
            let state = Mutex::new(SlotState::Waiting(None));
            Arc::new(ReplySlot { path: path.to_owned(), state })
        });
        let responder = Responder(Some(Arc::clone(&slot)));
        (responder, ReplyReceiver { slot, done: false })
    }

    #[inline]
    fn reuse(&mut self, path: &str) -> Option<Arc<ReplySlot>> {
        let mut slot = self.0.pop_front()?;
        // A caller that has not read its answer yet keeps the slot for good.
        let own = Arc::get_mut(&mut slot)?;
        own.path.clear();
        own.path.push_str(path);
        *own.state.get_mut().unwrap_or_else(PoisonError::into_inner) = SlotState::Waiting(None);
        Some(slot)
    }

    /// Keeps slots for reuse, within bounds.
    fn keep(&mut self, spent: impl Iterator<Item = Arc<ReplySlot>>) {
        for slot in spent {
            if self.0.len() < KEPT_SLOTS && slot.path.capacity() <= KEPT_SLOT_PATH {
                self.0.push_back(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests;
