//! The contents of an [`Error`](crate::Error), and their texts.

use std::fmt;
use std::time::Duration;

use thiserror::Error;
use zk_proto::{DecodeError, EncodeError, ErrorCode, OpCode, PathRule, SessionId, Zxid};

use crate::error::reasons::{Attempt, Ended, Hangup, Limit};

#[derive(Debug, Error)]
pub(crate) enum Fault {
    #[error("connect string {string:?}: {rule}")]
    ConnectString { string: String, rule: String },
    #[error("path {path:?}: {rule}")]
    Path { path: String, rule: PathRule },
    #[error("{0}")]
    Setting(String),
    #[error("watch on {path}: its one event was handed out before; read again and watch again")]
    WatchSpent { path: String },
    #[error("{op} {path}: {cause}; see Limits::max_request and the servers' jute.maxbuffer")]
    TooLarge { op: OpCode, path: String, cause: EncodeError },
    #[error("{op} {path}: {limit}")]
    Limit { op: OpCode, path: String, limit: Limit },
    #[error("no tokio runtime: a client is made inside one, with time and io enabled")]
    NoRuntime,
    #[error("{}: {}", GaveUp(*timeout), Attempts(attempts))]
    NoServer { timeout: Option<Duration>, attempts: Vec<Attempt> },
    #[error("four-letter word {word}: {}", Attempts(std::slice::from_ref(attempt)))]
    Word { word: String, attempt: Attempt },
    #[error("chroot {chroot} of the connect string does not exist on the server; create it first")]
    ChrootNotFound { chroot: String },
    #[error("the servers reached within {timeout:?} are at zxid {seen}, behind {wanted}")]
    Behind { wanted: Zxid, seen: Zxid, timeout: Duration },
    #[error("{op} {path}: {code}{}", ServerRequirement(*op, *code))]
    Refused { op: OpCode, path: String, code: ErrorCode },
    #[error("operation {index} of a multi, {op} {path}: {code}{}", ServerRequirement(*op, *code))]
    OpRefused { index: usize, op: OpCode, path: String, code: ErrorCode },
    #[error("create {path}: {rule}")]
    Options { path: String, rule: &'static str },
    #[error("operation {index} of a multi, {op} {path}: {rule}")]
    InvalidOp { index: usize, op: OpCode, path: String, rule: &'static str },
    #[error("adopt {path}: the node is not of this session{}", Owner(*owner))]
    NotOwned { path: String, owner: SessionId },
    #[error("adopt {path}: this client owns the node already")]
    AlreadyOwned { path: String },
    #[error(
        "{op} {path}: connection lost {}: {why}",
        if *sent { "before the answer came" } else { "before it was carried out" }
    )]
    ConnectionLoss { op: OpCode, path: String, sent: bool, why: Hangup },
    #[error("{op} {path}: {} within {limit:?}", if *sent { "no answer" } else { "not sent" })]
    TimedOut { op: OpCode, path: String, limit: Duration, sent: bool },
    #[error("{op} {path}: the server's answer does not decode: {cause}")]
    UndecodableReply { op: OpCode, path: String, cause: DecodeError },
    #[error(
        "{op} {path}: the reply has {len} bytes, and {limit} are allowed; see Limits::max_reply"
    )]
    ReplyTooLarge { op: OpCode, path: String, len: usize, limit: usize },
    #[error("{}{ended}", Prefix(request))]
    Ended { request: Option<(OpCode, String)>, ended: Ended, sent: bool },
}

/// How long the client tried; `None` if it stopped because no further attempt could succeed.
struct GaveUp(Option<Duration>);

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => write!(f, "no server let the session in, gave up after {time:?}"),
            None => f.write_str("no server lets the session in"),
        }
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

/// The owner of a node, as a part of the error that this session does not own it.
struct Owner(SessionId);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SessionId(0) => f.write_str(" but lasts without one"),
            owner => write!(f, " but of {owner}"),
        }
    }
}

/// The setting or version of the servers that this operation needs.
struct ServerRequirement(OpCode, ErrorCode);

impl fmt::Display for ServerRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (OpCode::CREATE_TTL, ErrorCode::UNIMPLEMENTED) => {
                f.write_str("; see the servers' zookeeper.extendedTypesEnabled")
            }
            (OpCode::CREATE2, ErrorCode::UNIMPLEMENTED) => {
                f.write_str("; this server is older than ZooKeeper 3.5, which this client needs")
            }
            _ => Ok(()),
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
