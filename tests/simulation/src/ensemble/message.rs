//! The messages between the servers of an ensemble, in order and over one connection each.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zk_embedded::{ConnectionId, SessionId};

use super::server::header;

/// A server, by its number. Number 0 leads.
pub(super) type ServerId = usize;

pub(super) const LEADER: ServerId = 0;

/// A client's connection, by its number at its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkId {
    pub(super) server: ServerId,
    pub(super) connection: ConnectionId,
}

/// From a follower to the leader.
#[derive(Debug)]
pub(super) enum ToLeader {
    /// A client wants a new session or a write, or asks what only the leader can answer.
    Ask(Entry),
    /// A client wants to resume a session.
    Validate { link: LinkId, session: SessionId },
    /// The reply to a ping: the sessions seen since the last one.
    Touched(Vec<SessionId>),
    /// The follower has lost the leader and reconnects: it has carried out so much of the log.
    Join { applied: usize },
}

/// From the leader to a follower.
#[derive(Debug)]
pub(super) enum ToFollower {
    /// Asks which sessions the follower has seen.
    Ping,
    /// An entry of the log to carry out, with its index.
    Commit(usize, Arc<Entry>),
    /// The follower has the whole log again, and may serve.
    UpToDate,
    /// The leader has looked for the session that a client of the follower wants to resume.
    Validated { link: LinkId },
    /// The follower has now everything that the leader had when it got this client's `sync`.
    Synced { link: LinkId },
    /// The session of this client's request is attached to another server.
    Moved { link: LinkId },
}

/// An entry of the log, which all servers carry out in the same order.
#[derive(Debug)]
pub(super) enum Entry {
    /// A new session, by its client's handshake and with the timeout that is granted.
    Open { link: LinkId, handshake: Bytes, timeout: Duration },
    /// A write.
    Request { link: LinkId, session: SessionId, request: Bytes },
    /// The end of a session whose timeout has passed.
    Expire(SessionId),
}

impl fmt::Display for ToLeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask(entry) => entry.fmt(f),
            Self::Validate { link, session } => write!(f, "validate {session} for {link}"),
            Self::Touched(sessions) => {
                let names = sessions.iter().map(|session| session.to_string());
                write!(f, "touched: {}", names.collect::<Vec<_>>().join(", "))
            }
            Self::Join { applied } => write!(f, "join after entry {applied}"),
        }
    }
}

impl fmt::Display for ToFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ping => write!(f, "ping"),
            Self::Commit(place, entry) => write!(f, "commit {place}: {entry}"),
            Self::UpToDate => write!(f, "up to date"),
            Self::Validated { link } => write!(f, "validated for {link}"),
            Self::Synced { link } => write!(f, "synced for {link}"),
            Self::Moved { link } => write!(f, "session of {link} has moved"),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { link, .. } => write!(f, "open a session for {link}"),
            Self::Request { link, request, .. } => write!(f, "{} of {link}", header(request).op),
            Self::Expire(session) => write!(f, "expire {session}"),
        }
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, connection } = self;
        write!(f, "zk{server}#{connection}")
    }
}
