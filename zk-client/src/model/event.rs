//! The events of a session: its own state, and the changes that its watches saw.

use zk_proto::{AddWatchMode, EventType, Zxid};

use crate::auth::failure::AuthFailure;
use crate::error::Ended;

/// The state of a session.
///
/// ```text
/// Connecting --> Connected <--> Disconnected
///      |             |               |
///      +-------------+-------+-------+
///                            v
///               Expired, AuthFailed, Closed   (for good)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionState {
    /// No server has answered yet.
    Connecting,
    /// Connected to a server that serves writes.
    Connected,
    /// Connected to a server without a quorum, which serves only reads.
    ///
    /// See [`ClientBuilder::allow_read_only`](crate::ClientBuilder::allow_read_only).
    ConnectedReadOnly,
    /// Cut off, or moving to another server. The session may live on at the ensemble.
    Disconnected,
    /// Over: the ensemble said so, or the client was cut off for 4/3 of the session timeout.
    Expired,
    /// Over: a server refused the credentials.
    AuthFailed(AuthFailure),
    /// Over: this side closed it.
    Closed,
}

impl SessionState {
    /// True if the session is connected to a server.
    pub const fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::ConnectedReadOnly)
    }

    /// How the session ended; `None` if it has not.
    pub const fn ended(self) -> Option<Ended> {
        match self {
            Self::Expired => Some(Ended::Expired),
            Self::AuthFailed(refusal) => Some(Ended::AuthFailed(refusal)),
            Self::Closed => Some(Ended::Closed),
            _ => None,
        }
    }
}

/// An event of a [`StateStream`](crate::StateStream).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StateEvent {
    /// The session has entered this state.
    Entered(SessionState),
    /// The reader was late, and missed this many states.
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

/// A change that a watch saw.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchedEvent {
    /// The kind of the change.
    pub kind: EventType,
    /// The node, or the parent whose children changed.
    pub path: String,
    /// The zxid of the change; `None` before server 3.9.0, and always for missed changes.
    pub zxid: Option<Zxid>,
    /// True if the change may have happened before the connection watched.
    ///
    /// The event came on a reconnect, while watches were armed again. Or it may be a change that
    /// [`watch_nodes`](crate::Client::watch_nodes) of this very node, or of the child that the
    /// event is about, has found, while that call had no reply yet.
    ///
    /// Events that a connection saw live come in the order of the changes. Events for
    /// changes found while arming come in no order, and several changes of a node are one event.
    pub missed: bool,
}

/// A [`WatchedEvent`] without its path, for a receiver that has the path already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The kind of the change.
    pub kind: EventType,
    /// See [`WatchedEvent::zxid`].
    pub zxid: Option<Zxid>,
    /// See [`WatchedEvent::missed`].
    pub missed: bool,
}

impl Change {
    /// The event of this change at this node.
    pub(crate) fn of(self, path: &str) -> WatchedEvent {
        let Self { kind, zxid, missed } = self;
        WatchedEvent { kind, path: path.to_owned(), zxid, missed }
    }
}

/// The scope of a stream: see [`Client::watch`](crate::Client::watch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WatchMode {
    /// The node: its creation, its data, its list of children, its deletion.
    Persistent,
    /// The node and everything below it: creation, data and deletion of each.
    ///
    /// Never `NodeChildrenChanged`, because the children have events of their own.
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

/// An event of a [`WatchStream`](crate::WatchStream).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// A node changed.
    Changed(WatchedEvent),
    /// The watch was set anew, on a new connection or after a watch that may have replaced it.
    ///
    /// Changes in between are not reported, because servers do not replay them (ZOOKEEPER-4698):
    /// read again.
    Rearmed,
    /// This many changes were dropped because the queue was [full](crate::WatchStream::CAPACITY).
    ///
    /// Read again.
    Lagged(u64),
}
