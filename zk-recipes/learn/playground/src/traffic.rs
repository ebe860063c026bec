//! How frames get from one end of a connection to the other, or do not.

use std::net::{Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::ReadBuf;
use zk_client::Host;
use zk_embedded::{ConnectionId, Core};
use zk_simulation::clock::now;
use zk_simulation::wire::{Network, Reception};

use crate::actor::Actor;
use crate::frames::{self, PREFIX};
use crate::kind::FOLDER;
use crate::link::{Due, Flight, Link, Party, Way};
use crate::network::LATENCY;
use crate::scene::{Fate, LinkState, Role, Tone};
use crate::script::{SERVER, server_apart};
use crate::world::World;

/// How long a server goes on without the others before it notices: `syncLimit` times `tickTime`, 5
/// times 2 s as in the sample `zoo.cfg`. A real one notices up to half a tick earlier.
const NOTICES_AFTER: Duration = Duration::from_secs(10);

impl World {
    /// Calls the server, and transmits its output.
    pub(crate) fn serve<R>(&mut self, act: impl FnOnce(&mut Core, Instant) -> R) -> R {
        let result = act(&mut self.core, now());
        while let Some(id) = self.core.poll_ready() {
            self.transmit(id);
        }
        self.wake();
        result
    }

    /// Ends the connections of a contender: both sides are told, and frames in flight are lost.
    pub(crate) fn reset(&mut self, actor: usize) {
        for id in self.links_of(actor) {
            self.lose_flights(id);
            if let Some(link) = self.links.get_mut(&id) {
                link.inbox.end();
            }
            self.leave_server(id);
        }
        self.serve(|_, _| ());
    }

    /// Cuts the server of a contender off from the others, without its noticing. Returns true if
    /// there is a connection to it.
    pub(crate) fn isolate(&mut self, actor: usize) -> bool {
        if !self.session(actor).is_some_and(|session| self.core.partition(session)) {
            return false;
        }
        if let Some(actor) = self.actors.get_mut(actor) {
            actor.is_apart = true;
        }
        for id in self.links_of(actor) {
            if let Some(link) = self.links.get_mut(&id) {
                link.is_apart = true;
                self.plan(now() + NOTICES_AFTER, Due::Alone(id));
            }
        }
        true
    }

    /// A server that has heard nothing of the others for so long closes all its connections.
    fn notice(&mut self, id: ConnectionId) {
        let party = self.links.get(&id).filter(|link| link.at_server).and_then(|link| link.party);
        let actor = party.and_then(|actor| self.actors.get(actor));
        let Some(actor) = actor.filter(|actor| actor.link == LinkState::Isolated) else {
            return;
        };
        let text = "notices that it is alone: it closes its connections, and serves nobody";
        self.note(&server_apart(&actor.name.clone()), Tone::Bad, text);
        if let Some(at) = self.arrival(id, Way::Down) {
            self.plan(at, Due::End(id, Way::Down));
        }
        self.leave_server(id);
        self.serve(|_, _| ());
    }

    /// Lets the server of everybody be one of the ensemble again.
    pub(crate) fn reunite(&mut self) {
        self.agenda.retain(|_, due| !matches!(due, Due::Alone(_)));
        for actor in &mut self.actors {
            if actor.link == LinkState::Isolated {
                actor.link = LinkState::Up;
            }
        }
        self.serve(Core::heal);
    }

    /// Lets the server do what is due by its clock.
    pub(crate) fn keep_time(&mut self) {
        self.settle();
        let of_process =
            |(index, actor): (usize, &Actor)| (actor.process == index).then_some(index);
        for actor in self.actors.iter().enumerate().filter_map(of_process).collect::<Vec<_>>() {
            let session = self.session(actor);
            let deadline = session.and_then(|session| self.core.session_deadline(session));
            if deadline.is_some_and(|at| at <= now()) {
                let name = self.actors.get(actor).map(|actor| actor.name.clone());
                let name = name.unwrap_or_default();
                self.note(
                    SERVER,
                    Tone::Bad,
                    format!("ends the session of {name}: silent too long"),
                );
            }
        }
        let had_folder = self.core.has_node(FOLDER);
        self.serve(Core::handle_timeout);
        if had_folder && !self.core.has_node(FOLDER) {
            self.note(SERVER, Tone::Plain, format!("removes the empty container {FOLDER}"));
        }
    }

    /// Sends bytes, frame by frame.
    fn send(&mut self, id: ConnectionId, way: Way, bytes: &[u8]) {
        if let Some(link) = self.links.get_mut(&id) {
            link.pipe(way).rest.extend_from_slice(bytes);
        }
        let sent_us = self.now_us();
        while let Some((party, flight)) = self.next_flight(id, way, sent_us) {
            if way == Way::Down {
                self.learn(party, &flight);
            }
            if self.is_cut(party) {
                self.record_frame(id, way, &flight, Fate::Lost);
            } else if self.is_to_be_lost(party, &flight) {
                self.record_frame(id, way, &flight, Fate::Lost);
                party.into_iter().for_each(|actor| self.break_link(id, actor));
                return;
            } else if let Some(at) = self.arrival(id, way) {
                self.plan(at, Due::Frame(id, way, flight));
            }
        }
    }

    /// Takes the next whole frame.
    fn next_flight(&mut self, id: ConnectionId, way: Way, sent_us: u64) -> Option<(Party, Flight)> {
        let link = self.links.get_mut(&id)?;
        let party = link.party;
        let rest = &mut link.pipe(way).rest;
        let length = u32::from_be_bytes(*rest.first_chunk::<PREFIX>()?) as usize;
        if rest.len() < PREFIX + length {
            return None;
        }
        let bytes = rest.split_to(PREFIX + length).freeze();
        let payload = bytes.get(PREFIX..).unwrap_or_default();
        let (content, request_us) = match way {
            Way::Up => (link.dialogue.request(payload, sent_us), None),
            Way::Down => link.dialogue.reply(payload),
        };
        Some((party, Flight { bytes, sent_us, content, request_us }))
    }

    /// Learns the session of a contender from the server's first frame.
    fn learn(&mut self, party: Party, flight: &Flight) {
        let payload = flight.bytes.get(PREFIX..).unwrap_or_default();
        if let (Some(actor), Some(session)) = (party, frames::session(payload, flight.content.role))
            && self.core.session_deadline(session).is_some()
        {
            self.sessions.insert(session.0, actor);
            if let Some(actor) = self.actors.get_mut(actor) {
                actor.session = Some(session);
            }
        }
    }

    /// True for the reply that an action has asked to lose.
    fn is_to_be_lost(&mut self, party: Party, flight: &Flight) -> bool {
        let Some(actor) = party.and_then(|actor| self.actors.get_mut(actor)) else {
            return false;
        };
        let is_reply =
            flight.content.role == Role::Reply && flight.content.xid.is_some_and(|xid| xid > 0);
        is_reply && std::mem::take(&mut actor.loses_reply)
    }

    /// Ends one connection of a contender, whose server is being served at this moment.
    fn break_link(&mut self, id: ConnectionId, actor: usize) {
        let name = self.actors.get(actor).map(|actor| actor.name.clone()).unwrap_or_default();
        self.note(&name, Tone::Bad, "loses a reply, and the connection with it");
        self.lose_flights(id);
        for way in [Way::Up, Way::Down] {
            if let Some(at) = self.arrival(id, way) {
                self.plan(at, Due::End(id, way));
            }
        }
        if let Some(link) = self.links.get_mut(&id) {
            link.up.rest.clear();
            link.down.rest.clear();
        }
    }

    /// Sends the server's output for a connection.
    pub(crate) fn transmit(&mut self, id: ConnectionId) {
        let mut out = BytesMut::new();
        let close = self.core.poll_transmit(now(), id, &mut out);
        self.send(id, Way::Down, &out);
        if close {
            if let Some(at) = self.arrival(id, Way::Down) {
                self.plan(at, Due::End(id, Way::Down));
            }
            self.leave_server(id);
        } else if let Some(at) = self.core.poll_delay(id) {
            self.plan(at, Due::Reply(id));
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Reply(id) => self.transmit(id),
            Due::Alone(id) => self.notice(id),
            Due::Frame(id, way, flight) => self.arrive(id, way, &flight),
            Due::End(id, way) => {
                let Some(link) = self.links.get(&id) else {
                    return;
                };
                // Nobody is told across a link that is cut.
                if self.is_cut(link.party) {
                    return;
                }
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

    fn arrive(&mut self, id: ConnectionId, way: Way, flight: &Flight) {
        let Some(link) = self.links.get(&id) else {
            return;
        };
        let is_heard = if way == Way::Up { link.at_server } else { link.at_client };
        let fate = if is_heard { Fate::Arrived } else { Fate::Lost };
        self.record_frame(id, way, flight, fate);
        let Some(link) = self.links.get_mut(&id).filter(|_| is_heard) else {
            return;
        };
        match way {
            Way::Up => {
                let mut input = std::mem::take(&mut link.input);
                input.extend_from_slice(&flight.bytes);
                self.serve(|core, now| core.handle_input(now, id, &mut input));
                if let Some(link) = self.links.get_mut(&id) {
                    link.input = input;
                }
            }
            Way::Down => link.inbox.push(&flight.bytes),
        }
    }
}

impl Network for World {
    type Party = Party;
    type Link = ConnectionId;

    fn dial(&mut self, party: Party, _: &Host) -> (Reception, Duration) {
        match party {
            None => (Reception::Accept, Duration::ZERO),
            Some(_) if self.is_cut(party) => (Reception::Ignore, Duration::ZERO),
            Some(_) => {
                let (least, more) = LATENCY;
                let latency = Duration::from_millis(least) + self.random.millis(0..more + 1);
                (Reception::Accept, 2 * latency)
            }
        }
    }

    fn connect(&mut self, party: Party, _: &Host) -> ConnectionId {
        let peer = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 50_000);
        let id = self.serve(|core, now| core.handle_connection(now, peer));
        let mut is_apart = false;
        if let Some(actor) = party.and_then(|actor| self.actors.get_mut(actor)) {
            // The server that the client reaches now is not the one that was cut off.
            if actor.link == LinkState::Isolated {
                (actor.link, actor.is_apart) = (LinkState::Up, false);
            }
            is_apart = actor.is_apart;
        }
        self.links.insert(id, Link::new(party, is_apart));
        id
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
        link.inbox.poll_read(cx, into).map(drop)
    }

    fn write(&mut self, id: ConnectionId, bytes: &[u8]) -> usize {
        self.send(id, Way::Up, bytes);
        bytes.len()
    }

    fn leave_client(&mut self, id: ConnectionId) {
        if let Some(at) = self.arrival(id, Way::Up) {
            self.plan(at, Due::End(id, Way::Up));
        }
        if let Some(link) = self.links.get_mut(&id) {
            link.at_client = false;
            self.tidy(id);
        }
    }

    fn poll_turn(&mut self, cx: &Context<'_>) -> Option<Instant> {
        self.pump = Some(cx.waker().clone());
        loop {
            let now = now();
            if self.core.poll_timeout().is_some_and(|at| at <= now) {
                self.keep_time();
            }
            let first = self.agenda.first_key_value().map(|((at, _), _)| *at);
            if first.is_none_or(|at| at > now) {
                return [first, self.core.poll_timeout()].into_iter().flatten().min();
            }
            if let Some((_, due)) = self.agenda.pop_first() {
                self.happen(due);
            }
        }
    }
}
