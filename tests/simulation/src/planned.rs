//! Runs with few faults, each at a chosen frame, instead of a storm that a seed draws.
//!
//! Contenders take their turns, on links of one latency, and rest once they have had some since
//! anything happened. The frames of their connections are numbered as they arrive, without pings,
//! and each fault strikes at the frame with its number. What must hold is what must hold in a storm
//! and after it. The servers are Apache's, or those in which each lost connection is the end of a
//! session.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use zk_client::{Client, SessionId};
use zk_embedded::{ErrorCode, OpCode};

use super::clock::now;
use super::folder::{REVOKE, counts, withhold};
use super::gate::Mode;
use super::journal::{FOLDER, nodes};
use super::nemesis::{UNPROVEN, kill};
use super::net::Traffic;
use super::network::{Shared, World};
use super::process::{Phase, Trial};
use super::{Family, Outcome, Servers, Simulation, in_virtual_time};
use crate::task::later;
use zk_inputs::Random;

/// The session timeout of the contenders. A third of it is enough for two round trips on the
/// slowest link.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// About half the time that a contender waits and holds in a turn, without what links take.
const TURN: Duration = Duration::from_millis(60);

/// How many turns a contender takes one after the other when something has happened, and how long
/// it rests before each further one: it would show little that those have not shown.
const TURNS: u32 = 3;
const REST: Duration = Duration::from_millis(1250);

/// What goes wrong at a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The connection ends in front of the frame.
    Cut,
    /// The connection ends behind the frame.
    CutBehind,
    /// Nothing arrives any more on the connection, from the frame on.
    Silence,
    /// What is sent in the direction of the frame from now on comes a third of the session timeout
    /// late.
    Late,
    /// The server refuses the request without carrying it out.
    Refuse,
    /// The server carries the request out, and answers with an error that proves nothing.
    Disown,
    /// The connection ends, and the server carries the request out later all the same.
    ServeLate,
    /// The session ends.
    Expire,
    /// What the process waits for is given up: its future is dropped.
    GiveUp,
    /// The process stands still, for less than its session timeout.
    Pause,
    /// The process stands still, for longer than its session lives.
    Stop,
    /// The process dies, and another one takes its place.
    Kill,
    /// An operator deletes a node of the process's session.
    Delete,
    /// An operator deletes the nodes of all contenders.
    Purge,
    /// An operator writes to the nodes of all contenders.
    Write,
    /// The server deletes the folder, if nothing is in it.
    Reap,
    /// An operator deletes the folder with all that is in it.
    Remove,
    /// Nobody may delete nodes, for a while.
    Withhold,
    /// The server serves nobody for a moment.
    Restart,
    /// The server of the process's session is cut off from the others, for a while.
    Isolate,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 20] = {
        use Fault::*;
        [
            Cut, CutBehind, Silence, Late, Refuse, Disown, ServeLate, Expire, GiveUp, Pause, Stop,
            Kill, Delete, Purge, Write, Reap, Remove, Withhold, Restart, Isolate,
        ]
    };

    /// True if this fault can strike at such a frame.
    pub fn suits(self, frame: Frame) -> bool {
        frame == Frame::Request || !matches!(self, Self::Refuse | Self::Disown | Self::ServeLate)
    }
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A request, without handshakes.
    Request,
    /// Any other frame.
    Other,
}

/// A fault at a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// What goes wrong.
    pub fault: Fault,
    /// The number of the frame. The first one is 0.
    pub frame: usize,
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{}", self.fault, self.frame)
    }
}

impl FromStr for Strike {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('@').and_then(|(name, frame)| {
            let fault = Fault::ALL.into_iter().find(|fault| format!("{fault:?}") == name)?;
            Some(Self { fault, frame: frame.parse().ok()? })
        });
        parsed.ok_or_else(|| format!("{text:?} is no fault at a frame, like Cut@7"))
    }
}

/// A run with chosen faults.
#[derive(Debug)]
pub struct Course {
    /// Its result.
    pub outcome: Outcome,
    /// The frames that arrived until every contender had two turns, or the work was shared evenly.
    pub frames: Vec<Frame>,
    /// How many of the faults struck.
    pub struck: usize,
    /// How many requests of each kind the processes have sent, pings aside.
    pub requests: BTreeMap<OpCode, u64>,
}

/// Runs a family with these faults, on links with this latency in milliseconds. What contenders do
/// differs from family to family and from latency to latency.
pub fn run(
    family: Family,
    servers: Servers,
    latency: u64,
    strikes: &[Strike],
    traced: bool,
) -> Course {
    assert!(family.works_on(servers), "{family:?} on servers of {servers:?}");
    let mut random = Random::new(1000 * family as u64 + latency);
    let (latency, strikes) = (Duration::from_millis(latency), strikes.to_vec());
    let script = Script { servers, latency, strikes, ..Script::default() };
    let world = in_virtual_time(async {
        let simulation = Simulation::planned(family, script, &mut random, traced);
        simulation.until_the_end(random).await
    });
    let script = world.script.unwrap_or_default();
    let outcome = Outcome::of(world.journal);
    Course { outcome, frames: script.frames, struck: script.struck, requests: script.requests }
}

/// A fault that the network leaves to [`carry_out`], for a process and its session.
struct Due {
    fault: Fault,
    process: usize,
    session: Option<SessionId>,
}

/// The faults of a run, and the frames so far.
#[derive(Default)]
pub(super) struct Script {
    pub(super) servers: Servers,
    pub(super) latency: Duration,
    strikes: Vec<Strike>,
    frames: Vec<Frame>,
    requests: BTreeMap<OpCode, u64>,
    pub(super) struck: usize,
    ended: usize,
    is_over: bool,
    due: VecDeque<Due>,
    wanted: Arc<Notify>,
}

impl Script {
    pub(super) fn count(&mut self, request: OpCode) {
        *self.requests.entry(request).or_default() += 1;
    }

    /// Numbers a frame. Returns the faults that strike at it.
    pub(super) fn strike(&mut self, frame: Frame) -> Vec<Fault> {
        if self.is_over {
            return Vec::new();
        }
        let at = self.frames.len();
        self.frames.push(frame);
        let here = self.strikes.iter().filter(|one| one.frame == at && one.fault.suits(frame));
        here.map(|one| one.fault).collect()
    }

    /// An error that does not prove that nothing was carried out, another one at each frame.
    pub(super) fn unproven(&self) -> ErrorCode {
        ErrorCode(UNPROVEN[self.frames.len() % UNPROVEN.len()])
    }

    /// Leaves a fault to [`carry_out`].
    pub(super) fn leave(&mut self, fault: Fault, process: usize, session: Option<SessionId>) {
        self.due.push_back(Due { fault, process, session });
        self.wanted.notify_one();
    }

    /// Lets no further fault strike.
    pub(super) fn end(&mut self) {
        self.is_over = true;
        self.latency = Duration::from_millis(2);
    }
}

/// How fast a contender takes its turns.
#[derive(Default)]
pub(super) struct Pace {
    turns: u32,
    since: Option<(Phase, usize)>,
}

impl Pace {
    /// Rests before a turn, if the contender had some since anything happened.
    pub(super) async fn keep(&mut self, trial: &Trial) {
        if !trial.is_planned {
            return;
        }
        let changed = trial.changed.notified();
        // How often a fault has struck or come to its end, or is about to.
        let changes = with_script(&trial.world, |script| script.struck + script.ended);
        let now = Some((trial.phase(), changes));
        if self.since != now {
            (self.since, self.turns) = (now, 0);
        }
        self.turns += 1;
        if self.turns > TURNS {
            drop(timeout(REST, changed).await);
        }
    }
}

/// Carries out the faults that are not of the network, at the moment of their frames.
pub(super) async fn carry_out(trial: Arc<Trial>, operator: Client) {
    let wanted = with_script(&trial.world, |script| Arc::clone(&script.wanted));
    loop {
        while let Some(due) = with_script(&trial.world, |script| script.due.pop_front()) {
            if due.strike(&trial, &operator) {
                let name = format!("{:?}", due.fault);
                trial.note(|| format!("!!! {name} for process {}", due.process));
                with_script(&trial.world, |script| script.struck += 1);
            }
        }
        wanted.notified().await;
    }
}

fn with_script<R>(world: &Shared, act: impl FnOnce(&mut Script) -> R) -> R {
    act(world.lock().unwrap().script.get_or_insert_default())
}

impl Due {
    /// Returns false if there is nothing to do it to.
    fn strike(&self, trial: &Arc<Trial>, operator: &Client) -> bool {
        let world = || trial.world.lock().unwrap();
        let Self { fault, process, session } = *self;
        match fault {
            Fault::Expire => session.is_some_and(|session| {
                let mut world = world();
                world.journal.ended_early.push(session);
                world.serve(|core, now| core.expire(now, session))
            }),
            Fault::Isolate => session.is_some_and(|session| {
                end(trial, TIMEOUT / 3, |world| world.serve(|core, now| core.heal(now)));
                world().serve(|core, _| core.partition(session))
            }),
            Fault::Restart => {
                world().serve(|core, now| core.set_serving(now, false));
                end(trial, TIMEOUT / 6, |it| it.serve(|core, now| core.set_serving(now, true)));
                true
            }
            Fault::GiveUp => {
                trial.call_off(process);
                true
            }
            Fault::Pause => stop(trial, process, TIMEOUT / 2),
            Fault::Stop => stop(trial, process, 2 * TIMEOUT),
            Fault::Kill => {
                kill(trial, process, false);
                true
            }
            Fault::Delete => {
                let world = world();
                let owner = |node: &String| world.net.core.stat(node).map(|it| it.ephemeral_owner);
                let own = nodes(&world.net.core).into_iter().find(|node| owner(node) == session);
                drop(world);
                own.map(|node| drop(operator.delete(&node, None))).is_some()
            }
            Fault::Purge | Fault::Write => {
                let all = nodes(&world().net.core);
                for node in &all {
                    match fault {
                        Fault::Purge => drop(operator.delete(node, None)),
                        _ => drop(operator.set_data(node, REVOKE, None)),
                    }
                }
                !all.is_empty()
            }
            Fault::Reap => world().reaps(),
            Fault::Remove => {
                let is_there = world().net.core.has_node(FOLDER);
                if is_there {
                    counts(trial, "folder removed", operator.delete_all(FOLDER));
                }
                is_there
            }
            Fault::Withhold => {
                withhold(trial, operator, TIMEOUT / 2);
                true
            }
            _ => panic!("{fault:?} is the network's"),
        }
    }
}

/// Stops a process for a while. Returns false if it is stopped already.
fn stop(trial: &Arc<Trial>, process: usize, time: Duration) -> bool {
    let Some(gate) = trial.freeze(process) else {
        return false;
    };
    // Others are to be at their turns when it goes on.
    let turn = with_script(&trial.world, |script| 4 * script.latency) + TURN;
    later(trial, time - turn, |trial| ends(trial));
    later(trial, time, move |trial| {
        trial.progress.lock().unwrap().woken.insert(process, now());
        gate.set(Mode::Open, false);
    });
    true
}

/// Makes contenders take turns again, when a fault comes to its end.
fn ends(trial: &Trial) {
    with_script(&trial.world, |script| script.ended += 1);
    trial.changed.notify_waiters();
}

/// Ends a fault after a while.
fn end(trial: &Arc<Trial>, time: Duration, act: impl FnOnce(&mut World) + Send + 'static) {
    later(trial, time, |trial| {
        act(&mut trial.world.lock().unwrap());
        ends(trial);
    });
}
