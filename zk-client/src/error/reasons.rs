//! Why something ended: an attempt, a request, a connection, a session.

use std::fmt;
use std::time::Duration;

use zk_proto::{DecodeError, EncodeError, ErrorCode, EventType, KeeperState, Xid};

use crate::auth::Refusal;

/// One try at one server, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// The server, as the connect string names it.
    pub server: String,
    /// Why it did not become a session.
    pub why: String,
    /// Whether another attempt with the same settings would fail for the same reason.
    pub(crate) is_permanent: bool,
}

impl Attempt {
    pub(crate) fn new(server: impl Into<String>, why: impl Into<String>) -> Self {
        Self { server: server.into(), why: why.into(), is_permanent: false }
    }
}

/// A cap of the client's that a request ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// [`Limits::max_requests`](crate::Limits::max_requests)
    Requests(usize),
    /// [`Limits::max_queued_bytes`](crate::Limits::max_queued_bytes)
    Bytes(usize),
    /// A session remembers at most 100 credentials, together no larger than
    /// [`Limits::max_request`](crate::Limits::max_request).
    Credentials(usize),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests(inner) => write!(f, "{inner} requests are waiting already"),
            Self::Bytes(inner) => write!(f, "{inner} bytes are waiting to be sent already"),
            Self::Credentials(inner) => write!(
                f,
                "{inner} credentials are remembered already, and there is no room for this one"
            ),
        }
    }
}

impl std::error::Error for Limit {}

/// How a session ended. Nothing comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The server said so, or this side was cut off for so long that it must be so.
    Expired,
    /// The server refused this client's credentials. The session itself goes on at the ensemble,
    /// with its ephemeral nodes, until its timeout has passed.
    AuthFailed(Refusal),
    /// This side closed it.
    Closed,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("the session is expired"),
            Self::AuthFailed(inner) => write!(f, "authentication failed: {inner}"),
            Self::Closed => f.write_str("the client is closed"),
        }
    }
}

impl std::error::Error for Ended {}

/// What the server did that the protocol does not allow. Drops the connection, keeps the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A frame or record that does not decode.
    Undecodable(DecodeError),
    /// A reply to a request that is not the oldest one.
    WrongXid {
        /// The request whose reply was due.
        expected: Xid,
        /// The reply that came.
        got: Xid,
    },
    /// A reply although nothing was asked.
    Unasked(Xid),
    /// A watch event of a type that servers do not send.
    UnknownEvent(EventType),
    /// A watch event with a state that servers do not send.
    UnknownState(KeeperState),
    /// A step of SASL makes no sense.
    Sasl(&'static str),
    /// The handshake's answer makes no sense.
    Handshake(&'static str),
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable(inner) => write!(f, "undecodable: {inner}{}", Stranger(*inner)),
            Self::WrongXid { expected, got } => {
                write!(f, "reply to xid {got} where xid {expected} was next")
            }
            Self::Unasked(inner) => write!(f, "reply to xid {inner} although nothing is in flight"),
            Self::UnknownEvent(inner) => write!(f, "watch event of type {inner}"),
            Self::UnknownState(inner) => write!(f, "watch event with the state {inner}"),
            Self::Sasl(inner) => write!(f, "SASL: {inner}"),
            Self::Handshake(inner) => write!(f, "handshake: {inner}"),
        }
    }
}

/// Whether what was taken for a length is rather the beginning of another protocol.
struct Stranger(DecodeError);

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecodeError::FrameTooLong { len, .. } = self.0 else { return Ok(()) };
        let bytes = u32::try_from(len).unwrap_or_default().to_be_bytes();
        match std::str::from_utf8(&bytes) {
            Ok(text) if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => {
                write!(f, "; it begins with {text:?}: is that a port of ZooKeeper?")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ProtocolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Undecodable(source) => Some(source),
            _ => None,
        }
    }
}

impl From<DecodeError> for ProtocolError {
    fn from(source: DecodeError) -> Self {
        Self::Undecodable(source)
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hangup {
    /// The server closed it.
    Eof,
    /// The server closed it instead of answering the handshake.
    NoHandshake,
    /// The socket failed.
    Io(std::io::ErrorKind),
    /// No frame came for two thirds of the session timeout.
    Silence(Duration),
    /// Connecting and shaking hands took too long.
    AttemptTimedOut(Duration),
    /// The server misbehaved.
    Protocol(ProtocolError),
    /// The server refused to arm the session's watches again.
    Rearm(ErrorCode),
    /// This side goes on at another server, by its own choice: see
    /// [`Client::set_servers`](crate::Client::set_servers). It waits for answers before, so this
    /// costs a request its answer only if the server owes it for a third of the session timeout.
    Moving,
    /// The session ended.
    Ended(Ended),
}

impl fmt::Display for Hangup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eof => f.write_str("the server closed the connection"),
            Self::NoHandshake => f.write_str(
                "the server closed the connection instead of answering: perhaps it serves nobody \
                 now, has too many connections of this client's host, or wants TLS at this port",
            ),
            Self::Io(inner) => inner.fmt(f),
            Self::Silence(inner) => write!(f, "the server was silent for {inner:?}"),
            Self::AttemptTimedOut(inner) => write!(f, "no handshake within {inner:?}"),
            Self::Protocol(inner) => write!(f, "the server broke the protocol: {inner}"),
            Self::Rearm(inner) => write!(f, "the server refused to arm watches again: {inner}"),
            Self::Moving => f.write_str("moving to another server"),
            Self::Ended(inner) => inner.fmt(f),
        }
    }
}

impl std::error::Error for Hangup {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Protocol(source) => Some(source),
            _ => None,
        }
    }
}

impl From<ProtocolError> for Hangup {
    fn from(source: ProtocolError) -> Self {
        Self::Protocol(source)
    }
}

/// How the session core reports a request that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The server answered with an error.
    Refused(ErrorCode),
    /// The server refused one operation of a multi, and with it all of them.
    OpRefused {
        /// The place of the operation in the multi.
        index: usize,
        /// What the server said of it.
        code: ErrorCode,
    },
    /// The server answered with success, and with more bytes than are allowed. They were thrown
    /// away; what the request does is done, unless it is a multi, of which nothing is known.
    ReplyTooLarge {
        /// Of the reply.
        len: usize,
        /// [`Limits::max_reply`](crate::Limits::max_reply)
        limit: usize,
    },
    /// The connection broke.
    ConnectionLoss {
        /// Whether the request had been handed to the transport, and nothing has shown since that
        /// it left no trace.
        sent: bool,
        /// What broke it.
        why: Hangup,
    },
    /// The session ended.
    Ended {
        /// Whether the request had been handed to the transport.
        sent: bool,
        /// How.
        ended: Ended,
    },
}

/// How the session core refuses a request before it is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejected {
    /// It takes more than a frame.
    TooLong(EncodeError),
    /// A limit of the client's is reached.
    Limit(Limit),
    /// The session is over, or closing.
    Ended(Ended),
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(source) => source.fmt(f),
            Self::Limit(source) => source.fmt(f),
            Self::Ended(source) => source.fmt(f),
        }
    }
}

impl std::error::Error for Rejected {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::TooLong(source) => source.source(),
            Self::Limit(source) => source.source(),
            Self::Ended(source) => source.source(),
        }
    }
}

impl From<EncodeError> for Rejected {
    fn from(source: EncodeError) -> Self {
        Self::TooLong(source)
    }
}

impl From<Limit> for Rejected {
    fn from(source: Limit) -> Self {
        Self::Limit(source)
    }
}

impl From<Ended> for Rejected {
    fn from(source: Ended) -> Self {
        Self::Ended(source)
    }
}
