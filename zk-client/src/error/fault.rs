//! What is behind an [`Error`](crate::Error), and how it reads.

use std::fmt;
use std::time::Duration;

use zk_proto::{DecodeError, EncodeError, ErrorCode, OpCode, PathRule, SessionId, Zxid};

use crate::error::reasons::{Attempt, Ended, Hangup, Limit};

#[derive(Debug)]
pub(crate) enum Fault {
    ConnectString { string: String, rule: String },
    Path { path: String, source: PathRule },
    Setting(String),
    WatchSpent { path: String },
    TooLarge { op: OpCode, path: String, source: EncodeError },
    Limit { op: OpCode, path: String, limit: Limit },
    NoRuntime,
    NoServer { timeout: Option<Duration>, attempts: Vec<Attempt> },
    Word { word: String, attempt: Attempt },
    ChrootNotFound { chroot: String },
    Behind { wanted: Zxid, seen: Zxid, timeout: Duration },
    Refused { op: OpCode, path: String, code: ErrorCode },
    OpRefused { index: usize, op: OpCode, path: String, code: ErrorCode },
    Options { path: String, rule: &'static str },
    InvalidOp { index: usize, op: OpCode, path: String, rule: &'static str },
    NotOwned { path: String, owner: SessionId },
    AlreadyOwned { path: String },
    ConnectionLoss { op: OpCode, path: String, sent: bool, why: Hangup },
    TimedOut { op: OpCode, path: String, limit: Duration, sent: bool },
    Answer { op: OpCode, path: String, source: DecodeError },
    ReplyTooLarge { op: OpCode, path: String, len: usize, limit: usize },
    Ended { request: Option<(OpCode, String)>, ended: Ended, sent: bool },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectString { string, rule } => write!(f, "connect string {string:?}: {rule}"),
            Self::Path { path, source } => write!(f, "path {path:?}: {source}"),
            Self::Setting(inner) => inner.fmt(f),
            Self::WatchSpent { path } => write!(
                f,
                "watch on {path}: its one event was handed out before; read again and watch again"
            ),
            Self::TooLarge { op, path, source } => write!(
                f,
                "{op} {path}: {source}; see Limits::max_request and the servers' jute.maxbuffer"
            ),
            Self::Limit { op, path, limit } => write!(f, "{op} {path}: {limit}"),
            Self::NoRuntime => f.write_str(
                "no tokio runtime: a client is made inside one, with time and io enabled",
            ),
            Self::NoServer { timeout: Some(timeout), attempts } => write!(
                f,
                "no server let the session in, gave up after {timeout:?}: {}",
                Attempts(attempts)
            ),
            // It was no use to go on until the timeout.
            Self::NoServer { timeout: None, attempts } => {
                write!(f, "no server lets the session in: {}", Attempts(attempts))
            }
            Self::Word { word, attempt } => {
                write!(f, "four-letter word {word}: {}", Attempts(std::slice::from_ref(attempt)))
            }
            Self::ChrootNotFound { chroot } => write!(
                f,
                "chroot {chroot} of the connect string does not exist on the server; create it \
                 first"
            ),
            Self::Behind { wanted, seen, timeout } => write!(
                f,
                "the servers reached within {timeout:?} are at zxid {seen}, behind {wanted}"
            ),
            Self::Refused { op, path, code } => {
                write!(f, "{op} {path}: {code}{}", Switch(*op, *code))
            }
            Self::OpRefused { index, op, path, code } => {
                let switch = Switch(*op, *code);
                write!(f, "operation {index} of a multi, {op} {path}: {code}{switch}")
            }
            Self::Options { path, rule } => write!(f, "create {path}: {rule}"),
            Self::InvalidOp { index, op, path, rule } => {
                write!(f, "operation {index} of a multi, {op} {path}: {rule}")
            }
            Self::NotOwned { path, owner } => {
                write!(f, "adopt {path}: the node is not of this session{}", Owner(*owner))
            }
            Self::AlreadyOwned { path } => {
                write!(f, "adopt {path}: this client owns the node already")
            }
            Self::ConnectionLoss { op, path, sent, why } => write!(
                f,
                "{op} {path}: connection lost {}: {why}",
                if *sent { "before the answer came" } else { "before it was carried out" }
            ),
            Self::TimedOut { op, path, limit, sent } => write!(
                f,
                "{op} {path}: {} within {limit:?}",
                if *sent { "no answer" } else { "not sent" }
            ),
            Self::Answer { op, path, source } => {
                write!(f, "{op} {path}: the server's answer does not decode: {source}")
            }
            Self::ReplyTooLarge { op, path, len, limit } => write!(
                f,
                "{op} {path}: the reply has {len} bytes, and {limit} are allowed; see \
                 Limits::max_reply"
            ),
            Self::Ended { request, ended, .. } => write!(f, "{}{ended}", Prefix(request)),
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Path { source, .. } => Some(source),
            Self::TooLarge { source, .. } => Some(source),
            Self::Answer { source, .. } => Some(source),
            _ => None,
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

/// What has to be changed at the servers before they do this.
struct Switch(OpCode, ErrorCode);

impl fmt::Display for Switch {
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
