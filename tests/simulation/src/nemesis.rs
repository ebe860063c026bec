//! The faults of a run: one after the other, drawn by weights that differ from seed to seed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zk_client::Client;
use zk_embedded::{ErrorCode, Fault, OpCode, SessionId};

use super::clock::now;
use super::folder::{Others, withhold};
use super::gate::Mode;
use super::journal::{FOLDER, nodes};
use super::kinds::{KINDS, Kind, PEACEFUL, draw};
use super::link::Tear;
use super::net::{Traffic, Way};
use super::network::Party;
use super::process::Trial;
use super::wire::Reception;
use super::{Family, Servers};
use crate::task::spawn;
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

/// Injects faults into processes, network and server.
pub(super) struct Nemesis {
    trial: Arc<Trial>,
    others: Others,
    random: Random,
    weights: Vec<(Kind, u64)>,
    processes: usize,
    /// True if contenders requeue turn after turn, in one order.
    rounds: bool,
    /// The requests that contenders send most.
    ops: [OpCode; 4],
    /// A fault that was injected into the server, and the time by which it should have struck.
    pending: Option<(&'static str, SessionId, Instant)>,
}

impl Nemesis {
    pub(super) fn new(
        trial: Arc<Trial>,
        operator: Client,
        family: Family,
        processes: usize,
        mut random: Random,
    ) -> Self {
        let servers = trial.world.lock().unwrap().servers;
        let rounds = family == Family::Requeue;
        // Without faults no process has a reason to be late.
        let peaceful = rounds && random.percent(50);
        let weights = KINDS.map(|(kind, in_storm, in_rounds)| {
            let weight = if rounds { in_rounds } else { in_storm };
            let strikes = !peaceful || PEACEFUL.contains(&kind);
            // With its connection the operator would lose its session for good.
            let strikes = strikes && (servers == Servers::Apache || kind != Kind::Restart);
            // What keeps nodes in memory does not ask again after an event that was lost alone.
            let other = if family.follows() { Kind::Event } else { Kind::Flood };
            let strikes = strikes && kind != other;
            (kind, if strikes { weight * random.within(1..5) } else { 0 })
        });
        let others = Others::new(Arc::clone(&trial), operator, random.fork());
        let weights = weights.to_vec();
        let ops = family.ops().map(|op| servers.op(op));
        Self { trial, others, random, weights, processes, rounds, ops, pending: None }
    }

    /// Injects one fault.
    pub(super) fn strike(&mut self) {
        self.look_after();
        let kind = draw(&self.weights, &mut self.random).unwrap_or(Kind::Cut);
        if !PEACEFUL.contains(&kind) {
            let journal = &mut self.trial.world.lock().unwrap().journal;
            journal.faulty_since.get_or_insert_with(now);
        }
        match kind {
            Kind::Cut => self.link("cut", |world, id, _| world.cut(id)),
            Kind::CutInTheMiddle => {
                let world = &mut *self.trial.world.lock().unwrap();
                if let Some(id) = self.random.pick(&world.links()) {
                    let way = self.random.pick(&[Way::Up, Way::Down]).unwrap_or(Way::Up);
                    let most = if self.rounds { 600 } else { 200 };
                    let bytes = self.random.within(1..most) as usize;
                    world.journal.note(|| format!("net {id}: cut after {bytes} bytes {way:?}"));
                    world.cut_after(id, way, bytes);
                }
            }
            Kind::Disconnect => self.disconnect(),
            Kind::HalfOpen => self.link("half-open", |world, id, _| {
                world.silence(id, Way::Up);
                world.silence(id, Way::Down);
            }),
            Kind::OneWay => self.link("one way silent", |world, id, random| {
                let way = random.pick(&[Way::Up, Way::Down]).unwrap_or(Way::Up);
                world.silence(id, way);
            }),
            Kind::Restart => self.restart(),
            Kind::Unreachable => self.unreachable(),
            Kind::Slow => self.slow(),
            Kind::Expire => self.expire(),
            Kind::Partition => self.partition(),
            Kind::Request => self.request(),
            Kind::Event => {
                let world = &mut *self.trial.world.lock().unwrap();
                if let Some(id) = self.random.pick(&world.links()) {
                    world.lose_event(id);
                }
            }
            Kind::Pause => self.pause(),
            Kind::Crash => self.crash(),
            Kind::Delete => self.others.delete("deleted by the operator", 1),
            Kind::Purge => {
                // Some clients notice only when they reconnect.
                if self.random.percent(50) {
                    self.hang_up();
                }
                self.others.delete("deleted by the operator, with others", 99);
            }
            Kind::DeleteTwo => self.others.delete_two(),
            Kind::Write => self.others.write(),
            Kind::Stranger => self.others.queue_up(),
            Kind::Child => self.others.put_child(),
            Kind::Stall => {
                let world = &mut *self.trial.world.lock().unwrap();
                if let Some(id) = self.random.pick(&world.links()) {
                    let way = self.random.pick(&[Way::Up, Way::Down]).unwrap_or(Way::Up);
                    world.journal.strike("held back");
                    world.journal.note(|| format!("net {id} {way:?}"));
                    world.stall(id, way, self.random.millis(1..STALL));
                }
            }
            Kind::Tear => {
                let pause = self.random.millis(1..STALL);
                self.tear(Tear::Pause(pause));
            }
            Kind::GiveUp => {
                // Other children take sequence numbers, so a contender that asks again may get any
                // number.
                (0..self.random.within(0..4)).for_each(|_| self.others.put_child());
                let process = self.random.within(0..self.processes as u64) as usize;
                let after = self.random.millis(1..6);
                self.later(after, move |trial| trial.call_off(process));
            }
            Kind::CutBetween => self.tear(Tear::Cut),
            Kind::Drip => self.link("reply in pieces", |world, id, random| {
                world.drip(id, random.millis(5..400));
            }),
            Kind::Withhold => {
                let time = self.random.millis(50..3000);
                withhold(&self.trial, self.others.client(), time);
            }
            Kind::Flood => {
                // Nobody hears of it before it is over.
                self.trial.world.lock().unwrap().weather.reception = Reception::Refuse;
                self.hang_up();
                self.others.flood();
            }
            Kind::Reap => {
                let world = &mut *self.trial.world.lock().unwrap();
                if world.net.core.has_node(FOLDER) && nodes(&world.net.core).is_empty() {
                    world.journal.strike("folder reaped");
                    world.serve(|core, now| core.reap(now));
                }
            }
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

    fn link(
        &mut self,
        name: &'static str,
        act: impl FnOnce(&mut super::network::World, zk_embedded::ConnectionId, &mut Random),
    ) {
        let world = &mut *self.trial.world.lock().unwrap();
        if let Some(id) = self.random.pick(&world.links()) {
            world.journal.strike(name);
            world.journal.note(|| format!("net {id}"));
            act(world, id, &mut self.random);
        }
    }

    /// Sets a tear between the next two frames that a client sends together.
    fn tear(&mut self, tear: Tear) {
        let world = &mut *self.trial.world.lock().unwrap();
        if let Some(id) = self.random.pick(&world.links()) {
            world.journal.note(|| format!("net {id}: {tear:?} between the next two frames"));
            world.tear(id, tear);
        }
    }

    /// A session other than the operator's.
    fn victim(&mut self) -> Option<SessionId> {
        let operator = self.others.client().session().map(|session| session.id);
        let mut sessions = self.trial.world.lock().unwrap().net.core.sessions();
        sessions.retain(|session| Some(*session) != operator);
        self.random.pick(&sessions)
    }

    fn session(
        &mut self,
        name: &'static str,
        act: impl FnOnce(&mut zk_embedded::Core, Instant, SessionId) -> bool,
    ) {
        if let Some(session) = self.victim() {
            let world = &mut *self.trial.world.lock().unwrap();
            world.journal.note(|| format!("{name}: {session}"));
            if world.serve(|core, now| act(core, now, session)) {
                world.journal.strike(name);
            }
        }
    }

    /// Ends a session before its timeout.
    fn expire(&mut self) {
        let mut ended = None;
        self.session("expired", |core, now, session| {
            ended = Some(session);
            core.expire(now, session)
        });
        self.trial.world.lock().unwrap().journal.ended_early.extend(ended);
    }

    fn disconnect(&mut self) {
        if self.random.percent(70) {
            self.session("hung up", |core, _, session| core.disconnect(session));
        } else {
            self.hang_up();
        }
    }

    fn hang_up(&mut self) {
        let world = &mut *self.trial.world.lock().unwrap();
        world.journal.strike("all hung up");
        for id in world.links() {
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
        self.later(down, |trial| {
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
        self.later(until, |trial| {
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
        self.later(until, |trial| {
            trial.world.lock().unwrap().weather.latency = 5;
        });
    }

    fn partition(&mut self) {
        let until = self.random.millis(1..4000);
        self.session("partitioned", |core, _, session| core.partition(session));
        self.later(until, |trial| {
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
            0 => ("request lost", Fault::lose_request()),
            1..4 => ("reply lost", Fault::lose_reply()),
            4 => {
                let bytes = self.random.within(1..80) as usize;
                ("reply cut", Fault::cut_reply(bytes))
            }
            5 => ("silent from a reply on", Fault::go_silent()),
            6 => ("reply delayed", Fault::delay(self.random.millis(1..1500))),
            7 => ("request refused", Fault::refuse(ErrorCode::THROTTLED_OP)),
            8 => (EXPIRED_BY_REPLY, Fault::expire_session()),
            9 => ("session swapped", Fault::swap_session()),
            _ => {
                let code = self.random.pick(&UNPROVEN).unwrap_or_default();
                (DISOWNED, Fault::disown(ErrorCode(code)))
            }
        };
        let ops = self.ops;
        let op = match name {
            "reply lost" | DISOWNED if self.random.percent(50) => Some(ops[0]),
            // A refused removal leaves a watch in place, and some of these watches never fire.
            "request refused" if self.rounds => self.random.pick(&ops),
            _ => self.random.pick(&ops).filter(|_| self.random.percent(70)),
        };
        let fault = fault.session(session);
        let fault = match op {
            Some(op) => fault.op(op),
            None => fault,
        };
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
        let process = self.random.within(0..self.processes as u64) as usize;
        let progress = self.trial.progress.lock().unwrap();
        let Some(gate) = progress.gates.get(&process).filter(|gate| gate.mode() == Mode::Open)
        else {
            return;
        };
        let (for_long, last_first) = (self.random.millis(50..5000), self.random.percent(50));
        let gate = Arc::clone(gate);
        drop(progress);
        gate.set(Mode::Frozen, false);
        let world = &mut *self.trial.world.lock().unwrap();
        world.journal.strike("paused");
        world.journal.note(|| format!("process {process} stops for {for_long:?}"));
        self.later(for_long, move |trial| {
            trial.world.lock().unwrap().journal.note(|| format!("process {process} goes on"));
            trial.progress.lock().unwrap().woken.insert(process, now());
            gate.set(Mode::Open, last_first);
        });
    }

    /// Kills a process, or its machine, perhaps a few times in a row.
    fn crash(&mut self) {
        let process = self.random.within(0..self.processes as u64) as usize;
        let machine = self.random.percent(50);
        kill(&self.trial, process, machine);
        let mut again = Duration::ZERO;
        while self.random.percent(60) {
            again += self.random.millis(10..300);
            self.later(again, move |trial| kill(trial, process, machine));
        }
    }

    /// Ends a fault after a while. If that is in the calm, it changes nothing any more.
    fn later(&self, after: Duration, end: impl FnOnce(&Trial) + Send + 'static) {
        let trial = Arc::clone(&self.trial);
        spawn(async move {
            tokio::time::sleep(after).await;
            end(&trial);
        });
    }
}

pub(super) fn kill(trial: &Trial, process: usize, machine: bool) {
    {
        let world = &mut *trial.world.lock().unwrap();
        world.journal.strike(if machine { "machine died" } else { "process died" });
        world.journal.note(|| format!("process {process}"));
        if machine {
            for id in world.links_of(Party::Process(process)) {
                world.silence(id, Way::Up);
                world.silence(id, Way::Down);
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
