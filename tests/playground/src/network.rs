//! The server and the links of all contenders, in virtual time.
//!
//! Frames wait on an agenda until they arrive, and each is recorded. The server is only its state
//! machine, so that nothing happens that is not on the agenda or called by a client.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::ReadBuf;
use tokio::sync::Notify;
use zk_client::Host;
use zk_embedded::{Config, ConnectionId, Core};
use zk_proto::SessionId;
use zk_simulation::random::Random;
use zk_simulation::wire::{Network, Reception};

use crate::actor::Actor;
use crate::frames::{self, Dialogue, PREFIX};
use crate::record::Record;
use crate::scene::{Content, Event, Fate, FrameEvent, LinkState, Role, Tone};
use crate::script::SERVER;

/// The server's wall clock at the begin of every scene.
const WALL: Duration = Duration::from_secs(1_700_000_000);

/// How often the server removes empty containers. The default of a minute is long for a scene.
const CONTAINER_CHECK: Duration = Duration::from_secs(10);

/// How long a frame takes at least, in milliseconds, and how much the seed may add.
const LATENCY: (u64, u64) = (4, 4);

/// The client of a connection: a contender, or the one that sets the scene.
pub(crate) type Party = Option<usize>;

/// The world, as all share it.
pub(crate) type Shared = Arc<Mutex<World>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

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
    links: BTreeMap<ConnectionId, Link>,
    agenda: BTreeMap<(Instant, u64), Due>,
    entries: u64,
    random: Random,
    pump: Option<Waker>,
}

/// One connection.
struct Link {
    party: Party,
    dialogue: Dialogue,
    up: Pipe,
    down: Pipe,
    /// Bytes that arrived at the server and make no whole frame yet.
    input: BytesMut,
    /// Bytes that arrived at the client and are not read yet.
    inbox: BytesMut,
    /// The connection ends behind the inbox.
    is_over: bool,
    reader: Option<Waker>,
    at_client: bool,
    at_server: bool,
}

/// One direction.
#[derive(Default)]
struct Pipe {
    /// Bytes that make no whole frame yet.
    rest: BytesMut,
    /// What is sent now arrives no earlier than this.
    clear: Option<Instant>,
}

enum Due {
    Frame(ConnectionId, Way, Flight),
    End(ConnectionId, Way),
    /// A reply that the server held back.
    Reply(ConnectionId),
}

/// A frame on its way.
struct Flight {
    /// With its length.
    bytes: Bytes,
    sent_us: u64,
    content: Content,
    request_us: Option<u64>,
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

    fn lose_flights(&mut self, lost: ConnectionId) {
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

    fn record_frame(&mut self, id: ConnectionId, way: Way, flight: &Flight, fate: Fate) {
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

    fn plan(&mut self, at: Instant, due: Due) {
        self.entries += 1;
        self.agenda.insert((at, self.entries), due);
        self.wake();
    }

    fn is_cut(&self, party: Party) -> bool {
        let actor = party.and_then(|actor| self.actors.get(actor));
        actor.is_some_and(|actor| actor.link == LinkState::Cut)
    }

    /// When something that is sent now arrives, behind everything that was sent before.
    fn arrival(&mut self, id: ConnectionId, way: Way) -> Option<Instant> {
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
    fn transmit(&mut self, id: ConnectionId) {
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
            self.lose_flights(id);
            self.links.remove(&id);
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Reply(id) => self.transmit(id),
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
                            link.is_over = true;
                            link.reader.take().into_iter().for_each(Waker::wake);
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
            Way::Down => {
                link.inbox.extend_from_slice(&flight.bytes);
                link.reader.take().into_iter().for_each(Waker::wake);
            }
        }
    }

    /// Lets the server do what is due by its clock.
    fn keep_time(&mut self) {
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

impl Link {
    fn new(party: Party) -> Self {
        Self {
            party,
            dialogue: Dialogue::default(),
            up: Pipe::default(),
            down: Pipe::default(),
            input: BytesMut::new(),
            inbox: BytesMut::new(),
            is_over: false,
            reader: None,
            at_client: true,
            at_server: true,
        }
    }

    fn pipe(&mut self, way: Way) -> &mut Pipe {
        match way {
            Way::Up => &mut self.up,
            Way::Down => &mut self.down,
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
        self.links.insert(id, Link::new(party));
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
        if link.inbox.is_empty() && !link.is_over {
            link.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = link.inbox.len().min(into.remaining());
        into.put_slice(&link.inbox.split_to(count));
        Poll::Ready(())
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

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit =
        |nibble: u8| DIGITS.get(usize::from(nibble)).map_or('?', |digit| char::from(*digit));
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
