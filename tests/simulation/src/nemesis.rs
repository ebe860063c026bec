//! The faults of a run: one after the other, drawn by weights that differ from seed to seed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zk_client::Client;
use zk_embedded::{ConnectionId, Core, ErrorCode, Fault as ServerFault, OpCode, SessionId};

use super::clock::now;
use super::folder::withhold;
use super::gate::Mode;
use super::journal::{FOLDER, nodes};
use super::link::Tear;
use super::net::{Traffic, Way};
use super::network::{Party, World};
use super::process::Trial;
use super::wire::Reception;
use super::{Family, Servers, Simulation};
use crate::task::later;
use zk_inputs::Random;

/// How long a fault of the server waits for a request that matches it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The fault of the server that ends a session before its timeout.
const EXPIRED_BY_REPLY: &str = "expired by a reply";

/// The fault of the server that carries a request out and answers it with an error all the same.
const DISOWNED: &str = "carried out and disowned";

/// Codes that do not prove that nothing was carried out. Nobody knows the last one.
pub(super) const UNPROVEN: [i32; 7] = [-1, -2, -5, -7, -122, -128, -999];

/// The longest delay of bytes that does not count as a fault, in milliseconds.
const STALL: u64 = 60;

type Fault = fn(&mut Nemesis);

/// Where a fault may strike.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// Everywhere: it changes the queue, or delays a notification, and breaks nothing.
    Peaceful,
    /// Where something may break.
    Any,
    /// On Apache's servers. With its connection the operator would lose its session for good.
    Apache,
    /// Where nothing is kept in memory: that is not read again after an event that was lost alone.
    Queue,
    /// Where nodes are kept in memory.
    Memory,
}

/// The faults with their weights: in the storm, and where contenders requeue.
const FAULTS: [(Fault, u64, u64, Sort); 28] = [
    (|it| it.strike_link("cut", |world, id, _| world.cut(id)), 8, 6, Sort::Any),
    (Nemesis::cut_in_the_middle, 6, 6, Sort::Any),
    (Nemesis::disconnect, 4, 4, Sort::Any),
    (|it| it.strike_link("half-open", |world, id, _| world.fall_silent(id)), 2, 1, Sort::Any),
    (|it| it.strike_link("one way silent", silence_one_way), 2, 1, Sort::Any),
    (Nemesis::restart, 1, 1, Sort::Apache),
    (Nemesis::unreachable, 2, 1, Sort::Any),
    (Nemesis::slow, 4, 2, Sort::Any),
    (Nemesis::expire, 2, 4, Sort::Any),
    (Nemesis::partition, 2, 2, Sort::Any),
    (Nemesis::request, 16, 8, Sort::Any),
    (|it| it.link(|world, id, _| world.faults(id, Way::Down).is_deaf = true), 3, 2, Sort::Queue),
    (Nemesis::pause, 3, 4, Sort::Any),
    (Nemesis::crash, 3, 4, Sort::Any),
    (|it| it.delete("deleted by the operator", 1), 3, 10, Sort::Peaceful),
    (Nemesis::purge, 3, 2, Sort::Any),
    (Nemesis::write, 3, 6, Sort::Peaceful),
    (Nemesis::reap, 2, 0, Sort::Any),
    (Nemesis::delete_two, 0, 6, Sort::Peaceful),
    (|it| it.stay("strangers", "-lock-"), 0, 6, Sort::Peaceful),
    (|it| it.stay("other children", "-note-"), 0, 4, Sort::Peaceful),
    (Nemesis::hold_back, 0, 6, Sort::Peaceful),
    (Nemesis::tear_with_a_pause, 0, 6, Sort::Peaceful),
    (|it| it.tear(Tear::Cut), 0, 4, Sort::Any),
    (Nemesis::give_up, 0, 16, Sort::Peaceful),
    (|it| it.strike_link("reply in pieces", drip), 2, 2, Sort::Any),
    (Nemesis::withhold, 1, 2, Sort::Any),
    (Nemesis::flood, 1, 0, Sort::Memory),
];

/// Injects faults into processes, network and server.
pub(super) struct Nemesis {
    pub(super) trial: Arc<Trial>,
    pub(super) operator: Client,
    random: Random,
    /// What the operator and other clients do is drawn from this.
    pub(super) others: Random,
    weights: Vec<((Fault, Sort), u64)>,
    processes: usize,
    /// True if contenders requeue turn after turn, in one order.
    rounds: bool,
    /// The requests that contenders send most.
    ops: [OpCode; 4],
    /// A fault that was injected into the server, and the time by which it should have struck.
    pending: Option<(&'static str, SessionId, Instant)>,
}

impl Nemesis {
    pub(super) fn new(simulation: &Simulation, mut random: Random) -> Self {
        let Simulation { family, processes, .. } = *simulation;
        let (trial, operator) = (Arc::clone(&simulation.trial), simulation.operator.clone());
        let servers = trial.world.lock().unwrap().servers;
        let rounds = family == Family::Requeue;
        // Without faults no process has a reason to be late.
        let peaceful = rounds && random.percent(50);
        let weights = FAULTS.map(|(fault, in_storm, in_rounds, sort)| {
            let strikes = match sort {
                Sort::Peaceful => true,
                _ if peaceful => false,
                Sort::Any => true,
                Sort::Apache => servers == Servers::Apache,
                Sort::Queue => !family.follows(),
                Sort::Memory => family.follows(),
            };
            let weight = if rounds { in_rounds } else { in_storm };
            ((fault, sort), if strikes { weight * random.within(1..5) } else { 0 })
        });
        let (others, weights) = (random.fork(), weights.to_vec());
        let ops = family.ops().map(|op| servers.op(op));
        Self { trial, operator, random, others, weights, processes, rounds, ops, pending: None }
    }

    /// Injects one fault.
    pub(super) fn strike(&mut self) {
        self.look_after();
        let Some((fault, sort)) = draw(&self.weights, &mut self.random) else {
            return;
        };
        if sort != Sort::Peaceful {
            let journal = &mut self.trial.world.lock().unwrap().journal;
            journal.faulty_since.get_or_insert_with(now);
        }
        fault(self);
    }

    fn cut_in_the_middle(&mut self) {
        let most = if self.rounds { 600 } else { 200 };
        self.link(|world, id, random| {
            let way = any_way(random);
            let bytes = random.within(1..most) as usize;
            world.journal.note(|| format!("net {id}: cut after {bytes} bytes {way:?}"));
            world.faults(id, way).budget.get_or_insert(bytes);
        });
    }

    fn purge(&mut self) {
        // Some clients notice only when they reconnect.
        if self.random.percent(50) {
            self.hang_up();
        }
        self.delete("deleted by the operator, with others", 99);
    }

    fn hold_back(&mut self) {
        self.link(|world, id, random| {
            let way = any_way(random);
            world.journal.strike("held back");
            world.journal.note(|| format!("net {id} {way:?}"));
            world.stall(id, way, random.millis(1..STALL));
        });
    }

    fn tear_with_a_pause(&mut self) {
        let pause = self.random.millis(1..STALL);
        self.tear(Tear::Pause(pause));
    }

    fn give_up(&mut self) {
        // Other children take sequence numbers, so a contender that asks again may get any number.
        (0..self.random.within(0..4)).for_each(|_| self.stay("other children", "-note-"));
        let process = self.random.below(self.processes);
        let after = self.random.millis(1..6);
        later(&self.trial, after, move |trial| trial.call_off(process));
    }

    fn withhold(&mut self) {
        let time = self.random.millis(50..3000);
        withhold(&self.trial, &self.operator, time);
    }

    fn reap(&mut self) {
        let world = &mut *self.trial.world.lock().unwrap();
        let is_there = world.net.core.has_node(FOLDER);
        if is_there && nodes(&world.net.core).is_empty() && world.reaps() {
            world.journal.strike("folder reaped");
        }
    }

    /// Ends all faults that may still happen.
    pub(super) fn rest(&mut self) {
        self.look_after();
        {
            let world = &mut *self.trial.world.lock().unwrap();
            world.mend();
            world.serve(|core, now| {
                core.clear_faults();
                core.heal(now);
                core.set_serving(now, true);
            });
        }
        let progress = &mut *self.trial.progress.lock().unwrap();
        for (process, gate) in &progress.gates {
            if gate.mode() == Mode::Frozen {
                progress.woken.insert(*process, now());
            }
            gate.set(Mode::Open, false);
        }
    }

    /// Checks whether the server's fault has struck.
    fn look_after(&mut self) {
        let Some((name, session, until)) = self.pending else {
            return;
        };
        let world = &mut *self.trial.world.lock().unwrap();
        if world.net.core.pending_faults() == 0 {
            world.journal.strike(name);
            self.pending = None;
        } else if until <= now() {
            world.net.core.clear_faults();
            if world.net.core.sessions().contains(&session) {
                world.journal.ended_early.retain(|ended| *ended != session);
            }
            self.pending = None;
        }
    }

    /// Does something to the connection of a process.
    fn link(&mut self, act: impl FnOnce(&mut World, ConnectionId, &mut Random)) {
        let world = &mut *self.trial.world.lock().unwrap();
        if let Some(id) = self.random.pick(&world.links(|party| party != Party::Operator)) {
            act(world, id, &mut self.random);
        }
    }

    fn strike_link(&mut self, name: &'static str, act: fn(&mut World, ConnectionId, &mut Random)) {
        self.link(|world, id, random| {
            world.journal.strike(name);
            world.journal.note(|| format!("net {id}"));
            act(world, id, random);
        });
    }

    /// Sets a tear between the next two frames that a client sends together.
    fn tear(&mut self, tear: Tear) {
        self.link(|world, id, _| {
            world.journal.note(|| format!("net {id}: {tear:?} between the next two frames"));
            world.faults(id, Way::Up).tear = Some(tear);
        });
    }

    /// A session other than the operator's.
    fn victim(&mut self) -> Option<SessionId> {
        let operator = self.operator.session().map(|session| session.id);
        let mut sessions = self.trial.world.lock().unwrap().net.core.sessions();
        sessions.retain(|session| Some(*session) != operator);
        self.random.pick(&sessions)
    }

    /// Does something to a session other than the operator's. Returns that session.
    fn session(
        &mut self,
        name: &'static str,
        act: fn(&mut Core, Instant, SessionId) -> bool,
    ) -> Option<SessionId> {
        let session = self.victim()?;
        let world = &mut *self.trial.world.lock().unwrap();
        world.journal.note(|| format!("{name}: {session}"));
        if world.serve(|core, now| act(core, now, session)) {
            world.journal.strike(name);
        }
        Some(session)
    }

    /// Ends a session before its timeout.
    fn expire(&mut self) {
        let ended = self.session("expired", Core::expire);
        self.trial.world.lock().unwrap().journal.ended_early.extend(ended);
    }

    fn disconnect(&mut self) {
        if self.random.percent(70) {
            self.session("hung up", |core, _, session| core.disconnect(session));
        } else {
            self.hang_up();
        }
    }

    pub(super) fn hang_up(&mut self) {
        let world = &mut *self.trial.world.lock().unwrap();
        world.journal.strike("all hung up");
        for id in world.links(|party| party != Party::Operator) {
            world.cut(id);
        }
    }

    /// Stops the server for a while. It keeps its state.
    fn restart(&mut self) {
        let down = self.random.millis(1..1500);
        let refuses = self.random.percent(50);
        let world = &mut *self.trial.world.lock().unwrap();
        world.journal.strike("server restarted");
        world.serve(|core, now| core.set_serving(now, false));
        if refuses {
            world.weather.reception = Reception::Refuse;
        }
        later(&self.trial, down, |trial| {
            let world = &mut *trial.world.lock().unwrap();
            world.weather.reception = Reception::Accept;
            world.serve(|core, now| core.set_serving(now, true));
            world.journal.note(|| "server is up again".to_owned());
        });
    }

    fn unreachable(&mut self) {
        let until = self.random.millis(1..2500);
        let reception = self.random.pick(&[Reception::Refuse, Reception::Ignore]);
        let world = &mut *self.trial.world.lock().unwrap();
        world.journal.strike("unreachable");
        world.weather.reception = reception.unwrap_or(Reception::Refuse);
        later(&self.trial, until, |trial| {
            trial.world.lock().unwrap().weather.reception = Reception::Accept;
        });
    }

    fn slow(&mut self) {
        let latency = self.random.pick(&[0, 1, 20, 100, 400]).unwrap_or(1);
        let until = self.random.millis(100..2000);
        let world = &mut *self.trial.world.lock().unwrap();
        world.journal.strike("latency changed");
        world.journal.note(|| format!("latency up to {latency} ms"));
        world.weather.latency = latency;
        later(&self.trial, until, |trial| {
            trial.world.lock().unwrap().weather.latency = 5;
        });
    }

    fn partition(&mut self) {
        let until = self.random.millis(1..4000);
        self.session("partitioned", |core, _, session| core.partition(session));
        later(&self.trial, until, |trial| {
            let world = &mut *trial.world.lock().unwrap();
            world.serve(|core, now| core.heal(now));
            world.journal.note(|| "partitions are healed".to_owned());
        });
    }

    /// Injects a fault into a request or its reply.
    fn request(&mut self) {
        if self.pending.is_some() {
            return;
        }
        let Some(session) = self.victim() else {
            return;
        };
        let (name, fault) = match self.random.within(0..12) {
            0 => ("request lost", ServerFault::lose_request()),
            1..4 => ("reply lost", ServerFault::lose_reply()),
            4 => ("reply cut", ServerFault::cut_reply(self.random.within(1..80) as usize)),
            5 => ("silent from a reply on", ServerFault::go_silent()),
            6 => ("reply delayed", ServerFault::delay(self.random.millis(1..1500))),
            7 => ("request refused", ServerFault::refuse(ErrorCode::THROTTLED_OP)),
            8 => (EXPIRED_BY_REPLY, ServerFault::expire_session()),
            9 => ("session swapped", ServerFault::swap_session()),
            _ => (
                DISOWNED,
                ServerFault::disown(ErrorCode(UNPROVEN[self.random.below(UNPROVEN.len())])),
            ),
        };
        let ops = self.ops;
        let op = match name {
            "reply lost" | DISOWNED if self.random.percent(50) => Some(ops[0]),
            // A refused removal leaves a watch in place, and some of these watches never fire.
            "request refused" if self.rounds => self.random.pick(&ops),
            _ => self.random.pick(&ops).filter(|_| self.random.percent(70)),
        };
        let fault = op.into_iter().fold(fault.session(session), ServerFault::op);
        let world = &mut *self.trial.world.lock().unwrap();
        world.journal.note(|| format!("armed: {fault:?}"));
        world.net.core.inject(fault);
        if name == EXPIRED_BY_REPLY {
            world.journal.ended_early.push(session);
        }
        self.pending = Some((name, session, now() + PATIENCE));
    }

    /// Stops a process for a while, which may be longer than its session timeout.
    fn pause(&mut self) {
        let process = self.random.below(self.processes);
        let Some(gate) = self.trial.freeze(process) else {
            return;
        };
        let (for_long, last_first) = (self.random.millis(50..5000), self.random.percent(50));
        let world = &mut *self.trial.world.lock().unwrap();
        world.journal.strike("paused");
        world.journal.note(|| format!("process {process} stops for {for_long:?}"));
        later(&self.trial, for_long, move |trial| {
            trial.note(|| format!("process {process} goes on"));
            trial.progress.lock().unwrap().woken.insert(process, now());
            gate.set(Mode::Open, last_first);
        });
    }

    /// Kills a process, or its machine, perhaps a few times in a row.
    fn crash(&mut self) {
        let process = self.random.below(self.processes);
        let machine = self.random.percent(50);
        kill(&self.trial, process, machine);
        let mut again = Duration::ZERO;
        while self.random.percent(60) {
            again += self.random.millis(10..300);
            later(&self.trial, again, move |trial| kill(trial, process, machine));
        }
    }
}

/// Draws one of these by the weights. `None` if all of them are 0.
pub(super) fn draw<K: Copy>(weights: &[(K, u64)], random: &mut Random) -> Option<K> {
    let total = weights.iter().map(|(_, weight)| weight).sum::<u64>();
    let mut drawn = random.within(0..total.max(1));
    let kind = weights.iter().find(|(_, weight)| {
        let hit = drawn < *weight;
        drawn = drawn.wrapping_sub(*weight);
        hit
    });
    kind.map(|(kind, _)| *kind)
}

fn any_way(random: &mut Random) -> Way {
    Way::BOTH[random.below(2)]
}

fn silence_one_way(world: &mut World, id: ConnectionId, random: &mut Random) {
    world.silence(id, any_way(random));
}

/// Lets what the server sends next arrive in pieces.
fn drip(world: &mut World, id: ConnectionId, random: &mut Random) {
    world.faults(id, Way::Down).drip = Some(random.millis(5..400));
}

pub(super) fn kill(trial: &Trial, process: usize, machine: bool) {
    {
        let world = &mut *trial.world.lock().unwrap();
        world.journal.strike(if machine { "machine died" } else { "process died" });
        world.journal.note(|| format!("process {process}"));
        if machine {
            for id in world.links_of(Party::Process(process)) {
                world.fall_silent(id);
            }
        }
        for grant in &mut world.journal.grants {
            grant.is_believed &= grant.process != process;
        }
    }
    if let Some(gate) = trial.progress.lock().unwrap().gates.get(&process) {
        gate.set(Mode::Killed, false);
    }
}
