//! The servers, the network between them and their clients, and the clock.
//!
//! Everything in flight waits on an agenda until it arrives. Each direction of a connection keeps
//! its order. It may stall, which delays all that is sent and breaks nothing, or fall silent, or be
//! cut.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::ReadBuf;
use zk_client::Host;
use zk_embedded::Config;
use zk_recipes::Guard;

use super::TICK;
use super::leader::Tracked;
use super::message::{Entry, LEADER, LinkId, ServerId, ToFollower, ToLeader};
use super::server::{Output, Server};
use crate::agenda::Agenda;
use crate::clock::now;
use crate::frames;
use crate::gate::Gate;
use crate::inbox::Inbox;
use crate::journal::Journal;
use crate::link::Party;
use crate::one_server::{Pipe, Way};
use crate::process::Phase;
use crate::wire::{Network, Reception};
use zk_inputs::Random;

/// More steps than any run has. Reaching it means that the time stands still.
const MAX_STEPS: u64 = 3_000_000;

pub(super) struct World {
    pub(super) journal: Journal,
    pub(super) phase: Phase,
    /// The gate of each process in its current life.
    pub(super) gates: BTreeMap<usize, Arc<Gate>>,
    /// The processes that got the lock in the calm.
    pub(super) served: BTreeSet<usize>,
    /// How many processes there ever were.
    pub(super) processes: usize,
    pub(super) servers: Vec<Server>,
    /// The leader's table of sessions, by their ids.
    pub(super) sessions: BTreeMap<i64, Tracked>,
    /// The leader's log.
    pub(super) log: Vec<Arc<Entry>>,
    /// The connections between the leader and each server; the leader's own is not used.
    pub(super) peers: Vec<Peer>,
    /// The guards, each with its process. The newest ones come last.
    pub(super) believers: Vec<(usize, Arc<Guard>)>,
    /// The longest time that any message takes, in milliseconds.
    pub(super) latency: u64,
    links: BTreeMap<LinkId, Link>,
    agenda: Agenda<Due>,
    /// How long a follower continues without its leader: `syncLimit` ticks.
    patience: Duration,
    random: Random,
}

/// The connection of a follower to the leader.
pub(super) struct Peer {
    /// The number of this connection: messages of an earlier one do not arrive.
    generation: u64,
    /// To the leader, and to the follower, in the order of `Way`.
    pipes: [Pipe; 2],
    /// When the last stall ends, or has ended.
    stalled: Instant,
    /// When the follower last received something from the leader.
    heard: Instant,
    /// Whether the leader has accepted the follower.
    pub(super) is_joined: bool,
}

/// The connection of a client.
struct Link {
    party: Party,
    /// To the server, and to the client, in the order of `Way`.
    pipes: [Pipe; 2],
    inbox: Inbox,
    is_cut: bool,
    is_left: bool,
}

enum Due {
    /// Half a tick has passed.
    HalfTick,
    Up(ServerId, u64, ToLeader),
    Down(ServerId, u64, ToFollower),
    /// Bytes of a client's connection arrive, or its end.
    Bytes(LinkId, Way, Option<Bytes>),
}

impl World {
    /// So many servers, of which each checks access lists by itself if that is wanted.
    pub(super) fn new(
        servers: usize,
        is_eager: bool,
        patience: Duration,
        journal: Journal,
        mut random: Random,
    ) -> Self {
        let start = now();
        let server = |id| {
            let config = Config::new()
                .tick_time(TICK)
                .max_connections_per_host(0)
                .keep_history(id == LEADER);
            Server::new(id, config, start, is_eager)
        };
        let pipes = || [Pipe::new(start), Pipe::new(start)];
        let (generation, stalled, heard, is_joined) = (0, start, start, true);
        let peer = |_| Peer { generation, pipes: pipes(), stalled, heard, is_joined };
        let mut world = Self {
            journal,
            phase: Phase::Storm,
            gates: BTreeMap::new(),
            served: BTreeSet::new(),
            processes: 0,
            servers: (0..servers).map(server).collect(),
            sessions: BTreeMap::new(),
            log: Vec::new(),
            peers: (0..servers).map(peer).collect(),
            believers: Vec::new(),
            latency: random.within(2..20),
            links: BTreeMap::new(),
            agenda: Agenda::default(),
            patience,
            random: random.fork(),
        };
        world.agenda.plan(start, Due::HalfTick);
        world
    }

    /// The leader, and the followers that it has accepted.
    pub(super) fn joined(&self) -> Vec<ServerId> {
        (0..self.servers.len()).filter(|id| self.peers[*id].is_joined).collect()
    }

    fn link(&mut self, id: LinkId) -> &mut Link {
        self.links.get_mut(&id).expect("a connection, of which none is removed")
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
    pub(super) fn stall_link(&mut self, id: LinkId, times: [Duration; 2]) {
        let pipes = self.link(id).pipes.iter_mut();
        pipes.zip(times).for_each(|(pipe, time)| pipe.stall(time));
    }

    pub(super) fn stall_peer(&mut self, id: ServerId, times: [Duration; 2]) {
        let Peer { pipes, stalled, .. } = &mut self.peers[id];
        for (pipe, time) in pipes.iter_mut().zip(times) {
            pipe.stall(time);
            *stalled = (*stalled).max(now() + time);
        }
    }

    /// Drops everything in both directions from now on, including the end of the connection.
    pub(super) fn silence_link(&mut self, id: LinkId) {
        self.link(id).pipes.iter_mut().for_each(|pipe| pipe.is_silent = true);
    }

    /// Ends a connection: each side notices after a while, and bytes in flight are lost.
    pub(super) fn cut_link(&mut self, id: LinkId) {
        self.link(id).is_cut = true;
        self.carry(id, Way::Up, None);
        self.carry(id, Way::Down, None);
    }

    /// True if nothing delays the connection between a follower and the leader, nor has delayed it
    /// a moment ago.
    pub(super) fn is_well(&self, id: ServerId) -> bool {
        self.peers[id].is_joined && self.peers[id].stalled + TICK < now()
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
        let (at, generation) = self.peer_arrival(to, Way::Down);
        self.agenda.plan(at, Due::Down(to, generation, message));
    }

    /// When a message arrives that is sent now between a follower and the leader, and on which of
    /// their connections.
    fn peer_arrival(&mut self, id: ServerId, way: Way) -> (Instant, u64) {
        let latency = self.latency();
        let peer = &mut self.peers[id];
        (peer.pipes[way as usize].arrival(latency), peer.generation)
    }

    /// Transmits the output of a server.
    fn flush(&mut self, id: ServerId) {
        while let Some(output) = self.servers[id].output.pop_front() {
            match output {
                Output::ToLeader(message) if id == LEADER => self.lead(id, message),
                Output::ToLeader(message) => {
                    let (at, generation) = self.peer_arrival(id, Way::Up);
                    self.agenda.plan(at, Due::Up(id, generation, message));
                }
                Output::ToClient(link, bytes) => self.carry(link, Way::Down, bytes),
            }
        }
    }

    /// Sends bytes to or from a client, or the end of its connection.
    fn carry(&mut self, id: LinkId, way: Way, bytes: Option<Bytes>) {
        let latency = self.latency();
        let Link { party, pipes, .. } = self.link(id);
        let pipe = &mut pipes[way as usize];
        let at = pipe.arrival(if *party == Party::Operator { Duration::ZERO } else { latency });
        if !pipe.is_silent {
            self.agenda.plan(at, Due::Bytes(id, way, bytes));
        }
    }

    // The steps.

    fn happen(&mut self, due: Due) {
        match due {
            Due::HalfTick => self.half_tick(),
            Due::Up(id, generation, _) | Due::Down(id, generation, _)
                if self.peers[id].generation != generation => {}
            Due::Up(from, _, message) => {
                self.journal.note(|| format!("zk{from} -> zk0: {message}"));
                self.lead(from, message);
            }
            Due::Down(to, _, message) => {
                self.peers[to].heard = now();
                if !matches!(message, ToFollower::Ping) {
                    self.journal.note(|| format!("zk0 -> zk{to}: {message}"));
                }
                self.servers[to].handle_message(message);
                self.flush(to);
            }
            Due::Bytes(id, way, bytes) => self.arrive(id, way, bytes),
        }
    }

    /// Bytes of a client's connection arrive, or its end.
    fn arrive(&mut self, id: LinkId, way: Way, bytes: Option<Bytes>) {
        let Link { party, is_cut, .. } = *self.link(id);
        if let Some(bytes) = &bytes {
            if is_cut {
                return;
            }
            let described = || format!("{party:?} {id} {way:?}: {}", frames::describe(way, bytes));
            self.journal.note(described);
        }
        match (way, bytes) {
            (Way::Down, Some(bytes)) => self.link(id).inbox.push(&bytes),
            (Way::Down, None) => self.link(id).inbox.end(),
            (Way::Up, Some(bytes)) => self.servers[id.server].handle_input(id, &bytes),
            (Way::Up, None) => self.servers[id.server].handle_disconnected(id),
        }
        self.flush(id.server);
    }

    fn half_tick(&mut self) {
        self.lead_on();
        for id in 1..self.servers.len() {
            if !self.servers[id].serves {
                self.servers[id].join();
                self.flush(id);
            } else if now() - self.peers[id].heard > self.patience {
                self.journal.strike("follower gave up");
                self.break_peer(id);
            }
        }
        self.agenda.plan(now() + TICK / 2, Due::HalfTick);
    }
}

impl Network for World {
    type Party = Party;
    type Link = LinkId;

    fn dial(&mut self, _: Party, host: &Host) -> (Reception, Duration) {
        let serves = self.servers[server(host)].serves;
        let reception = if serves { Reception::Accept } else { Reception::Refuse };
        (reception, self.latency())
    }

    fn connect(&mut self, party: Party, host: &Host) -> LinkId {
        let id = self.servers[server(host)].handle_connected();
        let pipes = [Pipe::new(now()), Pipe::new(now())];
        let (inbox, is_cut, is_left) = (Inbox::default(), false, false);
        self.links.insert(id, Link { party, pipes, inbox, is_cut, is_left });
        self.journal.note(|| format!("{party:?} connects: {id}"));
        self.flush(id.server);
        id
    }

    fn poll_read(&mut self, id: LinkId, cx: &Context<'_>, into: &mut ReadBuf<'_>) -> Poll<()> {
        self.link(id).inbox.poll_read(cx, into).map(drop)
    }

    fn write(&mut self, id: LinkId, bytes: &[u8]) -> usize {
        self.carry(id, Way::Up, Some(Bytes::copy_from_slice(bytes)));
        bytes.len()
    }

    fn leave_client(&mut self, id: LinkId) {
        self.carry(id, Way::Up, None);
        self.link(id).is_left = true;
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
