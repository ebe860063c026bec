//! What can go wrong with a lock, beyond what can go wrong with any request.

use std::fmt;
use std::time::Duration;

use zk_client::{Ended, ErrorCode, Outcome, Transient};

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The client failed: [`Error::client`] returns its error.
    Client,
    /// Wrong use: a name that no node can have, no lock or one lock twice to be taken together,
    /// more permits than there are, or a double barrier of nobody. The text says which.
    InvalidArgument,
    /// Wrong use: an owner that reads the lock asked to write it, and would wait for itself for
    /// ever.
    WouldDeadlock,
    /// Wrong use: the folder of this semaphore names another number of permits, and with
    /// [`Layout::KAZOO`](crate::Layout::KAZOO) all processes must name the same.
    OtherPermits,
    /// Wrong use: the text is no ticket, or the ticket is of another session, folder or layout.
    InvalidTicket,
    /// The ticket was used before, so this caller holds nothing.
    ///
    /// If another process has used it, that process has the lock and the session, and this client
    /// was [detached](zk_client::Client::detach).
    TicketUsed,
    /// Somebody deleted this contender's node while it waited in the queue, so it owns nothing.
    NodeVanished,
    /// The folder has nearly used up its 2^31 sequence numbers, beyond which servers lose count.
    ///
    /// Delete the folder while nobody holds the lock, use another path, or let the locks make the
    /// folder anew by themselves: [`Options::rotate`](crate::Options::rotate).
    SequenceExhausted,
    /// A node in the folder looks like a contender of another layout, and
    /// [`Options::strict_foreign`](crate::Options::strict_foreign) is set.
    ForeignContender,
    /// The lock could not be acquired in time: [`Error::timeout`] says why.
    TimedOut,
    /// The lock is lost: [`Error::loss`] returns how.
    ///
    /// A transaction that was to be carried out only under the lock was not carried out.
    Lost,
    /// The connection broke before the server confirmed the release.
    ///
    /// The caller no longer has the lock, and the client goes on deleting the node until the server
    /// replies.
    Unconfirmed,
    /// The node is no counter: its data is no number in the counter's format.
    ///
    /// Or its version is -1, which servers match with any version, so no write to it would be safe.
    /// Only other clients leave a counter at that version, once in 2^32 writes; their next write
    /// ends it.
    InvalidCounter,
    /// The counter would leave the range of an `i64`. It is unchanged.
    Overflow,
    /// The counter may or may not have been changed: the reply was lost, and so was what would show
    /// the outcome. [`Error::client`] returns why.
    InDoubt,
    /// A [`TreeCache`](crate::TreeCache) has more nodes or bytes than its
    /// [limits](crate::TreeLimits) allow.
    TreeTooLarge,
}

/// How a lock was lost, for good: to have it again, a contender must queue up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// The session is over, and the node with it.
    #[error(transparent)]
    SessionOver(Ended),
    /// Somebody deleted the node.
    #[error("somebody deleted the node")]
    NodeDeleted,
    /// The client has not heard from the ensemble for so long that it may have ended the session.
    #[error("the ensemble may have ended the session")]
    Deadline,
    /// The lock was held for as long as [`Options::max_hold`](crate::Options::max_hold) allows.
    #[error("it was held for as long as was agreed")]
    TermOver,
    /// Its holder released it. Tasks that share a guard learn of it like this.
    #[error("it was released")]
    Released,
}

/// Why a lock could not be acquired in time: see [`Error::timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Timeout {
    /// The client was connected when the time was over, and other contenders were ahead.
    #[error("other contenders are ahead; a guard that this task still holds counts as one")]
    Contended,
    /// The client was not connected when the time was over, so it does not know who has the lock.
    #[error("the client is not connected")]
    Disconnected,
}

/// Why a lock was not acquired, work under it was not done, or its release was not confirmed.
#[derive(Clone)]
pub struct Error(Cause);

#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Cause {
    #[error(transparent)]
    Client(#[from] zk_client::Error),
    #[error("{0}")]
    Argument(String),
    #[error("{0}: this owner reads the lock, and would wait for itself to write it")]
    WouldDeadlock(String),
    #[error("{path}: a semaphore of {permits} permits, whose folder says that it has {found}")]
    OtherPermits { path: String, permits: u32, found: i64 },
    #[error("ticket: {0}")]
    Ticket(String),
    #[error("{0}: the ticket of this node was used before, and the lock is whose it was then")]
    TicketUsed(String),
    #[error("{0}: somebody deleted the node of this waiting contender")]
    NodeVanished(String),
    #[error("{0}: the folder's sequence numbers are nearly used up")]
    SequenceExhausted(String),
    #[error(
        "{node}: a contender of another layout, which does not wait for this one: {layout}. All \
         users of one path must use one layout"
    )]
    ForeignContender { node: String, layout: &'static str },
    #[error("{path}: not acquired within {time:?}: {why}")]
    TimedOut { path: String, time: Duration, why: Timeout },
    #[error("{path}: what was held there is lost: {loss}")]
    Lost { path: String, loss: Loss },
    #[error("the lock is let go, but the server has not confirmed that yet: {0}")]
    Unconfirmed(zk_client::Error),
    #[error("{0}: no number in this counter's format, or at a version that matches any")]
    InvalidCounter(String),
    #[error("{0}: the tree has more nodes or bytes than are allowed")]
    TreeTooLarge(String),
    #[error("{0}: the counter would leave the range of an i64")]
    Overflow(String),
    #[error("{path}: the counter may or may not have been changed: {cause}")]
    InDoubt { path: String, cause: zk_client::Error },
}

impl Error {
    /// The kind of error, to match on.
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Cause::Client(_) => ErrorKind::Client,
            Cause::Argument(_) => ErrorKind::InvalidArgument,
            Cause::WouldDeadlock(_) => ErrorKind::WouldDeadlock,
            Cause::OtherPermits { .. } => ErrorKind::OtherPermits,
            Cause::Ticket(_) => ErrorKind::InvalidTicket,
            Cause::TicketUsed(_) => ErrorKind::TicketUsed,
            Cause::NodeVanished(_) => ErrorKind::NodeVanished,
            Cause::SequenceExhausted(_) => ErrorKind::SequenceExhausted,
            Cause::ForeignContender { .. } => ErrorKind::ForeignContender,
            Cause::TimedOut { .. } => ErrorKind::TimedOut,
            Cause::Lost { .. } => ErrorKind::Lost,
            Cause::Unconfirmed(_) => ErrorKind::Unconfirmed,
            Cause::InvalidCounter(_) => ErrorKind::InvalidCounter,
            Cause::Overflow(_) => ErrorKind::Overflow,
            Cause::TreeTooLarge(_) => ErrorKind::TreeTooLarge,
            Cause::InDoubt { .. } => ErrorKind::InDoubt,
        }
    }

    /// The error of an acquire. A lock that was never handed out is not lost: its node has
    /// vanished.
    pub(crate) fn while_waiting(self) -> Self {
        match self.0 {
            Cause::Lost { path, loss: Loss::NodeDeleted } => Cause::NodeVanished(path).into(),
            cause => Self(cause),
        }
    }

    /// Whether the server may have carried out the request that failed.
    pub fn outcome(&self) -> Outcome {
        match &self.0 {
            Cause::InDoubt { .. } => Outcome::Unknown,
            _ => self.client().map_or(Outcome::NotApplied, zk_client::Error::outcome),
        }
    }

    /// How the lock was lost, if that is the reason.
    pub fn loss(&self) -> Option<Loss> {
        match &self.0 {
            Cause::Lost { loss, .. } => Some(*loss),
            _ => None,
        }
    }

    /// Why the lock could not be acquired in time, if that is the reason.
    pub fn timeout(&self) -> Option<Timeout> {
        match &self.0 {
            Cause::TimedOut { why, .. } => Some(*why),
            _ => None,
        }
    }

    /// True if the session is over, whichever way it ended.
    ///
    /// A lock that was held is lost then ([`Loss::SessionOver`]), and a lock that was waited for
    /// cannot be acquired any more ([`Client`](ErrorKind::Client)). Only a lock of a new client
    /// helps; a [`SessionKeeper`](zk_client::SessionKeeper) has one.
    pub fn is_session_over(&self) -> bool {
        matches!(self.loss(), Some(Loss::SessionOver(_)))
            || self.client().is_some_and(zk_client::Error::is_session_over)
    }

    /// True if the same call may succeed if it is made again in the same session.
    ///
    /// The connection broke, the server had too many requests, or the lock was lost while the
    /// session lives on. The [`outcome`](Self::outcome) tells whether the call may have been
    /// carried out. Such an error has the mark [`Transient`] as its source.
    pub fn is_transient(&self) -> bool {
        Transient::of(self).is_some()
    }

    /// The server's error code, if the server refused a request.
    pub fn code(&self) -> Option<ErrorCode> {
        self.client()?.code()
    }

    /// True if a node, or the parent of a new node, does not exist.
    pub fn is_no_node(&self) -> bool {
        self.client().is_some_and(zk_client::Error::is_no_node)
    }

    /// True if a node exists already.
    pub fn is_node_exists(&self) -> bool {
        self.client().is_some_and(zk_client::Error::is_node_exists)
    }

    /// True if a node has another version than the request named.
    pub fn is_bad_version(&self) -> bool {
        self.client().is_some_and(zk_client::Error::is_bad_version)
    }

    /// True if the access list of a node does not allow the request to this client.
    pub fn is_no_auth(&self) -> bool {
        self.client().is_some_and(zk_client::Error::is_no_auth)
    }

    /// True if this error of a release says that the server has refused it. Others only leave open
    /// how it went.
    pub(crate) fn is_refusal(&self) -> bool {
        !self.is_transient() && !self.is_session_over()
    }

    /// The client's error that caused this one, if there is one.
    pub fn client(&self) -> Option<&zk_client::Error> {
        match &self.0 {
            Cause::Client(error)
            | Cause::Unconfirmed(error)
            | Cause::InDoubt { cause: error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<Cause> for Error {
    fn from(cause: Cause) -> Self {
        Self(cause)
    }
}

impl From<zk_client::Error> for Error {
    fn from(error: zk_client::Error) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The text says why already, so the source is not what it repeats, but the mark of an error that
/// may pass.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Cause::Client(error) | Cause::Unconfirmed(error) => error.source(),
            Cause::Lost { loss: Loss::SessionOver(_), .. } => None,
            Cause::Lost { .. } | Cause::NodeVanished(_) | Cause::TimedOut { .. } => {
                Some(&Transient::Fault)
            }
            _ => None,
        }
    }
}

/// Prints the kind and the message, because a `main` that returns the error shows this text.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.kind())
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::future::ready;
    use std::io;
    use std::pin::pin;

    use tokio::time::timeout;

    use super::*;
    use crate::{retry, retry_if};

    /// One of each kind that needs no client, and each loss.
    fn causes() -> Vec<Cause> {
        let path = || "/a".to_owned();
        let session = Loss::SessionOver(Ended::Expired);
        let losses = [session, Loss::NodeDeleted, Loss::Deadline, Loss::TermOver, Loss::Released];
        let mut faults = vec![
            Cause::Client(Ended::Expired.into()),
            Cause::Argument(path()),
            Cause::WouldDeadlock(path()),
            Cause::OtherPermits { path: path(), permits: 2, found: 1 },
            Cause::Ticket(path()),
            Cause::TicketUsed(path()),
            Cause::NodeVanished(path()),
            Cause::SequenceExhausted(path()),
            Cause::ForeignContender { node: path(), layout: "kazoo" },
            Cause::Unconfirmed(Ended::Expired.into()),
            Cause::InvalidCounter(path()),
            Cause::TreeTooLarge(path()),
            Cause::Overflow(path()),
            Cause::InDoubt { path: path(), cause: Ended::Expired.into() },
        ];
        for why in [Timeout::Contended, Timeout::Disconnected] {
            faults.push(Cause::TimedOut { path: path(), time: Duration::from_secs(1), why });
        }
        faults.extend(losses.map(|loss| Cause::Lost { path: path(), loss }));
        faults
    }

    #[test]
    fn no_error_says_twice_what_its_source_says() {
        for error in causes().into_iter().map(Error) {
            if let Some(source) = error.source() {
                assert!(!error.to_string().contains(&source.to_string()), "{error} / {source}");
            }
            let may_pass = match error.kind() {
                ErrorKind::Lost => !error.is_session_over(),
                kind => matches!(kind, ErrorKind::NodeVanished | ErrorKind::TimedOut),
            };
            assert_eq!(error.is_transient(), may_pass, "{error}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong_in_the_words_of_callers() {
        let path = || "/a".to_owned();
        let time = Duration::from_secs(1);
        let cases = [
            (Cause::Lost { path: path(), loss: Loss::NodeDeleted }, "what was held there is lost"),
            (Cause::TimedOut { path: path(), time, why: Timeout::Contended }, "still holds"),
        ];
        for (fault, text) in cases {
            let said = Error(fault).to_string();
            assert!(said.contains(text), "{said}");
        }
    }

    /// The error type of an application.
    #[derive(Debug, thiserror::Error)]
    enum Own {
        #[error(transparent)]
        Transparent(Error),
        #[error("wrapped")]
        Wrapped(#[source] io::Error),
        #[error("lasting")]
        Lasting,
    }

    #[tokio::test(start_paused = true)]
    async fn errors_of_an_application_are_tried_again_if_those_in_them_may_pass() {
        let lost = || Error(Cause::NodeVanished("/a".into()));
        let mut errors = vec![Own::Lasting, Own::Wrapped(io::Error::other(lost()))];
        errors.push(Own::Transparent(lost()));
        let done = retry(|| ready(errors.pop().map_or(Ok(()), Err))).await;
        assert!(matches!(done, Err(Own::Lasting)), "{done:?}");
        // What the application says may pass; a busy one is left alone for a while.
        let mut errors = vec!["broken", "busy", "lost"];
        let sort = |error: &&str| match *error {
            "busy" => Some(Transient::Overload),
            error => (error == "lost").then_some(Transient::Fault),
        };
        let mut retrying = pin!(retry_if(sort, || ready(errors.pop().map_or(Ok(()), Err))));
        timeout(Duration::from_millis(999), &mut retrying).await.unwrap_err();
        let done = timeout(Duration::from_millis(2), retrying).await.unwrap();
        assert_eq!(done, Err("broken"));
    }
}
