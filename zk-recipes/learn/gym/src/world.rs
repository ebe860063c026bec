//! The world of a run: the server, the connections of all processes, and what each believes.
//!
//! This is what it consists of, and the judge of exclusion. How frames get through it is in
//! `network`, and how faults strike in `strike`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;
use zk_client::Client;
use zk_embedded::{Config, ConnectionId, OpCode, SessionId};
use zk_inputs::Random;
use zk_simulation::clock::now;
use zk_simulation::gate::Gate;
use zk_simulation::net::{Net, Traffic};

use crate::fault::{Fault, Strike};
use crate::plan::{Mode, Plan, TIMEOUT};
use crate::record::{Break, Record, Violation};

const TICK: Duration = Duration::from_millis(100);

/// The names of the processes. The last one comes at the end, to see whether the lock is free.
pub(crate) const NAMES: [&str; 7] = ["Ana", "Ben", "Cho", "Dan", "Eve", "Fay", "Zoe"];

/// For how long after its wake-up a process may take what it was stopped in for true.
const WAKING: Duration = Duration::from_millis(20);

pub(crate) type Shared = Arc<Mutex<World>>;

/// The client of a connection: a process, or the one that sets the scene.
pub(crate) type Party = Option<usize>;

/// Locks the world.
pub(crate) fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct World {
    pub(crate) net: Net<Self>,
    pub(crate) record: Record,
    pub(crate) actors: Vec<Actor>,
    pub(crate) start: Instant,
    pub(crate) latency: Duration,
    pub(crate) jitter: u64,
    pub(crate) strikes: Vec<Strike>,
    /// No fault strikes any more.
    pub(crate) is_calm: bool,
    /// True if a change may wake only one of those who wait, and they may not go on asking.
    pub(crate) forbids_waste: bool,
    /// True if faults strike only at replies to creates.
    pub(crate) strikes_creates: bool,
    /// True if faults strike a moment behind their frames, when processes have read them.
    pub(crate) strikes_later: bool,
    /// True if the session of the holder ends, whoever's the frame is.
    pub(crate) strikes_holders: bool,
    pub(crate) operator: Option<Client>,
    pub(crate) connections: u64,
    /// Who is notified by what the server does now.
    pub(crate) told: Vec<Party>,
    /// Whose request the server carries out now.
    pub(crate) asking: Party,
    /// How many changes of nodes have been looked at.
    pub(crate) changes: usize,
    pub(crate) random: Random,
    /// Notified when a process is done or dead, or the lock is broken.
    pub(crate) changed: Arc<Notify>,
}

/// A process: what it believes, and how it is reached.
pub(crate) struct Actor {
    pub(crate) mode: Mode,
    pub(crate) session: Option<SessionId>,
    /// All sessions that it has had.
    pub(crate) sessions: Vec<SessionId>,
    pub(crate) gate: Arc<Gate>,
    /// True while it takes the lock for its own.
    pub(crate) believes: bool,
    /// It cannot know better until then.
    pub(crate) excused_until: Option<Instant>,
    /// It waits for the lock.
    pub(crate) is_acquiring: bool,
    /// How many requests it has sent meanwhile since another one has changed something.
    pub(crate) asked: usize,
    pub(crate) turns_left: u32,
    /// Notified when it is to give up what it waits for.
    pub(crate) given_up: Arc<Notify>,
    /// Notified when it is to close its session.
    pub(crate) closing: Arc<Notify>,
    /// How many lives it has had.
    pub(crate) lives: u64,
}

/// What has been said on one connection.
pub(crate) struct Talk {
    /// The number of the connection.
    pub(crate) number: u64,
    /// The operations of the requests that have no reply yet.
    pub(crate) asked: BTreeMap<i32, OpCode>,
    pub(crate) is_greeted: bool,
}

/// What is to happen beside the frames.
pub(crate) enum Due {
    /// Somebody has no excuse any more.
    Judge,
    /// The server of this connection of a process notices that it is cut off.
    Alone(ConnectionId, usize),
    Serve,
    /// A process that stands still goes on.
    Wake(usize),
    /// A fault, by its place in the plan, for this process unless a holder is meant.
    Strike(usize, Fault, usize),
}

/// A frame on its way, with its length.
pub(crate) struct Flight {
    pub(crate) bytes: Bytes,
    pub(crate) sent: Duration,
}

impl World {
    pub(crate) fn new(plan: &Plan) -> Self {
        let config = Config::new()
            .tick_time(TICK)
            .max_session_timeout(Duration::from_secs(3600))
            .max_connections_per_host(0)
            // Only a fault removes the folder.
            .container_check_interval(Duration::from_secs(24 * 3600))
            .keep_history(true);
        let last = NAMES.len().saturating_sub(1);
        let actor = |index: usize| {
            let contender = plan.contenders.get(index);
            Actor::new(contender.map_or(Mode::Write, |one| one.mode), plan.turns)
        };
        Self {
            net: Net::new(config),
            record: Record::default(),
            actors: (0..=last).map(actor).collect(),
            start: now(),
            latency: Duration::from_millis(plan.latency),
            jitter: plan.jitter,
            strikes: plan.strikes.clone(),
            is_calm: false,
            forbids_waste: plan.forbids_waste,
            strikes_creates: plan.strikes_creates,
            strikes_later: plan.strikes_later,
            strikes_holders: plan.strikes_holders,
            operator: None,
            connections: 0,
            told: Vec::new(),
            asking: None,
            changes: 0,
            random: Random::new(plan.seed),
            changed: Arc::new(Notify::new()),
        }
    }

    /// How long the run has lasted.
    pub(crate) fn time(&self) -> Duration {
        now().saturating_duration_since(self.start)
    }

    pub(crate) fn note(&mut self, process: usize, is_bad: bool, text: impl Into<String>) {
        let at = self.time();
        self.record.note(at, process, is_bad, text.into());
    }

    pub(crate) fn violate(&mut self, kind: Break, processes: Vec<usize>, text: String) {
        let at = self.time();
        self.record.violate(Violation { kind, at, processes, text });
        self.changed.notify_one();
    }

    /// A process takes the lock for its own from now on, or not any more.
    pub(crate) fn believe(&mut self, process: usize, believes: bool) {
        if let Some(actor) = self.actors.get_mut(process) {
            actor.believes = believes;
        }
        self.judge();
    }

    /// A process cannot know better for a while.
    pub(crate) fn excuse(&mut self, process: usize, time: Duration) {
        let until = now() + time;
        if let Some(actor) = self.actors.get_mut(process) {
            actor.excused_until = Some(actor.excused_until.map_or(until, |it| it.max(until)));
        }
        self.plan(until, Due::Judge);
    }

    /// Lets a process that was stopped go on.
    pub(crate) fn resume(&mut self, process: usize) {
        self.excuse(process, WAKING);
        self.note(process, false, "goes on where it was");
        if let Some(actor) = self.actors.get(process) {
            actor.gate.set(zk_simulation::gate::Mode::Open, true);
        }
    }

    /// Compares what all believe who have no excuse.
    pub(crate) fn judge(&mut self) {
        let now = now();
        let counts = |actor: &Actor| {
            let is_running = actor.gate.mode() == zk_simulation::gate::Mode::Open;
            actor.believes && is_running && actor.excused_until.is_none_or(|until| until <= now)
        };
        let all = self.actors.iter().enumerate().filter(|(_, actor)| counts(actor));
        let all = all.map(|(index, actor)| (index, actor.mode)).collect::<Vec<_>>();
        let excludes = |one: Mode, two: Mode| (one, two) != (Mode::Read, Mode::Read);
        for (place, (first, one)) in all.iter().enumerate() {
            let mut later = all.iter().skip(place + 1);
            if let Some((second, _)) = later.find(|(_, two)| excludes(*one, *two)) {
                let text = format!("{} and {} hold the lock at once", name(*first), name(*second));
                return self.violate(Break::TwoHolders, vec![*first, *second], text);
            }
        }
    }

    /// The process of a session, past or present.
    pub(crate) fn owner(&self, session: SessionId) -> Option<usize> {
        self.actors.iter().position(|actor| actor.sessions.contains(&session))
    }
}

impl Actor {
    fn new(mode: Mode, turns_left: u32) -> Self {
        Self {
            mode,
            session: None,
            sessions: Vec::new(),
            gate: Gate::new(),
            believes: false,
            excused_until: None,
            is_acquiring: false,
            asked: 0,
            turns_left,
            given_up: Arc::new(Notify::new()),
            closing: Arc::new(Notify::new()),
            lives: 0,
        }
    }
}

impl Talk {
    pub(crate) fn new(number: u64) -> Self {
        Self { number, asked: BTreeMap::new(), is_greeted: false }
    }
}

/// The name of a process.
pub(crate) fn name(process: usize) -> &'static str {
    NAMES.get(process).copied().unwrap_or("?")
}

/// How long an operator or a server that ends things early excuses those who were hit.
pub(crate) const EXCUSE: Duration = TIMEOUT;
