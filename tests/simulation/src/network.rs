//! One server and the network around it, on virtual time.
//!
//! Bytes wait on an agenda until they arrive. Each direction of a connection keeps its order and
//! may end early: cut in the middle of a frame, or silent for ever. The server is only its state
//! machine, so that nothing happens that is not on the agenda or called by a client.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::ReadBuf;
use zk_client::Host;
use zk_embedded::{Config, ConnectionId, Core, ErrorCode, Fault, Zxid};
use zk_proto::WatcherEvent;

use super::clock::now;
use super::frames;
use super::journal::Journal;
use super::link::{Link, Pipe, Tear};
pub(super) use super::link::{Party, Way};
use super::planned::{self, Fault as PlannedFault, Frame, Script};
use super::servers::Servers;
use super::wire::Network;
pub(super) use super::wire::Reception;
use zk_inputs::Random;

/// The server's wall clock at the start of every simulation.
pub(super) const WALL: Duration = Duration::from_secs(1_700_000_000);

/// The weather when nothing goes wrong.
const WEATHER: Weather = Weather { latency: 5, reception: Reception::Accept };

/// More steps than any run has. Reaching it means that the time stands still.
const MAX_STEPS: u64 = 3_000_000;

/// The faults that may happen in the network at this time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// The longest time that bytes travel, in milliseconds.
    pub(super) latency: u64,
    pub(super) reception: Reception,
}

pub(super) type Shared = Arc<Mutex<World>>;

pub(super) struct World {
    pub(super) core: Core,
    pub(super) journal: Journal,
    pub(super) weather: Weather,
    /// The faults at chosen frames, in a run that has these alone.
    pub(super) script: Option<Script>,
    pub(super) servers: Servers,
    links: BTreeMap<ConnectionId, Link>,
    agenda: BTreeMap<(Instant, u64), Due>,
    entries: u64,
    steps: u64,
    /// The newest transaction that a reply has reported to each process.
    heard: BTreeMap<usize, Zxid>,
    random: Random,
    pump: Option<Waker>,
}

enum Due {
    Bytes(ConnectionId, Way, Bytes),
    End(ConnectionId, Way),
    /// A reply that the server held back.
    Reply(ConnectionId),
}

impl World {
    pub(super) fn new(config: Config, journal: Journal, random: Random) -> Self {
        Self {
            core: Core::new(config, now(), WALL),
            journal,
            weather: WEATHER,
            script: None,
            servers: Servers::Apache,
            links: BTreeMap::new(),
            agenda: BTreeMap::new(),
            entries: 0,
            steps: 0,
            heard: BTreeMap::new(),
            random,
            pump: None,
        }
    }

    /// True if a session of this process may be over without a sign of that at the client: it ends
    /// with its connection, and the client still has one.
    pub(super) fn may_be_unaware(&self, process: usize) -> bool {
        let mut links = self.links.values();
        self.servers == Servers::Keeper
            && links.any(|link| link.party == Party::Process(process) && link.at_client)
    }

    /// Calls the server, and transmits its output.
    pub(super) fn serve<R>(&mut self, act: impl FnOnce(&mut Core, Instant) -> R) -> R {
        let result = act(&mut self.core, now());
        let Self { journal, core, .. } = self;
        journal.commits(core.history());
        while let Some(id) = self.core.poll_ready() {
            self.transmit(id);
        }
        self.wake();
        result
    }

    /// The connections of processes that both sides still have.
    pub(super) fn links(&self) -> Vec<ConnectionId> {
        let faulty = |link: &Link| link.party != Party::Operator && link.at_client;
        self.links.iter().filter(|(_, link)| faulty(link)).map(|(id, _)| *id).collect()
    }

    pub(super) fn links_of(&self, party: Party) -> Vec<ConnectionId> {
        let of = |link: &Link| link.party == party && link.at_client;
        self.links.iter().filter(|(_, link)| of(link)).map(|(id, _)| *id).collect()
    }

    /// Ends a connection: each side notices after a while, and bytes in flight are lost.
    pub(super) fn cut(&mut self, id: ConnectionId) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        for pipe in [&mut link.up, &mut link.down] {
            pipe.is_cut = true;
        }
        self.end(id, Way::Up);
        self.end(id, Way::Down);
    }

    /// Cuts a connection after so many more bytes in this direction.
    pub(super) fn cut_after(&mut self, id: ConnectionId, way: Way, bytes: usize) {
        if let Some(pipe) = self.pipe(id, way) {
            pipe.budget.get_or_insert(bytes);
        }
    }

    /// Drops everything in this direction from now on, including the end of the connection.
    pub(super) fn silence(&mut self, id: ConnectionId, way: Way) {
        if let Some(pipe) = self.pipe(id, way) {
            pipe.is_silent = true;
        }
    }

    /// Drops the next event for this client.
    pub(super) fn lose_event(&mut self, id: ConnectionId) {
        if let Some(pipe) = self.pipe(id, Way::Down) {
            pipe.is_deaf = true;
        }
    }

    /// Delays everything that is sent in this direction from now on by at least this time.
    pub(super) fn stall(&mut self, id: ConnectionId, way: Way, time: Duration) {
        if let Some(pipe) = self.pipe(id, way) {
            pipe.clear = pipe.clear.max(now() + time);
        }
    }

    /// Sets a tear for the next two frames that the client sends together.
    pub(super) fn tear(&mut self, id: ConnectionId, tear: Tear) {
        if let Some(pipe) = self.pipe(id, Way::Up) {
            pipe.tear = Some(tear);
        }
    }

    /// Lets what the server sends next arrive in pieces that come so long after another at most.
    pub(super) fn drip(&mut self, id: ConnectionId, gap: Duration) {
        if let Some(pipe) = self.pipe(id, Way::Down) {
            pipe.drip = Some(gap);
        }
    }

    pub(super) fn heard(&self, process: usize) -> Zxid {
        self.heard.get(&process).copied().unwrap_or_default()
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
        self.links.values_mut().for_each(Link::mend);
    }

    fn pipe(&mut self, id: ConnectionId, way: Way) -> Option<&mut Pipe> {
        self.links.get_mut(&id).map(|link| link.pipe(way))
    }

    fn wake(&mut self) {
        if let Some(pump) = self.pump.take() {
            pump.wake();
        }
    }

    fn plan(&mut self, at: Instant, due: Due) {
        self.entries += 1;
        self.agenda.insert((at, self.entries), due);
        self.wake();
    }

    /// When something that is sent now arrives, behind everything that was sent before.
    fn arrival(&mut self, id: ConnectionId, way: Way) -> Option<Instant> {
        let latency = match (self.links.get(&id)?.party, &self.script) {
            (Party::Process(_), Some(script)) => script.latency,
            (Party::Process(_), None) => self.random.millis(0..self.weather.latency + 1),
            (Party::Operator, _) => self.random.millis(0..2),
        };
        let at = now() + latency;
        let pipe = self.pipe(id, way)?;
        pipe.clear = pipe.clear.max(at);
        Some(pipe.clear)
    }

    fn carry(&mut self, id: ConnectionId, way: Way, mut bytes: Bytes) {
        let is_planned = self.script.is_some();
        let Some(pipe) = self.pipe(id, way) else {
            return;
        };
        if pipe.is_shut || pipe.is_cut || pipe.is_silent {
            return;
        }
        if is_planned {
            let mut start = 0;
            for end in frames::ends(&bytes) {
                self.carry_whole(id, way, bytes.slice(std::mem::replace(&mut start, end)..end));
            }
            return;
        }
        if pipe.is_deaf {
            bytes = self.lose(id, bytes);
        }
        self.tear_apart(id, way, &mut bytes);
        let Some(pipe) = self.pipe(id, way) else {
            return;
        };
        if let Some(left) = &mut pipe.budget {
            bytes.truncate(*left);
            *left -= bytes.len();
        }
        let spent = pipe.budget == Some(0);
        if let Some(gap) = pipe.drip.take() {
            for _ in 0..self.random.within(1..5).min(bytes.len() as u64) {
                let part = bytes.split_to(self.random.within(0..bytes.len() as u64) as usize);
                self.carry_whole(id, way, part);
                let pause = self.random.millis(0..gap.as_millis() as u64);
                self.stall(id, way, pause);
            }
        }
        while bytes.len() > 1 && self.random.percent(30) {
            // A cut between two frames is the most dangerous.
            let between = frames::ends(&bytes).filter(|end| *end < bytes.len()).collect::<Vec<_>>();
            let anywhere = self.random.within(1..bytes.len() as u64) as usize;
            let between = self.random.pick(&between).filter(|_| self.random.percent(50));
            let part = bytes.split_to(between.unwrap_or(anywhere));
            self.carry_whole(id, way, part);
        }
        self.carry_whole(id, way, bytes);
        if spent {
            self.journal.strike("cut in the middle");
            for way in [Way::Up, Way::Down] {
                if let Some(pipe) = self.pipe(id, way) {
                    pipe.is_shut = true;
                }
                self.end(id, way);
            }
        }
    }

    /// Sends the first of several frames ahead, if a tear is set for the next one.
    fn tear_apart(&mut self, id: ConnectionId, way: Way, bytes: &mut Bytes) {
        let Some(Pipe { tear: tear @ Some(_), budget, .. }) = self.pipe(id, way) else {
            return;
        };
        let Some(end) = frames::ends(bytes).next().filter(|end| *end < bytes.len()) else {
            return;
        };
        match tear.take() {
            Some(Tear::Cut) => *budget = Some(end),
            Some(Tear::Pause(time)) => {
                let first = bytes.split_to(end);
                self.carry_whole(id, way, first);
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
        if let Some(Link { party: Party::Process(process), down, .. }) = self.links.get_mut(&id) {
            down.is_deaf = false;
            self.journal.untold.entry(*process).or_default().insert(path);
        }
        let mut rest = BytesMut::from(&bytes[..bounds.start]);
        rest.extend_from_slice(&bytes[bounds.end..]);
        rest.freeze()
    }

    fn carry_whole(&mut self, id: ConnectionId, way: Way, bytes: Bytes) {
        if !bytes.is_empty()
            && let Some(at) = self.arrival(id, way)
        {
            self.plan(at, Due::Bytes(id, way, bytes));
        }
    }

    fn end(&mut self, id: ConnectionId, way: Way) {
        if let Some(at) = self.arrival(id, way) {
            self.plan(at, Due::End(id, way));
        }
    }

    /// Sends the server's output for a connection.
    fn transmit(&mut self, id: ConnectionId) {
        let mut out = BytesMut::new();
        let close = self.core.poll_transmit(now(), id, &mut out);
        if !out.is_empty() {
            self.carry(id, Way::Down, out.freeze());
        }
        if close {
            self.end(id, Way::Down);
            self.leave_server(id);
        } else if let Some(at) = self.core.poll_delay(id) {
            self.plan(at, Due::Reply(id));
        }
    }

    fn leave_server(&mut self, id: ConnectionId) {
        if let Some(link) = self.links.get_mut(&id)
            && std::mem::replace(&mut link.at_server, false)
        {
            self.core.handle_disconnected(id);
            self.tidy(id);
        }
    }

    fn tidy(&mut self, id: ConnectionId) {
        if self.links.get(&id).is_some_and(|link| !link.at_client && !link.at_server) {
            self.links.remove(&id);
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Reply(id) => self.transmit(id),
            Due::Bytes(id, way, bytes) => {
                let Some(pipe) = self.pipe(id, way) else {
                    return;
                };
                if pipe.is_cut || pipe.is_silent {
                    return;
                }
                self.journal
                    .note(|| format!("net {id} {way:?}: {}", frames::describe(way, &bytes)));
                if self.script.is_some() {
                    self.journal.frame(id, way == Way::Up, &bytes);
                }
                self.arrive(id, way, &bytes);
            }
            Due::End(id, way) => {
                if self.pipe(id, way).is_none_or(|pipe| pipe.is_silent) {
                    return;
                }
                self.journal.note(|| format!("net {id} {way:?}: end"));
                match way {
                    Way::Up => {
                        self.leave_server(id);
                        self.serve(|_, _| ());
                    }
                    Way::Down => {
                        if let Some(link) = self.links.get_mut(&id) {
                            link.inbox.end();
                        }
                    }
                }
            }
        }
    }

    fn arrive(&mut self, id: ConnectionId, way: Way, bytes: &[u8]) {
        let faults = self.strike(id, way, bytes);
        if faults.contains(&PlannedFault::Cut) {
            return self.cut(id);
        }
        if faults.contains(&PlannedFault::Silence) {
            self.silence(id, Way::Up);
            return self.silence(id, Way::Down);
        }
        self.deliver(id, way, bytes);
        if faults.contains(&PlannedFault::CutBehind) {
            self.cut(id);
        }
    }

    /// Lets the faults strike that are planned for a frame, and returns them. Those that end or
    /// silence its connection are the caller's, and those of processes and of the tree come behind
    /// the frame.
    fn strike(&mut self, id: ConnectionId, way: Way, bytes: &[u8]) -> Vec<PlannedFault> {
        let (Some(script), Some(link)) = (&mut self.script, self.links.get(&id)) else {
            return Vec::new();
        };
        let Party::Process(process) = link.party else {
            return Vec::new();
        };
        if frames::is_ping(bytes) {
            return Vec::new();
        }
        let session = link.heard.session;
        let frame = match way {
            Way::Up if session.is_some() => Frame::Request,
            _ => Frame::Other,
        };
        let faults = script.strike(frame);
        for fault in &faults {
            self.journal.note(|| format!("!!! {fault:?} at net {id} {way:?}"));
            match fault {
                PlannedFault::Refuse => {
                    self.core.inject(Fault::refuse(ErrorCode::THROTTLED_OP));
                    script.has_struck();
                }
                PlannedFault::Disown => {
                    self.core.inject(Fault::disown(script.unproven()));
                    script.has_struck();
                }
                PlannedFault::ServeLate => {
                    self.core.inject(Fault::serve_late(planned::TIMEOUT / 5));
                    script.has_struck();
                }
                PlannedFault::Cut
                | PlannedFault::CutBehind
                | PlannedFault::Silence
                | PlannedFault::Late => script.has_struck(),
                other => script.leave(*other, process, session),
            }
        }
        if faults.contains(&PlannedFault::Late) {
            self.stall(id, way, planned::TIMEOUT / 3);
        }
        faults
    }

    fn deliver(&mut self, id: ConnectionId, way: Way, bytes: &[u8]) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        match way {
            Way::Up if link.at_server => {
                let mut input = std::mem::take(&mut link.input);
                input.extend_from_slice(bytes);
                self.serve(|core, now| core.handle_input(now, id, &mut input));
                if let Some(link) = self.links.get_mut(&id) {
                    link.input = input;
                }
            }
            Way::Up => {}
            Way::Down => link.inbox.push(bytes),
        }
    }

    /// Does everything that is due. Returns when something is due next.
    fn turn(&mut self) -> Option<Instant> {
        loop {
            let now = now();
            if self.core.poll_timeout().is_some_and(|at| at <= now) {
                self.serve(Core::handle_timeout);
            }
            match self.agenda.first_key_value() {
                Some(((at, _), _)) if *at <= now => {}
                first => {
                    let first = first.map(|((at, _), _)| *at);
                    return [first, self.core.poll_timeout()].into_iter().flatten().min();
                }
            }
            self.steps += 1;
            if self.steps > MAX_STEPS {
                self.journal.violate("more events than time allows".to_owned());
                return None;
            }
            if let Some((_, due)) = self.agenda.pop_first() {
                self.happen(due);
            }
        }
    }
}

impl Network for World {
    type Party = Party;
    type Link = ConnectionId;

    fn connect(&mut self, party: Party, _: &Host) -> ConnectionId {
        let peer = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 50_000);
        let id = self.serve(|core, now| core.handle_connection(now, peer));
        self.links.insert(id, Link::new(party, now()));
        self.journal.note(|| format!("net {id}: {party:?} connects"));
        id
    }

    fn leave_client(&mut self, id: ConnectionId) {
        self.end(id, Way::Up);
        if let Some(link) = self.links.get_mut(&id) {
            link.at_client = false;
            self.tidy(id);
        }
    }

    fn poll_turn(&mut self, cx: &Context<'_>) -> Option<Instant> {
        let next = self.turn();
        self.pump = Some(cx.waker().clone());
        next
    }

    fn poll_read(
        &mut self,
        id: ConnectionId,
        cx: &Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<()> {
        let Some(link) = self.links.get_mut(&id) else {
            return Poll::Ready(());
        };
        let read = ready!(link.inbox.poll_read(cx, into));
        if let Party::Process(process) = link.party {
            let heard = self.heard.entry(process).or_default();
            *heard = link.heard.read(&read).max(*heard);
            self.journal.tell(process, std::mem::take(&mut link.heard.deleted));
        }
        Poll::Ready(())
    }

    fn write(&mut self, id: ConnectionId, bytes: &[u8]) -> usize {
        let count = match self.script.is_none() && self.random.percent(5) {
            true => self.random.within(1..bytes.len() as u64 + 1) as usize,
            false => bytes.len(),
        };
        self.carry(id, Way::Up, Bytes::copy_from_slice(&bytes[..count]));
        count
    }

    fn dial(&mut self, party: Party, _: &Host) -> (Reception, Duration) {
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
}
