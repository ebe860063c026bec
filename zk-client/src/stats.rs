//! Counters of a client, for metrics.
//!
//! `Stats` is a copy of counters that the session keeps anyway. Making one allocates only the
//! server's name and the list of operations.

use std::time::Duration;

use zk_proto::{OpCode, SessionId, Zxid};

use crate::config::Host;
use crate::model::event::SessionState;

/// The counters of a client at one moment: see [`Client::stats`](crate::Client::stats).
///
/// The [totals](Self::totals) only grow, and begin at zero with the client; the other numbers tell
/// what is now. Services most often export the depth of the queue, the last round trip, and how
/// often the connection was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The state of the session.
    pub state: SessionState,
    /// The session's id, once a server has assigned one.
    pub session: Option<SessionId>,
    /// The session timeout: as negotiated, or as requested before the first connection.
    pub session_timeout: Duration,
    /// How long ago this client made its first connection. A session that was resumed from another
    /// client is older.
    pub age: Option<Duration>,
    /// How long the current connection has been up, if there is one.
    pub connected_for: Option<Duration>,
    /// The server that the client is connected to, as the connect string names it. A
    /// [session](crate::session::Session) without a client does not know it.
    pub server: Option<Host>,
    /// The highest zxid that a reply has carried.
    pub last_zxid: Zxid,
    /// Requests that were sent and have no reply yet, including the client's own.
    pub in_flight: usize,
    /// Requests that wait to be sent: until the driver's next turn or, without a connection, until
    /// a server is reached.
    pub queued: usize,
    /// Bytes of the queued requests. [`Limits::max_queued_bytes`](crate::Limits::max_queued_bytes)
    /// bounds this, and [`max_requests`](crate::Limits::max_requests) the requests in flight and
    /// queued together.
    pub queued_bytes: usize,
    /// The time from the send of the last answered request or ping to its reply.
    pub last_round_trip: Option<Duration>,
    /// One-shot watches that are set.
    pub watches: usize,
    /// Streams that are open.
    pub streams: usize,
    /// Nodes that this client owns, or that are about to be created or deleted for an owner.
    pub owned_nodes: usize,
    /// Leases that have not lapsed.
    pub leases: usize,
    /// What was counted.
    pub totals: Totals,
}

impl Stats {
    /// How often a connection replaced one that was lost.
    pub const fn reconnects(&self) -> u64 {
        self.totals.connections.saturating_sub(1)
    }
}

/// How the requests of one operation have ended. Each request is counted once, when it ends.
///
/// A request whose caller dropped its future after it was sent counts by its reply, as any other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestCounts {
    /// The operation, whose `Display` is its name.
    pub op: OpCode,
    /// Requests that the server carried out, and whose reply was received.
    pub succeeded: u64,
    /// Requests that the server refused with an error code, among them a multi that it rolled back.
    pub refused: u64,
    /// Requests whose reply was [too large](crate::ErrorKind::ReplyTooLarge). The server carried
    /// them out, but may have rolled back a multi: its results are not known.
    pub too_large: u64,
    /// Requests that were sent and got no reply, since the connection or the session ended: the
    /// server may have carried them out or not.
    pub unanswered: u64,
    /// Requests that were never sent, since the session ended first.
    pub not_sent: u64,
    /// Requests that their callers took back before they were sent, by dropping the future.
    pub withdrawn: u64,
}

impl RequestCounts {
    pub(crate) const fn new(op: OpCode) -> Self {
        let (succeeded, refused, too_large) = (0, 0, 0);
        Self { op, succeeded, refused, too_large, unanswered: 0, not_sent: 0, withdrawn: 0 }
    }

    fn add(&mut self, more: &Self) {
        let Self { op: _, succeeded, refused, too_large, unanswered, not_sent, withdrawn } = more;
        self.succeeded += succeeded;
        self.refused += refused;
        self.too_large += too_large;
        self.unanswered += unanswered;
        self.not_sent += not_sent;
        self.withdrawn += withdrawn;
    }

    /// All requests that have ended.
    pub const fn total(&self) -> u64 {
        self.succeeded
            + self.refused
            + self.too_large
            + self.unanswered
            + self.not_sent
            + self.withdrawn
    }
}

/// What a client has counted since it was made, or a keeper over all of its sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Attempts to connect to a server.
    pub attempts: u64,
    /// Attempts that led to a connection. All but the first of a session are
    /// reconnects.
    pub connections: u64,
    /// Frames that were handed to the transport: requests, pings and handshakes.
    pub frames_sent: u64,
    /// Bytes of the frames that were sent.
    pub bytes_sent: u64,
    /// Pings among the frames that were sent.
    pub pings_sent: u64,
    /// Frames that were received: replies, watch events, and replies to pings and handshakes.
    pub frames_received: u64,
    /// Bytes of the received frames. Of a reply that is too large, only the head is counted.
    pub bytes_received: u64,
    /// Watch events among the received frames.
    pub events_received: u64,
    /// Replies among the received frames that were [too large](crate::ErrorKind::ReplyTooLarge).
    pub replies_too_large: u64,
    /// How the requests have ended, by operation. An operation that has had no request is not in
    /// the list. The order is that of the first end.
    ///
    /// The requests that the client makes by itself are counted too: watches that it sets again,
    /// credentials, requests about owned nodes, the end of the session. Pings are not,
    /// and neither are calls that fail before they are queued. A call that is repeated by
    /// [`resolving`](crate::Client::resolving) or by the application counts each time.
    pub requests: Vec<RequestCounts>,
    /// How long the requests took that were answered, from the send of each to its reply.
    ///
    /// All answered requests are in it, whatever the server answered, and those that the client
    /// made by itself too. Pings and unanswered requests are not. The time that a request waited to
    /// be sent is not in it: see [`Stats::queued`] for that.
    pub latencies: Latencies,
}

impl Totals {
    /// Counts a request of this operation that has ended. Only the first one allocates. A session
    /// uses few operations: a search is cheaper than a map.
    #[inline]
    pub(crate) fn count(&mut self, op: OpCode, count: impl FnOnce(&mut RequestCounts)) {
        match self.requests.iter_mut().find(|counts| counts.op == op) {
            Some(counts) => count(counts),
            None => {
                let mut counts = RequestCounts::new(op);
                count(&mut counts);
                self.requests.push(counts);
            }
        }
    }

    /// Adds what another session has counted.
    pub(crate) fn add(&mut self, more: Self) {
        self.attempts += more.attempts;
        self.connections += more.connections;
        self.frames_sent += more.frames_sent;
        self.bytes_sent += more.bytes_sent;
        self.pings_sent += more.pings_sent;
        self.frames_received += more.frames_received;
        self.bytes_received += more.bytes_received;
        self.events_received += more.events_received;
        self.replies_too_large += more.replies_too_large;
        self.latencies.add(&more.latencies);
        for counts in more.requests {
            match self.requests.iter_mut().find(|total| total.op == counts.op) {
                Some(total) => total.add(&counts),
                None => self.requests.push(counts),
            }
        }
    }
}

/// The counters of all sessions of a keeper: see
/// [`SessionKeeper::stats`](crate::SessionKeeper::stats).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeeperStats {
    /// Sessions that the keeper has begun, with the current one. A session counts before a server
    /// has accepted it.
    pub sessions: u64,
    /// What all sessions have counted.
    pub totals: Totals,
}

impl KeeperStats {
    /// Adds one more session.
    pub(crate) fn add(&mut self, session: Stats) {
        self.sessions += 1;
        self.totals.add(session.totals);
    }
}

/// A histogram of times, in fixed buckets.
///
/// ```
/// use std::time::Duration;
/// use zk_client::Latencies;
///
/// let mut latencies = Latencies::default();
/// latencies.record(Duration::from_micros(700));
/// let within = latencies.cumulative().find(|(bound, _)| *bound == Duration::from_millis(1));
/// assert_eq!(within, Some((Duration::from_millis(1), 1)));
/// assert_eq!((latencies.count(), latencies.sum()), (1, Duration::from_micros(700)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// The times of each bucket alone, and last those above all bounds.
    buckets: [u64; Self::BOUNDS.len() + 1],
    /// The sum in microseconds.
    sum_us: u64,
}

impl Latencies {
    /// The upper bounds of the buckets, in order. A time that equals a bound counts in the
    /// bucket of that bound. Longer ones than the last are counted in a bucket without a bound.
    pub const BOUNDS: [Duration; 16] = [
        Duration::from_micros(100),
        Duration::from_micros(250),
        Duration::from_micros(500),
        Duration::from_millis(1),
        Duration::from_micros(2_500),
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(25),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(250),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_millis(2_500),
        Duration::from_secs(5),
        Duration::from_secs(10),
    ];

    /// The number of latencies that are at most each of the [bounds](Self::BOUNDS), with the bound.
    /// The numbers grow from one to the next.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> + use<> {
        let counts = self.buckets.into_iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        Self::BOUNDS.into_iter().zip(counts)
    }

    /// The number of latencies in the histogram.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of the times, each rounded down to a microsecond.
    pub const fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_us)
    }

    /// Adds a time.
    #[inline]
    pub fn record(&mut self, took: Duration) {
        let index = Self::BOUNDS.iter().take_while(|bound| **bound < took).count();
        self.buckets.iter_mut().skip(index).take(1).for_each(|bucket| *bucket += 1);
        self.sum_us = self.sum_us.saturating_add(took.as_micros() as u64);
    }

    fn add(&mut self, more: &Self) {
        self.buckets.iter_mut().zip(more.buckets).for_each(|(sum, count)| *sum += count);
        self.sum_us = self.sum_us.saturating_add(more.sum_us);
    }
}
