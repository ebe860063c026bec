//! What is recorded of the world, and what is on its way.
//!
//! Frames wait on an agenda until they arrive, and each is recorded. The server is only its state
//! machine, so that nothing happens that is not on the agenda or called by a client.

use std::time::{Duration, Instant};

use zk_embedded::ConnectionId;
use zk_simulation::clock::now;
use zk_tap::hex;

use crate::link::{Due, Flight, Way};
use crate::scene::{Event, Fate, FrameEvent, Tone};
use crate::script::{SERVER, server_apart};
use crate::world::World;

/// How long a frame takes at least, in milliseconds, and how much the seed may add.
pub(crate) const LATENCY: (u64, u64) = (4, 4);

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
        for id in self.links_of(actor) {
            self.lose_flights(id);
        }
    }

    pub(crate) fn lose_flights(&mut self, lost: ConnectionId) {
        let is_lost = |due: &Due| matches!(due, Due::Frame(id, ..) if *id == lost);
        let keys = self.agenda.iter().filter(|(_, due)| is_lost(due)).map(|(key, _)| *key);
        for key in keys.collect::<Vec<_>>() {
            if let Some(Due::Frame(id, way, flight)) = self.agenda.remove(&key) {
                self.record_frame(id, way, &flight, Fate::Lost);
            }
        }
    }

    /// Records the frames that are still on their way, at the end of the scene.
    pub(crate) fn end(&mut self) {
        for (_, due) in std::mem::take(&mut self.agenda) {
            if let Due::Frame(id, way, flight) = due {
                self.record_frame(id, way, &flight, Fate::InFlight);
            }
        }
        self.settle();
    }

    pub(crate) fn record_frame(&mut self, id: ConnectionId, way: Way, flight: &Flight, fate: Fate) {
        let Some(link) = self.links.get(&id) else {
            return;
        };
        let actor = link.party.and_then(|actor| self.actors.get(actor));
        let Some(name) = actor.map(|actor| actor.name.clone()) else {
            return;
        };
        let server = if link.is_apart { server_apart(&name) } else { SERVER.to_owned() };
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

    pub(crate) fn plan(&mut self, at: Instant, due: Due) {
        self.entries += 1;
        self.agenda.insert((at, self.entries), due);
        self.wake();
    }

    /// When something that is sent now arrives, behind everything that was sent before.
    pub(crate) fn arrival(&mut self, id: ConnectionId, way: Way) -> Option<Instant> {
        let latency = match self.links.get(&id)?.party {
            None => Duration::ZERO,
            Some(actor) => {
                let (least, more) = LATENCY;
                let delay = self.actors.get(actor).map_or(0, |actor| actor.delay_ms);
                Duration::from_millis(least + delay) + self.random.millis(0..more + 1)
            }
        };
        let at = now() + latency;
        let pipe = self.links.get_mut(&id)?.pipe(way);
        let at = pipe.clear.map_or(at, |clear| clear.max(at));
        pipe.clear = Some(at);
        Some(at)
    }

    pub(crate) fn leave_server(&mut self, id: ConnectionId) {
        if let Some(link) = self.links.get_mut(&id)
            && std::mem::replace(&mut link.at_server, false)
        {
            self.core.handle_disconnected(id);
            self.tidy(id);
        }
    }

    pub(crate) fn tidy(&mut self, id: ConnectionId) {
        if self.links.get(&id).is_some_and(|link| !link.at_client && !link.at_server) {
            self.lose_flights(id);
            self.links.remove(&id);
        }
    }
}
