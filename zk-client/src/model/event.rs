//! What a session tells: its own state, and what its watches saw.

use zk_proto::{AddWatchMode, EventType, Zxid};

use crate::auth::credentials::Refusal;
use crate::error::Ended;

/// Where a session stands.
///
/// ```text
/// Connecting --> Connected <--> Disconnected
///      |             |               |
///      +-------------+-------+-------+
///                            v
///               Expired, AuthFailed, Closed   (for good)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// No server has answered yet.
    Connecting,
    /// Connected to a server that serves writes.
    Connected,
    /// Connected to a server without a quorum, which serves reads alone: see
    /// [`ClientBuilder::allow_read_only`](crate::ClientBuilder::allow_read_only).
    ConnectedReadOnly,
    /// Cut off, or on the way to another server; the session lives on at the ensemble.
    Disconnected,
    /// Over, because the ensemble said so or because it was cut off for 4/3 of its timeout.
    Expired,
    /// Over, because credentials were refused.
    AuthFailed(Refusal),
    /// Over, because this side closed it.
    Closed,
}

impl SessionState {
    /// Whether a server is there to answer.
    pub const fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::ConnectedReadOnly)
    }

    /// How the session ended, if it did.
    pub const fn ended(self) -> Option<Ended> {
        match self {
            Self::Expired => Some(Ended::Expired),
            Self::AuthFailed(refusal) => Some(Ended::AuthFailed(refusal)),
            Self::Closed => Some(Ended::Closed),
            _ => None,
        }
    }
}

/// What a [`StateStream`](crate::StateStream) tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateEvent {
    /// The session is in this state now.
    Entered(SessionState),
    /// This many states were not asked for in time, and are lost.
    Lagged(u64),
}

impl From<Ended> for SessionState {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Expired => Self::Expired,
            Ended::AuthFailed(refusal) => Self::AuthFailed(refusal),
            Ended::Closed => Self::Closed,
        }
    }
}

/// What a watch saw.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchedEvent {
    /// What happened.
    pub kind: EventType,
    /// The node, or the parent whose children changed.
    pub path: String,
    /// The transaction that did it; servers tell since 3.9.0, and never of what was missed.
    pub zxid: Option<Zxid>,
    /// Whether this may have happened before the connection watched: it was told on reconnect,
    /// while watches were armed again; or it is what [`watch_nodes`](crate::Client::watch_nodes) of
    /// this very node, or of the child that it tells of, may have found, and had no answer yet.
    ///
    /// Events that a connection saw live come in the order of the changes. Those that it is told
    /// while it arms watches come in no order, and several changes of a node are one event.
    pub missed: bool,
}

/// A [`WatchedEvent`] without its path, for one who has that already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// What happened.
    pub kind: EventType,
    /// See [`WatchedEvent::zxid`].
    pub zxid: Option<Zxid>,
    /// See [`WatchedEvent::missed`].
    pub missed: bool,
}

impl Change {
    /// What is told of a change of this node.
    pub(crate) fn of(self, path: &str) -> WatchedEvent {
        let Self { kind, zxid, missed } = self;
        WatchedEvent { kind, path: path.to_owned(), zxid, missed }
    }
}

/// What a stream watches: see [`Client::watch`](crate::Client::watch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WatchMode {
    /// The node: its creation, its data, its list of children, its deletion.
    Persistent,
    /// The node and everything below it: creation, data and deletion of each. Never
    /// `NodeChildrenChanged`, since the children tell for themselves.
    PersistentRecursive,
}

impl WatchMode {
    pub(crate) const ALL: [Self; 2] = [Self::Persistent, Self::PersistentRecursive];
}

impl From<WatchMode> for AddWatchMode {
    fn from(mode: WatchMode) -> Self {
        match mode {
            WatchMode::Persistent => Self::PERSISTENT,
            WatchMode::PersistentRecursive => Self::PERSISTENT_RECURSIVE,
        }
    }
}

/// What a stream tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// Something changed.
    Changed(WatchedEvent),
    /// The watch was set anew, on a new connection or behind a watch that may have replaced it.
    /// What happened in between is untold, since servers do not replay it (ZOOKEEPER-4698): read
    /// again.
    Rearmed,
    /// This many changes were dropped, because [so much](crate::WatchStream::CAPACITY) waited
    /// already: read again.
    Lagged(u64),
}
