//! The first frame of a connection: a session is opened or taken up again.

use std::time::Duration;

use tracing::debug;
use zk_proto::{ConnectRequest, ConnectResponse, Decode, OpCode, Password, Reader, SessionId};

use crate::connection::ConnectionId;
use crate::fault::{Effect, Sighting};
use crate::state::State;

impl State {
    pub(crate) fn handshake(&mut self, now: Duration, id: ConnectionId, frame: &[u8]) {
        let Ok(request) = ConnectRequest::decode(&mut Reader::new(frame)) else {
            return self.abort(id);
        };
        let wanted = request.session_id;
        let unfit = !self.serving
            || request.last_zxid_seen > self.store.last_zxid()
            // A session of the ensemble has no place on a server that is cut off from it.
            || self.read_only && (request.read_only != Some(true) || wanted != SessionId(0));
        if unfit {
            return self.abort(id);
        }
        let (min, max) = self.config.session_timeouts();
        let timeout = Duration::from_millis(request.timeout.max(0).unsigned_abs().into());
        let timeout = timeout.clamp(min, max);
        let read_only = request.read_only.map(|_| self.read_only);
        let answer = |session_id, password, timeout: Duration| ConnectResponse {
            protocol_version: 0,
            timeout: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
            session_id,
            password,
            read_only,
        };
        let sighting = Sighting { op: OpCode::CREATE_SESSION, path: None, session: wanted };
        let swapped =
            wanted != SessionId(0) && self.faults.strike(sighting) == Some(Effect::SwapSession);
        let expired = answer(SessionId(0), Password::ZERO, Duration::ZERO);
        let answer = if wanted == SessionId(0) || swapped {
            if !self.read_only {
                self.store.begin(self.millis(now));
            }
            let (session, password) = self.sessions.open(timeout, self.read_only, now);
            answer(session, password, timeout)
        } else {
            let known = self.sessions.get(wanted).map(|session| session.password);
            let proven = known.filter(|password| *password == request.password);
            // Whoever names the session ends its connection, even without the password.
            if let Some(old) = self.attached.get(&wanted).copied() {
                self.supersede(old, proven.is_some());
            }
            match proven {
                Some(password) => {
                    self.sessions.renew(wanted, timeout, now);
                    answer(wanted, password, timeout)
                }
                None => expired,
            }
        };
        debug!(connection = %id, session = %answer.session_id, ?timeout, "handshake");
        if answer.is_expired() {
            self.connections.send(id, |connection| connection.outbox.records(&answer, &()));
            return self.end(id);
        }
        self.attach(id, answer.session_id);
        self.connections.send(id, |connection| connection.outbox.records(&answer, &()));
    }

    /// Another connection wants the session, and gets it if the password is right.
    fn supersede(&mut self, old: ConnectionId, proven: bool) {
        match self.connections.get_mut(old).and_then(|one| one.partition.as_mut()) {
            // A server that is cut off does not hear of it.
            Some(partition) => partition.is_over |= proven,
            None => self.hang_up(old),
        }
    }
}
