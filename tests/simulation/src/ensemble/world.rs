//! The servers, the network between them and their clients, and the clock.
//!
//! Everything in flight waits on an agenda until it arrives. Each direction of a connection keeps
//! its order. It may stall, which delays all that is sent and breaks nothing, or fall silent, or be
//! cut.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::ReadBuf;
use zk_client::Host;
use zk_embedded::Config;

use super::judge::Believers;
use super::message::{Entry, LEADER, LinkId, ServerId, ToFollower, ToLeader};
use super::server::{Output, Server};
use super::tracker::Tracker;
use crate::agenda::Agenda;
use crate::clock::now;
use crate::frames;
use crate::inbox::Inbox;
use crate::journal::Journal;
use crate::link::Party;
use crate::one_server::Way;
use crate::wire::{Network, Reception};
use zk_inputs::Random;

/// More steps than any run has. Reaching it means that the time stands still.
const MAX_STEPS: u64 = 3_000_000;

pub(super) struct World {
    pub(super) journal: Journal,
    pub(super) servers: Vec<Server>,
    /// The leader's table of sessions.
    pub(super) tracker: Tracker,
    /// The leader's log.
    pub(super) log: Vec<Arc<Entry>>,
    /// The connections between the leader and each server; the leader's own is not used.
    pub(super) peers: Vec<Peer>,
    pub(super) believers: Believers,
    /// The longest time that any message takes, in milliseconds.
    pub(super) latency: u64,
    links: BTreeMap<LinkId, Link>,
    agenda: Agenda<Due>,
    /// How many connections clients have opened.
    connections: u64,
    settings: Settings,
    start: Instant,
    random: Random,
}

/// The configuration of the ensemble.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) tick: Duration,
    /// How long a follower continues without its leader: `syncLimit` ticks.
    pub(super) patience: Duration,
    /// Which servers check access lists by themselves.
    pub(super) is_eager: bool,
}

/// The connection of a follower to the leader.
pub(super) struct Peer {
    /// The number of this connection: messages of an earlier one do not arrive.
    generation: u64,
    up: Pipe,
    down: Pipe,
    /// When the follower last received something from the leader.
    heard: Instant,
    /// Whether the leader has accepted the follower.
    pub(super) is_joined: bool,
}

/// The connection of a client.
struct Link {
    party: Party,
    up: Pipe,
    down: Pipe,
    inbox: Inbox,
    is_cut: bool,
    is_left: bool,
}

/// One direction.
struct Pipe {
    /// What is sent from now on arrives no earlier than this.
    clear: Instant,
    /// When the last stall ends, or has ended.
    stalled: Instant,
    /// Nothing arrives any more.
    is_silent: bool,
}

enum Due {
    /// Half a tick has passed.
    HalfTick,
    Up(ServerId, u64, ToLeader),
    Down(ServerId, u64, ToFollower),
    Bytes(LinkId, Way, Bytes),
    End(LinkId, Way),
}

impl World {
    pub(super) fn new(
        settings: Settings,
        servers: usize,
        journal: Journal,
        mut random: Random,
    ) -> Self {
        let start = now();
        let server = |id| {
            let config = Config::new()
                .tick_time(settings.tick)
                .max_connections_per_host(0)
                .keep_history(id == LEADER);
            Server::new(id, config, start, settings.is_eager)
        };
        let peer = |_| Peer {
            generation: 0,
            up: Pipe::new(start),
            down: Pipe::new(start),
            heard: start,
            is_joined: true,
        };
        let mut world = Self {
            journal,
            servers: (0..servers).map(server).collect(),
            tracker: Tracker::new(settings.tick),
            log: Vec::new(),
            peers: (0..servers).map(peer).collect(),
            believers: Believers::default(),
            latency: random.within(2..20),
            links: BTreeMap::new(),
            agenda: Agenda::default(),
            connections: 0,
            settings,
            start,
            random: random.fork(),
        };
        world.agenda.plan(start, Due::HalfTick);
        world
    }

    pub(super) fn elapsed(&self) -> Duration {
        now() - self.start
    }

    /// The followers that the leader has accepted.
    pub(super) fn followers(&self) -> Vec<ServerId> {
        (0..self.servers.len()).filter(|id| *id != LEADER && self.peers[*id].is_joined).collect()
    }

    // The faults.

    /// The connections of one process's clients, or of all clients.
    pub(super) fn links(&self, process: Option<usize>) -> Vec<LinkId> {
        let is_meant = |link: &Link| {
            !link.is_left && process.is_none_or(|one| link.party == Party::Process(one))
        };
        self.links.iter().filter(|(_, link)| is_meant(link)).map(|(id, _)| *id).collect()
    }

    /// Delays everything that is sent from now on by at least these times, in each direction.
    pub(super) fn stall_link(&mut self, id: LinkId, up: Duration, down: Duration) {
        if let Some(link) = self.links.get_mut(&id) {
            link.up.stall(up);
            link.down.stall(down);
        }
    }

    pub(super) fn stall_peer(&mut self, id: ServerId, up: Duration, down: Duration) {
        self.peers[id].up.stall(up);
        self.peers[id].down.stall(down);
    }

    /// Drops everything in both directions from now on, including the end of the connection.
    pub(super) fn silence_link(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            (link.up.is_silent, link.down.is_silent) = (true, true);
        }
    }

    /// Ends a connection: each side notices after a while, and bytes in flight are lost.
    pub(super) fn cut_link(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.is_cut = true;
            self.end(id, Way::Up);
            self.end(id, Way::Down);
        }
    }

    /// True if nothing delays the connection between a follower and the leader, nor has delayed it
    /// a moment ago.
    pub(super) fn is_well(&self, id: ServerId) -> bool {
        let Peer { up, down, is_joined, .. } = &self.peers[id];
        *is_joined && up.stalled.max(down.stalled) + self.settings.tick < now()
    }

    /// Breaks the connection between a follower and the leader, so that both notice at once. A
    /// stall continues on the next connection.
    pub(super) fn break_peer(&mut self, id: ServerId) {
        let peer = &mut self.peers[id];
        peer.generation += 1;
        peer.is_joined = false;
        self.servers[id].give_up();
        self.flush(id);
    }

    // The transport.

    fn latency(&mut self) -> Duration {
        self.random.millis(0..self.latency + 1)
    }

    /// Sends a message from the leader to a server.
    pub(super) fn tell(&mut self, to: ServerId, message: ToFollower) {
        if to == LEADER {
            return self.servers[to].handle_message(message);
        }
        let latency = self.latency();
        let Peer { down, generation, .. } = &mut self.peers[to];
        let (at, generation) = (down.arrival(latency), *generation);
        self.agenda.plan(at, Due::Down(to, generation, message));
    }

    /// Transmits the output of a server.
    fn flush(&mut self, id: ServerId) {
        while let Some(output) = self.servers[id].poll_output() {
            match output {
                Output::ToLeader(message) if id == LEADER => self.lead(id, message),
                Output::ToLeader(message) => {
                    let latency = self.latency();
                    let Peer { up, generation, .. } = &mut self.peers[id];
                    let (at, generation) = (up.arrival(latency), *generation);
                    self.agenda.plan(at, Due::Up(id, generation, message));
                }
                Output::ToClient(link, bytes) => self.carry(link, Way::Down, bytes),
                Output::Close(link) => self.end(link, Way::Down),
            }
        }
    }

    /// When bytes that are sent now to or by a client arrive.
    fn arrival(&mut self, id: LinkId, way: Way) -> Option<Instant> {
        let latency = self.latency();
        let link = self.links.get_mut(&id)?;
        let latency = if link.party == Party::Operator { Duration::ZERO } else { latency };
        let pipe = match way {
            Way::Up => &mut link.up,
            Way::Down => &mut link.down,
        };
        let at = pipe.arrival(latency);
        (!pipe.is_silent).then_some(at)
    }

    fn carry(&mut self, id: LinkId, way: Way, bytes: Bytes) {
        if let Some(at) = self.arrival(id, way) {
            self.agenda.plan(at, Due::Bytes(id, way, bytes));
        }
    }

    fn end(&mut self, id: LinkId, way: Way) {
        if let Some(at) = self.arrival(id, way) {
            self.agenda.plan(at, Due::End(id, way));
        }
    }

    // The steps.

    fn happen(&mut self, due: Due) {
        match due {
            Due::HalfTick => self.half_tick(),
            Due::Up(from, generation, message) => {
                if self.peers[from].generation == generation {
                    self.journal.note(|| format!("zk{from} -> zk0: {message}"));
                    self.lead(from, message);
                }
            }
            Due::Down(to, generation, message) => {
                if self.peers[to].generation == generation {
                    self.peers[to].heard = now();
                    if !matches!(message, ToFollower::Ping) {
                        self.journal.note(|| format!("zk0 -> zk{to}: {message}"));
                    }
                    self.servers[to].handle_message(message);
                    self.flush(to);
                }
            }
            Due::Bytes(id, way, bytes) => {
                let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_cut) else {
                    return;
                };
                let party = link.party;
                self.journal
                    .note(|| format!("{party:?} {id} {way:?}: {}", frames::describe(way, &bytes)));
                match way {
                    Way::Up => {
                        self.servers[id.server].handle_input(id, &bytes);
                        self.flush(id.server);
                    }
                    Way::Down => link.inbox.push(&bytes),
                }
            }
            Due::End(id, Way::Up) => {
                self.servers[id.server].handle_disconnected(id);
                self.flush(id.server);
            }
            Due::End(id, Way::Down) => {
                if let Some(link) = self.links.get_mut(&id) {
                    link.inbox.end();
                }
            }
        }
    }

    fn half_tick(&mut self) {
        self.lead_on();
        for id in 1..self.servers.len() {
            if !self.servers[id].serves() {
                let applied = self.servers[id].applied();
                let latency = self.latency();
                let Peer { up, generation, .. } = &mut self.peers[id];
                let (at, generation) = (up.arrival(latency), *generation);
                self.agenda.plan(at, Due::Up(id, generation, ToLeader::Join { applied }));
            } else if now() - self.peers[id].heard > self.settings.patience {
                self.journal.strike("follower gave up");
                self.break_peer(id);
            }
        }
        self.agenda.plan(now() + self.settings.tick / 2, Due::HalfTick);
    }
}

impl Network for World {
    type Party = Party;
    type Link = LinkId;

    fn dial(&mut self, _: Party, host: &Host) -> (Reception, Duration) {
        let reception = match self.servers[server(host)].serves() {
            true => Reception::Accept,
            false => Reception::Refuse,
        };
        (reception, self.latency())
    }

    fn connect(&mut self, party: Party, host: &Host) -> LinkId {
        self.connections += 1;
        let id = LinkId { server: server(host), number: self.connections };
        let (up, down) = (Pipe::new(now()), Pipe::new(now()));
        let (inbox, is_cut, is_left) = (Inbox::default(), false, false);
        self.links.insert(id, Link { party, up, down, inbox, is_cut, is_left });
        self.journal.note(|| format!("{party:?} connects: {id}"));
        self.servers[id.server].handle_connected(id);
        self.flush(id.server);
        id
    }

    fn poll_read(&mut self, id: LinkId, cx: &Context<'_>, into: &mut ReadBuf<'_>) -> Poll<()> {
        let Some(link) = self.links.get_mut(&id) else {
            return Poll::Ready(());
        };
        link.inbox.poll_read(cx, into).map(drop)
    }

    fn write(&mut self, id: LinkId, bytes: &[u8]) -> usize {
        self.carry(id, Way::Up, Bytes::copy_from_slice(bytes));
        bytes.len()
    }

    fn leave_client(&mut self, id: LinkId) {
        self.end(id, Way::Up);
        if let Some(link) = self.links.get_mut(&id) {
            link.is_left = true;
        }
    }

    fn poll_turn(&mut self, cx: &Context<'_>) -> Option<Instant> {
        while let Some(due) = self.agenda.next(now()) {
            if self.agenda.steps > MAX_STEPS {
                self.journal.violate("more events than time allows".to_owned());
                return None;
            }
            self.happen(due);
            // A step of a follower may give the leader something to send too.
            self.flush(LEADER);
        }
        self.agenda.wait(cx);
        self.agenda.first()
    }
}

/// The name of a server, for clients.
pub(super) fn name(server: ServerId) -> String {
    format!("zk{server}:2181")
}

fn server(host: &Host) -> ServerId {
    host.name.trim_start_matches("zk").parse().unwrap()
}

impl Pipe {
    fn new(now: Instant) -> Self {
        Self { clear: now, stalled: now, is_silent: false }
    }

    fn stall(&mut self, time: Duration) {
        self.stalled = self.stalled.max(now() + time);
        self.clear = self.clear.max(self.stalled);
    }

    /// When something that is sent now arrives, behind everything that was sent before.
    fn arrival(&mut self, latency: Duration) -> Instant {
        self.clear = self.clear.max(now() + latency);
        self.clear
    }
}
