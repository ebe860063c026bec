//! What each request does, and the reply to it.
//!
//! Requests of one connection are served one by one in their order, so a reply is sent before the
//! next request is read. A write uses the next zxid even if it fails.

use std::time::Duration;

use bytes::Bytes;
use tracing::trace;
use zk_proto::{
    Access, AuthPacket, Create2Response, CreateMode, CreateRequest, CreateResponse, Decode,
    ErrorCode, GetSaslRequest, List, MultiOp, MultiRequest, MultiResponse, OpCode, Reader,
    ReconfigRequest, RemoveWatchesRequest, ReplyHeader, RequestHeader, Secret, SessionId,
    SetAclResponse, SetDataResponse, SetSaslResponse, SetWatches, SetWatches2, SyncRequest,
    SyncResponse, Text, Xid, Zxid,
};

use crate::asked::{Asked, read};
use crate::calls::{Call, Member};
use crate::config::ServerVersion;
use crate::connection::{ConnectionId, Phase, Question};
use crate::create::Created;
use crate::decodable_path::{
    fails_at_null_acl, is_single_write, with_decodable_path, with_decodable_paths,
};
use crate::fault::{Effect, RequestInfo};
use crate::manner::Deviation;
use crate::multi::{EntryResult, Survey};
use crate::node::Stamp;
use crate::state::{Late, State};
use crate::store::{Caller, Store};

impl State {
    /// Serves one frame of a connection that has a session.
    pub(crate) fn request(
        &mut self,
        now: Duration,
        connection: ConnectionId,
        session: SessionId,
        frame: &Bytes,
    ) {
        let mut reader = Reader::new(frame);
        let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut reader) else {
            return self.abort(connection);
        };
        trace!(%connection, %xid, %op, "request");
        let asked = Asked { now, connection, session, xid, op };
        let Some(from) = self.connections.get_mut(connection) else {
            return;
        };
        from.counts.last_op = Some(op);
        if let Some(partition) = &mut from.partition {
            if op == OpCode::PING {
                let zxid = partition.zxid;
                return self.answer(asked, Xid::PING, zxid, ErrorCode::OK, &());
            }
            partition.hold(frame.clone());
            if partition.is_full() {
                self.abort(connection);
            }
            return;
        }
        // Real servers answer these two where they read frames, so they do not touch the session.
        let is_proof = matches!(op, OpCode::AUTH | OpCode::SASL);
        let waits = from.asked.is_some() && !is_proof;
        if !is_proof {
            self.touch(session, now);
        }
        if !self.config.manner.knows(op) && self.is_lost_on_unknown(connection) {
            return;
        }
        if self.refuses_early(connection, op, &reader) {
            return self.answer(asked, xid, Zxid(0), ErrorCode::NO_AUTH, &());
        }
        if waits {
            return self.wait(connection, frame);
        }
        let decodable = decodable(op, &reader);
        if let Some(body) = &decodable {
            reader = Reader::new(body);
        }
        let path = <&str>::decode(&mut reader.clone()).ok().filter(|_| op.has_path());
        let info = RequestInfo { op, path, session };
        // For faults, this operation is a handshake.
        let is_handshake = op == OpCode::CREATE_SESSION;
        match if is_handshake { None } else { self.faults.strike(info) } {
            Some(Effect::LoseRequest) => return self.end(connection),
            Some(Effect::ServeLate(by)) => {
                self.postpone(now + by, connection, session, frame);
                return self.end(connection);
            }
            Some(Effect::Refuse(code)) => return self.fail(asked, code),
            Some(Effect::ExpireSession) => return self.expire_by_reply(asked),
            Some(effect) => {
                let effect = match effect {
                    Effect::Delay(by) => Effect::Delay(now + by),
                    effect => effect,
                };
                if let Some(from) = self.connections.get_mut(connection) {
                    from.struck = Some(effect);
                }
            }
            None => {}
        }
        if self.asks_leader(op) {
            return self.ask_leader(connection, session, Question { op, xid }, frame);
        }
        self.answer_from(asked, &mut reader);
    }

    /// Does with a connection what servers of other makers do at an operation that they do not
    /// know. False where the answer is Apache's.
    fn is_lost_on_unknown(&mut self, connection: ConnectionId) -> bool {
        let manner = self.config.manner;
        if manner.has(Deviation::IgnoresUnknown) {
            self.connections.send(connection, |one| one.outbox.go_silent());
        } else if manner.has(Deviation::HangsUpOnUnknown) {
            self.abort(connection);
        }
        manner.has(Deviation::IgnoresUnknown) || manner.has(Deviation::HangsUpOnUnknown)
    }

    /// Serves a request, and answers it with an error if there is one.
    fn answer_from(&mut self, asked: Asked, reader: &mut Reader<'_>) {
        if let Err(code) = self.serve(asked, reader) {
            self.fail(asked, code);
        }
        self.leave_if_closing(asked.connection);
    }

    /// Serves a request without asking anybody: the leader has decided on it.
    pub(crate) fn carry_out(
        &mut self,
        now: Duration,
        connection: ConnectionId,
        session: SessionId,
        frame: &Bytes,
    ) {
        let mut reader = Reader::new(frame);
        let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut reader) else {
            return self.abort(connection);
        };
        let decodable = decodable(op, &reader);
        if let Some(body) = &decodable {
            reader = Reader::new(body);
        }
        self.answer_from(Asked { now, connection, session, xid, op }, &mut reader);
    }

    /// Ends the session of a request, and tells its client in the reply alone: the connection stays
    /// open.
    fn expire_by_reply(&mut self, asked: Asked) {
        self.end_session(asked.now, asked.session);
        self.fail(asked, ErrorCode::SESSION_EXPIRED);
        if let Some(from) = self.connections.get_mut(asked.connection) {
            from.phase = Phase::Closing;
        }
        self.leave_if_closing(asked.connection);
    }

    /// Serves a request of a connection that was closed meanwhile. The reply goes nowhere.
    pub(crate) fn serve_late(&mut self, now: Duration, late: Late) {
        let Late { connection, session, frame } = late;
        if let Some(Member { calls, .. }) = &mut self.member {
            let (caller, connection) = (Box::new(connection), ConnectionId::NOBODY);
            return calls.push(Call::Request { connection, session, caller, frame });
        }
        if self.sessions.get(session).is_some() {
            let connection = self.connections.put(connection);
            self.carry_out(now, connection, session, &frame);
            self.forget(connection);
        }
    }

    fn serve(&mut self, asked: Asked, reader: &mut Reader<'_>) -> Result<(), ErrorCode> {
        let op = asked.op;
        match op {
            OpCode::PING => {
                let zxid = self.store.last_zxid();
                self.answer(asked, Xid::PING, zxid, ErrorCode::OK, &());
                Ok(())
            }
            op if self.read_only && is_refused_read_only(op) => Err(ErrorCode::NOT_READ_ONLY),
            op if !self.config.manner.knows(op) => self.reject_unknown(asked),
            OpCode::CREATE if self.refuses_mode(reader) => Err(ErrorCode::BAD_ARGUMENTS),
            OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER => {
                let made = self.write(asked, reader, |store, caller, request, moment| {
                    store.create(caller, op, request, moment)
                })?;
                self.created(asked, &made);
                Ok(())
            }
            OpCode::CREATE_TTL => {
                let made = self.write(asked, reader, Store::create_ttl)?;
                self.created(asked, &made);
                Ok(())
            }
            OpCode::DELETE => {
                self.write(asked, reader, Store::delete)?;
                self.ok(asked, &())
            }
            OpCode::SET_DATA => {
                let stat = self.write(asked, reader, Store::set_data)?;
                self.ok(asked, &SetDataResponse { stat })
            }
            OpCode::SET_ACL => {
                let stat = self.write(asked, reader, |store, caller, request, _| {
                    store.set_acl(caller, request)
                })?;
                self.ok(asked, &SetAclResponse { stat })
            }
            OpCode::RECONFIG => {
                let refused: Result<(), _> =
                    self.write(asked, reader, |_, _, _: ReconfigRequest<'_>, _| {
                        Err(ErrorCode::RECONFIG_DISABLED)
                    });
                refused
            }
            OpCode::MULTI => self.multi(asked, reader),
            OpCode::SYNC => {
                let SyncRequest { path } = read(reader)?;
                let read = path.to_java_string();
                let echo = Text::java_bytes(&read);
                let path = if path == Text::NULL { path } else { Text::from_bytes(&echo) };
                self.ok(asked, &SyncResponse { path })
            }
            OpCode::ADD_WATCH => self.add_watch(asked, read(reader)?),
            OpCode::REMOVE_WATCHES => {
                let RemoveWatchesRequest { path, kind } = read(reader)?;
                let removed = self.watches.remove(kind, path, asked.connection);
                self.watcher(asked, removed)
            }
            OpCode::SET_WATCHES => {
                let SetWatches { relative_zxid, data, exist, child } = read(reader)?;
                let (persistent, persistent_recursive) = (List::new(&[]), List::new(&[]));
                let request = SetWatches2 {
                    relative_zxid,
                    data,
                    exist,
                    child,
                    persistent,
                    persistent_recursive,
                };
                self.set_watches(asked, request)
            }
            OpCode::SET_WATCHES2 => self.set_watches(asked, read(reader)?),
            OpCode::AUTH => {
                self.auth(asked, reader);
                Ok(())
            }
            OpCode::SASL => {
                self.sasl(asked, reader);
                Ok(())
            }
            OpCode::CREATE_SESSION => self.create_session(asked, reader),
            OpCode::CLOSE_SESSION => {
                self.end_session(asked.now, asked.session);
                self.ok(asked, &())?;
                self.end(asked.connection);
                Ok(())
            }
            op if op.is_read() => self.serve_read(asked, reader),
            _ => self.reject_unknown(asked),
        }
    }

    /// Answers an operation that this server does not know, and hangs up.
    pub(crate) fn reject_unknown(&mut self, asked: Asked) -> Result<(), ErrorCode> {
        self.answer(asked, asked.xid, Zxid(-1), ErrorCode::UNIMPLEMENTED, &());
        self.end(asked.connection);
        Ok(())
    }

    /// Carries out one write as a transaction of its own, and sends its events.
    fn write<'f, R: Decode<'f>, T>(
        &mut self,
        asked: Asked,
        reader: &mut Reader<'f>,
        act: impl FnOnce(&mut Store, Caller<'_>, R, Stamp) -> Result<T, ErrorCode>,
    ) -> Result<T, ErrorCode> {
        let request = R::decode(reader).map_err(|_| ErrorCode::MARSHALLING_ERROR);
        // A request that cannot be decoded uses a zxid before 3.9, except reconfig, and none since.
        let burns = self.config.server_version == ServerVersion::V3_8 && is_single_write(asked.op);
        if request.is_err() && !burns {
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        let millis = self.millis(asked.now);
        let moment = self.store.begin(millis);
        let (caller, store) = self.caller(asked)?;
        let done = act(store, caller, request?, moment);
        let told = store.commit(moment, Some(asked.session));
        self.tell(moment.zxid, told);
        done
    }

    /// True for a create with flags that the server takes for bad arguments.
    fn refuses_mode(&self, reader: &Reader<'_>) -> bool {
        let refuses = self.config.manner.has(Deviation::RefusesContainers);
        let request = CreateRequest::decode(&mut reader.clone());
        refuses && request.is_ok_and(|request| request.mode.0 >= CreateMode::CONTAINER.0)
    }

    fn created(&mut self, asked: Asked, made: &Created) {
        let header = self.header(asked);
        let Created { path, stat } = made;
        match asked.op {
            OpCode::CREATE => {
                self.connections.reply(asked.connection, header, &CreateResponse { path });
            }
            _ => {
                let body = Create2Response { path, stat: *stat };
                self.connections.reply(asked.connection, header, &body);
            }
        }
    }

    fn multi(&mut self, asked: Asked, reader: &mut Reader<'_>) -> Result<(), ErrorCode> {
        let server_version = self.config.server_version;
        if server_version == ServerVersion::V3_9 && fails_at_null_acl(reader.rest()) {
            // The failure has a type that the server does not expect, so no zxid is used.
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        let request = MultiRequest::decode(reader).ok();
        let unknown = |op: MultiOp<'_>| !self.config.manner.knows(op.op());
        if request.is_some_and(|request| request.iter().any(unknown))
            && self.is_lost_on_unknown(asked.connection)
        {
            return Ok(());
        }
        let request = request.map(|request| (request, Survey::of(request, server_version)));
        if let Some((_, Survey { all_reads, all_writes, any_null_path: true })) = request
            && (all_reads || all_writes)
            && server_version == ServerVersion::V3_8
        {
            // Before 3.9 a server decodes a null path, and fails before it makes a transaction of
            // the request. The reply has the list of results that was begun.
            self.store.skip_zxid();
            let header = ReplyHeader { error: ErrorCode::MARSHALLING_ERROR, ..self.header(asked) };
            self.connections.reply(asked.connection, header, &MultiResponse::new(&[]));
            return Ok(());
        }
        let millis = self.millis(asked.now);
        // Unlike a single write, a multi uses a zxid even if it cannot be decoded.
        let moment = self.store.begin(millis);
        let Some((request, Survey { all_writes: true, any_null_path: false, .. })) = request else {
            return Err(ErrorCode::MARSHALLING_ERROR);
        };
        let (caller, store) = self.caller(asked)?;
        let outcomes = store.multi(caller, request, moment)?;
        let told = store.commit(moment, Some(asked.session));
        self.tell(moment.zxid, told);
        let results: Vec<_> = outcomes.iter().map(EntryResult::wire).collect();
        self.ok(asked, &MultiResponse::new(&results))
    }

    /// Servers send this request to each other, and also accept it from clients. It is answered
    /// like a handshake, and sets the time after which the session ends unless it is touched again.
    fn create_session(&mut self, asked: Asked, reader: &mut Reader<'_>) -> Result<(), ErrorCode> {
        if !self.read_only {
            self.store.begin(self.millis(asked.now));
            let timeout = i32::decode(reader).map_err(|_| ErrorCode::MARSHALLING_ERROR)?;
            let timeout = Duration::from_millis(timeout.max(0).unsigned_abs().into());
            self.sessions.touch_for(asked.session, timeout, asked.now);
        }
        self.count_request(asked.connection, asked.op, asked.xid);
        self.welcome(asked.connection, Some(asked.session));
        Ok(())
    }

    /// Real servers check proofs where they read frames, and close a connection that sends one that
    /// they cannot decode.
    fn auth(&mut self, asked: Asked, reader: &mut Reader<'_>) {
        let Ok(AuthPacket { scheme, auth, .. }) = AuthPacket::decode(reader) else {
            return self.end(asked.connection);
        };
        let super_digest = self.config.super_digest.as_deref();
        let proven = self.connections.get_mut(asked.connection).is_some_and(|connection| {
            connection.identities.add(scheme.as_str(), auth.expose(), super_digest)
        });
        if proven {
            self.answer(asked, asked.xid, Zxid(0), ErrorCode::OK, &());
        } else {
            self.answer(asked, asked.xid, Zxid(0), ErrorCode::AUTH_FAILED, &());
            self.end(asked.connection);
        }
    }

    /// SASL is off, which a server answers with a null token.
    fn sasl(&mut self, asked: Asked, reader: &mut Reader<'_>) {
        match GetSaslRequest::decode(reader) {
            Ok(request) if request.token.expose().is_some() => {
                let token = Secret::new(None);
                self.answer(asked, asked.xid, Zxid(0), ErrorCode::OK, &SetSaslResponse { token });
            }
            _ => self.end(asked.connection),
        }
    }
}

/// The body of a request in place of one whose path real servers read leniently, if it is one.
fn decodable(op: OpCode, reader: &Reader<'_>) -> Option<Vec<u8>> {
    match op {
        op if op.has_path() => with_decodable_path(op, reader.rest()),
        OpCode::MULTI | OpCode::MULTI_READ => with_decodable_paths(reader.rest()),
        _ => None,
    }
}

/// True for what a server that is cut off refuses: everything that it would ask the leader for, but
/// for the sessions that it keeps on its own.
fn is_refused_read_only(op: OpCode) -> bool {
    op.info().is_some_and(|info| info.needs_leader && info.access != Access::Session)
}
