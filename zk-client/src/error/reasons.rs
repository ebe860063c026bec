//! Why something ended: an attempt, a request, a connection, a session.

use std::fmt;
use std::time::Duration;

use thiserror::Error;
use zk_proto::{DecodeError, EncodeError, ErrorCode, EventType, KeeperState, Xid};

use crate::auth::failure::AuthFailure;

/// One attempt to connect to one server, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// The server, as the connect string names it.
    pub server: String,
    /// Why the attempt failed.
    pub why: String,
    pub(crate) prospect: Prospect,
}

/// Whether another attempt at the same server could succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prospect {
    Open,
    /// With the same settings it would fail for the same reason.
    Refused,
    /// It would fail as well: the client has no valid credential for SASL.
    NoCredential,
}

impl Attempt {
    pub(crate) fn new(server: impl Into<String>, why: impl Into<String>) -> Self {
        Self { server: server.into(), why: why.into(), prospect: Prospect::Open }
    }
}

/// A limit of the client that a request exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Limit {
    /// [`Limits::max_requests`](crate::Limits::max_requests)
    #[error("{0} requests are waiting already")]
    Requests(usize),
    /// [`Limits::max_queued_bytes`](crate::Limits::max_queued_bytes)
    #[error("{0} bytes are waiting to be sent already")]
    Bytes(usize),
    /// A session keeps at most 100 credentials, together no larger than
    /// [`Limits::max_request`](crate::Limits::max_request).
    #[error("{0} credentials are remembered already, and there is no room for this one")]
    Credentials(usize),
}

/// How this client's use of a session ended. Nothing comes after it.
///
/// After `AuthFailed`, or `Closed` by [detaching](crate::Client::detach), the session itself lives
/// on at the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Ended {
    /// The server reported it, or this side was cut off for so long that the session must have
    /// expired.
    #[error("the session is expired")]
    Expired,
    /// The server refused this client's credentials. The session itself goes on at the ensemble,
    /// with its ephemeral nodes, until its timeout has passed.
    #[error("authentication failed: {0}")]
    AuthFailed(AuthFailure),
    /// This side closed it, or detached from it.
    #[error("the client is closed")]
    Closed,
}

/// A violation of the protocol by the server. It drops the connection; the session lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A frame or record that does not decode.
    #[error("undecodable: {0}{hint}", hint = WrongProtocolHint(*.0))]
    Undecodable(DecodeError),
    /// A reply to a request that is not the oldest one in flight.
    #[error("reply to xid {got} where xid {expected} was next")]
    WrongXid {
        /// The xid of the request whose reply was due.
        expected: Xid,
        /// The xid of the reply that came.
        got: Xid,
    },
    /// A reply although no request is in flight.
    #[error("reply to xid {0} although nothing is in flight")]
    Unasked(Xid),
    /// A watch event of a type that servers do not send.
    #[error("watch event of type {0}")]
    UnknownEvent(EventType),
    /// A watch event with a state that servers do not send.
    #[error("watch event with the state {0}")]
    UnknownState(KeeperState),
    /// A step of the SASL exchange makes no sense.
    #[error("SASL: {0}")]
    Sasl(&'static str),
    /// The reply to the handshake makes no sense.
    #[error("handshake: {0}")]
    Handshake(&'static str),
}

// Not by `#[from]`: that would make a source of what the text says already.
impl From<DecodeError> for ProtocolError {
    fn from(error: DecodeError) -> Self {
        Self::Undecodable(error)
    }
}

impl From<ProtocolError> for Hangup {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}

/// Appends a hint if the length of a frame looks like the beginning of another protocol.
struct WrongProtocolHint(DecodeError);

impl fmt::Display for WrongProtocolHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecodeError::FrameTooLong { len, .. } = self.0 else { return Ok(()) };
        let bytes = u32::try_from(len).unwrap_or_default().to_be_bytes();
        match std::str::from_utf8(&bytes) {
            Ok("HTTP") => f.write_str(
                "; that is the port of a web server, perhaps the admin server's (8080): clients \
                 connect to the client port, by default 2181",
            ),
            Ok(text) if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => {
                write!(f, "; it begins with {text:?}: is that a port of ZooKeeper?")
            }
            _ => Ok(()),
        }
    }
}

/// What it may mean that a connection was accepted and nothing came back.
pub(crate) const UNANSWERED: &str = "although the connection was accepted: perhaps that is no \
     client port of ZooKeeper (by default 2181) but, for instance, that of a web server, or the \
     server hangs";

/// What it may mean that a server has hung up on a large request.
pub(crate) const TOO_LARGE: &str = "servers hang up without an answer on what is larger than \
     their jute.maxbuffer (1048575 bytes by default), which a client cannot read; make the request \
     smaller, or raise that limit on all servers";

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Hangup {
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Eof,
    /// The server closed the connection instead of answering the handshake.
    #[error(
        "the server closed the connection instead of answering: perhaps it serves nobody now, is \
         cut off from its ensemble and serves only reads (see allow_read_only), has too many \
         connections of this client's host, is no server of ZooKeeper, or wants TLS at this port"
    )]
    NoHandshake,
    /// The server closed the connection while this request was the largest without a reply. It is
    /// so large, some 100 kilobytes or more, that this may be why. Other requests fail with the
    /// reason that the connection gave.
    #[error(
        "the connection ended while this request of {size} bytes had no reply, which may be why: \
         {TOO_LARGE}"
    )]
    OnRequest {
        /// The size of the request in bytes, as servers compare it with their `jute.maxbuffer`.
        size: usize,
    },
    /// The socket failed.
    #[error("{0}")]
    Io(std::io::ErrorKind),
    /// No frame came for two thirds of the session timeout.
    #[error("the server was silent for {0:?}")]
    Silence(Duration),
    /// Connecting and shaking hands took too long.
    #[error("no handshake within {0:?}: perhaps packets get lost, or it is no port of ZooKeeper")]
    AttemptTimedOut(Duration),
    /// The server accepted the connection, and did not answer the handshake in the time for an
    /// attempt. Many servers of other protocols are silent like this, since they wait for a line.
    #[error("no answer within {0:?}, {UNANSWERED}")]
    Unanswered(Duration),
    /// The server broke the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(ProtocolError),
    /// The client could not authenticate by SASL: see [`SaslError`](crate::SaslError).
    #[error("this side could not authenticate by SASL")]
    Sasl,
    /// The server refused to arm the session's watches again.
    #[error("the server refused to arm watches again: {0}")]
    Rearm(ErrorCode),
    /// The client moves to another server by its own choice: see
    /// [`Client::set_servers`](crate::Client::set_servers). It waits for open replies first, so a
    /// request loses its reply only if the server has not answered it for a third of the session
    /// timeout.
    #[error("moving to another server")]
    Moving,
    /// The session ended.
    #[error("{0}")]
    Ended(Ended),
}

/// How the session core reports a request that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// The server answered with an error.
    Refused(ErrorCode),
    /// The server refused one operation of a multi, and with it all of them.
    OpRefused {
        /// The index of the operation in the multi.
        index: usize,
        /// The server's error for that operation.
        code: ErrorCode,
    },
    /// The server answered with success, but the reply was above the limit and was discarded. The
    /// request was applied, unless it is a multi, whose result is unknown.
    ReplyTooLarge {
        /// The size of the reply in bytes.
        len: usize,
        /// [`Limits::max_reply`](crate::Limits::max_reply)
        limit: usize,
    },
    /// The connection broke.
    ConnectionLoss {
        /// Whether the request had been handed to the transport, unless it is known since then that
        /// the request was not applied.
        sent: bool,
        /// What broke it.
        why: Hangup,
    },
    /// The server hung up, at least the third time in a row while a request of this operation, path
    /// and size was the largest without a reply. The request may have been applied.
    NeverAnswered {
        /// The size of the request in bytes, as servers compare it with their `jute.maxbuffer`.
        size: usize,
        /// How many connections in a row have ended like this.
        losses: u32,
        /// What broke the last one.
        why: Hangup,
    },
    /// The session ended.
    Ended {
        /// Whether the request had been handed to the transport.
        sent: bool,
        /// How it ended.
        ended: Ended,
    },
}

/// Why the session core rejects a request before it is queued. The server never sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Rejected {
    /// The request is larger than a frame may be.
    #[error(transparent)]
    TooLong(#[from] EncodeError),
    /// A limit of the client is reached.
    #[error(transparent)]
    Limit(#[from] Limit),
    /// The session is over, or closing.
    #[error(transparent)]
    Ended(#[from] Ended),
}
