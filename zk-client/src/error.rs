//! Everything that can go wrong, sorted by whose fault it is.
//!
//! The caller misused us, the server said no, the server misbehaved, the connection broke, or the
//! session is over. Each error answers the question that users ask next: may it have happened?

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error as ThisError;
use zk_proto::{
    DecodeError, EncodeError, ErrorCode, EventType, KeeperState, OpCode, PathRule, SessionId, Xid,
    Zxid,
};

use crate::auth::Refusal;

/// What is left of a request that failed: may the server have carried it out?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing changed: it never left this machine, or the server refused it.
    NotApplied,
    /// It was sent and no answer came. A write may or may not have happened.
    Unknown,
}

/// The kinds of [`Error`], by fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Caller: the connect string is malformed.
    InvalidConnectString,
    /// Caller: a setting of the builder is out of its range.
    InvalidSetting,
    /// Caller: a one-shot watch was asked for a second event.
    WatchSpent,
    /// Caller: the path breaks one of ZooKeeper's rules.
    InvalidPath,
    /// Caller: what a create asks for contradicts itself, or is out of range.
    InvalidOptions,
    /// Caller: an operation does not fit into this multi; [`Error::failed_op`] says which.
    InvalidOp,
    /// Caller: the node that is to be adopted belongs to no session, or to another one.
    NotOwned,
    /// Caller: the node that is to be adopted is owned by this client already.
    AlreadyOwned,
    /// Caller: the request is above the frame limit of servers and was not sent.
    TooLarge,
    /// The reply is above [`Limits::max_reply`](crate::Limits::max_reply) and was not kept;
    /// [`Error::reply_size`] says how large it is. The session lives on.
    ReplyTooLarge,
    /// Caller: more requests or bytes are waiting than the client's limits allow.
    LimitExceeded,
    /// Caller: there is no tokio runtime to run the session on.
    NoRuntime,
    /// No server was reached in time.
    NoServer,
    /// No server that was reached has come as far as it was waited for.
    Behind,
    /// The chroot of the connect string does not exist on the server.
    ChrootNotFound,
    /// The server said no; [`Error::code`] says why.
    Refused,
    /// The connection broke before the answer came.
    ConnectionLoss,
    /// The answer did not come [in time](crate::Reply::within).
    TimedOut,
    /// The server sent something that is not the protocol.
    Protocol,
    /// The session is over: its ephemeral nodes are gone, and this client with it.
    SessionExpired,
    /// A server refused this client's credentials, which ends the client for good; the session
    /// itself goes on at the ensemble until its timeout has passed. The text says which.
    AuthFailed,
    /// The client was closed by this side.
    Closed,
}

/// Why a request, a connect or a setting failed.
///
/// Opaque, cheap to clone, and full of questions: [`kind`](Error::kind),
/// [`outcome`](Error::outcome), [`code`](Error::code) and the `is_*` family.
///
/// ```
/// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
/// use zk_client::{CreateOptions, Outcome};
///
/// match client.create("/config", b"1", &CreateOptions::persistent()).await {
///     Ok(created) => println!("made {}", created.path),
///     Err(error) if error.is_node_exists() => println!("already there"),
///     Err(error) if error.outcome() == Outcome::Unknown => println!("look before trying again"),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Error {
    fault: Arc<Fault>,
    /// Of the server's answer, if there was one.
    zxid: Option<Zxid>,
}

#[derive(Debug, ThisError)]
pub(crate) enum Fault {
    #[error("connect string {string:?}: {rule}")]
    ConnectString { string: String, rule: String },
    #[error("path {path:?}: {source}")]
    Path { path: String, source: PathRule },
    #[error("{0}")]
    Setting(String),
    #[error("watch on {path}: its one event was handed out before; read again and watch again")]
    WatchSpent { path: String },
    #[error("{op} {path}: {source}; see Limits::max_request and the servers' jute.maxbuffer")]
    TooLarge { op: OpCode, path: String, source: EncodeError },
    #[error("{op} {path}: {limit}")]
    Limit { op: OpCode, path: String, limit: Limit },
    #[error("no tokio runtime: a client is made inside one, with time and io enabled")]
    NoRuntime,
    #[error("no server let the session in, gave up after {timeout:?}: {}", Attempts(.attempts))]
    NoServer { timeout: Duration, attempts: Vec<Attempt> },
    #[error("four-letter word {word}: {}", Attempts(std::slice::from_ref(.attempt)))]
    Word { word: String, attempt: Attempt },
    #[error("chroot {chroot} of the connect string does not exist on the server; create it first")]
    ChrootNotFound { chroot: String },
    #[error("the servers reached within {timeout:?} are at zxid {seen}, behind {wanted}")]
    Behind { wanted: Zxid, seen: Zxid, timeout: Duration },
    #[error("{op} {path}: {code}")]
    Refused { op: OpCode, path: String, code: ErrorCode },
    #[error("operation {index} of a multi, {op} {path}: {code}")]
    OpRefused { index: usize, op: OpCode, path: String, code: ErrorCode },
    #[error("create {path}: {rule}")]
    Options { path: String, rule: &'static str },
    #[error("operation {index} of a multi, {op} {path}: {rule}")]
    InvalidOp { index: usize, op: OpCode, path: String, rule: &'static str },
    #[error("adopt {path}: the node is not of this session{}", Owner(*.owner))]
    NotOwned { path: String, owner: SessionId },
    #[error("adopt {path}: this client owns the node already")]
    AlreadyOwned { path: String },
    #[error("{op} {path}: connection lost {}: {why}", if *.sent { "before the answer came" } else { "before it was carried out" })]
    ConnectionLoss { op: OpCode, path: String, sent: bool, why: Hangup },
    #[error("{op} {path}: {} within {limit:?}", if *.sent { "no answer" } else { "not sent" })]
    TimedOut { op: OpCode, path: String, limit: Duration, sent: bool },
    #[error("{op} {path}: the server's answer does not decode: {source}")]
    Answer { op: OpCode, path: String, source: DecodeError },
    #[error(
        "{op} {path}: the reply has {len} bytes, and {limit} are allowed; see Limits::max_reply"
    )]
    ReplyTooLarge { op: OpCode, path: String, len: usize, limit: usize },
    #[error("{}{ended}", Prefix(.request))]
    Ended { request: Option<(OpCode, String)>, ended: Ended, sent: bool },
}

/// One try at one server, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// The server, as the connect string names it.
    pub server: String,
    /// Why it did not become a session.
    pub why: String,
}

/// A cap of the client's that a request ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum Limit {
    /// [`Limits::max_requests`](crate::Limits::max_requests)
    #[error("{0} requests are waiting already")]
    Requests(usize),
    /// [`Limits::max_queued_bytes`](crate::Limits::max_queued_bytes)
    #[error("{0} bytes are waiting to be sent already")]
    Bytes(usize),
    /// A session remembers at most 100 credentials, together no larger than
    /// [`Limits::max_request`](crate::Limits::max_request).
    #[error("{0} credentials are remembered already, and there is no room for this one")]
    Credentials(usize),
}

/// How a session ended. Nothing comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum Ended {
    /// The server said so, or this side was cut off for so long that it must be so.
    #[error("the session is expired")]
    Expired,
    /// The server refused this client's credentials. The session itself goes on at the ensemble,
    /// with its ephemeral nodes, until its timeout has passed.
    #[error("authentication failed: {0}")]
    AuthFailed(Refusal),
    /// This side closed it.
    #[error("the client is closed")]
    Closed,
}

/// What the server did that the protocol does not allow. Drops the connection, keeps the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A frame or record that does not decode.
    #[error("undecodable: {0}")]
    Undecodable(#[from] DecodeError),
    /// A reply to a request that is not the oldest one.
    #[error("reply to xid {got} where xid {expected} was next")]
    WrongXid {
        /// The request whose reply was due.
        expected: Xid,
        /// The reply that came.
        got: Xid,
    },
    /// A reply although nothing was asked.
    #[error("reply to xid {0} although nothing is in flight")]
    Unasked(Xid),
    /// A watch event of a type that servers do not send.
    #[error("watch event of type {0}")]
    UnknownEvent(EventType),
    /// A watch event with a state that servers do not send.
    #[error("watch event with the state {0}")]
    UnknownState(KeeperState),
    /// A step of SASL makes no sense.
    #[error("SASL: {0}")]
    Sasl(&'static str),
    /// The handshake's answer makes no sense.
    #[error("handshake: {0}")]
    Handshake(&'static str),
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum Hangup {
    /// The server closed it.
    #[error("the server closed the connection")]
    Eof,
    /// The socket failed.
    #[error("{0}")]
    Io(std::io::ErrorKind),
    /// No frame came for two thirds of the session timeout.
    #[error("the server was silent for {0:?}")]
    Silence(Duration),
    /// Connecting and shaking hands took too long.
    #[error("no handshake within {0:?}")]
    AttemptTimedOut(Duration),
    /// The server misbehaved.
    #[error("the server broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// The server refused to arm the session's watches again.
    #[error("the server refused to arm watches again: {0}")]
    Rearm(ErrorCode),
    /// This side goes on at another server, by its own choice: see
    /// [`Client::set_servers`](crate::Client::set_servers). It waits for answers before, so this
    /// costs a request its answer only if the server owes it for a third of the session timeout.
    #[error("moving to another server")]
    Moving,
    /// The session ended.
    #[error("{0}")]
    Ended(Ended),
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum Rejected {
    /// It takes more than a frame.
    #[error(transparent)]
    TooLong(#[from] EncodeError),
    /// A limit of the client's is reached.
    #[error(transparent)]
    Limit(#[from] Limit),
    /// The session is over, or closing.
    #[error(transparent)]
    Ended(#[from] Ended),
}

impl Error {
    /// What went wrong, as something to match on.
    pub fn kind(&self) -> ErrorKind {
        match &*self.fault {
            Fault::ConnectString { .. } => ErrorKind::InvalidConnectString,
            Fault::Setting(_) => ErrorKind::InvalidSetting,
            Fault::WatchSpent { .. } => ErrorKind::WatchSpent,
            Fault::Path { .. } => ErrorKind::InvalidPath,
            Fault::Options { .. } => ErrorKind::InvalidOptions,
            Fault::InvalidOp { .. } => ErrorKind::InvalidOp,
            Fault::NotOwned { .. } => ErrorKind::NotOwned,
            Fault::AlreadyOwned { .. } => ErrorKind::AlreadyOwned,
            Fault::TooLarge { .. } => ErrorKind::TooLarge,
            Fault::ReplyTooLarge { .. } => ErrorKind::ReplyTooLarge,
            Fault::TimedOut { .. } => ErrorKind::TimedOut,
            Fault::Limit { .. } => ErrorKind::LimitExceeded,
            Fault::NoRuntime => ErrorKind::NoRuntime,
            Fault::NoServer { .. } | Fault::Word { .. } => ErrorKind::NoServer,
            Fault::Behind { .. } => ErrorKind::Behind,
            Fault::ChrootNotFound { .. } => ErrorKind::ChrootNotFound,
            Fault::Refused { .. } | Fault::OpRefused { .. } => ErrorKind::Refused,
            Fault::ConnectionLoss { .. } => ErrorKind::ConnectionLoss,
            Fault::Answer { .. } => ErrorKind::Protocol,
            Fault::Ended { ended: Ended::Expired, .. } => ErrorKind::SessionExpired,
            Fault::Ended { ended: Ended::AuthFailed(_), .. } => ErrorKind::AuthFailed,
            Fault::Ended { ended: Ended::Closed, .. } => ErrorKind::Closed,
        }
    }

    /// Whether the server may have carried the request out.
    ///
    /// Of a write whose [reply is too large](ErrorKind::ReplyTooLarge) this is `Unknown`, although
    /// it has most likely happened; a read changes nothing.
    pub fn outcome(&self) -> Outcome {
        match &*self.fault {
            Fault::ReplyTooLarge { op, .. } if is_read(*op) => Outcome::NotApplied,
            Fault::ReplyTooLarge { .. } => Outcome::Unknown,
            Fault::ConnectionLoss { sent: true, .. }
            | Fault::Ended { sent: true, .. }
            | Fault::TimedOut { sent: true, .. }
            | Fault::Answer { .. } => Outcome::Unknown,
            _ => Outcome::NotApplied,
        }
    }

    /// What the server said, if it answered. Of a refused multi, what it said of the operation
    /// that failed.
    pub fn code(&self) -> Option<ErrorCode> {
        match &*self.fault {
            Fault::Refused { code, .. } | Fault::OpRefused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The operation that a multi failed for, counted from 0.
    pub fn failed_op(&self) -> Option<usize> {
        match &*self.fault {
            Fault::OpRefused { index, .. } | Fault::InvalidOp { index, .. } => Some(*index),
            _ => None,
        }
    }

    /// How many bytes the reply has, if it was [too large](ErrorKind::ReplyTooLarge).
    pub fn reply_size(&self) -> Option<usize> {
        match &*self.fault {
            Fault::ReplyTooLarge { len, .. } => Some(*len),
            _ => None,
        }
    }

    /// What the server stamped its refusal with: of a write its own transaction, since a refused
    /// write is one too; of a read the last one that the server had applied. Whoever is
    /// [at least](crate::Client::at_least) there sees why it was refused. `None` if the server
    /// gave no answer.
    pub fn zxid(&self) -> Option<Zxid> {
        self.zxid
    }

    /// The servers that were tried, of a connect or a four-letter word that found none.
    pub fn attempts(&self) -> &[Attempt] {
        match &*self.fault {
            Fault::NoServer { attempts, .. } => attempts,
            Fault::Word { attempt, .. } => std::slice::from_ref(attempt),
            _ => &[],
        }
    }

    /// The node, or the parent of a new one, does not exist.
    pub fn is_no_node(&self) -> bool {
        self.code() == Some(ErrorCode::NO_NODE)
    }

    /// The node exists already.
    pub fn is_node_exists(&self) -> bool {
        self.code() == Some(ErrorCode::NODE_EXISTS)
    }

    /// The connection broke; the session may live on.
    pub fn is_connection_loss(&self) -> bool {
        self.kind() == ErrorKind::ConnectionLoss
    }

    /// The session is over, whichever way; only a new client helps.
    pub fn is_session_over(&self) -> bool {
        matches!(&*self.fault, Fault::Ended { .. })
    }

    pub(crate) fn failed(op: OpCode, path: &str, failure: Failure) -> Self {
        let path = path.to_owned();
        match failure {
            Failure::Refused(code) => Fault::Refused { op, path, code },
            Failure::OpRefused { index, code } => Fault::OpRefused { index, op, path, code },
            Failure::ReplyTooLarge { len, limit } => Fault::ReplyTooLarge { op, path, len, limit },
            Failure::ConnectionLoss { sent, why } => Fault::ConnectionLoss { op, path, sent, why },
            Failure::Ended { sent, ended } => {
                Fault::Ended { request: Some((op, path)), ended, sent }
            }
        }
        .into()
    }

    /// The same, of an answer that came with this zxid.
    pub(crate) fn stamped(self, zxid: Option<Zxid>) -> Self {
        Self { zxid, ..self }
    }

    pub(crate) fn rejected(op: OpCode, path: &str, rejected: Rejected) -> Self {
        let path = path.to_owned();
        match rejected {
            Rejected::TooLong(source) => Fault::TooLarge { op, path, source },
            Rejected::Limit(limit) => Fault::Limit { op, path, limit },
            Rejected::Ended(ended) => {
                Fault::Ended { request: Some((op, path)), ended, sent: false }
            }
        }
        .into()
    }
}

/// Whether this changes nothing, whatever it is answered.
fn is_read(op: OpCode) -> bool {
    matches!(
        op,
        OpCode::EXISTS
            | OpCode::GET_DATA
            | OpCode::GET_ACL
            | OpCode::GET_CHILDREN
            | OpCode::GET_CHILDREN2
            | OpCode::GET_ALL_CHILDREN_NUMBER
            | OpCode::GET_EPHEMERALS
            | OpCode::MULTI_READ
            | OpCode::CHECK_WATCHES
            | OpCode::WHO_AM_I
            | OpCode::SYNC
    )
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self { fault: Arc::new(fault), zxid: None }
    }
}

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        Fault::Ended { request: None, ended, sent: false }.into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

/// Reads like the error itself: it is what a `main` that returns it shows.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.kind())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.fault)
    }
}

struct Attempts<'a>(&'a [Attempt]);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, attempt) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "; " };
            write!(f, "{comma}{}: {}", attempt.server, attempt.why)?;
        }
        Ok(())
    }
}

/// Whose a node is, behind the claim that it is not ours.
struct Owner(SessionId);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SessionId(0) => f.write_str(" but lasts without one"),
            owner => write!(f, " but of {owner}"),
        }
    }
}

struct Prefix<'a>(&'a Option<(OpCode, String)>);

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((op, path)) => write!(f, "{op} {path}: "),
            None => Ok(()),
        }
    }
}
