//! A contender's process: its client, and a task that does what the script tells it.
//!
//! Everything of a process is behind one gate, so that it can be stopped and killed as a whole.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use tokio::task::spawn_local;
use zk_client::{Client, SessionState};
use zk_simulation::clock::{self, now};
use zk_simulation::gate::{Gate, Mode as GateMode};
use zk_simulation::wire::Dialer;

use crate::actor;
use crate::kind::{FOLDER, Kind};
use crate::locks::holding::{self, Acquired, Holding, Memory};
use crate::locks::seat::Seat;
use crate::locks::{self, recipes};
use crate::scene::{LockState, Tone};
use crate::world::{self, World};

/// The session timeout that each client asks for.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What a process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Acquire,
    Release,
    Drop,
    Work(Duration),
    Write,
    FencedWrite,
}

impl Command {
    /// What is said when a contender comes to it late.
    fn text(self) -> &'static str {
        match self {
            Self::Acquire => "comes to acquire the lock",
            Self::Release => "comes to release the lock",
            Self::Drop => "comes to drop the lock",
            Self::Work(_) => "begins its work",
            Self::Write | Self::FencedWrite => "comes to write",
        }
    }
}

/// A process, for those outside of it.
pub(crate) struct Process {
    gate: Arc<Gate>,
    /// Its contenders. The first one is the process itself, and the others are tasks of it.
    tasks: Vec<Rc<Inside>>,
}

/// A contender in its process.
struct Inside {
    seat: Seat,
    /// What it is told, and when.
    inbox: RefCell<VecDeque<(Command, Instant)>>,
    reader: Cell<Option<Waker>>,
    holding: RefCell<Option<Holding>>,
    memory: RefCell<Memory>,
    written: Cell<u32>,
}

type Busy = Pin<Box<dyn Future<Output = Done>>>;

/// What a process was busy with.
enum Done {
    Acquired(Result<Acquired, String>),
    Released(Tone, String),
    Written(Tone, String),
    Worked,
}

enum Next {
    /// Do this, which it was told then.
    Command(Command, Instant),
    Done(Done),
    /// Drop what it is busy with.
    Dropped,
}

impl Process {
    /// Starts a process with a new session, and its contenders in it. `remembered` is what the one
    /// before has left.
    pub(crate) fn start(
        seats: impl FnOnce(Client) -> Vec<Seat>,
        party: usize,
        world: &world::Shared,
        seed: u64,
        remembered: Memory,
    ) -> Result<Self, String> {
        let dialer = Dialer { network: Arc::clone(world), party: Some(party) };
        let (client, driver) = clock::client()
            .seed(seed)
            .session_timeout(TIMEOUT)
            .connector(dialer)
            .split("zk:2181")
            .map_err(|error| error.to_string())?;
        let seats = seats(client.clone());
        // The lock is the process's, and so is the node.
        let of_process = seats.first().filter(|seat| matches!(seat.kind, Kind::Reentrant));
        let lock = of_process.map(|seat| recipes::two_level(&client, &seat.name));
        let lock = lock.transpose().map_err(|error| error.to_string())?;
        let memory = Memory { lock, ..remembered };
        let inside = |seat| {
            Rc::new(Inside {
                seat,
                inbox: RefCell::default(),
                reader: Cell::default(),
                holding: RefCell::default(),
                memory: RefCell::new(memory.clone()),
                written: Cell::new(0),
            })
        };
        let tasks = seats.into_iter().map(inside).collect::<Vec<_>>();
        let gate = Gate::new();
        spawn_local(gate.guard(drive(driver, tasks.clone())));
        if let Some(first) = tasks.first() {
            spawn_local(gate.guard(Rc::clone(first).follow_states()));
        }
        for task in &tasks {
            spawn_local(gate.guard(Rc::clone(task).obey()));
        }
        Ok(Self { gate, tasks })
    }

    /// Tells a contender of the process something, which it hears once the process runs.
    pub(crate) fn tell(&self, index: usize, command: Command) {
        for task in self.tasks.iter().filter(|task| task.seat.index == index) {
            task.inbox.borrow_mut().push_back((command, now()));
            task.reader.take().into_iter().for_each(Waker::wake);
        }
    }

    pub(crate) fn stop(&self) {
        self.gate.set(GateMode::Frozen, false);
    }

    /// Lets it run again. It goes on in the middle of what it did, before its client has heard of
    /// anything.
    pub(crate) fn resume(&self) {
        self.gate.set(GateMode::Open, true);
    }

    /// Ends the process. Returns what one of the same name will remember.
    pub(crate) fn kill(self) -> Memory {
        self.gate.set(GateMode::Killed, false);
        let node = self.tasks.first().and_then(|first| first.memory.borrow().node.clone());
        Memory { lock: None, node }
    }
}

/// Runs the client of a process. After each of its turns looks at what the guards know.
async fn drive(driver: impl Future<Output = ()>, tasks: Vec<Rc<Inside>>) {
    let mut driver = pin!(driver);
    poll_fn(|cx| {
        let polled = driver.as_mut().poll(cx);
        tasks.iter().for_each(|task| task.observe());
        polled
    })
    .await;
}

impl Inside {
    /// Tells how the connection is.
    async fn follow_states(self: Rc<Self>) {
        let mut states = self.seat.client.states();
        loop {
            let state = *states.borrow_and_update();
            self.tell_state(state);
            if states.changed().await.is_err() {
                return;
            }
        }
    }

    fn tell_state(&self, state: SessionState) {
        let seat = &self.seat;
        let (connection, text) = actor::connection(state);
        let tone = if state.is_connected() { Tone::Plain } else { Tone::Bad };
        let has_changed = {
            let mut world = world::lock(&seat.world);
            let known = world.actors.get(seat.index).map(|actor| actor.connection);
            let has_changed = known != Some(connection);
            if has_changed {
                world.note(&seat.name, tone, text);
            }
            if let Some(actor) = world.actors.get_mut(seat.index) {
                actor.connection = connection;
            }
            has_changed
        };
        let is_plain = matches!(*self.holding.borrow(), Some(Holding::Node { .. }));
        if has_changed && state.ended().is_some() && is_plain {
            seat.believe(LockState::Lost, Tone::Bad, "has lost the lock with the session");
        }
    }

    /// Looks at what the guard knows, and tells what has changed.
    fn observe(&self) {
        let seat = &self.seat;
        if seat.kind.is_case("no_fence") && seat.belief() == LockState::Joining && self.is_first() {
            let balance = seat.stores.balance();
            let text =
                format!("is first in the queue: reads the balance, {balance}, and works for 5 s");
            seat.believe(LockState::Held, Tone::Good, text);
        }
        let state = self.holding.borrow().as_ref().and_then(Holding::state);
        let Some((lock, remaining, loss)) = state else {
            return;
        };
        match (seat.belief(), lock) {
            (LockState::Held, LockState::Maybe) => {
                let text = "has no new proof: the lock is sure only until its lease ends";
                seat.believe(lock, Tone::Bad, text);
            }
            (LockState::Maybe, LockState::Held) => {
                seat.believe(lock, Tone::Good, "is sure of the lock again");
            }
            (LockState::Held | LockState::Maybe, LockState::Lost) => {
                seat.believe(lock, Tone::Bad, format!("knows that the lock is lost: {loss}"));
            }
            _ => {}
        }
        if lock != LockState::Lost {
            let mut world = world::lock(&seat.world);
            let until = World::us(&world, now() + remaining);
            if let Some(actor) = world.actors.get_mut(seat.index) {
                actor.lease_until_us = Some(until);
            }
        }
    }

    /// True if the node of this session is the first of the queue.
    fn is_first(&self) -> bool {
        let world = world::lock(&self.seat.world);
        let first = world.net.core.children(FOLDER).into_iter().next();
        let stat = first.and_then(|name| world.net.core.stat(&format!("{FOLDER}/{name}")));
        stat.is_some_and(|stat| Some(stat.ephemeral_owner) == world.session(self.seat.index))
    }

    /// Does what it is told, one thing after the other.
    async fn obey(self: Rc<Self>) {
        let mut busy: Option<Busy> = None;
        loop {
            match self.next(&mut busy).await {
                Next::Command(command, told) => {
                    if told < now() {
                        self.seat.note(Tone::Plain, command.text());
                    }
                    busy = Rc::clone(&self).begin(command);
                }
                Next::Done(done) => {
                    busy = None;
                    self.finish(done);
                }
                Next::Dropped => {
                    drop(busy.take());
                    busy = self.leave();
                }
            }
        }
    }

    fn next(&self, busy: &mut Option<Busy>) -> impl Future<Output = Next> {
        poll_fn(move |cx| {
            self.reader.set(Some(cx.waker().clone()));
            let mut inbox = self.inbox.borrow_mut();
            let Some(work) = busy else {
                let next = inbox.pop_front().map(|(command, told)| Next::Command(command, told));
                return next.map_or(Poll::Pending, Poll::Ready);
            };
            if let Some(index) = inbox.iter().position(|(command, _)| *command == Command::Drop) {
                inbox.remove(index);
                return Poll::Ready(Next::Dropped);
            }
            drop(inbox);
            work.as_mut().poll(cx).map(Next::Done)
        })
    }

    /// Starts to do something.
    fn begin(self: Rc<Self>, command: Command) -> Option<Busy> {
        let seat = self.seat.clone();
        let holding = self.holding.borrow().clone();
        match command {
            Command::Acquire => {
                if matches!(seat.belief(), LockState::Held | LockState::Maybe) {
                    seat.note(Tone::Plain, "holds the lock already");
                    return None;
                }
                drop(self.holding.borrow_mut().take());
                self.seat.node.borrow_mut().take();
                seat.expect();
                let memory = self.memory.borrow().clone();
                Some(Box::pin(async move { Done::Acquired(locks::acquire(seat, memory).await) }))
            }
            Command::Release => {
                let remembered = self.memory.borrow().remembered(&seat);
                let Some(holding) = holding.or(remembered) else {
                    seat.note(Tone::Plain, "has nothing to release");
                    return None;
                };
                self.let_go(LockState::Idle);
                Some(Box::pin(async move {
                    let (tone, text) = holding.release(&seat).await;
                    Done::Released(tone, text)
                }))
            }
            Command::Drop => {
                let text = match holding {
                    None => "has nothing to drop",
                    Some(Holding::Guard(_)) => "has dropped its guard, which releases the lock",
                    Some(Holding::Node { .. }) => "has no guard to drop: its node stays",
                };
                drop(holding);
                seat.note(Tone::Plain, text);
                self.let_go(LockState::Idle);
                None
            }
            Command::Work(time) => Some(Box::pin(async move {
                tokio::time::sleep(time).await;
                Done::Worked
            })),
            Command::Write | Command::FencedWrite => {
                self.written.set(self.written.get() + 1);
                let data = format!("{} {}", seat.name, self.written.get());
                let Some(holding) = holding.filter(|_| command == Command::FencedWrite) else {
                    return Some(Box::pin(async move {
                        let (tone, text) = holding::write(&seat.client, &data).await;
                        Done::Written(tone, text)
                    }));
                };
                Some(Box::pin(async move {
                    let (tone, text) = holding.write_fenced(&seat.client, &data).await;
                    Done::Written(tone, text)
                }))
            }
        }
    }

    fn finish(&self, done: Done) {
        let seat = &self.seat;
        match done {
            Done::Acquired(Ok(Acquired::Holds(holding))) => {
                let token = holding.token();
                seat.believe(LockState::Held, Tone::Good, format!("holds the lock, token {token}"));
                if let Some(actor) = world::lock(&seat.world).actors.get_mut(seat.index) {
                    actor.token = Some(token);
                }
                if let Holding::Node { path, .. } = &holding {
                    self.memory.borrow_mut().node = Some(Rc::clone(path));
                }
                *self.holding.borrow_mut() = Some(holding);
                self.observe();
            }
            Done::Acquired(Ok(Acquired::Taken)) => {
                seat.believe(LockState::Idle, Tone::Plain, "is told that the lock is taken");
            }
            Done::Acquired(Ok(Acquired::Finished)) | Done::Worked => {}
            Done::Acquired(Err(error)) => {
                seat.believe(LockState::Idle, Tone::Bad, format!("does not get the lock: {error}"));
            }
            Done::Released(tone, text) | Done::Written(tone, text) => seat.note(tone, text),
        }
    }

    /// Gives up what it waited for.
    fn leave(&self) -> Option<Busy> {
        let seat = self.seat.clone();
        seat.note(Tone::Plain, "waits no longer");
        self.let_go(LockState::Idle);
        // The programs of this kind leave the queue by hand.
        let node = self.seat.node.borrow_mut().take()?;
        Some(Box::pin(async move {
            match seat.client.delete(&node, None).await {
                Ok(()) => Done::Written(Tone::Plain, "has deleted its node".to_owned()),
                Err(error) => Done::Written(Tone::Bad, format!("its node stays: {error}")),
            }
        }))
    }

    /// The lock is not its own any more.
    fn let_go(&self, lock: LockState) {
        drop(self.holding.borrow_mut().take());
        if let Some(actor) = world::lock(&self.seat.world).actors.get_mut(self.seat.index) {
            actor.let_go(lock);
        }
    }
}
