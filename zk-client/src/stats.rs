//! What a client tells of itself in numbers, for metrics.
//!
//! A copy of counters that the session keeps anyway; making one allocates the server's name and
//! nothing else.

use std::time::Duration;

use zk_proto::{SessionId, Zxid};

use crate::config::Host;
use crate::model::event::SessionState;

/// A client in numbers, at one moment: see [`Client::stats`](crate::Client::stats).
///
/// Counters only grow, and begin at zero with the client. What a service exports of them is most
/// often the depth of the queue, the last round trip, and how often the connection was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Where the session stands.
    pub state: SessionState,
    /// The session, once a server has given one.
    pub session: Option<SessionId>,
    /// The session timeout: the server's, or the wanted one before the first connection.
    pub session_timeout: Duration,
    /// How long ago this client had its first connection. A session that was taken up from another
    /// client is older.
    pub age: Option<Duration>,
    /// How long the connection has been there, if it is.
    pub connected_for: Option<Duration>,
    /// The server that the client is connected to, as the connect string names it. A
    /// [session](crate::session::Session) without a client does not know it.
    pub server: Option<Host>,
    /// The highest transaction that a reply has told of.
    pub last_zxid: Zxid,
    /// Attempts at servers.
    pub attempts: u64,
    /// Attempts that became a connection. All but the first are reconnects.
    pub connections: u64,
    /// Requests that were sent and have no answer, the client's own among them.
    pub in_flight: usize,
    /// Requests that wait to be sent: for the next turn of the driver or, without a connection, for
    /// a server.
    pub queued: usize,
    /// Bytes of those. [`Limits`](crate::Limits) bound this, and the sum of both numbers.
    pub queued_bytes: usize,
    /// From the last answered request's or ping's send to its answer.
    pub last_round_trip: Option<Duration>,
    /// One-shot watches that are set.
    pub watches: usize,
    /// Streams that are open.
    pub streams: usize,
    /// Nodes that are owned, or about to be created or deleted for an owner.
    pub owned_nodes: usize,
    /// Leases that have not lapsed.
    pub leases: usize,
    /// Frames that were handed to transports: requests, pings and handshakes.
    pub frames_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Pings among them.
    pub pings_sent: u64,
    /// Frames that came: replies, watch events, and answers to pings and handshakes.
    pub frames_received: u64,
    /// Their bytes. Of a reply that is too large the head alone is counted.
    pub bytes_received: u64,
    /// Watch events among them.
    pub events_received: u64,
    /// Replies among them that were [too large](crate::ErrorKind::ReplyTooLarge).
    pub replies_too_large: u64,
}

impl Stats {
    /// How often a connection was made in place of one that was lost.
    pub const fn reconnects(&self) -> u64 {
        self.connections.saturating_sub(1)
    }
}
