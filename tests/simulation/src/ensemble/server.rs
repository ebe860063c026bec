//! One server of the ensemble: a copy of the tree, and the clients that are connected to it.
//!
//! It answers reads and pings by itself, forwards writes to the leader, and carries out the entries
//! that the leader has ordered. It records which sessions it has seen, and reports them to the
//! leader with the reply to the next ping. Bytes and messages go in, and come out as its output.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use zk_embedded::{Config, ConnectionId, Core, ErrorCode, OpCode, SessionId, Zxid};
use zk_proto::{ConnectRequest, Decode, Encode, Reader, ReplyHeader, RequestHeader, frame};

use super::FORBIDDEN;
use super::message::{Entry, LEADER, LinkId, ServerId, ToFollower, ToLeader};
use crate::one_server::WALL;

pub(super) struct Server {
    id: ServerId,
    /// Its clock stands still: the leader decides when sessions expire.
    pub(super) core: Core,
    start: Instant,
    timeouts: (Duration, Duration),
    /// Whether it refuses a write that the access list of its own copy forbids, without asking the
    /// leader (`zookeeper.enableEagerACLCheck`).
    is_eager: bool,
    /// Whether it follows the leader, as far as it knows.
    pub(super) serves: bool,
    /// How much of the leader's log it has carried out.
    applied: usize,
    clients: BTreeMap<LinkId, Client>,
    /// The ids of the sessions seen since the leader last asked.
    touched: BTreeSet<i64>,
    /// What is to be sent, in order.
    pub(super) output: VecDeque<Output>,
}

/// An output of a server.
pub(super) enum Output {
    ToLeader(ToLeader),
    /// Bytes for a client, or the end of its connection.
    ToClient(LinkId, Option<Bytes>),
}

#[derive(Default)]
struct Client {
    /// The bytes of an incomplete frame.
    input: BytesMut,
    /// The handshake that the leader has not decided on, with its session. Nothing else is read
    /// until then.
    handshake: Option<(Bytes, SessionId)>,
    session: Option<SessionId>,
    /// Requests in order: the first one waits for the leader, and the others wait behind it.
    waiting: VecDeque<Bytes>,
}

impl Server {
    pub(super) fn new(id: ServerId, config: Config, start: Instant, is_eager: bool) -> Self {
        Self {
            id,
            timeouts: config.session_timeouts(),
            core: Core::new(config, start, WALL),
            start,
            is_eager,
            serves: true,
            applied: 0,
            clients: BTreeMap::new(),
            touched: BTreeSet::new(),
            output: VecDeque::new(),
        }
    }

    // Input from clients.

    pub(super) fn handle_connected(&mut self) -> LinkId {
        let link = LinkId { server: self.id, connection: self.connect() };
        self.clients.insert(link, Client::default());
        if !self.serves {
            self.hang_up(link);
        }
        link
    }

    fn connect(&mut self) -> ConnectionId {
        let peer = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 50_000);
        self.core.handle_connection(self.start, peer)
    }

    pub(super) fn handle_input(&mut self, link: LinkId, bytes: &[u8]) {
        if let Some(client) = self.clients.get_mut(&link) {
            client.input.extend_from_slice(bytes);
        }
        self.read(link);
    }

    pub(super) fn handle_disconnected(&mut self, link: LinkId) {
        if self.clients.remove(&link).is_some() {
            self.core.handle_disconnected(link.connection);
        }
    }

    /// Takes the complete frames.
    fn read(&mut self, link: LinkId) {
        while let Some(client) = self.clients.get_mut(&link)
            && client.handshake.is_none()
        {
            match frame::split(&mut client.input, frame::SERVER_FRAME_LIMIT) {
                Ok(Some(frame)) => match client.session {
                    None => self.handshake(link, frame),
                    Some(session) => self.request(link, session, frame),
                },
                Ok(None) => return,
                Err(_) => return self.hang_up(link),
            }
        }
    }

    fn handshake(&mut self, link: LinkId, handshake: Bytes) {
        let Ok(request) = ConnectRequest::decode(&mut Reader::new(&handshake)) else {
            return self.hang_up(link);
        };
        if request.last_zxid_seen > self.core.last_zxid() {
            // The client has seen transactions that this server has not: it must find another
            // server.
            return self.hang_up(link);
        }
        let (least, most) = self.timeouts;
        let timeout = Duration::from_millis(request.timeout.max(0).unsigned_abs().into());
        let timeout = timeout.clamp(least, most);
        if let Some(client) = self.clients.get_mut(&link) {
            client.handshake = Some((handshake.clone(), request.session_id));
        }
        self.tell_leader(match request.session_id {
            SessionId(0) => ToLeader::Ask(Entry::Open { link, handshake, timeout }),
            session => ToLeader::Validate { link, session },
        });
    }

    fn request(&mut self, link: LinkId, session: SessionId, request: Bytes) {
        let mut reader = Reader::new(&request);
        let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut reader) else {
            return self.hang_up(link);
        };
        self.touched.insert(session.0);
        if self.id == LEADER {
            self.tell_touched();
        }
        let path = <&str>::decode(&mut reader).unwrap_or_default();
        if self.is_eager && op == OpCode::CREATE2 && path == FORBIDDEN {
            // At once, even if earlier requests are still waiting: the check is before the queue.
            // There is no transaction behind that, so there is no zxid.
            let header = ReplyHeader { xid, zxid: Zxid(0), error: ErrorCode::NO_AUTH };
            let mut reply = BytesMut::new();
            frame::encode(&mut reply, frame::SERVER_FRAME_LIMIT, |writer| header.encode(writer))
                .unwrap();
            return self.output.push_back(Output::ToClient(link, Some(reply.freeze())));
        }
        let is_forwarded = is_forwarded(op);
        if is_forwarded {
            let request = request.clone();
            self.tell_leader(ToLeader::Ask(Entry::Request { link, session, request }));
        }
        let Some(client) = self.clients.get_mut(&link) else {
            return;
        };
        if is_forwarded || !client.waiting.is_empty() {
            return client.waiting.push_back(request);
        }
        self.execute(link, session, &request);
    }

    /// Carries out a request of a client that is connected here.
    fn execute(&mut self, link: LinkId, session: SessionId, request: &Bytes) {
        self.core.execute(self.start, session, Some(link.connection), request);
        self.flush();
    }

    /// Carries out the waiting requests at the head of the queue that need no leader, behind one
    /// that the leader has decided on, if there is one.
    fn advance(&mut self, link: LinkId, mut decided: Option<Bytes>) {
        while let Some(client) = self.clients.get_mut(&link)
            && let Some(session) = client.session
            && let Some(request) = client.waiting.front()
            && (decided.is_some() || !is_forwarded(header(request).op))
            && let Some(request) = client.waiting.pop_front()
        {
            self.execute(link, session, &decided.take().unwrap_or(request));
        }
    }

    // Input from the leader.

    pub(super) fn handle_message(&mut self, message: ToFollower) {
        match message {
            ToFollower::Ping => self.tell_touched(),
            ToFollower::Commit(place, entry) if place == self.applied => self.apply(&entry),
            // The entry came already with a later reply to an earlier request to join.
            ToFollower::Commit(..) => {}
            ToFollower::UpToDate => self.serves = true,
            // By now its own copy knows whether there is such a session, as the leader did.
            ToFollower::Validated { link } => self.greet(link),
            ToFollower::Synced { link } => {
                let client = self.clients.get(&link);
                let first = client.and_then(|client| client.waiting.front().cloned());
                self.advance(link, first);
            }
            ToFollower::Moved { link } => self.hang_up(link),
        }
    }

    /// Carries out the next entry of the log, and answers its client if that is connected here.
    fn apply(&mut self, entry: &Entry) {
        self.applied += 1;
        match entry {
            Entry::Open { link, .. } if self.clients.contains_key(link) => self.greet(*link),
            Entry::Open { handshake, .. } => {
                // The client is connected elsewhere, or gone. The session is created all the same.
                let nobody = self.connect();
                self.core.handle_input(self.start, nobody, &mut framed(handshake));
                self.core.handle_disconnected(nobody);
            }
            Entry::Request { session, request, .. } => match self.awaiting(*session, request) {
                Some(link) => self.advance(link, Some(request.clone())),
                None => self.core.execute(self.start, *session, None, request),
            },
            Entry::Expire(session) => {
                self.core.expire(self.start, *session);
            }
        }
        self.flush();
    }

    /// The client whose first waiting request is taken for this one. Servers match a transaction by
    /// session and xid with the request that waits for it. Two processes that share one session may
    /// have both in common.
    fn awaiting(&self, session: SessionId, request: &[u8]) -> Option<LinkId> {
        let xid = header(request).xid;
        let waits = |client: &Client| {
            let first = client.waiting.front();
            client.session == Some(session) && first.is_some_and(|one| header(one).xid == xid)
        };
        self.clients.iter().find(|(_, client)| waits(client)).map(|(link, _)| *link)
    }

    /// Answers a handshake, and continues to read.
    fn greet(&mut self, link: LinkId) {
        let client = self.clients.get_mut(&link);
        let Some((handshake, session)) = client.and_then(|client| client.handshake.take()) else {
            return;
        };
        self.core.handle_input(self.start, link.connection, &mut framed(&handshake));
        if let Some(client) = self.clients.get_mut(&link) {
            client.session = match session {
                // The newest session is the one just opened.
                SessionId(0) => self.core.sessions().last().copied(),
                session => Some(session),
            };
        }
        self.flush();
        self.read(link);
    }

    /// The server has not received anything from the leader for too long, or their connection
    /// broke. It serves no client until the two are connected again.
    pub(super) fn give_up(&mut self) {
        self.serves = false;
        self.touched.clear();
        self.core.disconnect_all();
        self.flush();
    }

    /// Tries to be connected to the leader again.
    pub(super) fn join(&mut self) {
        self.tell_leader(ToLeader::Join { applied: self.applied });
    }

    fn tell_leader(&mut self, message: ToLeader) {
        self.output.push_back(Output::ToLeader(message));
    }

    fn tell_touched(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        self.tell_leader(ToLeader::Touched(touched.into_iter().map(SessionId).collect()));
    }

    fn hang_up(&mut self, link: LinkId) {
        self.handle_disconnected(link);
        self.output.push_back(Output::ToClient(link, None));
    }

    /// Sends the output of the copy to clients.
    fn flush(&mut self) {
        while let Some(connection) = self.core.poll_ready() {
            let mut bytes = BytesMut::new();
            let is_over = self.core.poll_transmit(self.start, connection, &mut bytes);
            let link = LinkId { server: self.id, connection };
            if !self.clients.contains_key(&link) {
                continue;
            }
            if !bytes.is_empty() {
                self.output.push_back(Output::ToClient(link, Some(bytes.freeze())));
            }
            if is_over {
                self.hang_up(link);
            }
        }
    }
}

/// True if only the leader can answer this request.
fn is_forwarded(op: OpCode) -> bool {
    op.info().is_some_and(|info| info.needs_leader)
}

/// The header of a request. Requests that cannot be decoded never get here.
pub(super) fn header(request: &[u8]) -> RequestHeader {
    RequestHeader::decode(&mut Reader::new(request)).unwrap()
}

/// The payload as a frame again.
fn framed(payload: &[u8]) -> BytesMut {
    let mut bytes = BytesMut::new();
    bytes.put_u32(payload.len() as u32);
    bytes.extend_from_slice(payload);
    bytes
}
