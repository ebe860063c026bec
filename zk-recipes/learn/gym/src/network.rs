//! How frames get from one end of a connection to the other, or do not.

use std::time::Duration;

use bytes::Bytes;
use zk_embedded::{ConnectionId, Core};
use zk_proto::{ConnectResponse, Decode, Reader, ReplyHeader, RequestHeader, Xid};
use zk_simulation::net::{Net, PREFIX, Traffic, Way, Wired};
use zk_simulation::wire::Reception;

use crate::fault::{Frame, Kind};
use crate::record::{Break, FrameEvent};
use crate::strike::Struck;
use crate::world::{Due, Flight, Party, Talk, World};

impl World {
    /// Learns the session of a process from the server's first frame.
    fn greet(&mut self, id: ConnectionId, frame: &Frame, payload: &[u8]) {
        let Some(link) = self.net.links.get(&id).filter(|link| link.own.is_greeted) else {
            return;
        };
        let actor = link.party.and_then(|process| self.actors.get_mut(process));
        let greeting = ConnectResponse::decode(&mut Reader::new(payload));
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
        if let Some(link) = self.net.links.get(&id)
            && let Some(process) = link.party
        {
            self.record.frame(FrameEvent {
                number: struck.number,
                at,
                sent: flight.sent,
                process,
                way,
                connection: link.own.number,
                payload: flight.payload(),
                frame,
                is_lost: struck.is_lost,
            });
        }
    }
}

/// What a frame is. Remembers requests until their replies.
fn read(link: &mut Talk, way: Way, bytes: &[u8]) -> Frame {
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

impl Flight {
    fn payload(&self) -> Bytes {
        self.bytes.slice(PREFIX..)
    }
}

impl Wired for World {
    type Machine = Core;
    type Party = Party;
    type Own = Talk;
    type Flight = Flight;
    type Due = Due;

    const MOST_STEPS: u64 = 8_000;

    fn net(&mut self) -> &mut Net<Self> {
        &mut self.net
    }

    fn dial(&mut self, party: Party) -> (Reception, Duration) {
        (Reception::Accept, party.map_or(Duration::ZERO, |_| 2 * self.latency))
    }

    fn connected(&mut self, _: ConnectionId, _: Party) -> Talk {
        self.connections += 1;
        Talk::new(self.connections)
    }

    fn latency(&mut self, party: Party) -> Duration {
        let jitter = Duration::from_micros(self.random.within(0..1000 * self.jitter + 1));
        party.map_or(Duration::ZERO, |_| self.latency + jitter)
    }

    fn send(&mut self, id: ConnectionId, way: Way, bytes: Bytes) {
        let Some(link) = self.net.links.get_mut(&id) else {
            return;
        };
        let party = link.party;
        for bytes in link.pipe(way).frames(&bytes) {
            let flight = Flight { bytes, sent: self.time() };
            if way == Way::Down && flight.payload().starts_with(&Xid::NOTIFICATION.0.to_be_bytes())
            {
                self.told.push(party);
            }
            self.carry(id, way, flight);
        }
    }

    fn arrive(&mut self, id: ConnectionId, way: Way, flight: Flight) {
        let Some(link) = self.net.links.get_mut(&id) else {
            return;
        };
        let frame = read(&mut link.own, way, &flight.payload());
        if !link.is_heard(way) || !link.pipe(way).is_whole() {
            let struck = Struck { is_lost: true, ..Struck::default() };
            return self.record_frame(id, way, &flight, frame, &struck);
        }
        let party = link.party;
        let faults = self.strikes_at(id, &frame);
        self.record_frame(id, way, &flight, frame, &faults);
        if !faults.is_lost {
            self.greet(id, &frame, &flight.payload());
            self.judge_request(party, &frame);
        }
        self.strike_before(id, way, &faults);
        if !faults.is_lost {
            self.asking = party;
            self.deliver(id, way, &flight.bytes);
            self.asking = None;
            self.strike_behind(id, &faults);
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Judge => self.judge(),
            Due::Alone(id, process) => {
                if self.net.links.contains_key(&id) {
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

    /// What came behind a reply that was held back is no consequence of this act.
    fn acted(&mut self) {
        self.told.clear();
    }

    fn served(&mut self) {
        let told = std::mem::take(&mut self.told);
        let told = told.into_iter().filter(|one| *one != self.asking).collect::<Vec<_>>();
        self.note_changes();
        self.judge_wakes(&told);
    }

    fn stand_still(&mut self) {
        self.violate(Break::Busy, vec![0], "Requests are sent without end".to_owned());
    }
}
