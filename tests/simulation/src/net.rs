//! The servers and the connections to them, on virtual time, which all worlds share. Most worlds
//! have one server.
//!
//! What is sent waits on an agenda until it arrives, and each direction of a connection keeps its
//! order. The server is only its state machine, so that nothing happens that is not on the agenda
//! or called by a client.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::ReadBuf;
use zk_client::Host;
use zk_embedded::{Config, ConnectionId, Core, Machine};

use crate::agenda::Agenda;
use crate::clock::now;
use crate::frames;
use crate::inbox::Inbox;
use crate::wire::Reception;

/// The server's wall clock at the start of every world.
pub(crate) const WALL: Duration = Duration::from_secs(1_700_000_000);

/// How many bytes the length of a frame takes.
pub const PREFIX: usize = size_of::<u32>();

/// A direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the server.
    Up,
    /// To the client.
    Down,
}

impl Way {
    /// Both directions.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];
}

/// The server and the connections to it.
pub struct Net<W: Wired> {
    /// The server, or the ensemble.
    pub core: W::Machine,
    /// The connections that one of both sides still has.
    pub links: BTreeMap<ConnectionId, Link<W>>,
    /// What is to happen.
    pub agenda: Agenda<Due<W>>,
}

/// One connection.
pub struct Link<W: Wired> {
    /// Its client.
    pub party: W::Party,
    /// Its directions, the one to the server first.
    pipes: [Pipe; 2],
    /// What has arrived at the client.
    pub inbox: Inbox,
    /// Bytes that have arrived at the server, and make no whole frame yet.
    input: BytesMut,
    /// Whether the client still has the connection. If neither side has it, it is removed.
    pub at_client: bool,
    /// Whether the server still has the connection.
    pub at_server: bool,
    /// What the world keeps of it.
    pub own: W::Own,
}

/// One direction of a connection.
pub struct Pipe {
    /// What is sent now arrives no earlier than this.
    clear: Instant,
    /// Bytes that were sent, and make no whole frame yet.
    rest: BytesMut,
    /// Only the end of the connection still arrives.
    is_cut: bool,
    /// Nothing arrives any more.
    is_silent: bool,
}

/// Something that is to happen.
pub enum Due<W: Wired> {
    /// Something arrives.
    Flight(ConnectionId, Way, W::Flight),
    /// The end of the connection arrives.
    End(ConnectionId, Way),
    /// The server sends a reply that it has held back.
    Reply(ConnectionId),
    /// Something that the world alone knows.
    Own(W::Due),
}

/// What makes a world different from another one: who its clients are, and what goes wrong.
pub trait Wired: Sized + Send + 'static {
    /// The server, or the ensemble.
    type Machine: Machine;

    /// A client.
    type Party: Copy + PartialEq + Send + Sync + 'static;

    /// What the world keeps of a connection.
    type Own: Send;

    /// What travels, as one piece.
    type Flight: Send;

    /// What else happens at its time.
    type Due: Send;

    /// So many steps no run has that lets time pass.
    const MOST_STEPS: u64 = u64::MAX;

    /// The server and the connections to it.
    fn net(&mut self) -> &mut Net<Self>;

    /// Which server of an ensemble has this name.
    fn server(&self, _: &Host) -> usize {
        0
    }

    /// Draws the result of an attempt to connect, and how long it takes.
    fn dial(&mut self, party: Self::Party) -> (Reception, Duration);

    /// Learns of a new connection.
    fn connected(&mut self, id: ConnectionId, party: Self::Party) -> Self::Own;

    /// Draws how long something travels that this client sends or is sent.
    fn latency(&mut self, party: Self::Party) -> Duration;

    /// Bytes are sent.
    fn send(&mut self, id: ConnectionId, way: Way, bytes: Bytes);

    /// Something arrives, unless the world loses it. See [`Traffic::deliver`].
    fn arrive(&mut self, id: ConnectionId, way: Way, flight: Self::Flight);

    /// Something of the world's own is due.
    fn happen(&mut self, due: Self::Due);

    /// The end of a connection arrives. Returns true if it is noticed there.
    fn ends(&mut self, _: ConnectionId, _: Way) -> bool {
        true
    }

    /// The server has acted, and sends its output next.
    fn acted(&mut self) {}

    /// The server has sent its output.
    fn served(&mut self) {}

    /// The server does what is due by its clock.
    fn keep_time(&mut self) {
        self.serve(|core, now| core.handle_timeout(now));
    }

    /// How many bytes are accepted that a client writes.
    fn accept(&mut self, bytes: &[u8]) -> usize {
        bytes.len()
    }

    /// A client has read bytes.
    fn has_read(&mut self, _: ConnectionId, _: &[u8]) {}

    /// Neither side has this connection any more. It is removed next.
    fn left(&mut self, _: ConnectionId) {}

    /// There are more steps than a run has that lets time pass. Nothing happens any more.
    fn stand_still(&mut self) {}
}

/// What happens in every world.
pub trait Traffic: Wired {
    /// Calls the server, and sends its output.
    fn serve<R>(&mut self, act: impl FnOnce(&mut Self::Machine, Instant) -> R) -> R {
        let result = act(&mut self.net().core, now());
        self.acted();
        while let Some(id) = self.net().core.poll_ready() {
            self.transmit(id);
        }
        self.served();
        self.net().agenda.wake();
        result
    }

    /// The connections of a client that it still has.
    fn links_of(&mut self, party: Self::Party) -> Vec<ConnectionId> {
        self.links(|one| one == party)
    }

    /// The connections that such clients still have.
    fn links(&mut self, is_meant: impl Fn(Self::Party) -> bool) -> Vec<ConnectionId> {
        let links = self.net().links.iter();
        let meant = links.filter(|(_, link)| link.at_client && is_meant(link.party));
        meant.map(|(id, _)| *id).collect()
    }

    /// Adds something to what is to happen.
    fn plan(&mut self, at: Instant, due: Self::Due) {
        self.net().agenda.plan(at, Due::Own(due));
    }

    /// Ends a connection: each side notices after a while, and what is in flight is lost.
    fn cut(&mut self, id: ConnectionId) {
        for way in Way::BOTH {
            if let Some(link) = self.net().links.get_mut(&id) {
                link.pipe(way).is_cut = true;
                self.end(id, way);
            }
        }
    }

    /// Lets nothing arrive any more in this direction, not even the end of the connection.
    fn silence(&mut self, id: ConnectionId, way: Way) {
        if let Some(link) = self.net().links.get_mut(&id) {
            link.pipe(way).is_silent = true;
        }
    }

    /// Lets nothing arrive any more on a connection.
    fn fall_silent(&mut self, id: ConnectionId) {
        Way::BOTH.into_iter().for_each(|way| self.silence(id, way));
    }

    /// Delays everything that is sent in this direction from now on by at least this time.
    fn stall(&mut self, id: ConnectionId, way: Way, time: Duration) {
        if let Some(link) = self.net().links.get_mut(&id) {
            link.pipe(way).stall(time);
        }
    }

    /// Ends one direction, behind everything that was sent before.
    fn end(&mut self, id: ConnectionId, way: Way) {
        if let Some(at) = self.arrival(id, way) {
            self.net().agenda.plan(at, Due::End(id, way));
        }
    }

    /// Sends something on its way, behind everything that was sent before.
    fn carry(&mut self, id: ConnectionId, way: Way, flight: Self::Flight) {
        if let Some(at) = self.arrival(id, way) {
            self.net().agenda.plan(at, Due::Flight(id, way, flight));
        }
    }

    /// Draws when something arrives that is sent now, behind everything that was sent before.
    fn arrival(&mut self, id: ConnectionId, way: Way) -> Option<Instant> {
        let party = self.net().links.get(&id)?.party;
        let latency = self.latency(party);
        let pipe = self.net().links.get_mut(&id)?.pipe(way);
        pipe.stall(latency);
        Some(pipe.clear)
    }

    /// Delivers bytes that have arrived, to a side that still has the connection.
    fn deliver(&mut self, id: ConnectionId, way: Way, bytes: &[u8]) {
        let link = self.net().links.get_mut(&id);
        let Some(link) = link.filter(|link| link.is_heard(way)) else {
            return;
        };
        match way {
            Way::Up => {
                let mut input = std::mem::take(&mut link.input);
                input.extend_from_slice(bytes);
                self.serve(|core, now| core.handle_input(now, id, &mut input));
                if let Some(link) = self.net().links.get_mut(&id) {
                    link.input = input;
                }
            }
            Way::Down => link.inbox.push(bytes),
        }
    }

    /// Sends the server's output for a connection.
    fn transmit(&mut self, id: ConnectionId) {
        let mut out = BytesMut::new();
        let close = self.net().core.poll_transmit(now(), id, &mut out);
        if !out.is_empty() {
            self.send(id, Way::Down, out.freeze());
        }
        if close {
            self.end(id, Way::Down);
            self.leave_server(id);
        } else if let Some(at) = self.net().core.poll_delay(id) {
            self.net().agenda.plan(at, Due::Reply(id));
        }
    }

    /// Opens a connection of a client.
    fn connect(&mut self, party: Self::Party, host: &Host) -> ConnectionId {
        let server = self.server(host);
        let peer = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 50_000);
        let id = self.serve(|core, now| core.handle_connection(now, server, peer));
        let own = self.connected(id, party);
        let pipe =
            |_| Pipe { clear: now(), rest: BytesMut::new(), is_cut: false, is_silent: false };
        let link = Link {
            party,
            pipes: Way::BOTH.map(pipe),
            inbox: Inbox::default(),
            input: BytesMut::new(),
            at_client: true,
            at_server: true,
            own,
        };
        self.net().links.insert(id, link);
        id
    }

    /// Reads for a client: nothing at the end.
    fn poll_read(
        &mut self,
        id: ConnectionId,
        cx: &Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<()> {
        let Some(link) = self.net().links.get_mut(&id) else {
            return Poll::Ready(());
        };
        link.inbox.poll_read(cx, into).map(|read| self.has_read(id, &read))
    }

    /// Writes for a client. Returns how many bytes were accepted, which may not be all.
    fn write(&mut self, id: ConnectionId, bytes: &[u8]) -> usize {
        let count = self.accept(bytes);
        self.send(id, Way::Up, Bytes::copy_from_slice(&bytes[..count]));
        count
    }

    /// The client drops its end.
    fn leave_client(&mut self, id: ConnectionId) {
        self.end(id, Way::Up);
        if let Some(link) = self.net().links.get_mut(&id) {
            link.at_client = false;
            self.tidy(id);
        }
    }

    /// The server drops its end.
    fn leave_server(&mut self, id: ConnectionId) {
        let net = self.net();
        if let Some(link) = net.links.get_mut(&id)
            && std::mem::replace(&mut link.at_server, false)
        {
            net.core.handle_disconnected(id);
            self.tidy(id);
        }
    }

    /// Removes a connection that neither side has any more.
    fn tidy(&mut self, id: ConnectionId) {
        let link = self.net().links.get(&id);
        if link.is_some_and(|link| !link.at_client && !link.at_server) {
            self.left(id);
            self.net().links.remove(&id);
        }
    }

    /// Does everything that is due. Returns when something is due next. The caller calls again when
    /// that has changed.
    fn poll_turn(&mut self, cx: &Context<'_>) -> Option<Instant> {
        let next = self.turn();
        self.net().agenda.wait(cx);
        next
    }

    /// Does everything that is due. Returns when something is due next.
    fn turn(&mut self) -> Option<Instant> {
        loop {
            let now = now();
            if self.net().core.poll_timeout().is_some_and(|at| at <= now) {
                self.keep_time();
            }
            let net = self.net();
            let Some(due) = net.agenda.next(now) else {
                return [net.agenda.first(), net.core.poll_timeout()].into_iter().flatten().min();
            };
            if net.agenda.steps > Self::MOST_STEPS {
                self.stand_still();
                return None;
            }
            match due {
                Due::Flight(id, way, flight) => self.arrive(id, way, flight),
                Due::End(id, way) => self.arrive_end(id, way),
                Due::Reply(id) => self.transmit(id),
                Due::Own(due) => self.happen(due),
            }
        }
    }

    /// The end of a connection arrives, unless nothing arrives there any more.
    fn arrive_end(&mut self, id: ConnectionId, way: Way) {
        let link = self.net().links.get_mut(&id);
        if link.is_none_or(|link| link.pipe(way).is_silent) || !self.ends(id, way) {
            return;
        }
        match way {
            Way::Up => {
                self.leave_server(id);
                self.serve(|_, _| ());
            }
            Way::Down => {
                self.net().links.get_mut(&id).into_iter().for_each(|link| link.inbox.end());
            }
        }
    }
}

impl<W: Wired> Traffic for W {}

impl<W: Wired<Machine = Core>> Net<W> {
    /// A server to which nobody is connected.
    pub fn new(config: Config) -> Self {
        Self::of(Core::new(config, now(), WALL))
    }
}

impl<W: Wired> Net<W> {
    /// Servers to which nobody is connected.
    pub fn of(core: W::Machine) -> Self {
        Self { core, links: BTreeMap::new(), agenda: Agenda::default() }
    }
}

impl<W: Wired> Link<W> {
    /// One direction.
    pub fn pipe(&mut self, way: Way) -> &mut Pipe {
        &mut self.pipes[way as usize]
    }

    /// True if the side to which this direction leads still has the connection.
    pub fn is_heard(&self, way: Way) -> bool {
        match way {
            Way::Up => self.at_server,
            Way::Down => self.at_client,
        }
    }
}

impl Pipe {
    /// Delays everything that is sent from now on by at least this time.
    pub(crate) fn stall(&mut self, time: Duration) {
        self.clear = self.clear.max(now() + time);
    }

    /// True if what is sent now may arrive.
    pub fn is_whole(&self) -> bool {
        !self.is_cut && !self.is_silent
    }

    /// Takes the frames that are whole now, each with its length.
    pub fn frames(&mut self, bytes: &[u8]) -> Vec<Bytes> {
        self.rest.extend_from_slice(bytes);
        let lengths = frames::bounds(&self.rest).map(|frame| frame.len()).collect::<Vec<_>>();
        lengths.into_iter().map(|length| self.rest.split_to(length).freeze()).collect()
    }

    /// Forgets what makes no whole frame yet.
    pub fn clear_rest(&mut self) {
        self.rest.clear();
    }
}
