//! What can go wrong with a lock, beyond what can go wrong with any request.

use std::fmt;
use std::time::Duration;

use zk_client::{Ended, Outcome};

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The client failed: [`Error::client`] says how.
    Client,
    /// Caller: names made of these parts could not be told apart.
    InvalidLayout,
    /// Caller: locks that are taken together must have different paths and one client.
    InvalidSet,
    /// Caller: what reads a lock asked to write it, and would wait for itself for ever.
    WouldDeadlock,
    /// Caller: there is no such holder here, or it is not whose ticket this is.
    InvalidTicket,
    /// The ticket was used before, so this caller holds nothing. If another process has used it,
    /// the lock and the session are that one's: the client was
    /// [detached](zk_client::Client::detach).
    TicketUsed,
    /// Somebody deleted this contender's node while it waited in the queue. It owns nothing.
    NodeVanished,
    /// The folder has nearly used up its 2^31 sequence numbers, behind which servers lose count.
    /// Delete it while nobody holds the lock, use another path, or let locks do so themselves:
    /// [`Options::rotate`](crate::Options::rotate).
    SequenceExhausted,
    /// A node in the folder looks like a contender of another layout, and
    /// [`Options::strict_foreign`](crate::Options::strict_foreign) is set.
    ForeignContender,
    /// The lock could not be acquired in time: [`Error::timeout`] says why.
    TimedOut,
    /// The lock is lost: [`Error::loss`] says how. What was to be done in one transaction with it
    /// was not done.
    Lost,
    /// The connection broke before the server confirmed the release. The lock is no longer this
    /// caller's, and the client goes on deleting the node until the server answers.
    Unconfirmed,
}

/// How a lock was lost. It is lost for good: whoever wants it again has to queue up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// The session is over, and the node with it.
    #[error(transparent)]
    SessionOver(Ended),
    /// Somebody deleted the node.
    #[error("somebody deleted the node")]
    NodeDeleted,
    /// The ensemble was not heard of for so long that it may have ended the session.
    #[error("the ensemble may have ended the session")]
    Deadline,
    /// It was held for as long as [`Options::max_hold`](crate::Options::max_hold) allows.
    #[error("it was held for as long as was agreed")]
    TermOver,
    /// Its holder released it. Tasks that share a guard learn of it like this.
    #[error("it was released")]
    Released,
}

/// Why a lock could not be acquired in time: see [`Error::timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Timeout {
    /// The client was connected when the time was over, and other contenders were ahead.
    #[error("other contenders are ahead")]
    Contended,
    /// The client was not connected when the time was over, so it does not know who has the lock.
    #[error("the client is not connected")]
    Disconnected,
}

/// Why a lock was not acquired, or something was not done under it, or its release not confirmed.
#[derive(Clone, thiserror::Error)]
#[error(transparent)]
pub struct Error(Fault);

#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Client(#[from] zk_client::Error),
    #[error("layout of {0}: a marker is empty, has a slash, ends in a digit or like the other one")]
    Layout(String),
    #[error("locks to be taken together: {0}")]
    Set(String),
    #[error("{0}: this owner reads the lock, and would wait for itself to write it")]
    WouldDeadlock(String),
    #[error("ticket: {0}")]
    Ticket(String),
    #[error("{0}: the ticket of this node was used before, and the lock is whose it was then")]
    TicketUsed(String),
    #[error("{0}: somebody deleted the node of this waiting contender")]
    NodeVanished(String),
    #[error("{0}: the folder's sequence numbers are nearly used up")]
    SequenceExhausted(String),
    #[error("{0}: a contender of another layout")]
    ForeignContender(String),
    #[error("{path}: not acquired within {time:?}: {why}")]
    TimedOut { path: String, time: Duration, why: Timeout },
    #[error("{path}: the lock is lost: {loss}")]
    Lost { path: String, loss: Loss },
    #[error("the lock is let go, but the server has not confirmed that yet: {0}")]
    Unconfirmed(#[source] zk_client::Error),
}

impl Error {
    /// What went wrong, as something to match on.
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Fault::Client(_) => ErrorKind::Client,
            Fault::Layout(_) => ErrorKind::InvalidLayout,
            Fault::Set(_) => ErrorKind::InvalidSet,
            Fault::WouldDeadlock(_) => ErrorKind::WouldDeadlock,
            Fault::Ticket(_) => ErrorKind::InvalidTicket,
            Fault::TicketUsed(_) => ErrorKind::TicketUsed,
            Fault::NodeVanished(_) => ErrorKind::NodeVanished,
            Fault::SequenceExhausted(_) => ErrorKind::SequenceExhausted,
            Fault::ForeignContender(_) => ErrorKind::ForeignContender,
            Fault::TimedOut { .. } => ErrorKind::TimedOut,
            Fault::Lost { .. } => ErrorKind::Lost,
            Fault::Unconfirmed(_) => ErrorKind::Unconfirmed,
        }
    }

    /// The same for a lock that was never handed out: its contender's node has vanished.
    pub(crate) fn while_waiting(self) -> Self {
        match self.0 {
            Fault::Lost { path, loss: Loss::NodeDeleted } => Fault::NodeVanished(path).into(),
            fault => Self(fault),
        }
    }

    /// Whether the server may have carried out what failed.
    pub fn outcome(&self) -> Outcome {
        self.client().map_or(Outcome::NotApplied, zk_client::Error::outcome)
    }

    /// How the lock was lost, if that is the reason.
    pub fn loss(&self) -> Option<Loss> {
        match &self.0 {
            Fault::Lost { loss, .. } => Some(*loss),
            _ => None,
        }
    }

    /// Why the lock could not be acquired in time, if that is the reason.
    pub fn timeout(&self) -> Option<Timeout> {
        match &self.0 {
            Fault::TimedOut { why, .. } => Some(*why),
            _ => None,
        }
    }

    /// Whether the session is over, whichever way: a lock that was held is lost
    /// ([`Loss::SessionOver`]), and one that was waited for will not come
    /// ([`Client`](ErrorKind::Client)). Only a lock of a new client helps; a
    /// [`SessionKeeper`](zk_client::SessionKeeper) has one.
    pub fn is_session_over(&self) -> bool {
        matches!(self.loss(), Some(Loss::SessionOver(_)))
            || self.client().is_some_and(zk_client::Error::is_session_over)
    }

    /// The client's error behind this one, if there is one.
    pub fn client(&self) -> Option<&zk_client::Error> {
        match &self.0 {
            Fault::Client(error) | Fault::Unconfirmed(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self(fault)
    }
}

impl From<zk_client::Error> for Error {
    fn from(error: zk_client::Error) -> Self {
        Self(error.into())
    }
}

/// Reads like the error itself: it is what a `main` that returns it shows.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.kind())
    }
}
