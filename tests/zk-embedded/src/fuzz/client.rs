//! A client at the other end of a connection: what it sends, and how it checks the replies.
//!
//! The client decodes its own bytes as the server should, so it knows what it has asked for,
//! whatever it sends. It knows no faults: where one strikes, it looks at the state of the
//! connection in the server.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use zk_proto::any::{Frame, Message, Reply};
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, DecodeError, Encode, ErrorCode, EventType,
    KeeperState, MultiRequest, MultiResponse, MultiResult, OpCode, Password, Reader, ReplyHeader,
    RequestHeader, SessionId, WatcherEvent, Xid, Zxid, frame,
};

use crate::connection::{Connection, ConnectionId, Phase};
use crate::core::Core;
use crate::decodable_path::is_single_write;
use crate::handshake::Hello;

pub(crate) struct Client {
    pub(crate) id: ConnectionId,
    /// Bytes that are written but not sent.
    pub(crate) outgoing: BytesMut,
    /// Bytes that are sent but not consumed: the server's buffer, and what should be left in it.
    sent: BytesMut,
    mirror: BytesMut,
    said: Said,
    asked: VecDeque<Asked>,
    received: BytesMut,
    /// The session that the server has given to this client.
    pub(crate) session: Option<(SessionId, Password)>,
    /// Whether replies can be told apart from events and pings. They cannot if the client uses
    /// their numbers for its requests.
    is_clear: bool,
    /// Whether the client checks what it receives.
    pub(crate) reads: bool,
    zxid: Zxid,
    xid: Xid,
    /// Whether the server has closed the connection.
    pub(crate) closed: bool,
}

/// The kind of the client's first bytes.
enum Said {
    Nothing,
    /// Four letters, which may be a word. If they are not, they are a frame that is too long.
    Word,
    /// A handshake, and whether it has the byte that says if a read-only server is accepted.
    Hello(bool),
}

/// A request without a reply.
struct Asked {
    xid: Xid,
    op: OpCode,
    body: Bytes,
    /// True if it was sent to a server that was cut off from its ensemble.
    held: bool,
}

impl Client {
    pub(crate) fn new(id: ConnectionId) -> Self {
        Self {
            id,
            outgoing: BytesMut::new(),
            sent: BytesMut::new(),
            mirror: BytesMut::new(),
            said: Said::Nothing,
            asked: VecDeque::new(),
            received: BytesMut::new(),
            session: None,
            is_clear: true,
            reads: true,
            zxid: Zxid(0),
            xid: Xid(0),
            closed: false,
        }
    }

    pub(crate) fn next_xid(&mut self) -> Xid {
        self.xid = self.xid.next();
        self.xid
    }

    pub(crate) fn write_hello(&mut self, hello: &ConnectRequest) {
        let written = frame::encode(&mut self.outgoing, usize::MAX, |writer| hello.encode(writer));
        assert!(written.is_ok(), "a small frame");
    }

    /// True if the client has sent nothing, and the server waits for its handshake.
    pub(crate) fn is_fresh(&self, core: &Core) -> bool {
        let connection = core.state.connections.get(self.id);
        connection.is_some_and(|one| one.phase == Phase::Fresh)
            && !connection.is_some_and(is_deaf)
            && self.mirror.is_empty()
            && self.outgoing.is_empty()
    }

    /// Sends the first `bytes` of the bytes that were written.
    pub(crate) fn send(&mut self, core: &mut Core, now: Instant, bytes: usize) {
        let was_deaf = core.state.connections.get(self.id).is_none_or(is_deaf);
        let connection = core.state.connections.get(self.id);
        let held = connection.is_some_and(|one| one.partition.is_some());
        let bytes = self.outgoing.split_to(bytes.min(self.outgoing.len()));
        self.sent.extend_from_slice(&bytes);
        core.handle_input(now, self.id, &mut self.sent);
        let is_deaf = core.state.connections.get(self.id).is_none_or(is_deaf);
        if was_deaf {
            assert!(self.sent.is_empty(), "nobody listens");
            return;
        }
        self.mirror.extend_from_slice(&bytes);
        let fits = self.read_own(held, core.state.config.max_buffer);
        if is_deaf {
            assert!(self.sent.is_empty(), "nobody listens any more");
        } else {
            assert!(fits, "{} goes on behind bytes that mean nothing", self.id);
            assert_eq!(self.sent, self.mirror, "whole frames are taken, and nothing else");
        }
    }

    /// Decodes what the client has sent. Returns whether all of it is valid.
    fn read_own(&mut self, held: bool, limit: usize) -> bool {
        loop {
            if let Said::Nothing = self.said
                && let Some(word) = self.mirror.first_chunk::<4>()
                && word.iter().all(u8::is_ascii_lowercase)
            {
                self.said = Said::Word;
                return false;
            }
            let frame = match frame::split(&mut self.mirror, limit) {
                Ok(Some(frame)) => frame,
                Ok(None) => return true,
                Err(_) => return false,
            };
            match self.said {
                Said::Word => return false,
                Said::Nothing => match Hello::decode(&mut Reader::new(&frame)) {
                    Ok(hello) => self.said = Said::Hello(hello.read_only.is_some()),
                    Err(_) => return false,
                },
                Said::Hello(_) => {
                    let mut reader = Reader::new(&frame);
                    let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut reader) else {
                        return false;
                    };
                    let like_a_ping = xid == Xid::PING && op != OpCode::PING;
                    self.is_clear &= xid != Xid::NOTIFICATION && !like_a_ping;
                    let body = frame.slice(frame.len() - reader.remaining()..);
                    self.asked.push_back(Asked { xid, op, body, held });
                }
            }
        }
    }

    /// Takes the bytes that the server has for this client. Returns how many.
    pub(crate) fn receive(&mut self, core: &mut Core, now: Instant) -> usize {
        let before = self.received.len();
        let closed = core.poll_transmit(now, self.id, &mut self.received);
        let count = self.received.len() - before;
        assert!(count == 0 || !self.closed, "{count} bytes behind the end");
        self.closed |= closed;
        if self.reads {
            self.read(core);
        }
        count
    }

    /// Checks the bytes that were received.
    pub(crate) fn read(&mut self, core: &Core) {
        let hello = match self.said {
            Said::Nothing => return assert!(self.received.is_empty(), "an answer to nothing"),
            Said::Word => {
                let text = std::str::from_utf8(&self.received);
                return assert!(text.is_ok_and(|text| self.closed || text.is_empty()));
            }
            Said::Hello(hello) => hello,
        };
        while let Ok(Some(frame)) = frame::split(&mut self.received, usize::MAX) {
            if self.session.is_none() {
                self.greet(hello, &frame);
            } else if !self.is_welcomed_again(hello, &frame) {
                self.hear(core, &frame);
            }
        }
        assert!(self.closed || self.received.is_empty(), "half a frame");
    }

    fn greet(&mut self, has_byte: bool, frame: &Bytes) {
        let refusal = ReplyHeader::decode_exact(frame);
        if refusal.is_ok_and(|refusal| refusal.error == ErrorCode::NOT_READ_ONLY) {
            self.session = Some((SessionId(0), Password::ZERO));
            return;
        }
        let answer = ConnectResponse::decode_exact(frame);
        assert!(answer.is_ok(), "{answer:?}");
        let Ok(answer) = answer else {
            return;
        };
        assert_eq!(answer.read_only.is_some(), has_byte, "as it was asked");
        assert_eq!(answer.is_expired(), answer.session_id == SessionId(0));
        assert_eq!(answer.is_expired(), answer.password == Password::ZERO);
        self.session = Some((answer.session_id, answer.password));
    }

    /// True if this is the reply to createSession, which looks like that to a handshake.
    fn is_welcomed_again(&mut self, has_byte: bool, frame: &Bytes) -> bool {
        let next = self.asked.front();
        let is_welcome = next.is_some_and(|asked| asked.op == OpCode::CREATE_SESSION)
            && ConnectResponse::decode_exact(frame).is_ok_and(|answer| {
                Some((answer.session_id, answer.password)) == self.session
                    && answer.read_only.is_some() == has_byte
            });
        if is_welcome {
            self.asked.pop_front();
        }
        is_welcome
    }

    fn hear(&mut self, core: &Core, frame: &Bytes) {
        let mut reader = Reader::new(frame);
        let header = ReplyHeader::decode(&mut reader);
        assert!(header.is_ok(), "{header:?}");
        let (Ok(ReplyHeader { xid, zxid, error }), true) = (header, self.is_clear) else {
            return;
        };
        let body = reader.take_rest();
        assert!(zxid <= core.last_zxid(), "{zxid} is in the future");
        if xid == Xid::NOTIFICATION {
            assert_eq!(error, ErrorCode::OK);
            let event = WatcherEvent::decode_exact(body);
            let known = EventType::NODE_CREATED..=EventType::NODE_CHILDREN_CHANGED;
            let fits = event.is_ok_and(|event| {
                event.state == KeeperState::SYNC_CONNECTED && known.contains(&event.kind)
            });
            return assert!(fits, "{event:?}");
        }
        if zxid > Zxid(0) {
            assert!(zxid >= self.zxid, "{zxid} behind {}", self.zxid);
            self.zxid = zxid;
        }
        // A ping that is refused keeps the xid that it came with.
        let answers_ping = |asked: &Asked| {
            let expected = if error == ErrorCode::OK { Xid::PING } else { asked.xid };
            asked.op == OpCode::PING && xid == expected
        };
        // A server that is cut off answers only pings.
        let overtakes = |asked: &Asked| asked.held && asked.op != OpCode::PING;
        let first = self.asked.iter().take_while(|asked| overtakes(asked)).count();
        let place = if self.asked.get(first).is_some_and(answers_ping) { first } else { 0 };
        let asked = self.asked.remove(place);
        assert!(asked.is_some(), "#{xid} answers nothing");
        let Some(asked) = asked else {
            return;
        };
        let is_answered =
            if asked.op == OpCode::PING { answers_ping(&asked) } else { xid == asked.xid };
        assert!(is_answered, "#{xid} answers {} #{}", asked.op, asked.xid);
        let history = core.history();
        let committed = history.binary_search_by_key(&zxid, |commit| commit.zxid).is_ok();
        if error == ErrorCode::OK {
            let decoded = asked.decode(frame);
            assert!(decoded.is_ok(), "{}: {decoded:?} in {body:?}", asked.op);
            let failed = asked.op == OpCode::MULTI
                && MultiResponse::decode_exact(body).is_ok_and(|it| it.failure().is_some());
            assert!(!(failed && committed), "a multi failed and happened");
            assert!(committed || !is_single_write(asked.op), "{} has not happened", asked.op);
        } else {
            // A multi with a null path is refused, as is a multiRead of writes, but the reply has
            // the list of results that was begun.
            let begun = MultiResponse::decode_exact(body).is_ok_and(|it| match asked.op {
                OpCode::MULTI => it.iter().next().is_none(),
                op => op == OpCode::MULTI_READ,
            });
            assert!(body.is_empty() || begun, "{error} with {body:?}");
            // Requests that use no zxid fail with other errors.
            let failed = (ErrorCode::INVALID_ACL..=ErrorCode::NO_NODE).contains(&error)
                && is_single_write(asked.op);
            assert!(!(failed && committed), "{} failed and happened", asked.op);
        }
    }

    /// Checks what must be true of a client once everything was sent to it.
    pub(crate) fn check(&self, core: &Core, now: Instant) {
        let Some(connection) = core.state.connections.get(self.id) else {
            return assert!(self.closed, "gone without an end");
        };
        if let Some(until) = core.poll_delay(self.id) {
            return assert!(!self.closed && until > now, "{} is kept waiting", self.id);
        }
        match connection.phase {
            Phase::Closing if connection.outbox.is_silent() => {}
            Phase::Closing => assert!(self.closed, "{} never ends", self.id),
            _ => assert!(!self.closed, "{} has ended", self.id),
        }
        let calm = !is_deaf(connection) && connection.partition.is_none();
        if calm && self.reads && self.is_clear {
            assert!(self.asked.is_empty(), "{} goes unanswered", self.asked.len());
        }
    }
}

/// Whether the server ignores what this connection sends.
fn is_deaf(connection: &Connection) -> bool {
    connection.phase == Phase::Closing || connection.outbox.is_silent() || connection.is_refused
}

impl Asked {
    /// Decodes a reply that is not an error.
    fn decode(&self, frame: &[u8]) -> Result<(), DecodeError> {
        let seen = Frame::reply(frame, self.op)?;
        assert_eq!(seen.trailing(), [], "bytes behind the reply");
        match seen.message() {
            Message::Reply(_, Reply::Multi(results) | Reply::MultiRead(results)) => {
                self.check_multi(results)
            }
            Message::Reply(_, Reply::Unknown(_)) => unreachable!("{} was carried out", self.op),
            _ => Ok(()),
        }
    }

    /// Checks that there is a result for each entry, and that a multi of writes that failed has
    /// only errors.
    fn check_multi(&self, response: &MultiResponse<'_>) -> Result<(), DecodeError> {
        let request = MultiRequest::decode(&mut Reader::new(&self.body))?;
        assert_eq!(response.iter().count(), request.iter().count(), "{response:?}");
        let failure = response.failure().filter(|_| self.op == OpCode::MULTI);
        for (index, (asked, result)) in request.iter().zip(response.iter()).enumerate() {
            match (failure, result) {
                (Some((failed, code)), result) => {
                    let code = match index.cmp(&failed) {
                        std::cmp::Ordering::Less => ErrorCode::OK,
                        std::cmp::Ordering::Equal => code,
                        std::cmp::Ordering::Greater => ErrorCode::RUNTIME_INCONSISTENCY,
                    };
                    assert_eq!(result, MultiResult::Error(code), "entry {index}");
                }
                (None, MultiResult::Error(_)) => assert_eq!(self.op, OpCode::MULTI_READ),
                (None, result) => {
                    // The replies to create and create2 may stand for each other.
                    let made = matches!(result, MultiResult::Create(_) | MultiResult::Create2(_));
                    assert!(made || result.op() == asked.op(), "{result:?} to {asked:?}");
                }
            }
        }
        Ok(())
    }
}
