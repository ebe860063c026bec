//! How faults strike: at the frames with their numbers, on the network, the server and processes.
//!
//! A fault that finds nothing to act on has not struck, and the run says so.

use std::time::Duration;

use zk_embedded::{ConnectionId, ErrorCode, Fault as ServerFault, SessionId};
use zk_simulation::clock::now;
use zk_simulation::gate::Mode as GateMode;
use zk_simulation::net::{Traffic, Way};

use crate::contender::FOLDER;
use crate::fault::{Fault, Frame, Kind};
use crate::plan::TIMEOUT;
use crate::world::{Due, EXCUSE, World};

/// How long a server that restarts serves nobody.
const RESTART: Duration = Duration::from_secs(1);

/// How long a server answers that is cut off: `syncLimit` times `tickTime`, as in the sample
/// `zoo.cfg`.
const NOTICES_AFTER: Duration = Duration::from_secs(10);

/// How soon behind a frame a fault strikes that is to meet what the process makes of the frame.
const SOON: Duration = Duration::from_millis(1);

/// The faults of one frame, by their places in the plan.
#[derive(Debug, Default)]
pub(crate) struct Struck {
    /// The number of the frame, unless no fault can strike at it.
    pub(crate) number: Option<usize>,
    pub(crate) faults: Vec<(usize, Fault)>,
    /// The frame does not arrive.
    pub(crate) is_lost: bool,
}

impl World {
    /// Numbers a frame. Returns the faults that strike at it.
    pub(crate) fn strikes_at(&mut self, id: ConnectionId, frame: &Frame) -> Struck {
        let is_of_process = self.net.links.get(&id).is_some_and(|link| link.party.is_some());
        if frame.kind == Kind::Ping || !is_of_process || self.is_calm {
            return Struck::default();
        }
        let number = self.record.frames.len();
        self.record.frames.push(*frame);
        let strikes = self.strikes.iter().enumerate();
        let suits =
            |fault: Fault| fault.suits(frame) && (!self.strikes_creates || frame.is_created());
        let here = strikes.filter(|(_, one)| one.frame == number && suits(one.fault));
        let faults = here.map(|(index, one)| (index, one.fault)).collect::<Vec<_>>();
        let is_lost = faults.iter().any(|(_, it)| matches!(it, Fault::Cut | Fault::Silence));
        Struck { number: Some(number), faults, is_lost }
    }

    /// Lets the faults strike that are of the connection, or of the server for this one request.
    pub(crate) fn strike_before(&mut self, id: ConnectionId, way: Way, struck: &Struck) {
        let Some(process) = self.net.links.get(&id).and_then(|link| link.party) else {
            return;
        };
        for (index, fault) in &struck.faults {
            match fault {
                Fault::Cut => self.cut(id),
                Fault::Silence => {
                    self.silence(id, Way::Up);
                    self.silence(id, Way::Down);
                }
                Fault::Late => self.stall(id, way, TIMEOUT / 3),
                Fault::Refuse => self.net.core.inject(ServerFault::refuse(ErrorCode::THROTTLED_OP)),
                Fault::Disown => {
                    self.net.core.inject(ServerFault::disown(ErrorCode::OPERATION_TIMEOUT));
                }
                Fault::ServeLate => self.net.core.inject(ServerFault::serve_late(RESTART)),
                _ => continue,
            }
            let at = self.time();
            self.record.has_struck(at, process, *index, *fault);
        }
    }

    /// Lets the faults strike that come behind the frame.
    pub(crate) fn strike_behind(&mut self, id: ConnectionId, struck: &Struck) {
        let Some(process) = self.net.links.get(&id).and_then(|link| link.party) else {
            return;
        };
        for (index, fault) in &struck.faults {
            match self.strikes_later {
                // When the process has made of the frame what it will.
                true => self.plan(now() + SOON, Due::Strike(*index, *fault, process)),
                false => self.try_strike(id, process, *index, *fault),
            }
        }
    }

    /// Lets a fault strike a moment behind its frame, in some levels at the holder of the lock.
    pub(crate) fn strike_later(&mut self, index: usize, fault: Fault, process: usize) {
        let process = match self.strikes_holders && fault != Fault::Reap {
            true => self.actors.iter().position(|actor| actor.believes),
            false => Some(process),
        };
        if let Some(process) = process
            && let Some(id) = self.links_of(Some(process)).first()
        {
            self.try_strike(*id, process, index, fault);
        }
    }

    fn try_strike(&mut self, id: ConnectionId, process: usize, index: usize, fault: Fault) {
        // Told first, so that what follows from it stands behind it.
        if self.can_strike(process, fault) {
            let at = self.time();
            self.record.has_struck(at, process, index, fault);
            self.strike(id, process, fault);
        }
    }

    /// True if a fault of this kind finds something to act on.
    fn can_strike(&self, process: usize, fault: Fault) -> bool {
        let Some(actor) = self.actors.get(process) else {
            return false;
        };
        let runs = actor.gate.mode() == GateMode::Open;
        let session = actor.session.filter(|it| self.net.core.session_deadline(*it).is_some());
        match fault {
            Fault::CutBehind | Fault::Restart => true,
            Fault::Expire | Fault::Isolate => session.is_some(),
            Fault::GiveUp => actor.is_acquiring && runs,
            Fault::Pause | Fault::Stop => runs,
            Fault::Crash | Fault::Close => runs && actor.turns_left > 0,
            Fault::Delete => self.nodes().iter().any(|(_, owner)| *owner == Some(process)),
            Fault::Purge | Fault::Write => !self.nodes().is_empty(),
            Fault::Reap => {
                self.net.core.has_node(FOLDER) && self.net.core.children(FOLDER).is_empty()
            }
            Fault::Cut
            | Fault::Silence
            | Fault::Late
            | Fault::Refuse
            | Fault::Disown
            | Fault::ServeLate => false,
        }
    }

    fn strike(&mut self, id: ConnectionId, process: usize, fault: Fault) {
        let Some(actor) = self.actors.get(process) else {
            return;
        };
        let session = actor.session;
        match fault {
            Fault::CutBehind => self.cut(id),
            Fault::Restart => {
                self.serve(|core, now| core.set_serving(now, false));
                self.plan(now() + RESTART, Due::Serve);
            }
            Fault::Expire => {
                self.excuse(process, EXCUSE);
                if let Some(session) = session {
                    self.serve(|core, now| core.expire(now, session));
                }
            }
            Fault::Isolate => {
                if let Some(session) = session {
                    self.serve(|core, _| core.partition(session));
                }
                self.plan(now() + NOTICES_AFTER, Due::Alone(id, process));
            }
            Fault::GiveUp => actor.given_up.notify_one(),
            Fault::Close => actor.closing.notify_one(),
            Fault::Pause => self.halt(process, TIMEOUT / 2),
            Fault::Stop => self.halt(process, 2 * TIMEOUT),
            Fault::Crash => {
                actor.gate.set(GateMode::Killed, false);
                self.believe(process, false);
                self.changed.notify_one();
            }
            Fault::Delete => {
                let own = self.nodes().into_iter().filter(|(_, owner)| *owner == Some(process));
                self.delete(own.take(1).collect());
            }
            Fault::Purge => self.delete(self.nodes()),
            Fault::Write => {
                for (node, _) in self.nodes() {
                    if let Some(operator) = &self.operator {
                        drop(operator.set_data(&node, b"written", None));
                    }
                }
            }
            Fault::Reap => self.serve(|core, now| core.reap(now)),
            _ => {}
        }
    }

    fn halt(&mut self, process: usize, time: Duration) {
        if let Some(actor) = self.actors.get(process) {
            actor.gate.set(GateMode::Frozen, false);
        }
        self.plan(now() + time, Due::Wake(process));
    }

    /// Lets the operator delete nodes.
    fn delete(&mut self, nodes: Vec<(String, Option<usize>)>) {
        for (node, owner) in nodes {
            if let Some(operator) = &self.operator {
                drop(operator.delete(&node, None));
            }
            if let Some(owner) = owner {
                self.excuse(owner, EXCUSE);
            }
        }
    }

    /// The nodes of the folder, with the processes that have created them.
    pub(crate) fn nodes(&self) -> Vec<(String, Option<usize>)> {
        let names = self.net.core.children(FOLDER).into_iter();
        let nodes = names.map(|name| {
            let path = format!("{FOLDER}/{name}");
            let owner = self.creator(&path).and_then(|session| self.owner(session));
            (path, owner)
        });
        nodes.collect()
    }

    /// The session that has created a node: its owner, unless the node is persistent.
    pub(crate) fn creator(&self, path: &str) -> Option<SessionId> {
        let stat = self.net.core.stat(path)?;
        let mut history = self.net.core.history().iter().rev();
        history.find(|one| one.zxid == stat.czxid && one.path == path)?.session
    }
}
