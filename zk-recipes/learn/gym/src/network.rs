//! How frames get from one end of a connection to the other, or do not.
//!
//! Frames wait on an agenda until they arrive. The server is only its state machine, so that
//! nothing happens that is not on the agenda or called by a client.

use std::net::{Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::ReadBuf;
use zk_client::Host;
use zk_embedded::{ConnectionId, Core};
use zk_proto::{ConnectResponse, Decode, Reader, ReplyHeader, RequestHeader, Xid, frame};
use zk_simulation::clock::now;
use zk_simulation::wire::{Network, Reception};

use crate::fault::{Frame, Kind};
use crate::record::{Break, FrameEvent, Way};
use crate::strike::Struck;
use crate::world::{Due, Flight, Link, Party, World};

/// More steps than any run has that lets time pass.
const MAX_STEPS: u64 = 8_000;

impl World {
    /// Calls the server, and transmits its output.
    pub(crate) fn serve<R>(&mut self, act: impl FnOnce(&mut Core, Instant) -> R) -> R {
        self.serve_for(None, act)
    }

    /// Calls the server for a client.
    fn serve_for<R>(&mut self, party: Party, act: impl FnOnce(&mut Core, Instant) -> R) -> R {
        let result = act(&mut self.core, now());
        let mut told = Vec::new();
        while let Some(id) = self.core.poll_ready() {
            if self.transmit(id) > 0 {
                told.extend(self.links.get(&id).map(|link| link.party));
            }
        }
        told.retain(|one| *one != party);
        self.note_changes();
        self.judge_wakes(&told);
        self.wake();
        result
    }

    /// Ends a connection: each side notices after a while, and frames in flight are lost.
    pub(crate) fn cut(&mut self, id: ConnectionId) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        (link.up.is_cut, link.down.is_cut) = (true, true);
        self.end(id, Way::Up);
        self.end(id, Way::Down);
    }

    fn end(&mut self, id: ConnectionId, way: Way) {
        if let Some(at) = self.arrival(id, way) {
            self.plan(at, Due::End(id, way));
        }
    }

    /// When something that is sent now arrives, behind everything that was sent before.
    fn arrival(&mut self, id: ConnectionId, way: Way) -> Option<Instant> {
        let jitter = Duration::from_micros(self.random.within(0..1000 * self.jitter + 1));
        let latency = match self.links.get(&id)?.party {
            Some(_) => self.latency + jitter,
            None => Duration::ZERO,
        };
        let pipe = self.links.get_mut(&id)?.pipe(way);
        pipe.clear = pipe.clear.max(now() + latency);
        Some(pipe.clear)
    }

    /// Sends bytes, frame by frame. Returns how many notifications are among them.
    fn send(&mut self, id: ConnectionId, way: Way, bytes: &[u8]) -> usize {
        let mut notifications = 0;
        if let Some(link) = self.links.get_mut(&id) {
            link.pipe(way).rest.extend_from_slice(bytes);
        }
        while let Some(bytes) = self.next_frame(id, way) {
            let xid = bytes.first_chunk::<4>().map(|xid| i32::from_be_bytes(*xid));
            notifications += usize::from(way == Way::Down && xid == Some(Xid::NOTIFICATION.0));
            if let Some(at) = self.arrival(id, way) {
                let sent = self.time();
                self.plan(at, Due::Frame(id, way, Flight { bytes, sent }));
            }
        }
        notifications
    }

    /// Takes the next whole frame, without its length.
    fn next_frame(&mut self, id: ConnectionId, way: Way) -> Option<Bytes> {
        let pipe = self.links.get_mut(&id)?.pipe(way);
        frame::split(&mut pipe.rest, usize::MAX).ok().flatten()
    }

    /// Sends the server's output for a connection. Returns how many notifications it has.
    fn transmit(&mut self, id: ConnectionId) -> usize {
        let mut out = BytesMut::new();
        let close = self.core.poll_transmit(now(), id, &mut out);
        let notifications = self.send(id, Way::Down, &out);
        if close {
            self.end(id, Way::Down);
            self.leave_server(id);
        } else if let Some(at) = self.core.poll_delay(id) {
            self.plan(at, Due::Reply(id));
        }
        notifications
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
            Due::Reply(id) => drop(self.transmit(id)),
            Due::Frame(id, way, flight) => self.arrive(id, way, &flight),
            Due::End(id, way) => {
                let Some(link) = self.links.get_mut(&id) else {
                    return;
                };
                if link.pipe(way).is_silent {
                    return;
                }
                match way {
                    Way::Up => {
                        self.leave_server(id);
                        self.serve(|_, _| ());
                    }
                    Way::Down => link.inbox.end(),
                }
            }
            Due::Judge => self.judge(),
            Due::Alone(id, process) => {
                if self.links.contains_key(&id) {
                    self.note(
                        process,
                        true,
                        "is left by its server, which notices that it is alone",
                    );
                }
                self.cut(id);
                self.leave_server(id);
                self.serve(|core, now| core.heal(now));
            }
            Due::Serve => self.serve(|core, now| core.set_serving(now, true)),
            Due::Wake(process) => self.resume(process),
            Due::Strike(index, fault, process) => self.strike_later(index, fault, process),
        }
    }

    fn arrive(&mut self, id: ConnectionId, way: Way, flight: &Flight) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let frame = read(link, way, &flight.bytes);
        let is_gone = match way {
            Way::Up => !link.at_server,
            Way::Down => !link.at_client,
        };
        let pipe = link.pipe(way);
        if pipe.is_cut || pipe.is_silent || is_gone {
            let struck = Struck { is_lost: true, ..Struck::default() };
            return self.record_frame(id, way, flight, frame, &struck);
        }
        let faults = self.strikes_at(id, &frame);
        self.record_frame(id, way, flight, frame, &faults);
        if !faults.is_lost {
            self.greet(id, &frame, &flight.bytes);
            let party = self.links.get(&id).and_then(|link| link.party);
            self.judge_request(party, &frame);
        }
        self.strike_before(id, way, &faults);
        if !faults.is_lost {
            self.deliver(id, way, &flight.bytes);
            self.strike_behind(id, &faults);
        }
    }

    /// Learns the session of a process from the server's first frame.
    fn greet(&mut self, id: ConnectionId, frame: &Frame, bytes: &[u8]) {
        let Some(link) = self.links.get(&id).filter(|link| link.is_greeted) else {
            return;
        };
        let actor = link.party.and_then(|process| self.actors.get_mut(process));
        let greeting = ConnectResponse::decode(&mut Reader::new(bytes));
        if let (Some(actor), Ok(greeting), Kind::Handshake) = (actor, greeting, frame.kind)
            && !greeting.is_expired()
        {
            actor.session = Some(greeting.session_id);
            if !actor.sessions.contains(&greeting.session_id) {
                actor.sessions.push(greeting.session_id);
            }
        }
    }

    fn record_frame(
        &mut self,
        id: ConnectionId,
        way: Way,
        flight: &Flight,
        frame: Frame,
        struck: &Struck,
    ) {
        let at = self.time();
        if let Some(Link { party: Some(process), number: connection, .. }) = self.links.get(&id) {
            self.record.frame(FrameEvent {
                number: struck.number,
                at,
                sent: flight.sent,
                process: *process,
                way,
                connection: *connection,
                payload: flight.bytes.clone(),
                frame,
                is_lost: struck.is_lost,
            });
        }
    }

    fn deliver(&mut self, id: ConnectionId, way: Way, bytes: &[u8]) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let length = (bytes.len() as u32).to_be_bytes();
        match way {
            Way::Up if link.at_server => {
                let mut input = std::mem::take(&mut link.input);
                input.extend_from_slice(&length);
                input.extend_from_slice(bytes);
                let party = link.party;
                self.serve_for(party, |core, now| core.handle_input(now, id, &mut input));
                if let Some(link) = self.links.get_mut(&id) {
                    link.input = input;
                }
            }
            Way::Up => {}
            Way::Down => {
                link.inbox.push(&length);
                link.inbox.push(bytes);
            }
        }
    }

    /// Does everything that is due. Returns when something is due next.
    fn turn(&mut self) -> Option<Instant> {
        loop {
            let now = now();
            if self.core.poll_timeout().is_some_and(|at| at <= now) {
                self.serve(Core::handle_timeout);
            }
            let first = self.agenda.first_key_value().map(|((at, _), _)| *at);
            if first.is_none_or(|at| at > now) {
                return [first, self.core.poll_timeout()].into_iter().flatten().min();
            }
            self.steps += 1;
            if self.steps > MAX_STEPS {
                self.violate(Break::Busy, vec![0], "Requests are sent without end".to_owned());
                return None;
            }
            if let Some((_, due)) = self.agenda.pop_first() {
                self.happen(due);
            }
        }
    }
}

/// What a frame is. Remembers requests until their replies.
fn read(link: &mut Link, way: Way, bytes: &[u8]) -> Frame {
    let mut reader = Reader::new(bytes);
    match way {
        Way::Up => match RequestHeader::decode(&mut reader) {
            // A handshake begins with its version, which is 0.
            Ok(RequestHeader { xid: Xid(0), .. }) | Err(_) => {
                Frame { kind: Kind::Handshake, op: None }
            }
            Ok(RequestHeader { xid: Xid::PING, .. }) => Frame { kind: Kind::Ping, op: None },
            Ok(RequestHeader { xid, op }) => {
                link.asked.insert(xid.0, op);
                Frame { kind: Kind::Request, op: Some(op) }
            }
        },
        Way::Down if !std::mem::replace(&mut link.is_greeted, true) => {
            Frame { kind: Kind::Handshake, op: None }
        }
        Way::Down => match ReplyHeader::decode(&mut reader).map(|header| header.xid) {
            Ok(Xid::PING) => Frame { kind: Kind::Ping, op: None },
            Ok(Xid::NOTIFICATION) => Frame { kind: Kind::Notification, op: None },
            Ok(xid) => Frame { kind: Kind::Reply, op: link.asked.remove(&xid.0) },
            Err(_) => Frame { kind: Kind::Reply, op: None },
        },
    }
}

impl Network for World {
    type Party = Party;
    type Link = ConnectionId;

    fn dial(&mut self, party: Party, _: &Host) -> (Reception, Duration) {
        match party {
            Some(_) => (Reception::Accept, 2 * self.latency),
            None => (Reception::Accept, Duration::ZERO),
        }
    }

    fn connect(&mut self, party: Party, _: &Host) -> ConnectionId {
        let peer = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 50_000);
        let id = self.serve(|core, now| core.handle_connection(now, peer));
        self.connections += 1;
        self.links.insert(id, Link::new(party, self.connections, now()));
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
}
