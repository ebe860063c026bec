//! The server of a program, which behaves correctly or in one of several wrong ways.
//!
//! It reads the session's requests and sends any reply; it keeps no nodes.

use bytes::{Bytes, BytesMut};
use zk_proto::{
    ConnectRequest, ConnectResponse, Create2Response, CreateResponse, Decode, Encode, ErrorCode,
    EventType, ExistsResponse, GetChildrenResponse, GetEphemeralsResponse, KeeperState, List,
    MultiOp, MultiRequest, MultiResponse, MultiResult, OpCode, Password, Reader, ReplyHeader,
    RequestHeader, Secret, SessionId, SetSaslResponse, Stat, WatcherEvent, Writer, Xid, Zxid,
    frame,
};

use crate::fuzz::input::Input;
use crate::fuzz::world::{Asked, CREDENTIALS, Link, OVERHEAD, OWN, TIMEOUT, World};
use crate::stats::Stats;

impl World {
    pub(super) fn connect(&mut self) {
        self.session.handle_connecting(self.now);
        let start = self.session.sasl().map(|sasl| sasl.mechanism().start("zk1"));
        if let Some(Ok(start)) = start {
            self.session.begin_sasl(start);
        }
        self.session.handle_connected(self.now);
        if self.link == Link::Down {
            self.link = Link::Up;
            self.met = false;
            self.allowance += OVERHEAD;
        }
    }

    pub(super) fn disconnect(&mut self) {
        self.session.handle_disconnected(self.now);
        self.leave_by = None;
        self.asked.clear();
        self.link = Link::Down;
    }

    pub(super) fn reconnect(&mut self) {
        self.disconnect();
        self.listen();
        self.connect();
        self.transmit();
        self.welcome(&mut Input(&[]));
        self.listen();
        self.transmit();
    }

    /// Answers the handshake: correctly, or in one of several wrong ways.
    pub(super) fn welcome(&mut self, input: &mut Input<'_>) {
        let variant = input.byte();
        let answer = ConnectResponse {
            protocol_version: 0,
            timeout: if variant == 1 { 0 } else { TIMEOUT.as_millis() as i32 + i32::from(variant) },
            session_id: if variant == 2 { SessionId(8) } else { OWN },
            password: Password::ZERO,
            read_only: [Some(false), Some(true), None]
                .get(usize::from(variant % 3))
                .copied()
                .flatten(),
        };
        self.frame(encoded(|writer| answer.encode(writer)));
    }

    pub(super) fn event(&mut self, input: &mut Input<'_>) {
        let watchers: Vec<u32> = self.watching.keys().copied().collect();
        let path = format!("/{}", input.pick(&watchers).unwrap_or_default());
        let kind = EventType(i32::from(input.byte() % 6));
        let state = KeeperState::SYNC_CONNECTED;
        self.reply(Xid::NOTIFICATION, ErrorCode::OK, &WatcherEvent { kind, state, path: &path });
    }

    /// What a search finds: all nodes that may have been created, or half of them.
    fn found(&self, prefix: &str, variant: u8) -> Vec<String> {
        (0..=self.numbered)
            .filter(|n| variant & 32 == 0 || n % 2 == 0)
            .map(|n| format!("{prefix}{n}-0000000001"))
            .collect()
    }

    /// Answers the oldest request: with the reply that it asks for, with an error, or with another
    /// reply.
    pub(super) fn answer(&mut self, input: &mut Input<'_>) {
        let Some(Asked { xid, op, path, parts }) = self.asked.pop_front() else {
            return;
        };
        let variant = input.byte();
        let serving = self.link == Link::Serving;
        let own = if variant & 64 == 0 { OWN } else { SessionId(9) };
        let stat = stat(own);
        let mut error = ErrorCode::OK;
        // Whether the last part of a multi was carried out.
        let mut decided = false;
        match variant % 8 {
            0 => {
                error = ErrorCode(-i32::from(input.byte()));
                self.reply(xid, error, &());
            }
            1 => self.reply(xid, ErrorCode::NO_NODE, &()),
            2 => self.reply(xid, ErrorCode::OK, &()),
            3 if op == OpCode::CREATE2 => {
                // A server that returns any path.
                let path = "/".repeat(usize::from(input.byte()));
                self.reply(xid, ErrorCode::OK, &Create2Response { path: &path, stat });
            }
            3 if op == OpCode::MULTI => {
                let (passed, failed) = (ErrorCode::OK, ErrorCode::NODE_EXISTS);
                let results = [passed, failed].map(MultiResult::Error);
                // Without the first one the refusal is that of the create.
                let results = results.get(usize::from(variant & 8 != 0)..).unwrap_or_default();
                self.reply(xid, ErrorCode::OK, &MultiResponse::new(results));
            }
            _ => match op {
                // The script decides by this token; 7 ends the exchange successfully.
                OpCode::SASL => {
                    let token = [input.next().unwrap_or(7)];
                    let token = Secret::new(Some(token.as_slice()));
                    self.reply(xid, ErrorCode::OK, &SetSaslResponse { token });
                }
                OpCode::CREATE2 => {
                    let path = format!("{path}{:010}", xid.0);
                    self.reply(xid, ErrorCode::OK, &Create2Response { path: &path, stat });
                }
                OpCode::MULTI => {
                    let named = |(_, path): &(OpCode, String)| format!("{path}{:010}", xid.0);
                    let paths: Vec<String> = parts.iter().map(named).collect();
                    let results: Vec<MultiResult<'_>> = parts
                        .iter()
                        .zip(&paths)
                        .map(|((op, _), path)| match *op {
                            OpCode::CREATE => MultiResult::Create(CreateResponse { path }),
                            OpCode::CREATE2 => MultiResult::Create2(Create2Response { path, stat }),
                            OpCode::DELETE => MultiResult::Delete(()),
                            _ => MultiResult::Check(()),
                        })
                        .collect();
                    decided = true;
                    self.reply(xid, ErrorCode::OK, &MultiResponse::new(&results));
                }
                OpCode::GET_CHILDREN => {
                    let names = self.found("c", variant);
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    let children = List::new(&names);
                    self.reply(xid, ErrorCode::OK, &GetChildrenResponse { children });
                }
                OpCode::GET_EPHEMERALS => {
                    let paths = self.found("/c", variant);
                    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
                    let ephemerals = List::new(&paths);
                    self.reply(xid, ErrorCode::OK, &GetEphemeralsResponse { ephemerals });
                }
                OpCode::EXISTS => self.reply(xid, ErrorCode::OK, &ExistsResponse { stat }),
                _ => self.reply(xid, ErrorCode::OK, &()),
            },
        }
        self.completed.clear();
        self.listen();
        if serving && let Some(token) = token_of(&path) {
            assert_eq!(self.completed.first(), Some(&token), "the reply to {path} is the caller's");
            // The others are completed behind it if it ends the session.
            let ends = error == ErrorCode::SESSION_EXPIRED && self.over;
            assert!(ends || self.completed.len() == 1, "the reply to {path} is no other's");
        }
        if serving && op == OpCode::DELETE && is_gone(error) {
            self.shadow.deleted(path);
        }
        if serving && decided {
            self.deleted_together(parts);
        }
    }

    /// The delete at the end of a multi was carried out.
    fn deleted_together(&mut self, parts: Vec<(OpCode, String)>) {
        if let Some((OpCode::DELETE, path)) = parts.into_iter().next_back() {
            self.shadow.deleted(path);
        }
    }

    /// Answers the oldest request with a reply above the session's limit, or sends such a frame
    /// without a request.
    pub(super) fn answer_at_length(&mut self, input: &mut Input<'_>) {
        let variant = input.byte();
        let front = self.asked.front().filter(|_| variant & 1 == 0);
        let token = front.and_then(|asked| token_of(&asked.path));
        let xid = front.map_or(Xid(i32::from(variant) - 4), |asked| asked.xid);
        let error = ErrorCode(-i32::from(variant / 8));
        self.zxid += 1;
        let header = ReplyHeader { xid, zxid: Zxid(self.zxid), error };
        let head = encoded(|writer| header.encode(writer));
        let serving = self.link == Link::Serving;
        // A create makes its owned node send two requests, and a multi has at most two creates.
        self.allowance += 4 * OVERHEAD;
        self.completed.clear();
        self.session.handle_oversized(self.now, &head, i32::MAX as usize);
        self.listen();
        if serving && let Some(token) = token {
            assert_eq!(self.completed, [token], "the reply is the caller's");
            let leaves = self.over || self.leave_by.is_some();
            assert!(self.link == Link::Serving || leaves, "the connection lives on");
        }
        let asked = self.asked.iter().position(|asked| asked.xid == xid);
        let asked = asked.and_then(|at| self.asked.remove(at));
        self.forged(asked.filter(|_| is_gone(error)));
    }

    /// Answers one of the oldest requests out of order, unless it is the oldest by chance.
    pub(super) fn answer_early(&mut self, input: &mut Input<'_>) {
        let asked = self.asked.remove(usize::from(input.byte() % 4));
        let errors = [ErrorCode::UNIMPLEMENTED, ErrorCode::OK];
        let error = input.pick(&errors).unwrap_or(ErrorCode::OK);
        self.reply(asked.as_ref().map_or(Xid::PING, |asked| asked.xid), error, &());
        self.forged(asked);
    }

    /// Sends an arbitrary frame.
    pub(super) fn forge(&mut self, frame: &[u8]) {
        let header = ReplyHeader::decode(&mut Reader::new(frame));
        let xid = header.map_or(Xid::PING, |header| header.xid);
        self.frame(Bytes::copy_from_slice(frame));
        // It may still be the reply to a request.
        let asked = self.asked.iter().position(|asked| asked.xid == xid);
        let asked = asked.and_then(|at| self.asked.remove(at));
        if let Some(Asked { op: OpCode::MULTI, parts, .. }) = asked {
            return self.deleted_together(parts);
        }
        self.forged(asked);
    }

    /// This request may have been answered, if the session accepted the frame.
    fn forged(&mut self, asked: Option<Asked>) {
        if let Some(Asked { op: OpCode::DELETE, path, .. }) = asked {
            self.shadow.deleted(path);
        }
    }

    /// Answers every request correctly, until there are none left.
    pub(super) fn serve(&mut self) {
        for _ in 0..100 {
            self.transmit();
            if self.asked.is_empty() {
                return;
            }
            while !self.asked.is_empty() {
                self.answer(&mut Input(&[7]));
            }
        }
        assert!(self.asked.is_empty(), "there is always more to ask");
    }

    fn reply(&mut self, xid: Xid, error: ErrorCode, body: &impl Encode) {
        self.zxid += 1;
        let zxid = Zxid(self.zxid);
        self.frame(encoded(|writer| {
            ReplyHeader { xid, zxid, error }.encode(writer);
            body.encode(writer);
        }));
    }

    /// Hands a frame to the session. The frame may make an owned node send one request, or two that
    /// look for it, and a multi has at most two of them. If it completes the handshake, watches and
    /// owned nodes send more.
    fn frame(&mut self, frame: Bytes) {
        self.allowance += frame.len() + 4 * OVERHEAD;
        let Stats { watches, streams, owned_nodes, .. } = self.session.stats(self.now);
        // An event may come in either way.
        let is_event = frame.starts_with(&Xid::NOTIFICATION.0.to_be_bytes());
        match is_event && frame.len().is_multiple_of(2) {
            true => self.session.handle_event(self.now, &frame),
            false => self.session.handle_frame(self.now, frame),
        }
        if self.link == Link::Up && self.session.state().is_connected() {
            self.link = Link::Serving;
            let credentials = usize::from(CREDENTIALS);
            self.allowance += (credentials + watches + streams + 4 * owned_nodes + 1) * OVERHEAD;
        }
    }

    /// Moves the session's requests to the server, and checks them.
    pub(super) fn transmit(&mut self) {
        let mut out = BytesMut::new();
        let any = self.session.poll_transmit(self.now, &mut out);
        assert_eq!(any, !out.is_empty());
        assert!(!(any && self.over), "a session that is over sends nothing");

        let (mut bytes, mut probes) = (out.len(), 0);
        while let Ok(Some(payload)) = frame::split(&mut out, frame::SERVER_FRAME_LIMIT) {
            let reader = &mut Reader::new(&payload);
            if !self.met {
                assert!(ConnectRequest::decode_exact(&payload).is_ok(), "the handshake is first");
                self.met = true;
                continue;
            }
            let header = RequestHeader::decode(reader);
            assert!(header.is_ok(), "a request has a header");
            let Ok(RequestHeader { xid, op }) = header else {
                return;
            };
            let serving = matches!(self.link, Link::Serving | Link::Broken);
            assert!(serving || op == OpCode::SASL, "{op} before the handshake");
            if xid == Xid::PING {
                continue;
            }
            let shared = [Xid::SET_WATCHES, Xid::AUTH].contains(&xid);
            assert!(shared || self.numbers.insert(xid), "{op} #{xid} again");
            let asked = asked(xid, op, reader);
            if let Some(sent) = token_of(&asked.path).and_then(|token| self.sent.get_mut(&token)) {
                *sent = true;
            }
            if let Some((OpCode::DELETE, path)) = asked.parts.first() {
                self.shadow.deleting(path);
            }
            match op {
                OpCode::DELETE => self.shadow.deleting(&asked.path),
                OpCode::CLOSE_SESSION => assert!(!self.detaching, "a detached session is closed"),
                OpCode::MULTI if asked.parts == [(OpCode::CHECK, "/".to_owned())] => {
                    probes += 1;
                    bytes -= frame::PREFIX + payload.len();
                }
                _ => {}
            }
            self.asked.push_back(asked);
        }
        assert!(out.is_empty(), "half a frame");
        assert!(bytes <= self.allowance, "{bytes} bytes, {} at most", self.allowance);
        self.allowance -= bytes;
        self.shadow.probed(probes, self.session.is_probe_queued());
    }
}

/// The parts of a request that this server needs.
fn asked(xid: Xid, op: OpCode, reader: &mut Reader<'_>) -> Asked {
    let mut asked = Asked { xid, op, path: String::new(), parts: Vec::new() };
    match op {
        OpCode::SET_WATCHES
        | OpCode::SET_WATCHES2
        | OpCode::REMOVE_WATCHES
        | OpCode::AUTH
        | OpCode::SASL
        | OpCode::CLOSE_SESSION => {}
        OpCode::MULTI => {
            let multi = MultiRequest::decode(reader);
            assert!(multi.is_ok(), "a multi is one");
            let part = |part: MultiOp<'_>| {
                let path = match part {
                    MultiOp::Create(create) | MultiOp::Create2(create) => create.path,
                    MultiOp::Check(check) => check.path,
                    MultiOp::Delete(delete) => delete.path,
                    _ => "",
                };
                (part.op(), path.to_owned())
            };
            asked.parts.extend(multi.iter().flat_map(|multi| multi.iter()).map(part));
        }
        _ => asked.path = <&str>::decode(reader).unwrap_or_default().to_owned(),
    }
    asked
}

/// Whether a node is gone after this answer to its delete. After any other the delete is repeated.
fn is_gone(error: ErrorCode) -> bool {
    [ErrorCode::OK, ErrorCode::NO_NODE].contains(&error)
}

/// The token of a call, from its path.
fn token_of(path: &str) -> Option<u32> {
    path.strip_prefix('/')?.parse().ok()
}

fn stat(owner: SessionId) -> Stat {
    Stat {
        czxid: Zxid(1),
        mzxid: Zxid(1),
        ctime: 0,
        mtime: 0,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: owner,
        data_length: 0,
        num_children: 0,
        pzxid: Zxid(1),
    }
}

fn encoded(body: impl FnOnce(&mut Writer<'_>)) -> Bytes {
    let mut out = BytesMut::new();
    body(&mut Writer::new(&mut out, usize::MAX));
    out.freeze()
}
