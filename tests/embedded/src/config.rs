//! What a server is told before it starts: the settings of `zoo.cfg` that a client can notice.
//!
//! Defaults are those of a real server with the sample `zoo.cfg`, so that what passes here passes
//! there.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use zk_proto::frame::SERVER_FRAME_LIMIT;

/// The longest time that any setting takes, some 24 days: what fits into the 31 bits of a session
/// timeout. Longer ones are cut to it, so that `Duration::MAX` may stand for never.
pub(crate) const MAX_TIME: Duration = Duration::from_millis(i32::MAX as u64);

/// What Java takes when nobody says how many connections may wait to be accepted.
pub(crate) const LISTEN_BACKLOG: u32 = 50;

/// The shortest: one millisecond, the unit of all of them.
const MIN_TIME: Duration = Duration::from_millis(1);

/// Whose behaviour to follow where releases of ZooKeeper differ.
///
/// Both are held against real servers, 3.8.0 as Debian packages it and 3.9.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// 3.8: one watch mode per path, notifications without a zxid, create2 in a multi answered as
    /// create.
    V3_8,
    /// 3.9: kinds of watches on one path are independent, notifications carry the zxid that fired
    /// them, removeWatches knows the persistent kinds.
    #[default]
    V3_9,
}

/// The settings of a server.
///
/// Times are whole milliseconds: at least one, and at most 2^31 - 1 of them (24 days), to which
/// longer ones are cut.
///
/// ```
/// use std::time::Duration;
/// use zk_embedded::Config;
///
/// let quick = Config::new().tick_time(Duration::from_millis(50));
/// assert_eq!(quick.session_timeouts(), (Duration::from_millis(100), Duration::from_secs(1)));
/// ```
#[derive(Clone, Debug)]
#[must_use = "settings do nothing until a server starts with them"]
pub struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) listen_backlog: u32,
    pub(crate) release: Release,
    pub(crate) tick_time: Duration,
    pub(crate) min_session_timeout: Option<Duration>,
    pub(crate) max_session_timeout: Option<Duration>,
    pub(crate) max_buffer: usize,
    pub(crate) max_connections_per_host: usize,
    pub(crate) local_sessions: bool,
    pub(crate) extended_types: bool,
    pub(crate) container_check_interval: Duration,
    pub(crate) super_digest: Option<String>,
    pub(crate) keep_history: bool,
    /// How many servers this process had before: theirs are other sessions.
    pub(crate) nth: i64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            listen_backlog: LISTEN_BACKLOG,
            release: Release::default(),
            tick_time: Duration::from_secs(2),
            min_session_timeout: None,
            max_session_timeout: None,
            max_buffer: SERVER_FRAME_LIMIT,
            max_connections_per_host: 60,
            local_sessions: false,
            extended_types: false,
            container_check_interval: Duration::from_secs(60),
            super_digest: None,
            keep_history: false,
            nth: 0,
        }
    }
}

impl Config {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where [`Server::with`](crate::Server::with) listens: a free port of 127.0.0.1 by default.
    pub fn listen(mut self, address: impl Into<SocketAddr>) -> Self {
        self.listen = address.into();
        self
    }

    /// How many connections may wait to be accepted, `clientPortListenBacklog`: 50 by default.
    /// Those beyond are not refused; their clients try again, a second later at the earliest.
    pub fn listen_backlog(mut self, connections: u32) -> Self {
        self.listen_backlog = connections;
        self
    }

    /// Whose behaviour to follow: [`Release::V3_9`] by default.
    pub fn release(mut self, release: Release) -> Self {
        self.release = release;
        self
    }

    /// The unit of time, 2 s by default. Sessions are expired at multiples of it.
    pub fn tick_time(mut self, tick_time: Duration) -> Self {
        self.tick_time = whole_millis(tick_time);
        self
    }

    /// The shortest session timeout that clients get, 2 ticks by default.
    pub fn min_session_timeout(mut self, timeout: Duration) -> Self {
        self.min_session_timeout = Some(whole_millis(timeout));
        self
    }

    /// The longest session timeout that clients get, 20 ticks by default.
    pub fn max_session_timeout(mut self, timeout: Duration) -> Self {
        self.max_session_timeout = Some(whole_millis(timeout));
        self
    }

    /// The largest request in bytes, `jute.maxbuffer`: one byte short of a MiB by default. A
    /// connection that sends a larger one is closed.
    pub fn max_buffer(mut self, bytes: usize) -> Self {
        self.max_buffer = bytes;
        self
    }

    /// Connections from one address, `maxClientCnxns`: 60 by default, 0 for any number. One more
    /// is accepted and closed. Those in memory count as from 127.0.0.1.
    pub fn max_connections_per_host(mut self, connections: usize) -> Self {
        self.max_connections_per_host = connections;
        self
    }

    /// Whether a server that is [read-only](crate::Server::set_read_only) opens sessions of its
    /// own, `localSessionsEnabled`: not by default.
    ///
    /// Without them, nobody can connect to it, as since ZooKeeper 3.7: the handshake is answered
    /// with the header of a reply, [`NOT_READ_ONLY`](zk_proto::ErrorCode::NOT_READ_ONLY). Sessions
    /// that are opened while it is not read-only are the ensemble's either way; a real server keeps
    /// them to itself until they own a node.
    pub fn local_sessions(mut self, enabled: bool) -> Self {
        self.local_sessions = enabled;
        self
    }

    /// Whether there are nodes with a time to live, `extendedTypesEnabled`: not by default.
    pub fn extended_types(mut self, enabled: bool) -> Self {
        self.extended_types = enabled;
        self
    }

    /// How often empty containers and outlived nodes are removed,
    /// `znode.container.checkIntervalMs`: every 60 s by default.
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.container_check_interval = whole_millis(interval);
        self
    }

    /// The digest, `super:BASE64`, of whoever may do everything: nobody by default.
    pub fn super_digest(mut self, digest: impl Into<String>) -> Self {
        self.super_digest = Some(digest.into());
        self
    }

    /// Whether to remember every change of the tree, for tests that look back at them: not by
    /// default, since it takes memory without end.
    pub fn keep_history(mut self, keep: bool) -> Self {
        self.keep_history = keep;
        self
    }

    /// The shortest and the longest session timeout that clients get.
    pub fn session_timeouts(&self) -> (Duration, Duration) {
        let ticks = |count| whole_millis(self.tick_time.saturating_mul(count));
        let min = self.min_session_timeout.unwrap_or_else(|| ticks(2));
        let max = self.max_session_timeout.unwrap_or_else(|| ticks(20));
        (min, max.max(min))
    }
}

fn whole_millis(time: Duration) -> Duration {
    let time = time.clamp(MIN_TIME, MAX_TIME);
    time - Duration::from_nanos(u64::from(time.subsec_nanos() % 1_000_000))
}
