//! The faults of a run: one after the other, drawn by weights that differ from seed to seed.
//!
//! Most faults stall something for about a session timeout, since deadlines depend on it.

use std::sync::Arc;
use std::time::Duration;

use super::TICK;
use super::message::{LEADER, LinkId, ServerId};
use super::process::{HEIRS_WITHIN, Trial};
use super::world::World;
use crate::gate::{Gate, Mode};
use crate::process::Phase;
use crate::task::spawn;
use zk_inputs::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    StallLink,
    StallPeer,
    Isolate,
    StallAndIsolate,
    Cut,
    Silence,
    Break,
    Pause,
    Kill,
    Slow,
}

const KINDS: [(Kind, u64); 10] = [
    (Kind::StallLink, 10),
    (Kind::StallPeer, 4),
    (Kind::Isolate, 4),
    (Kind::StallAndIsolate, 12),
    (Kind::Cut, 3),
    (Kind::Silence, 2),
    (Kind::Break, 1),
    (Kind::Pause, 3),
    (Kind::Kill, 1),
    (Kind::Slow, 2),
];

/// Injects faults into processes, servers and connections.
pub(super) struct Nemesis {
    trial: Arc<Trial>,
    random: Random,
    weights: Vec<(Kind, u64)>,
}

impl Nemesis {
    pub(super) fn new(trial: Arc<Trial>, mut random: Random) -> Self {
        let weights = KINDS.map(|(kind, weight)| (kind, weight * random.within(0..4))).to_vec();
        Self { trial, random, weights }
    }

    /// Injects one fault.
    pub(super) fn strike(&mut self) {
        let total = self.weights.iter().map(|(_, weight)| weight).sum::<u64>().max(1);
        let mut drawn = self.random.within(0..total);
        let kind = self.weights.iter().find(|(_, weight)| {
            let hit = drawn < *weight;
            drawn = drawn.wrapping_sub(*weight);
            hit
        });
        let Some((kind, _)) = kind.copied() else {
            return;
        };
        match kind {
            Kind::StallLink => {
                let (up, down) = (self.stall(), self.stall());
                self.link("client stalled", |world, id| world.stall_link(id, up, down));
            }
            Kind::StallPeer => {
                let (up, down) = (self.stall(), self.delay());
                self.follower("follower stalled", |world, id| world.stall_peer(id, up, down));
            }
            Kind::Isolate => {
                let id = self.random.within(1..self.trial.servers.end as u64) as ServerId;
                let time = self.random.time(self.trial.timeout * 2);
                isolate(&self.trial, id, time);
            }
            Kind::StallAndIsolate => self.stall_and_isolate(),
            Kind::Cut => self.link("client cut", World::cut_link),
            Kind::Silence => self.link("client silent", World::silence_link),
            Kind::Break => self.follower("follower cut", World::break_peer),
            Kind::Pause => self.pause(),
            Kind::Kill => {
                if let Some((process, gate)) = self.process() {
                    let world = &mut *self.trial.world.lock().unwrap();
                    world.journal.strike("process killed");
                    world.journal.note(|| format!("process {process}"));
                    world.dies(process);
                    gate.set(Mode::Killed, false);
                }
            }
            Kind::Slow => {
                let world = &mut *self.trial.world.lock().unwrap();
                world.journal.strike("latency changed");
                world.latency = self.random.within(1..40);
            }
        }
    }

    /// Ends the faults, except those that last for a while.
    pub(super) fn rest(self) {
        self.trial.world.lock().unwrap().latency = 5;
    }

    /// How long one direction stalls: often not at all.
    fn stall(&mut self) -> Duration {
        match self.random.percent(30) {
            true => Duration::ZERO,
            false => self.random.time(self.trial.timeout * 3 / 2),
        }
    }

    /// How long the leader's messages may be delayed. The client relies on a follower being asked
    /// for its sessions within 0.3 session timeouts; the leader asks every half tick.
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
            world.stall_link(id, Duration::ZERO, down);
            spawn(async move {
                tokio::time::sleep(before).await;
                trial.world.lock().unwrap().stall_link(id, up, Duration::ZERO);
                tokio::time::sleep(up + after).await;
                if id.server != LEADER {
                    isolate(&trial, id.server, time);
                }
            });
        });
    }

    /// Mostly picks the connection of a process that holds the lock.
    fn link(&mut self, fault: &'static str, strike: impl FnOnce(&mut World, LinkId)) {
        let world = &mut *self.trial.world.lock().unwrap();
        let holder = world.believers.processes().last().filter(|_| self.random.percent(60));
        if let Some(id) = self.random.pick(&world.links(holder)) {
            world.journal.strike(fault);
            world.journal.note(|| id.to_string());
            strike(world, id);
        }
    }

    /// Strikes a follower. A fault does not begin where another one has not ended.
    fn follower(&mut self, fault: &'static str, strike: impl FnOnce(&mut World, ServerId)) {
        let id = self.random.within(1..self.trial.servers.end as u64) as ServerId;
        let world = &mut *self.trial.world.lock().unwrap();
        if world.is_well(id) {
            world.journal.strike(fault);
            world.journal.note(|| format!("zk{id}"));
            strike(world, id);
        }
    }

    /// A process that is not stopped.
    fn process(&mut self) -> Option<(usize, Arc<Gate>)> {
        let progress = self.trial.progress.lock().unwrap();
        let open = progress.gates.iter().filter(|(_, gate)| gate.mode() == Mode::Open);
        let open = open.map(|(process, gate)| (*process, Arc::clone(gate))).collect::<Vec<_>>();
        self.random.pick(&open)
    }

    /// Stops a process for a while, which may be longer than its session lives.
    fn pause(&mut self) {
        let time = self.random.time(self.trial.timeout * 3 / 2);
        let Some((process, gate)) = self.process() else {
            return;
        };
        gate.set(Mode::Frozen, false);
        let world = &mut *self.trial.world.lock().unwrap();
        world.journal.strike("process paused");
        world.journal.note(|| format!("process {process} for {time:?}"));
        spawn(async move {
            tokio::time::sleep(time).await;
            gate.set(Mode::Open, false);
        });
    }
}

/// Cuts a follower off for a while. Neither side notices before the follower gives up its leader,
/// and messages that are sent meanwhile never arrive.
fn isolate(trial: &Arc<Trial>, id: ServerId, time: Duration) {
    let world = &mut *trial.world.lock().unwrap();
    if trial.phase() != Phase::Storm || !world.is_well(id) {
        return;
    }
    world.journal.strike("follower isolated");
    world.journal.note(|| format!("zk{id}"));
    world.stall_peer(id, time, time);
    let trial = Arc::clone(trial);
    spawn(async move {
        tokio::time::sleep(time).await;
        trial.world.lock().unwrap().break_peer(id);
    });
}

/// Delays a follower's messages to the leader while two processes resume one lock: a write of one
/// of them may wait there while a write of the other is carried out.
pub(super) fn delay_a_follower(trial: &Arc<Trial>, mut random: Random) {
    let trial = Arc::clone(trial);
    spawn(async move {
        tokio::time::sleep(random.time(HEIRS_WITHIN)).await;
        let id = random.within(1..trial.servers.end as u64) as ServerId;
        let world = &mut *trial.world.lock().unwrap();
        if trial.phase() == Phase::Storm && world.is_well(id) {
            world.journal.strike("follower delayed");
            world.journal.note(|| format!("zk{id}"));
            world.stall_peer(id, random.time(trial.timeout / 2), Duration::ZERO);
        }
    });
}
