//! How frames get from one end of a connection to the other, or do not.

use std::time::Duration;

use bytes::Bytes;
use zk_embedded::{ConnectionId, Core};
use zk_simulation::clock::now;
use zk_simulation::net::{Due, Net, PREFIX, Traffic, Way, Wired};
use zk_simulation::wire::Reception;

use crate::actor::Actor;
use crate::frames::{self, Dialogue};
use crate::kind::FOLDER;
use crate::link::{Alone, Flight, Party, Talk};
use crate::scene::{Fate, LinkState, Role, Tone};
use crate::script::{SERVER, server_apart};
use crate::world::World;

/// How long a frame takes at least, in milliseconds, and how much the seed may add.
const LATENCY: (u64, u64) = (4, 4);

/// How long a server goes on without the others before it notices: `syncLimit` times `tickTime`, 5
/// times 2 s as in the sample `zoo.cfg`. A real one notices up to half a tick earlier.
const NOTICES_AFTER: Duration = Duration::from_secs(10);

impl World {
    /// Ends the connections of a contender: both sides are told, and frames in flight are lost.
    pub(crate) fn reset(&mut self, actor: usize) {
        for id in self.connections_of(actor) {
            self.lose_flights(id);
            if let Some(link) = self.net.links.get_mut(&id) {
                link.inbox.end();
            }
            self.leave_server(id);
        }
        self.serve(|_, _| ());
    }

    /// Cuts the server of a contender off from the others, without its noticing. Returns true if
    /// there is a connection to it.
    pub(crate) fn isolate(&mut self, actor: usize) -> bool {
        if !self.session(actor).is_some_and(|session| self.net.core.partition(session)) {
            return false;
        }
        if let Some(actor) = self.actors.get_mut(actor) {
            actor.is_apart = true;
        }
        for id in self.connections_of(actor) {
            if let Some(link) = self.net.links.get_mut(&id) {
                link.own.is_apart = true;
                self.plan(now() + NOTICES_AFTER, Alone(id));
            }
        }
        true
    }

    /// A server that has heard nothing of the others for so long closes all its connections.
    fn notice(&mut self, id: ConnectionId) {
        let party =
            self.net.links.get(&id).filter(|link| link.at_server).and_then(|link| link.party);
        let actor = party.and_then(|actor| self.actors.get(actor));
        let Some(actor) = actor.filter(|actor| actor.link == LinkState::Isolated) else {
            return;
        };
        let text = "notices that it is alone: it closes its connections, and serves nobody";
        self.note(&server_apart(&actor.name.clone()), Tone::Bad, text);
        self.end(id, Way::Down);
        self.leave_server(id);
        self.serve(|_, _| ());
    }

    /// Lets the server of everybody be one of the ensemble again.
    pub(crate) fn reunite(&mut self) {
        self.net.agenda.take(|due| matches!(due, Due::Own(Alone(_))));
        for actor in &mut self.actors {
            if actor.link == LinkState::Isolated {
                actor.link = LinkState::Up;
            }
        }
        self.serve(Core::heal);
    }

    /// Learns the session of a contender from the server's first frame.
    fn learn(&mut self, party: Party, flight: &Flight) {
        let payload = flight.bytes.get(PREFIX..).unwrap_or_default();
        if let (Some(actor), Some(session)) = (party, frames::session(payload, flight.content.role))
            && self.net.core.session_deadline(session).is_some()
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
            self.end(id, way);
            self.net.links.get_mut(&id).into_iter().for_each(|link| link.pipe(way).clear_rest());
        }
    }
}

impl Wired for World {
    type Machine = Core;
    type Party = Party;
    type Own = Talk;
    type Flight = Flight;
    type Due = Alone;

    fn net(&mut self) -> &mut Net<Self> {
        &mut self.net
    }

    fn dial(&mut self, party: Party) -> (Reception, Duration) {
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

    fn connected(&mut self, _: ConnectionId, party: Party) -> Talk {
        let mut is_apart = false;
        if let Some(actor) = party.and_then(|actor| self.actors.get_mut(actor)) {
            // The server that the client reaches now is not the one that was cut off.
            if actor.link == LinkState::Isolated {
                (actor.link, actor.is_apart) = (LinkState::Up, false);
            }
            is_apart = actor.is_apart;
        }
        Talk { dialogue: Dialogue::default(), is_apart }
    }

    fn latency(&mut self, party: Party) -> Duration {
        let Some(actor) = party else {
            return Duration::ZERO;
        };
        let (least, more) = LATENCY;
        let delay = self.actors.get(actor).map_or(0, |actor| actor.delay_ms);
        Duration::from_millis(least + delay) + self.random.millis(0..more + 1)
    }

    fn send(&mut self, id: ConnectionId, way: Way, bytes: Bytes) {
        let sent_us = self.now_us();
        let Some(link) = self.net.links.get_mut(&id) else {
            return;
        };
        let party = link.party;
        for bytes in link.pipe(way).frames(&bytes) {
            let Some(link) = self.net.links.get_mut(&id) else {
                return;
            };
            let payload = bytes.get(PREFIX..).unwrap_or_default();
            let (content, request_us) = match way {
                Way::Up => (link.own.dialogue.request(payload, sent_us), None),
                Way::Down => link.own.dialogue.reply(payload),
            };
            let flight = Flight { bytes, sent_us, content, request_us };
            if way == Way::Down {
                self.learn(party, &flight);
            }
            if self.is_cut(party) {
                self.record_frame(id, way, &flight, Fate::Lost);
            } else if self.is_to_be_lost(party, &flight) {
                self.record_frame(id, way, &flight, Fate::Lost);
                party.into_iter().for_each(|actor| self.break_link(id, actor));
                return;
            } else {
                self.carry(id, way, flight);
            }
        }
    }

    fn arrive(&mut self, id: ConnectionId, way: Way, flight: Flight) {
        let Some(link) = self.net.links.get(&id) else {
            return;
        };
        let is_heard = link.is_heard(way);
        let fate = if is_heard { Fate::Arrived } else { Fate::Lost };
        self.record_frame(id, way, &flight, fate);
        if is_heard {
            self.deliver(id, way, &flight.bytes);
        }
    }

    /// Nobody is told across a link that is cut.
    fn ends(&mut self, id: ConnectionId, _: Way) -> bool {
        let party = self.net.links.get(&id).map(|link| link.party);
        party.is_some_and(|party| !self.is_cut(party))
    }

    fn happen(&mut self, Alone(id): Alone) {
        self.notice(id);
    }

    fn keep_time(&mut self) {
        self.settle();
        let of_process =
            |(index, actor): (usize, &Actor)| (actor.process == index).then_some(index);
        for actor in self.actors.iter().enumerate().filter_map(of_process).collect::<Vec<_>>() {
            let session = self.session(actor);
            let deadline = session.and_then(|session| self.net.core.session_deadline(session));
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
        let had_folder = self.net.core.has_node(FOLDER);
        self.serve(Core::handle_timeout);
        if had_folder && !self.net.core.has_node(FOLDER) {
            self.note(SERVER, Tone::Plain, format!("removes the empty container {FOLDER}"));
        }
    }

    fn left(&mut self, id: ConnectionId) {
        self.lose_flights(id);
    }
}
