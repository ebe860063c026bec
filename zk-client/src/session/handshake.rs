//! The handshake: asks for a session, new or known, and judges the reply.

use std::time::Duration;

use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, ErrorCode, Password, Reader, ReplyHeader, SessionId,
    Zxid,
};

use crate::config::SessionIdentity;
use crate::error::ProtocolError;

/// The protocol version by which ClickHouse Keeper says that its ensemble has no leader.
const WITHOUT_LEADER: i32 = 42;

/// What the server's reply means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HandshakeResult {
    /// This is the session. It lives for `timeout` without a sign of life.
    Established { session: SessionIdentity, timeout: Duration, read_only: bool },
    /// The session that was asked for is over.
    Expired,
}

/// Asks for `session`, or for a new one.
pub(crate) fn request(
    session: Option<SessionIdentity>,
    timeout: Duration,
    last_zxid: Zxid,
    allow_read_only: bool,
) -> ConnectRequest {
    let (session_id, password) = match session {
        Some(SessionIdentity { id, password }) => (id, password),
        None => (SessionId::default(), Password::ZERO),
    };
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: last_zxid,
        timeout: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
        session_id,
        password,
        read_only: Some(allow_read_only),
    }
}

/// Judges the reply to a request for `session`.
///
/// Some servers answer a request for a session that they do not know with a new one. That is an
/// expiry too: whatever the old session owned is gone or going.
pub(crate) fn judge(
    session: Option<SessionIdentity>,
    frame: &[u8],
) -> Result<HandshakeResult, ProtocolError> {
    if frame.is_empty() {
        // So says a read-only server good-bye to a client that has not allowed one.
        return Err(ProtocolError::Handshake(
            "an empty answer, as of a read-only server (cut off from its ensemble) to a client \
             that needs one for writes; see allow_read_only",
        ));
    }
    let mut reader = Reader::new(frame);
    if ReplyHeader::decode(&mut reader).is_ok_and(|reply| reply.error == ErrorCode::NOT_READ_ONLY)
        && reader.remaining() == 0
    {
        return Err(ProtocolError::Handshake(
            "the server is cut off from its ensemble, serves only reads, and opens no sessions",
        ));
    }
    let answer = ConnectResponse::decode(&mut Reader::new(frame))?;
    if answer.protocol_version == WITHOUT_LEADER {
        return Err(ProtocolError::Handshake("the server's ensemble has no leader at the moment"));
    }
    let Ok(timeout @ 1..) = u64::try_from(answer.timeout) else {
        return expired(session);
    };
    if answer.is_expired() {
        return expired(session);
    }
    if session.is_some_and(|asked| asked.id != answer.session_id) {
        return Ok(HandshakeResult::Expired);
    }
    Ok(HandshakeResult::Established {
        session: SessionIdentity::new(answer.session_id, answer.password),
        timeout: Duration::from_millis(timeout),
        read_only: answer.read_only.unwrap_or(false),
    })
}

fn expired(session: Option<SessionIdentity>) -> Result<HandshakeResult, ProtocolError> {
    match session {
        Some(_) => Ok(HandshakeResult::Expired),
        None => Err(ProtocolError::Handshake("a new session was answered as expired")),
    }
}
