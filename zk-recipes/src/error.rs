//! What can go wrong with a lock, beyond what can go wrong with any request.

use std::fmt;

use thiserror::Error as ThisError;
use zk_client::Outcome;

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The client failed: [`Error::client`] says how.
    Client,
    /// Somebody deleted this contender's node while it waited in the queue. It owns nothing.
    NodeVanished,
    /// The folder has nearly used up its 2^31 sequence numbers, behind which servers lose count.
    /// Delete it while nobody holds the lock, or use another path.
    SequenceExhausted,
    /// The connection broke before the server confirmed the release. The lock is no longer this
    /// caller's, and the client goes on deleting the node until the server answers.
    Unconfirmed,
}

/// Why a lock was not acquired, or its release not confirmed.
#[derive(Clone)]
pub struct Error(Fault);

#[derive(Clone, Debug, ThisError)]
pub(crate) enum Fault {
    #[error(transparent)]
    Client(#[from] zk_client::Error),
    #[error("{0}: somebody deleted the node of this waiting contender")]
    NodeVanished(String),
    #[error("{0}: the folder's sequence numbers are nearly used up")]
    SequenceExhausted(String),
    #[error("released, but the server has not confirmed it yet: {0}")]
    Unconfirmed(#[source] zk_client::Error),
}

impl Error {
    /// What went wrong, as something to match on.
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Fault::Client(_) => ErrorKind::Client,
            Fault::NodeVanished(_) => ErrorKind::NodeVanished,
            Fault::SequenceExhausted(_) => ErrorKind::SequenceExhausted,
            Fault::Unconfirmed(_) => ErrorKind::Unconfirmed,
        }
    }

    /// Whether the server may have carried out what failed.
    pub fn outcome(&self) -> Outcome {
        self.client().map_or(Outcome::NotApplied, zk_client::Error::outcome)
    }

    /// The client's error behind this one, if there is one.
    pub fn client(&self) -> Option<&zk_client::Error> {
        match &self.0 {
            Fault::Client(error) | Fault::Unconfirmed(error) => Some(error),
            Fault::NodeVanished(_) | Fault::SequenceExhausted(_) => None,
        }
    }
}

impl<F: Into<Fault>> From<F> for Error {
    fn from(fault: F) -> Self {
        Self(fault.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
        std::error::Error::source(&self.0)
    }
}
