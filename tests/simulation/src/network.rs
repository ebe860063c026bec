//! The network of the seeds and of the planned faults: each direction of a connection may end
//! early, cut in the middle of a frame or silent for ever, and bytes arrive torn apart.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use zk_embedded::{Config, ConnectionId, Core, ErrorCode, Fault, Zxid};
use zk_inputs::Random;
use zk_proto::WatcherEvent;

use super::frames;
use super::journal::Journal;
pub(super) use super::link::Party;
use super::link::{Faults, Own, Tear};
use super::net::{Net, Traffic, Way, Wired};
use super::planned::{self, Fault as PlannedFault, Frame, Script};
use super::servers::Servers;
use super::wire::Reception;

/// The weather when nothing goes wrong.
const WEATHER: Weather = Weather { latency: 5, reception: Reception::Accept };

/// The faults that may happen in the network at this time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// The longest time that bytes travel, in milliseconds.
    pub(super) latency: u64,
    pub(super) reception: Reception,
}

pub(super) type Shared = Arc<Mutex<World>>;

pub(super) struct World {
    pub(super) net: Net<Self>,
    pub(super) journal: Journal,
    pub(super) weather: Weather,
    /// The faults at chosen frames, in a run that has these alone.
    pub(super) script: Option<Script>,
    pub(super) servers: Servers,
    /// The newest transaction that a reply has reported to each process.
    heard: BTreeMap<usize, Zxid>,
    random: Random,
}

impl World {
    pub(super) fn new(
        config: Config,
        journal: Journal,
        servers: Servers,
        script: Option<Script>,
        random: Random,
    ) -> Self {
        Self {
            net: Net::new(config),
            journal,
            weather: WEATHER,
            script,
            servers,
            heard: BTreeMap::new(),
            random,
        }
    }

    /// True if a session of this process may be over without a sign of that at the client: it ends
    /// with its connection, and the client still has one.
    pub(super) fn may_be_unaware(&self, process: usize) -> bool {
        let mut links = self.net.links.values();
        self.servers == Servers::Keeper
            && links.any(|link| link.party == Party::Process(process) && link.at_client)
    }

    pub(super) fn heard(&self, process: usize) -> Zxid {
        self.heard.get(&process).copied().unwrap_or_default()
    }

    /// Deletes what the server may delete by itself. Returns whether anything is deleted.
    pub(super) fn reaps(&mut self) -> bool {
        let before = self.net.core.last_zxid();
        self.serve(|core, now| core.reap(now));
        before != self.net.core.last_zxid()
    }

    /// Forgets what a process has received, because it restarts.
    pub(super) fn forget(&mut self, process: usize) {
        self.heard.remove(&process);
        self.journal.untold.remove(&process);
        self.journal.told.remove(&process);
    }

    /// Ends the possible faults from now on. Silent connections stay silent.
    pub(super) fn mend(&mut self) {
        self.weather = WEATHER;
        self.script.as_mut().into_iter().for_each(Script::end);
        for faults in self.net.links.values_mut().flat_map(|link| &mut link.own.faults) {
            *faults = Faults { is_shut: faults.is_shut, ..Faults::default() };
        }
    }

    /// The faults of one direction of a connection, which at least one side still has.
    pub(super) fn faults(&mut self, id: ConnectionId, way: Way) -> &mut Faults {
        &mut self.net.links.get_mut(&id).expect("a connection").own.faults[way as usize]
    }

    /// Sends the first of several frames ahead, if a tear is set for the next one.
    fn tear_apart(&mut self, id: ConnectionId, way: Way, bytes: &mut Bytes) {
        let first = frames::bounds(bytes).next().map(|frame| frame.end);
        let Some(end) = first.filter(|end| *end < bytes.len()) else {
            return;
        };
        let faults = self.faults(id, way);
        match faults.tear.take() {
            Some(Tear::Cut) => faults.budget = Some(end),
            Some(Tear::Pause(time)) => {
                let first = bytes.split_to(end);
                self.carry_part(id, way, first);
                self.stall(id, way, time);
                self.journal.strike("torn");
            }
            None => {}
        }
    }

    /// Takes an event out of the server's output. The event of a reader in the place of a former
    /// writer is not taken: nothing else would report it, since it takes no new sequence number.
    fn lose(&mut self, id: ConnectionId, bytes: Bytes) -> Bytes {
        let journal = &self.journal;
        let is_meant = |event: &WatcherEvent<'_>| !journal.is_recast(event.path);
        let Some((bounds, path)) = frames::event(&bytes, is_meant) else {
            return bytes;
        };
        self.journal.strike("event lost");
        self.journal
            .note(|| format!("net {id}: {}", frames::describe(Way::Down, &bytes[bounds.clone()])));
        if let Some(link) = self.net.links.get_mut(&id)
            && let Party::Process(process) = link.party
        {
            link.own.faults[Way::Down as usize].is_deaf = false;
            self.journal.untold.entry(process).or_default().insert(path);
        }
        [&bytes[..bounds.start], &bytes[bounds.end..]].concat().into()
    }

    fn carry_part(&mut self, id: ConnectionId, way: Way, bytes: Bytes) {
        if !bytes.is_empty() {
            self.carry(id, way, bytes);
        }
    }

    /// Lets the faults strike that are planned for a frame, and returns them. Those that end or
    /// silence its connection are the caller's, and those of processes and of the tree come behind
    /// the frame.
    fn strike(&mut self, id: ConnectionId, way: Way, bytes: &[u8]) -> Vec<PlannedFault> {
        let (Some(script), Some(link)) = (&mut self.script, self.net.links.get_mut(&id)) else {
            return Vec::new();
        };
        let Party::Process(process) = link.party else {
            return Vec::new();
        };
        if frames::is_ping(bytes) {
            return Vec::new();
        }
        let session = link.own.heard.session;
        let frame = match way {
            Way::Up if session.is_some() => Frame::Request,
            _ => Frame::Other,
        };
        if let Some(op) = frames::op(bytes).filter(|_| frame == Frame::Request) {
            script.count(op);
        }
        let (faults, core) = (script.strike(frame), &mut self.net.core);
        for fault in &faults {
            self.journal.note(|| format!("!!! {fault:?} at net {id} {way:?}"));
            match fault {
                PlannedFault::Refuse => core.inject(Fault::refuse(ErrorCode::THROTTLED_OP)),
                PlannedFault::Disown => core.inject(Fault::disown(script.unproven())),
                PlannedFault::ServeLate => core.inject(Fault::serve_late(planned::TIMEOUT / 5)),
                PlannedFault::Late => link.pipe(way).stall(planned::TIMEOUT / 3),
                PlannedFault::Cut | PlannedFault::CutBehind | PlannedFault::Silence => {}
                other => {
                    script.leave(*other, process, session);
                    continue;
                }
            }
            script.struck += 1;
        }
        faults
    }
}

impl Wired for World {
    type Machine = Core;
    type Party = Party;
    type Own = Own;
    type Flight = Bytes;
    type Due = Infallible;

    const MOST_STEPS: u64 = 3_000_000;

    fn net(&mut self) -> &mut Net<Self> {
        &mut self.net
    }

    fn dial(&mut self, party: Party) -> (Reception, Duration) {
        match party {
            Party::Operator => (Reception::Accept, Duration::from_millis(1)),
            Party::Process(_) => {
                let latency = match &self.script {
                    Some(script) => 2 * script.latency,
                    None => self.random.millis(0..2 * self.weather.latency + 1),
                };
                (self.weather.reception, latency)
            }
        }
    }

    fn connected(&mut self, id: ConnectionId, party: Party) -> Own {
        self.journal.note(|| format!("net {id}: {party:?} connects"));
        Own::default()
    }

    fn latency(&mut self, party: Party) -> Duration {
        match (party, &self.script) {
            (Party::Process(_), Some(script)) => script.latency,
            (Party::Process(_), None) => self.random.millis(0..self.weather.latency + 1),
            (Party::Operator, _) => self.random.millis(0..2),
        }
    }

    fn send(&mut self, id: ConnectionId, way: Way, mut bytes: Bytes) {
        let Some(link) = self.net.links.get_mut(&id) else {
            return;
        };
        if link.own.faults[way as usize].is_shut || !link.pipe(way).is_whole() {
            return;
        }
        if self.script.is_some() {
            for frame in frames::bounds(&bytes) {
                self.carry(id, way, bytes.slice(frame));
            }
            return;
        }
        if self.faults(id, way).is_deaf {
            bytes = self.lose(id, bytes);
        }
        self.tear_apart(id, way, &mut bytes);
        let faults = self.faults(id, way);
        if let Some(left) = &mut faults.budget {
            bytes.truncate(*left);
            *left -= bytes.len();
        }
        let spent = faults.budget == Some(0);
        if let Some(gap) = faults.drip.take() {
            for _ in 0..self.random.within(1..5).min(bytes.len() as u64) {
                let part = bytes.split_to(self.random.within(0..bytes.len() as u64) as usize);
                self.carry_part(id, way, part);
                let pause = self.random.millis(0..gap.as_millis() as u64);
                self.stall(id, way, pause);
            }
        }
        while bytes.len() > 1 && self.random.percent(30) {
            // A cut between two frames is the most dangerous.
            let ends = frames::bounds(&bytes).map(|frame| frame.end);
            let between = ends.filter(|end| *end < bytes.len()).collect::<Vec<_>>();
            let anywhere = self.random.within(1..bytes.len() as u64) as usize;
            let between = self.random.pick(&between).filter(|_| self.random.percent(50));
            let part = bytes.split_to(between.unwrap_or(anywhere));
            self.carry_part(id, way, part);
        }
        self.carry_part(id, way, bytes);
        if spent {
            self.journal.strike("cut in the middle");
            for way in Way::BOTH {
                self.faults(id, way).is_shut = true;
                self.end(id, way);
            }
        }
    }

    fn arrive(&mut self, id: ConnectionId, way: Way, bytes: Bytes) {
        let pipe = self.net.links.get_mut(&id).map(|link| link.pipe(way));
        if pipe.is_none_or(|pipe| !pipe.is_whole()) {
            return;
        }
        self.journal.note(|| format!("net {id} {way:?}: {}", frames::describe(way, &bytes)));
        if self.script.is_some() {
            self.journal.frame(id, way == Way::Up, &bytes);
        }
        let faults = self.strike(id, way, &bytes);
        if faults.contains(&PlannedFault::Cut) {
            return self.cut(id);
        }
        if faults.contains(&PlannedFault::Silence) {
            return self.fall_silent(id);
        }
        self.deliver(id, way, &bytes);
        if faults.contains(&PlannedFault::CutBehind) {
            self.cut(id);
        }
    }

    fn ends(&mut self, id: ConnectionId, way: Way) -> bool {
        self.journal.note(|| format!("net {id} {way:?}: end"));
        true
    }

    fn happen(&mut self, due: Infallible) {
        match due {}
    }

    fn acted(&mut self) {
        self.journal.commits(self.net.core.history());
    }

    fn accept(&mut self, bytes: &[u8]) -> usize {
        match self.script.is_none() && self.random.percent(5) {
            true => self.random.within(1..bytes.len() as u64 + 1) as usize,
            false => bytes.len(),
        }
    }

    fn has_read(&mut self, id: ConnectionId, bytes: &[u8]) {
        if let Some(link) = self.net.links.get_mut(&id)
            && let Party::Process(process) = link.party
        {
            let heard = self.heard.entry(process).or_default();
            *heard = link.own.heard.read(bytes).max(*heard);
            self.journal.tell(process, std::mem::take(&mut link.own.heard.deleted));
        }
    }

    fn stand_still(&mut self) {
        self.journal.violate("more events than time allows".to_owned());
    }
}
