//! The faults of a run: one after the other, drawn by weights that differ from seed to seed.
//!
//! Most faults stall something for about a session timeout, since deadlines depend on it.

use std::sync::Arc;
use std::time::Duration;

use super::TICK;
use super::process::{HEIRS_WITHIN, Trial};
use super::world::{LEADER, ServerId, World, name_of};
use crate::gate::{Gate, Mode};
use crate::link::Party;
use crate::nemesis::draw;
use crate::net::{Traffic, Way};
use crate::process::Phase;
use crate::task::later;
use zk_embedded::ConnectionId;
use zk_inputs::Random;

type Fault = fn(&mut Nemesis);

/// The faults with their weights.
const FAULTS: [(Fault, u64); 10] = [
    (Nemesis::stall_client, 10),
    (Nemesis::stall_follower, 4),
    (Nemesis::isolate, 4),
    (Nemesis::stall_and_isolate, 12),
    (|nemesis| nemesis.link("client cut", World::cut), 3),
    (|nemesis| nemesis.link("client silent", World::fall_silent), 2),
    (|nemesis| nemesis.follower("follower cut", World::break_peer), 1),
    (Nemesis::pause, 3),
    (Nemesis::kill, 1),
    (Nemesis::slow, 2),
];

/// Injects faults into processes, servers and connections.
pub(super) struct Nemesis {
    trial: Arc<Trial>,
    random: Random,
    weights: Vec<(Fault, u64)>,
}

impl Nemesis {
    pub(super) fn new(trial: Arc<Trial>, mut random: Random) -> Self {
        let weights = FAULTS.map(|(fault, weight)| (fault, weight * random.within(0..4))).to_vec();
        Self { trial, random, weights }
    }

    /// Injects one fault.
    pub(super) fn strike(&mut self) {
        if let Some(fault) = draw(&self.weights, &mut self.random) {
            fault(self);
        }
    }

    /// Ends the faults, except those that last for a while.
    pub(super) fn rest(self) {
        self.trial.world.lock().unwrap().latency = 5;
    }

    fn stall_client(&mut self) {
        let (up, down) = (self.stall(), self.stall());
        self.link("client stalled", |world, id| {
            world.stall(id, Way::Up, up);
            world.stall(id, Way::Down, down);
        });
    }

    fn stall_follower(&mut self) {
        let times = [self.stall(), self.delay()];
        self.follower("follower stalled", |world, id| world.stall_peer(id, times));
    }

    fn isolate(&mut self) {
        let id = self.trial.follower(&mut self.random);
        let time = self.random.time(self.trial.timeout * 2);
        isolate(&self.trial, id, time);
    }

    fn kill(&mut self) {
        let world = &mut *self.trial.world.lock().unwrap();
        if let Some((process, gate)) = self.random.pick(&running(world)) {
            strike(world, "process killed", format!("process {process}"));
            world.believers.retain(|(one, _)| *one != process);
            gate.set(Mode::Killed, false);
        }
    }

    fn slow(&mut self) {
        let world = &mut *self.trial.world.lock().unwrap();
        world.journal.strike("latency changed");
        world.latency = self.random.within(1..40);
    }

    /// How long one direction stalls: often not at all.
    fn stall(&mut self) -> Duration {
        let most = self.trial.timeout * 3 / 2;
        if self.random.percent(30) { Duration::ZERO } else { self.random.time(most) }
    }

    /// How long the leader's messages to a follower are delayed: not beyond the 0.3 session
    /// timeouts within which a client relies on a report, although none waits for these messages.
    fn delay(&mut self) -> Duration {
        let most = self.trial.timeout * 3 / 10 - TICK / 2;
        let latency = Duration::from_millis(self.trial.world.lock().unwrap().latency);
        self.random.time(most.saturating_sub(latency))
    }

    /// Stalls the connection of a client, one direction after the other, for less time than makes
    /// the client disconnect. Cuts the client's server off just when that is over: then the
    /// client's requests have arrived, and the leader does not know about all of them.
    fn stall_and_isolate(&mut self) {
        let timeout = self.trial.timeout;
        let up = timeout / 5 + self.random.time(timeout / 2);
        let down = if self.random.percent(50) { Duration::ZERO } else { self.random.time(up) };
        let (before, after) = (self.random.time(timeout / 6), self.random.time(TICK));
        let time = timeout + self.random.time(timeout);
        let trial = Arc::clone(&self.trial);
        self.link("client stalled", |world, id| {
            world.stall(id, Way::Down, down);
            later(&trial, before, move |trial| {
                trial.world.lock().unwrap().stall(id, Way::Up, up);
                if id.member() != LEADER {
                    let isolate = move |trial: &_| isolate(trial, id.member(), time);
                    later(trial, up + after, isolate);
                }
            });
        });
    }

    /// Mostly picks the connection of a process that holds the lock.
    fn link(&mut self, fault: &'static str, act: impl FnOnce(&mut World, ConnectionId)) {
        let world = &mut *self.trial.world.lock().unwrap();
        let holder = world.believers.last().map(|(process, _)| Party::Process(*process));
        let holder = holder.filter(|_| self.random.percent(60));
        let links = world.links(|party| holder.is_none_or(|holder| party == holder));
        if let Some(id) = self.random.pick(&links) {
            strike(world, fault, name_of(id));
            act(world, id);
        }
    }

    /// Strikes a follower.
    fn follower(&mut self, fault: &'static str, act: impl FnOnce(&mut World, ServerId)) {
        let id = self.trial.follower(&mut self.random);
        strike_follower(&self.trial, id, fault, |world| act(world, id));
    }

    /// Stops a process for a while, which may be longer than its session lives.
    fn pause(&mut self) {
        let time = self.random.time(self.trial.timeout * 3 / 2);
        let world = &mut *self.trial.world.lock().unwrap();
        let Some((process, gate)) = self.random.pick(&running(world)) else {
            return;
        };
        gate.set(Mode::Frozen, false);
        strike(world, "process paused", format!("process {process} for {time:?}"));
        later(&gate, time, |gate| gate.set(Mode::Open, false));
    }
}

/// Records a fault, and what it strikes.
fn strike(world: &mut World, fault: &'static str, what: String) {
    world.journal.strike(fault);
    world.journal.note(|| what);
}

/// The processes that are not stopped.
fn running(world: &World) -> Vec<(usize, Arc<Gate>)> {
    let running = world.gates.iter().filter(|(_, gate)| gate.mode() == Mode::Open);
    running.map(|(process, gate)| (*process, Arc::clone(gate))).collect()
}

/// Strikes this follower in the storm. A fault does not begin where another one has not ended.
fn strike_follower(trial: &Trial, id: ServerId, fault: &'static str, act: impl FnOnce(&mut World)) {
    let world = &mut *trial.world.lock().unwrap();
    if world.phase == Phase::Storm && world.is_well(id) {
        strike(world, fault, format!("zk{id}"));
        act(world);
    }
}

/// Cuts a follower off for a while. Neither side notices before the follower gives up its leader,
/// and messages that are sent meanwhile never arrive.
fn isolate(trial: &Arc<Trial>, id: ServerId, time: Duration) {
    strike_follower(trial, id, "follower isolated", |world| {
        world.isolate(id, time);
        later(trial, time, move |trial| trial.world.lock().unwrap().break_peer(id));
    });
}

/// Delays a follower's messages to the leader while two processes resume one lock: a write of one
/// of them may wait there while a write of the other is carried out.
pub(super) fn delay_a_follower(trial: &Arc<Trial>, mut random: Random) {
    later(trial, random.time(HEIRS_WITHIN), move |trial| {
        let id = trial.follower(&mut random);
        strike_follower(trial, id, "follower delayed", |world| {
            world.stall_peer(id, [random.time(trial.timeout / 2), Duration::ZERO]);
        });
    });
}
