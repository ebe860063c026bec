//! The server and the links of all contenders, in virtual time.
//!
//! Frames wait on an agenda until they arrive, and each is recorded. The server is only its state
//! machine, so that nothing happens that is not on the agenda or called by a client.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use zk_embedded::{Config, ConnectionId, Core, SessionId};
use zk_simulation::random::Random;

use crate::actor::Actor;
use crate::link::{Due, Flight, Link, Party, Way};
use crate::record::Record;
use crate::scene::{Event, Fate, FrameEvent, LinkState, Tone};
use crate::script::SERVER;

/// The server's wall clock at the begin of every scene.
const WALL: Duration = Duration::from_secs(1_700_000_000);

/// How often the server removes empty containers. The default of a minute is long for a scene.
const CONTAINER_CHECK: Duration = Duration::from_secs(10);

/// How long a frame takes at least, in milliseconds, and how much the seed may add.
pub(crate) const LATENCY: (u64, u64) = (4, 4);

/// The world, as all share it.
pub(crate) type Shared = Arc<Mutex<World>>;

/// Everything but the processes.
pub(crate) struct World {
    pub(crate) core: Core,
    pub(crate) record: Record,
    pub(crate) actors: Vec<Actor>,
    /// Notified when the record is full.
    pub(crate) full: Arc<Notify>,
    /// The time that is zero in the scene.
    start: Instant,
    /// The contenders by their sessions, past ones too.
    pub(crate) sessions: BTreeMap<i64, usize>,
    pub(crate) links: BTreeMap<ConnectionId, Link>,
    pub(crate) agenda: BTreeMap<(Instant, u64), Due>,
    entries: u64,
    pub(crate) random: Random,
    pub(crate) pump: Option<Waker>,
}

/// Virtual time.
#[expect(clippy::disallowed_methods, reason = "the runtime's clock is the scene's")]
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Locks the world.
pub(crate) fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(actors: Vec<Actor>, random: Random) -> Self {
        let config = Config::new().container_check_interval(CONTAINER_CHECK);
        Self {
            core: Core::new(config, now(), WALL),
            record: Record::default(),
            actors,
            full: Arc::new(Notify::new()),
            start: now(),
            sessions: BTreeMap::new(),
            links: BTreeMap::new(),
            agenda: BTreeMap::new(),
            entries: 0,
            random,
            pump: None,
        }
    }

    /// Lets the time of the scene begin now.
    pub(crate) fn begin(&mut self) {
        self.start = now();
        self.note(SERVER, Tone::Plain, "the scene begins");
    }

    /// A moment in the time of the scene.
    pub(crate) fn us(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.start).as_micros() as u64
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.us(now())
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
                link.is_over = true;
                link.reader.take().into_iter().for_each(Waker::wake);
            }
            self.leave_server(id);
        }
        self.serve(|_, _| ());
    }

    /// Loses what is in flight on the connections of a contender.
    pub(crate) fn lose_all(&mut self, actor: usize) {
        for id in self.links_of(actor) {
            self.lose_flights(id);
        }
    }

    pub(crate) fn set_link(&mut self, actor: usize, link: LinkState) {
        if let Some(actor) = self.actors.get_mut(actor) {
            actor.link = link;
        }
    }

    /// Lets the server of everybody be one of the ensemble again.
    pub(crate) fn reunite(&mut self) {
        for actor in &mut self.actors {
            if actor.link == LinkState::Isolated {
                actor.link = LinkState::Up;
            }
        }
        self.serve(Core::heal);
    }

    /// The session that a contender has, as far as the server knows.
    pub(crate) fn session(&self, actor: usize) -> Option<SessionId> {
        let session = self.actors.get(actor)?.session?;
        self.core.session_deadline(session).map(|_| session)
    }

    fn links_of(&self, actor: usize) -> Vec<ConnectionId> {
        let links = self.links.iter().filter(|(_, link)| link.party == Some(actor));
        links.map(|(id, _)| *id).collect()
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
        let Some(actor) = self.links.get(&id).and_then(|link| link.party) else {
            return;
        };
        let Some(name) = self.actors.get(actor).map(|actor| actor.name.clone()) else {
            return;
        };
        let (from, to) = match way {
            Way::Up => (name, SERVER.to_owned()),
            Way::Down => (SERVER.to_owned(), name),
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
            bytes: hex(&flight.bytes),
        })));
    }

    fn wake(&mut self) {
        if let Some(pump) = self.pump.take() {
            pump.wake();
        }
    }

    pub(crate) fn plan(&mut self, at: Instant, due: Due) {
        self.entries += 1;
        self.agenda.insert((at, self.entries), due);
        self.wake();
    }

    pub(crate) fn is_cut(&self, party: Party) -> bool {
        let actor = party.and_then(|actor| self.actors.get(actor));
        actor.is_some_and(|actor| actor.link == LinkState::Cut)
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

    /// Lets the server do what is due by its clock.
    pub(crate) fn keep_time(&mut self) {
        self.settle();
        for actor in 0..self.actors.len() {
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
        let folder = crate::locks::FOLDER;
        let had_folder = self.core.has_node(folder);
        self.serve(Core::handle_timeout);
        if had_folder && !self.core.has_node(folder) {
            self.note(SERVER, Tone::Plain, format!("removes the empty container {folder}"));
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
