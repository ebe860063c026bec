//! A server as a member of an ensemble: what it asks the leader for, and what the leader tells it.
//!
//! A member answers reads from its own tree. It asks the leader to carry out writes, to open and
//! resume sessions, and to sync. Until there is an answer, the other requests of the connection
//! wait. Transactions and answers come in the leader's order. This file does not know how.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zk_proto::{
    Acl, Decode, Encode, OpCode, Reader, ReplyHeader, RequestHeader, SessionId, Writer, Xid, Zxid,
    frame,
};

use crate::calls::{Call, Member};
use crate::connection::{Connection, ConnectionId, Phase, Question};
use crate::state::State;
use crate::store::{SessionChange, Txn};
use crate::tree::parent_of;

/// What a leader tells a member, in this order.
#[derive(Debug)]
pub(crate) enum Message {
    /// A transaction to apply.
    Commit(Arc<Txn>),
    /// The session that a client of this member has asked for is open.
    Opened(ConnectionId, SessionId),
    /// A request of a session was carried out. The member that has a client waiting for it answers.
    Done(SessionId, Done),
    /// All transactions before a sync were sent.
    Synced(ConnectionId, SessionId, Bytes),
    /// A write came over a connection whose session is at another member now.
    Moved(ConnectionId),
}

/// What a request that the leader has carried out sends to its client.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    xid: Xid,
    /// The payload of the reply, if there is one.
    reply: Option<Bytes>,
    /// True if the connection ends behind it.
    ends: bool,
}

/// Bytes that are encoded already.
struct Encoded<'a>(&'a [u8]);

impl Encode for Encoded<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.put(self.0);
    }
}

impl State {
    /// Makes this server the member of an ensemble with this index.
    pub(crate) fn join(&mut self, index: u8) {
        self.member = Some(Member::default());
        self.sessions.set_server_id(index.wrapping_add(1));
        self.connections.number_from(u64::from(index) << ConnectionId::MEMBER_SHIFT);
    }

    /// True if the leader must carry out this operation.
    pub(crate) fn asks_leader(&self, op: OpCode) -> bool {
        let needs_leader = op.info().is_some_and(|info| info.needs_leader);
        self.member.is_some() && !self.read_only && needs_leader
    }

    /// Asks the leader to carry out a request.
    pub(crate) fn ask_leader(
        &mut self,
        connection: ConnectionId,
        session: SessionId,
        question: Question,
        frame: &Bytes,
    ) {
        let Some(caller) = self.absent_caller(connection).map(Box::new) else {
            return;
        };
        if let Some(from) = self.connections.get_mut(connection) {
            from.asked = Some(question);
        }
        if let Some(member) = &mut self.member {
            let frame = frame.clone();
            member.calls.push(Call::Request { connection, session, caller, frame });
        }
    }

    /// Keeps a request until those before it are answered.
    pub(crate) fn wait(&mut self, connection: ConnectionId, frame: &Bytes) {
        let Some(from) = self.connections.get_mut(connection) else {
            return;
        };
        from.waiting.push(frame.clone());
        if from.waiting.is_full() {
            self.abort(connection);
        }
    }

    /// True if this member refuses a write by itself, because its own copy of an access list
    /// forbids it. Real servers check this before they queue a request.
    pub(crate) fn refuses_early(
        &self,
        connection: ConnectionId,
        op: OpCode,
        body: &Reader<'_>,
    ) -> bool {
        let path = <&str>::decode(&mut body.clone()).unwrap_or_default();
        let checks = self.member.as_ref().is_some_and(|member| member.checks_early);
        if !checks || self.read_only || !path.starts_with('/') {
            return false;
        }
        let (path, perms) = match op {
            OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
                (parent_of(path), Acl::CREATE)
            }
            OpCode::DELETE => (parent_of(path), Acl::DELETE),
            OpCode::SET_DATA => (path, Acl::WRITE),
            OpCode::SET_ACL => (path, Acl::ADMIN),
            _ => return false,
        };
        let path = if path.is_empty() { "/" } else { path };
        let node = self.store.tree.get(path);
        let from = self.connections.get(connection);
        node.zip(from).is_some_and(|(node, from)| !from.identities.may(perms, &node.acl))
    }

    /// Starts the timeout of a session anew, because its client has sent something. In an ensemble
    /// only the leader can do that, and other members tell it later.
    pub(crate) fn touch(&mut self, session: SessionId, now: Duration) {
        match &mut self.member {
            Some(member) if !self.read_only && !member.leads => {
                member.heard.insert(session.0);
            }
            _ => self.sessions.touch(session, now),
        }
    }

    /// Tells the leader which sessions were heard.
    pub(crate) fn report(&mut self) {
        if let Some(Member { heard, calls, .. }) = &mut self.member
            && !heard.is_empty()
        {
            calls.push(Call::Touch(std::mem::take(heard)));
        }
    }

    // What the leader does.

    /// Opens a session for a client of any member.
    pub(crate) fn lead_open(&mut self, now: Duration, session: SessionId, timeout: Duration) {
        self.store.begin(self.millis(now));
        self.store.note_session(SessionChange::Opened(session, timeout));
        self.sessions.adopt(session, timeout);
        self.sessions.touch(session, now);
    }

    /// Uses up a zxid for a request that fails.
    pub(crate) fn lead_failure(&mut self, now: Duration) {
        self.store.begin(self.millis(now));
    }

    /// Carries out a request of a client of any member.
    pub(crate) fn lead_request(
        &mut self,
        now: Duration,
        session: SessionId,
        mut caller: Connection,
        request: &Bytes,
    ) -> Done {
        (caller.phase, caller.session) = (Phase::Serving, Some(session));
        let xid = RequestHeader::decode(&mut Reader::new(request)).map_or(Xid(0), |it| it.xid);
        // Its answer is sent, and counted, by the member that has the client.
        let counted = self.connections.sent;
        let id = self.connections.put(caller);
        self.carry_out(now, id, session, request);
        self.connections.sent = counted;
        let mut sent = BytesMut::new();
        let ends = self.connections.get_mut(id).is_none_or(|one| one.outbox.take(now, &mut sent));
        self.forget(id);
        let reply = frame::split(&mut sent, usize::MAX).ok().flatten();
        Done { xid, reply, ends }
    }

    // What the leader has decided.

    pub(crate) fn handle_message(&mut self, now: Duration, message: Message) {
        match message {
            Message::Commit(txn) => self.apply(&txn),
            Message::Opened(id, session) => self.enter(now, id, Some(session)),
            Message::Done(session, done) => self.finish(now, session, done),
            Message::Synced(id, session, frame) => self.handle_decided(now, id, session, &frame),
            Message::Moved(id) => self.abort(id),
        }
    }

    /// Applies a transaction. A connection whose session has ended is closed, unless the reply to
    /// its own request to end is still to come.
    fn apply(&mut self, txn: &Txn) {
        let told = self.store.apply(txn);
        if let Some(SessionChange::Opened(session, timeout)) = txn.session {
            self.sessions.adopt(session, timeout);
        }
        self.tell(txn.stamp.zxid, told);
        if let Some(SessionChange::Closed(session)) = txn.session {
            self.sessions.close(session);
            self.leave_ended(session);
        }
    }

    /// Closes the connection of a session that has ended.
    pub(crate) fn leave_ended(&mut self, session: SessionId) {
        if let Some(id) = self.attached.get(&session).copied()
            && let Some(one) = self.connections.get(id)
            && one.asked.is_none_or(|asked| asked.op != OpCode::CLOSE_SESSION)
        {
            self.hang_up(id);
        }
    }

    /// Lets a client in with its session, or tells it that the session is over.
    pub(crate) fn enter(&mut self, now: Duration, id: ConnectionId, session: Option<SessionId>) {
        let Some(one) = self.connections.get_mut(id).filter(|one| one.phase == Phase::Fresh) else {
            return;
        };
        one.asked = None;
        let Some(session) = session else {
            self.welcome(id, None);
            return self.end(id);
        };
        // Another connection may have resumed the session meanwhile.
        if let Some(old) = self.attached.get(&session).copied() {
            self.hang_up(old);
        }
        self.attach(id, session);
        self.count_request(id, OpCode::CREATE_SESSION, Xid(0));
        self.welcome(id, Some(session));
        self.go_on(now, id);
    }

    /// Sends the reply to a request that the leader has carried out, if it is one of a client of
    /// this member.
    ///
    /// As in real servers, it is one if the session and the xid are those of a request that waits
    /// here. Two processes that share one session may have both in common.
    fn finish(&mut self, now: Duration, session: SessionId, done: Done) {
        let Some(id) = self.attached.get(&session).copied() else {
            return;
        };
        let is_meant = |asked: &mut Question| asked.xid == done.xid;
        let one = self.connections.get_mut(id);
        let Some(Question { op, .. }) = one.and_then(|one| one.asked.take_if(is_meant)) else {
            return;
        };
        if let Some(payload) = done.reply {
            let mut reader = Reader::new(&payload);
            match ReplyHeader::decode(&mut reader) {
                // Its reply has no header.
                _ if op == OpCode::CREATE_SESSION => {
                    self.connections.answer(id, &Encoded(&payload), &());
                }
                Ok(header) => self.connections.reply(id, header, &Encoded(reader.rest())),
                Err(_) => {}
            }
        }
        if done.ends {
            self.end(id);
        }
        self.leave_if_closing(id);
        self.go_on(now, id);
    }

    /// Carries out a request here that has waited for the leader, and those behind it.
    pub(crate) fn handle_decided(
        &mut self,
        now: Duration,
        id: ConnectionId,
        session: SessionId,
        frame: &Bytes,
    ) {
        if self.connections.get_mut(id).and_then(|one| one.asked.take()).is_some() {
            self.carry_out(now, id, session, frame);
            self.go_on(now, id);
        }
    }

    /// Serves the requests that have waited behind one that is answered now.
    fn go_on(&mut self, now: Duration, id: ConnectionId) {
        while let Some(one) = self.connections.get_mut(id)
            && one.asked.is_none()
            && one.phase == Phase::Serving
            && !one.outbox.is_silent()
            && let Some(session) = one.session
            && let Some(frame) = one.waiting.pop()
        {
            self.request(now, id, session, &frame);
        }
    }

    /// Forgets what this member has asked for: its clients are disconnected.
    pub(crate) fn forget_calls(&mut self) {
        if let Some(member) = &mut self.member {
            member.calls.clear();
            member.heard.clear();
        }
    }

    /// Continues from the last transaction of a leader whose transactions were all applied here.
    pub(crate) fn set_zxid(&mut self, zxid: Zxid) {
        self.store.set_zxid(zxid);
    }
}
