//! What is recorded of the world, and what is lost of what is on its way.

use zk_embedded::ConnectionId;
use zk_simulation::clock::now;
use zk_simulation::net::{Due, Way};
use zk_tap::hex;

use crate::link::Flight;
use crate::scene::{Event, Fate, FrameEvent, Tone};
use crate::script::{SERVER, server_apart};
use crate::world::World;

impl World {
    /// Lets the time of the scene begin now.
    pub(crate) fn begin(&mut self) {
        self.start = now();
        self.note(SERVER, Tone::Plain, "the scene begins");
    }

    /// Takes the state after the last event.
    pub(crate) fn settle(&mut self) {
        if self.record.is_unsettled() {
            let moment = self.moment();
            self.record.settle(moment);
        }
    }

    /// Records an event. Its effect must come after this.
    pub(crate) fn push(&mut self, event: Event) {
        if self.record.is_full() {
            self.full.notify_one();
            return;
        }
        self.settle();
        self.record.push(event);
    }

    pub(crate) fn note(&mut self, who: &str, tone: Tone, text: impl Into<String>) {
        let (at_us, who, text) = (self.now_us(), who.to_owned(), text.into());
        self.push(Event::Note { at_us, who, text, tone });
    }

    /// Loses what is in flight on the connections of a contender.
    pub(crate) fn lose_all(&mut self, actor: usize) {
        for id in self.connections_of(actor) {
            self.lose_flights(id);
        }
    }

    pub(crate) fn lose_flights(&mut self, lost: ConnectionId) {
        let is_lost = |due: &Due<Self>| matches!(due, Due::Flight(id, ..) if *id == lost);
        for due in self.net.agenda.take(is_lost) {
            if let Due::Flight(id, way, flight) = due {
                self.record_frame(id, way, &flight, Fate::Lost);
            }
        }
    }

    /// Records the frames that are still on their way, at the end of the scene.
    pub(crate) fn finish(&mut self) {
        for due in self.net.agenda.take(|_| true) {
            if let Due::Flight(id, way, flight) = due {
                self.record_frame(id, way, &flight, Fate::InFlight);
            }
        }
        self.settle();
    }

    pub(crate) fn record_frame(&mut self, id: ConnectionId, way: Way, flight: &Flight, fate: Fate) {
        let Some(link) = self.net.links.get(&id) else {
            return;
        };
        let actor = link.party.and_then(|actor| self.actors.get(actor));
        let Some(name) = actor.map(|actor| actor.name.clone()) else {
            return;
        };
        let server = if link.own.is_apart { server_apart(&name) } else { SERVER.to_owned() };
        let (from, to) = match way {
            Way::Up => (name, server),
            Way::Down => (server, name),
        };
        let at_us = self.now_us();
        self.push(Event::Frame(Box::new(FrameEvent {
            at_us,
            from,
            to,
            sent_us: flight.sent_us,
            arrived_us: (fate == Fate::Arrived).then_some(at_us),
            fate,
            content: flight.content.clone(),
            request_us: flight.request_us,
            bytes: hex::encode(&flight.bytes),
        })));
    }
}
