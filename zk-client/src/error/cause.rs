//! The contents of an [`Error`](crate::Error), and their texts.

use std::fmt;
use std::time::Duration;

use thiserror::Error;
use zk_proto::{DecodeError, EncodeError, ErrorCode, OpCode, PathRule, SessionId, Zxid};

use crate::error::reasons::{Attempt, Ended, Hangup, Limit, TOO_LARGE};

#[derive(Debug, Error)]
pub(crate) enum Cause {
    #[error("connect string {string:?}: {rule}")]
    ConnectString { string: String, rule: String },
    #[error("path {path:?}: {rule}")]
    Path { path: String, rule: PathRule },
    #[error("{0}")]
    Setting(String),
    #[error("watch on {path}: its one event was handed out before; read again and watch again")]
    WatchSpent { path: String },
    #[error(
        "{} {path}: {why}; see Limits::max_request and the servers' jute.maxbuffer", Verb(*op)
    )]
    TooLarge { op: OpCode, path: String, why: EncodeError },
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
    #[error("{} {path}: {code}{}", Verb(*op), Advice(*op, *code, no_root))]
    Refused { op: OpCode, path: String, code: ErrorCode, no_root: NoRoot },
    #[error(
        "operation {index} of a multi, {} {path}: {code}{}",
        Verb(*op), Advice(*op, *code, no_root)
    )]
    OpRefused { index: usize, op: OpCode, path: String, code: ErrorCode, no_root: NoRoot },
    #[error("create {path}: {rule}")]
    Options { path: String, rule: &'static str },
    #[error("operation {index} of a multi, {op} {path}: {rule}")]
    InvalidOp { index: usize, op: OpCode, path: String, rule: &'static str },
    #[error("adopt {path}: the node is not of this session{}", Owner(*owner))]
    NotOwned { path: String, owner: SessionId },
    #[error("adopt {path}: this client owns the node already")]
    AlreadyOwned { path: String },
    #[error(
        "{} {path}: connection lost {}: {why}",
        Verb(*op),
        if *sent { "before the answer came" } else { "before it was carried out" }
    )]
    ConnectionLoss { op: OpCode, path: String, sent: bool, why: Hangup },
    #[error(
        "{} {path}: {losses} connections in a row ended on this request of {size} bytes ({why}): \
         {TOO_LARGE}{}",
        Verb(*op), Unknown(*op)
    )]
    NeverAnswered { op: OpCode, path: String, size: usize, losses: u32, why: Hangup },
    #[error(
        "{} {path}: {} within {limit:?}",
        Verb(*op), if *sent { "no answer" } else { "not sent" }
    )]
    TimedOut { op: OpCode, path: String, limit: Duration, sent: bool },
    #[error("{op} {path}: the server's answer does not decode: {why}")]
    UndecodableReply { op: OpCode, path: String, why: DecodeError },
    #[error(
        "{op} {path}: the reply has {len} bytes, and {limit} are allowed; see Limits::max_reply"
    )]
    ReplyTooLarge { op: OpCode, path: String, len: usize, limit: usize },
    #[error("{}{ended}{}", Prefix(request), Remedy(*ended))]
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
        if self.0.is_empty() {
            f.write_str("the time was over before any server was tried; allow more of it")?;
        }
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

/// The chroot, if the parent that a create lacks is the root that the client sees.
pub(crate) type NoRoot = Option<String>;

/// An operation, in the word for it that callers know.
struct Verb(OpCode);

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            op if is_create(op) => f.write_str("create"),
            op => op.fmt(f),
        }
    }
}

/// That a server may not know an operation, and what helps.
struct Unknown(OpCode);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.info() {
            Some(info) if info.since >= (3, 5, 0) => write!(
                f,
                "; or this server does not know {}, as some of other makers: see \
                 ClientBuilder::dialect",
                info.name
            ),
            _ => Ok(()),
        }
    }
}

pub(crate) fn is_create(op: OpCode) -> bool {
    let creates = [OpCode::CREATE, OpCode::CREATE2, OpCode::CREATE_CONTAINER, OpCode::CREATE_TTL];
    creates.contains(&op)
}

/// What helps after the end of the session.
struct Remedy(Ended);

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ended::Expired => f.write_str("; only a new client helps, see SessionKeeper"),
            Ended::Closed => f.write_str(" (by this program, or with the runtime it ran on)"),
            Ended::AuthFailed(_) => Ok(()),
        }
    }
}

/// What is wrong in the caller's words, and what helps: for instance the setting or version of the
/// servers that an operation needs.
struct Advice<'a>(OpCode, ErrorCode, &'a NoRoot);

impl fmt::Display for Advice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (OpCode::CREATE_TTL, ErrorCode::UNIMPLEMENTED) => {
                f.write_str("; see the servers' zookeeper.extendedTypesEnabled")
            }
            (OpCode::ADD_WATCH, ErrorCode::UNIMPLEMENTED) => f.write_str(
                "; the server has no such watches (Apache's have since 3.6), or the client's \
                 dialect says so, see ClientBuilder::dialect",
            ),
            (OpCode::CREATE2, ErrorCode::UNIMPLEMENTED) => {
                f.write_str("; this server is older than ZooKeeper 3.5, which this client needs")
            }
            (op, ErrorCode::NO_NODE) if is_create(op) => match self.2 {
                Some(chroot) => write!(
                    f,
                    "; the chroot {chroot} does not exist: create it, as a persistent node, since \
                     servers remove a container that is empty"
                ),
                None => {
                    f.write_str("; the parent does not exist, see Client::create_all and ensure")
                }
            },
            (op, ErrorCode::NO_AUTH) if is_create(op) => f.write_str(
                "; the parent's access list does not let this client create, see add_auth",
            ),
            (OpCode::DELETE, ErrorCode::NO_AUTH) => f.write_str(
                "; the parent's access list does not let this client delete, see add_auth",
            ),
            (_, ErrorCode::NO_AUTH) => {
                f.write_str("; the access list does not let this client do that, see add_auth")
            }
            (_, ErrorCode::NOT_READ_ONLY) => f.write_str(
                "; the server is cut off from its ensemble and serves only reads for now",
            ),
            _ => Ok(()),
        }
    }
}

struct Prefix<'a>(&'a Option<(OpCode, String)>);

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((op, path)) => write!(f, "{} {path}: ", Verb(*op)),
            None => Ok(()),
        }
    }
}
