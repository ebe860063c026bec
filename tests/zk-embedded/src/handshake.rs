//! The handshake, which is the first frame of a connection: it opens or resumes a session.

use std::time::Duration;

use tracing::{debug, warn};
use zk_proto::{
    ConnectResponse, Decode, DecodeError, ErrorCode, OpCode, Password, Reader, ReplyHeader,
    SessionId, Xid, Zxid,
};

use crate::calls::Call;
use crate::connection::{Connection, ConnectionId, Question};
use crate::fault::{Effect, RequestInfo};
use crate::manner::Deviation;
use crate::sessions::password;
use crate::state::State;

/// A client's first frame as a server reads it.
pub(crate) struct Hello<'f> {
    last_zxid_seen: Zxid,
    timeout: i32,
    session_id: SessionId,
    /// Of any length: a client that wants a new session may send any password.
    password: Option<&'f [u8]>,
    pub(crate) read_only: Option<bool>,
}

impl<'f> Decode<'f> for Hello<'f> {
    fn decode(reader: &mut Reader<'f>) -> Result<Self, DecodeError> {
        let _protocol_version = i32::decode(reader)?;
        Ok(Self {
            last_zxid_seen: Zxid::decode(reader)?,
            timeout: i32::decode(reader)?,
            session_id: SessionId::decode(reader)?,
            password: Option::decode(reader)?,
            read_only: (reader.remaining() > 0).then(|| bool::decode(reader)).transpose()?,
        })
    }
}

impl State {
    pub(crate) fn handshake(&mut self, now: Duration, id: ConnectionId, frame: &[u8]) {
        let Ok(hello) = Hello::decode(&mut Reader::new(frame)) else {
            return self.abort(id);
        };
        let wanted = hello.session_id;
        let is_global = self.sessions.get(wanted).is_some_and(|session| !session.is_local);
        let manner = self.config.manner;
        if !self.serving && manner.has(Deviation::SaysThatNobodyLeads) {
            return self.say_that_nobody_leads(id, hello.timeout);
        }
        let unfit = !self.serving
            || hello.last_zxid_seen > self.store.last_zxid()
            // A session of the ensemble cannot be on a server that is cut off from it.
            || self.read_only && (hello.read_only != Some(true) || is_global);
        if hello.last_zxid_seen > self.store.last_zxid() {
            let (seen, last) = (hello.last_zxid_seen, self.store.last_zxid());
            if let Some(Connection { peer, .. }) = self.connections.get(id) {
                let why = "refused a client that has seen later transactions than this server";
                warn!(%peer, %seen, %last, "{why}");
            }
        }
        if unfit {
            return self.abort(id);
        }
        if let Some(connection) = self.connections.get_mut(id) {
            connection.has_read_only_byte = hello.read_only.is_some();
        }
        let (min, max) = self.config.session_timeouts();
        let timeout = Duration::from_millis(hello.timeout.max(0).unsigned_abs().into());
        let timeout = timeout.clamp(min, max);
        let info = RequestInfo { op: OpCode::CREATE_SESSION, path: None, session: wanted };
        let effect = self.faults.strike(info);
        let swapped = effect == Some(Effect::SwapSession);
        if let (Some(Effect::Mutate(_)), Some(connection)) = (effect, self.connections.get_mut(id))
        {
            connection.struck = effect;
        }
        let is_new =
            wanted == SessionId(0) || swapped || manner.has(Deviation::SessionEndsWithConnection);
        if self.member.is_some() && !self.read_only {
            let wanted = (!is_new).then_some((wanted, hello.password));
            return self.ask_for_session(id, wanted, timeout);
        }
        let session = if is_new {
            if !self.read_only {
                self.store.begin(self.millis(now));
            } else if !self.config.local_sessions {
                return self.refuse(id);
            }
            Some(self.sessions.open(timeout, self.read_only, now))
        } else {
            let known = self.sessions.get(wanted);
            let proven = known.is_some_and(|known| Some(known.password.expose()) == hello.password);
            // A client that names the session ends its connection, even without the password.
            if let Some(old) = self.attached.get(&wanted).copied() {
                self.supersede(old, proven);
            }
            if proven {
                self.sessions.renew(wanted, timeout, now);
            }
            proven.then_some(wanted)
        };
        debug!(connection = %id, ?session, ?timeout, "handshake");
        if let Some(session) = session {
            self.attach(id, session);
            if session != wanted {
                self.count_request(id, OpCode::CREATE_SESSION, Xid(0));
            }
        }
        self.welcome(id, session);
        if session.is_none() {
            self.end(id);
        }
    }

    /// Sends a connection its session, or that the session it wants is over.
    pub(crate) fn welcome(&mut self, id: ConnectionId, session: Option<SessionId>) {
        let known = session.and_then(|session| self.sessions.get(session));
        let timeout = known.map_or(Duration::ZERO, |session| session.timeout);
        let password = known.map_or(Password::ZERO, |session| session.password);
        let read_only = self.read_only;
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let answer = ConnectResponse {
            protocol_version: 0,
            timeout: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
            session_id: session.unwrap_or_default(),
            password,
            read_only: connection.has_read_only_byte.then_some(read_only),
        };
        self.connections.answer(id, &answer, &());
    }

    /// Answers a handshake as ClickHouse Keeper does while its ensemble has no leader.
    fn say_that_nobody_leads(&mut self, id: ConnectionId, timeout: i32) {
        let answer = ConnectResponse {
            protocol_version: 42,
            timeout: timeout.max(1),
            session_id: SessionId(0),
            password: Password::ZERO,
            read_only: None,
        };
        self.connections.answer(id, &answer, &());
        self.end(id);
    }

    /// Records the last request of a connection that was served.
    pub(crate) fn count_request(&mut self, id: ConnectionId, op: OpCode, xid: Xid) {
        let zxid = self.store.last_zxid();
        if let Some(Connection { counts, .. }) = self.connections.get_mut(id) {
            (counts.last_op, counts.last_xid, counts.last_zxid) = (Some(op), xid, zxid);
        }
    }

    /// Asks the leader of the ensemble for a new session, or for the one that is wanted.
    fn ask_for_session(
        &mut self,
        id: ConnectionId,
        wanted: Option<(SessionId, Option<&[u8]>)>,
        timeout: Duration,
    ) {
        let call = match wanted {
            None => Call::Open { connection: id, timeout },
            Some((session, proof)) => {
                let proven = proof == Some(password(session).expose());
                if let Some(old) = self.attached.get(&session).copied() {
                    self.supersede(old, proven);
                }
                if !proven {
                    self.welcome(id, None);
                    return self.end(id);
                }
                Call::Resume { connection: id, session, timeout }
            }
        };
        if let (Some(member), Some(one)) = (&mut self.member, self.connections.get_mut(id)) {
            one.asked = Some(Question { op: OpCode::CREATE_SESSION, xid: Xid(0) });
            member.calls.push(call);
        }
    }

    /// Refuses a session. A real server treats the creation of a session as a write: it answers
    /// that it is read-only, and leaves the connection open.
    fn refuse(&mut self, id: ConnectionId) {
        let zxid = self.store.last_zxid();
        let header = ReplyHeader { xid: Xid(0), zxid, error: ErrorCode::NOT_READ_ONLY };
        self.connections.reply(id, header, &());
        if let Some(connection) = self.connections.get_mut(id) {
            connection.is_refused = true;
        }
    }

    /// Closes the old connection of a session because another connection wants the session, and
    /// gets it if the password is right.
    fn supersede(&mut self, old: ConnectionId, proven: bool) {
        match self.connections.get_mut(old).and_then(|one| one.partition.as_mut()) {
            // A server that is cut off does not notice it.
            Some(partition) => partition.is_over |= proven,
            None => self.hang_up(old),
        }
    }
}
