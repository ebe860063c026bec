//! Everything that can go wrong, sorted by who caused it.
//!
//! The caller made a mistake, the server refused, the server broke the protocol, the connection
//! broke, or the session is over. Each error also answers the next question: was the request
//! applied?

mod reasons;

mod cause;

mod transient;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use zk_proto::{ErrorCode, OpCode, Zxid};

pub(crate) use self::cause::Cause;
pub use self::reasons::{Attempt, Ended, Failure, Hangup, Limit, ProtocolError, Rejected};
pub(crate) use self::reasons::{Prospect, UNANSWERED};
pub use self::transient::Transient;

/// Whether the server may have applied a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing changed: the request never left this machine, or the server refused it with a
    /// [code that proves so](ErrorCode::proves_nothing_applied).
    ///
    /// It is also the outcome of an [owned node](crate::Client::create_owned) that was lost and
    /// looked for in vain. If that node appears later all the same, the client deletes it.
    NotApplied,
    /// The request may have been sent, and its result is not known: no reply came (in time), or the
    /// reply does not decode or, for a write, was too large or is an error that proves nothing. A
    /// write may or may not have been applied.
    Unknown,
}

/// The kinds of [`Error`], by who caused them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Caller: the options of a create contradict each other, or are out of range.
    InvalidOptions,
    /// Caller: an operation does not fit into this multi; [`Error::failed_op`] says which.
    InvalidOp,
    /// Caller: the node to be adopted belongs to no session, or to another one.
    NotOwned,
    /// Caller: this client owns the node to be adopted already.
    AlreadyOwned,
    /// Caller: the request is above the frame limit of servers and was not sent.
    TooLarge,
    /// The reply is above [`Limits::max_reply`](crate::Limits::max_reply) and was not kept;
    /// [`Error::reply_size`] returns its size. The session lives on.
    ReplyTooLarge,
    /// Caller: more requests or bytes are waiting than the client's limits allow.
    LimitExceeded,
    /// Caller: there is no tokio runtime to run the session on.
    NoRuntime,
    /// No server accepted the client within its timeout, or every server has refused for good; or a
    /// [four-letter word](crate::ClientBuilder::four_letter_word) got no answer.
    NoServer,
    /// No server that was reached has applied the zxid that the caller waits for.
    Behind,
    /// The chroot of the connect string does not exist on the server.
    ChrootNotFound,
    /// The server refused the request; [`Error::code`] returns the reason.
    Refused,
    /// The connection broke before the reply came.
    ///
    /// If a server has hung up on a request of some 100 kilobytes or more, that may have been too
    /// large: the text names its size, and what helps.
    ConnectionLoss,
    /// Three times in a row a server hung up while a request of this operation, path and size was
    /// the largest without a reply, so this request may be the cause. The text names all three. To
    /// repeat it would break the connection again, and with it all requests under way. A request of
    /// less than a kilobyte counts only if no server has answered its operation yet, and not all
    /// servers know that operation. The row goes on in the next session of a
    /// [keeper](crate::SessionKeeper), or of a clone of the same builder.
    ///
    /// Servers hang up on a request that is larger than their `jute.maxbuffer`, in bytes, which a
    /// client cannot read. Set [`Limits::max_request`](crate::Limits::max_request) to that number,
    /// and such a request fails before it is sent. Servers of other makers hang up on operations
    /// that they do not know: set the [dialect](crate::ClientBuilder::dialect).
    NeverAnswered,
    /// The reply did not come [in time](crate::Reply::within).
    TimedOut,
    /// The server sent something that the protocol does not allow.
    Protocol,
    /// The session is over: its ephemeral nodes are gone, and this client is of no more use.
    SessionExpired,
    /// A server refused this client's credentials, which ends the client for good. The session
    /// itself goes on at the ensemble until its timeout has passed. The text names the credential.
    ///
    /// It is also the kind of the error of a connect that had no valid credential for SASL, such as
    /// a ticket of Kerberos.
    AuthFailed,
    /// The client was closed on this side.
    Closed,
}

/// Why a request, a connect or a setting failed.
///
/// The type is opaque and cheap to clone. Its methods describe it: [`kind`](Error::kind),
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
    cause: Arc<Cause>,
    /// The zxid of the server's reply, if there was one.
    zxid: Option<Zxid>,
}

impl Error {
    /// Returns the kind of the error, to match on.
    pub fn kind(&self) -> ErrorKind {
        match &*self.cause {
            Cause::ConnectString { .. } => ErrorKind::InvalidConnectString,
            Cause::Setting(_) => ErrorKind::InvalidSetting,
            Cause::WatchSpent { .. } => ErrorKind::WatchSpent,
            Cause::Path { .. } => ErrorKind::InvalidPath,
            Cause::Options { .. } => ErrorKind::InvalidOptions,
            Cause::InvalidOp { .. } => ErrorKind::InvalidOp,
            Cause::NotOwned { .. } => ErrorKind::NotOwned,
            Cause::AlreadyOwned { .. } => ErrorKind::AlreadyOwned,
            Cause::TooLarge { .. } => ErrorKind::TooLarge,
            Cause::ReplyTooLarge { .. } => ErrorKind::ReplyTooLarge,
            Cause::TimedOut { .. } => ErrorKind::TimedOut,
            Cause::Limit { .. } => ErrorKind::LimitExceeded,
            Cause::NoRuntime => ErrorKind::NoRuntime,
            Cause::NoServer { attempts, .. } if lack_credentials(attempts) => ErrorKind::AuthFailed,
            Cause::NoServer { .. } | Cause::Word { .. } => ErrorKind::NoServer,
            Cause::Behind { .. } => ErrorKind::Behind,
            Cause::ChrootNotFound { .. } => ErrorKind::ChrootNotFound,
            Cause::Refused { .. } | Cause::OpRefused { .. } => ErrorKind::Refused,
            Cause::ConnectionLoss { .. } => ErrorKind::ConnectionLoss,
            Cause::NeverAnswered { .. } => ErrorKind::NeverAnswered,
            Cause::UndecodableReply { .. } => ErrorKind::Protocol,
            Cause::Ended { ended: Ended::Expired, .. } => ErrorKind::SessionExpired,
            Cause::Ended { ended: Ended::AuthFailed(_), .. } => ErrorKind::AuthFailed,
            Cause::Ended { ended: Ended::Closed, .. } => ErrorKind::Closed,
        }
    }

    /// Returns whether the server may have applied the request.
    ///
    /// For a write whose [reply is too large](ErrorKind::ReplyTooLarge) this is `Unknown`, although
    /// the write has most likely happened. For a read it is `NotApplied`, since a read changes
    /// nothing.
    pub fn outcome(&self) -> Outcome {
        match &*self.cause {
            Cause::ReplyTooLarge { op, .. } | Cause::NeverAnswered { op, .. } if op.is_read() => {
                Outcome::NotApplied
            }
            Cause::ReplyTooLarge { .. } | Cause::NeverAnswered { .. } => Outcome::Unknown,
            Cause::Refused { op, code, .. } if op.is_write() && !code.proves_nothing_applied() => {
                Outcome::Unknown
            }
            Cause::ConnectionLoss { sent: true, .. }
            | Cause::Ended { sent: true, .. }
            | Cause::TimedOut { sent: true, .. }
            | Cause::UndecodableReply { .. } => Outcome::Unknown,
            _ => Outcome::NotApplied,
        }
    }

    /// Returns the server's error code, if the server refused the request.
    ///
    /// For a refused multi, this is the code of the operation that failed.
    pub fn code(&self) -> Option<ErrorCode> {
        match &*self.cause {
            Cause::Refused { code, .. } | Cause::OpRefused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Returns the index of the operation that made a multi fail, counted from 0.
    pub fn failed_op(&self) -> Option<usize> {
        match &*self.cause {
            Cause::OpRefused { index, .. } | Cause::InvalidOp { index, .. } => Some(*index),
            _ => None,
        }
    }

    /// Returns the size of the reply in bytes, if it was [too large](ErrorKind::ReplyTooLarge).
    pub fn reply_size(&self) -> Option<usize> {
        match &*self.cause {
            Cause::ReplyTooLarge { len, .. } => Some(*len),
            _ => None,
        }
    }

    /// Returns the zxid of the server's refusal, or of a reply that does not decode.
    ///
    /// For a write it is the write's own transaction, since a refused write is one too; for a read
    /// it is the last transaction that the server had applied. A client that has
    /// [waited](crate::Client::wait_for_zxid) for this zxid sees why the request was refused.
    /// `None` if no reply came, or if it was too large.
    pub fn zxid(&self) -> Option<Zxid> {
        self.zxid
    }

    /// Returns the servers that were tried by a connect or a four-letter word that failed.
    pub fn attempts(&self) -> &[Attempt] {
        match &*self.cause {
            Cause::NoServer { attempts, .. } => attempts,
            Cause::Word { attempt, .. } => std::slice::from_ref(attempt),
            _ => &[],
        }
    }

    /// Returns true if the node, or the parent of a new node, does not exist.
    pub fn is_no_node(&self) -> bool {
        self.code() == Some(ErrorCode::NO_NODE)
    }

    /// Returns true if the node exists already.
    pub fn is_node_exists(&self) -> bool {
        self.code() == Some(ErrorCode::NODE_EXISTS)
    }

    /// Returns true if the node has another version than the request named.
    pub fn is_bad_version(&self) -> bool {
        self.code() == Some(ErrorCode::BAD_VERSION)
    }

    /// Returns true if the node's access list does not allow the request to this client.
    pub fn is_no_auth(&self) -> bool {
        self.code() == Some(ErrorCode::NO_AUTH)
    }

    /// Returns true if the same call may succeed if it is made again in the same session: the
    /// connection broke, or the server had too many requests.
    ///
    /// The [`outcome`](Self::outcome) tells whether the call may have been carried out. Such an
    /// error has the mark [`Transient`] as its source.
    pub fn is_transient(&self) -> bool {
        self.transient().is_some()
    }

    /// The mark of an error that may pass, and the one rule about which do.
    fn transient(&self) -> Option<Transient> {
        match &*self.cause {
            Cause::ConnectionLoss { .. } => Some(Transient::Fault),
            _ if self.code() == Some(ErrorCode::THROTTLED_OP) => Some(Transient::Overload),
            _ => None,
        }
    }

    /// Returns true if the connection broke; the session may live on.
    pub fn is_connection_loss(&self) -> bool {
        self.kind() == ErrorKind::ConnectionLoss
    }

    /// Returns true if this client's use of the session has ended; only a new client helps.
    ///
    /// After [`AuthFailed`](ErrorKind::AuthFailed) or a [detach](crate::Client::detach), the
    /// session itself lives on at the ensemble.
    pub fn is_session_over(&self) -> bool {
        matches!(&*self.cause, Cause::Ended { .. })
    }

    pub(crate) fn failed(op: OpCode, path: &str, failure: Failure) -> Self {
        let path = path.to_owned();
        match failure {
            // The session ends with this reply.
            Failure::Refused(ErrorCode::SESSION_EXPIRED) => {
                Cause::Ended { request: Some((op, path)), ended: Ended::Expired, sent: false }
            }
            Failure::Refused(code) => Cause::Refused { op, path, code, no_root: None },
            Failure::OpRefused { index, code } => {
                Cause::OpRefused { index, op, path, code, no_root: None }
            }
            Failure::ReplyTooLarge { len, limit } => Cause::ReplyTooLarge { op, path, len, limit },
            Failure::ConnectionLoss { sent, why } => Cause::ConnectionLoss { op, path, sent, why },
            Failure::NeverAnswered { size, losses, why } => {
                Cause::NeverAnswered { op, path, size, losses, why }
            }
            Failure::Ended { sent, ended } => {
                Cause::Ended { request: Some((op, path)), ended, sent }
            }
        }
        .into()
    }

    /// The same error, of a client with this chroot. It says so if that is the parent that a create
    /// lacks.
    pub(crate) fn below(mut self, chroot: Option<&str>) -> Self {
        if let Some(
            Cause::Refused { op, path, code: ErrorCode::NO_NODE, no_root }
            | Cause::OpRefused { op, path, code: ErrorCode::NO_NODE, no_root, .. },
        ) = Arc::get_mut(&mut self.cause)
            && cause::is_create(*op)
            && path.rfind('/') == Some(0)
            && path.len() > 1
        {
            *no_root = chroot.map(str::to_owned);
        }
        self
    }

    /// The same error, with the zxid of the reply that caused it.
    pub(crate) fn stamped(self, zxid: Option<Zxid>) -> Self {
        Self { zxid, ..self }
    }

    pub(crate) fn rejected(op: OpCode, path: &str, rejected: Rejected) -> Self {
        let path = path.to_owned();
        match rejected {
            Rejected::TooLong(why) => Cause::TooLarge { op, path, why },
            Rejected::Limit(limit) => Cause::Limit { op, path, limit },
            Rejected::Ended(ended) => {
                Cause::Ended { request: Some((op, path)), ended, sent: false }
            }
        }
        .into()
    }
}

/// Whether the client had no valid credential for any of the servers.
fn lack_credentials(attempts: &[Attempt]) -> bool {
    !attempts.is_empty()
        && attempts.iter().all(|attempt| attempt.prospect == Prospect::NoCredential)
}

impl From<Cause> for Error {
    fn from(cause: Cause) -> Self {
        Self { cause: Arc::new(cause), zxid: None }
    }
}

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        Cause::Ended { request: None, ended, sent: false }.into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

/// Shows the text of the error too: a `main` that returns the error prints this.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.kind())
    }
}

/// The text says why already, so the source is not what it repeats, but the mark of an error that
/// may pass.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.transient().map(Transient::as_source)
    }
}
