//! The settings of a server: those of `zoo.cfg` whose effect a client can notice.
//!
//! Defaults are those of a real server with the sample `zoo.cfg`, so that a test that passes here
//! passes there.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use zk_proto::frame::SERVER_FRAME_LIMIT;

use crate::manner::Manner;

/// The longest time that any setting accepts, some 24 days: the most that fits into the 31 bits of
/// a session timeout. Longer times are cut to it, so that `Duration::MAX` can stand for never.
pub(crate) const MAX_TIME: Duration = Duration::from_millis(i32::MAX as u64);

/// Java's default for the number of connections that may wait to be accepted.
pub(crate) const LISTEN_BACKLOG: u32 = 50;

/// The shortest time that any setting accepts: one millisecond, the unit of all of them.
const MIN_TIME: Duration = Duration::from_millis(1);

/// The version of ZooKeeper whose behaviour to follow where versions differ.
///
/// Both are compared with real servers: 3.8.0 as Debian packages it, and 3.9.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerVersion {
    /// 3.8: one watch mode per path, notifications without a zxid, and create2 in a multi is
    /// answered like create.
    V3_8,
    /// 3.9: kinds of watches on one path are independent, notifications carry the zxid of the
    /// change that fired them, and removeWatches knows the persistent kinds.
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
    pub(crate) server_version: ServerVersion,
    pub(crate) manner: Manner,
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
    /// How many servers this process started before this one. It gives each server its own session
    /// ids.
    pub(crate) nth: i64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            listen_backlog: LISTEN_BACKLOG,
            server_version: ServerVersion::default(),
            manner: Manner::default(),
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
    /// Returns the default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the address to listen on: a free port of 127.0.0.1 by default.
    ///
    /// [`Server::with`](crate::Server::with) uses it; a server in memory ignores it.
    pub fn listen(mut self, address: impl Into<SocketAddr>) -> Self {
        self.listen = address.into();
        self
    }

    /// Sets how many connections may wait to be accepted: 50 by default.
    ///
    /// This is `clientPortListenBacklog`. Further connections are not refused; their clients try
    /// again, a second later at the earliest.
    pub fn listen_backlog(mut self, connections: u32) -> Self {
        self.listen_backlog = connections;
        self
    }

    /// Sets the version whose behaviour to follow: [`ServerVersion::V3_9`] by default.
    pub fn server_version(mut self, server_version: ServerVersion) -> Self {
        self.server_version = server_version;
        self
    }

    /// Sets in which ways the server is not Apache's: in none by default.
    ///
    /// A [`Server`](crate::Server) alone follows it; the members of an
    /// [`Ensemble`](crate::Ensemble) are Apache's.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), zk_client::Error> {
    /// use zk_client::{Client, Dialect};
    /// use zk_embedded::{Config, Manner, Server};
    ///
    /// let server = Server::in_memory(Config::new().manner(Manner::clickhouse_keeper()));
    /// let builder = Client::builder().dialect(Dialect::clickhouse_keeper());
    /// let client = builder.connector(server.connector()).connect("keeper").await?;
    ///
    /// // Its session ends with its connection.
    /// server.disconnect_all();
    /// assert!(client.get_data("/").await.unwrap_err().is_session_over());
    /// # Ok(())
    /// # }
    /// ```
    pub fn manner(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }

    /// Sets the unit of time, 2 s by default. Sessions expire at multiples of it.
    pub fn tick_time(mut self, tick_time: Duration) -> Self {
        self.tick_time = whole_millis(tick_time);
        self
    }

    /// Sets the shortest session timeout that clients get, 2 ticks by default.
    pub fn min_session_timeout(mut self, timeout: Duration) -> Self {
        self.min_session_timeout = Some(whole_millis(timeout));
        self
    }

    /// Sets the longest session timeout that clients get, 20 ticks by default.
    pub fn max_session_timeout(mut self, timeout: Duration) -> Self {
        self.max_session_timeout = Some(whole_millis(timeout));
        self
    }

    /// Sets the largest request in bytes: one byte short of a MiB by default.
    ///
    /// This is `jute.maxbuffer`. A connection that sends a larger request is closed.
    pub fn max_buffer(mut self, bytes: usize) -> Self {
        self.max_buffer = bytes;
        self
    }

    /// Sets how many connections one address may have: 60 by default, 0 for no limit.
    ///
    /// This is `maxClientCnxns`. A connection beyond the limit is accepted and closed. Connections
    /// in memory count as from 127.0.0.1.
    pub fn max_connections_per_host(mut self, connections: usize) -> Self {
        self.max_connections_per_host = connections;
        self
    }

    /// Sets whether a read-only server opens sessions of its own: not by default.
    ///
    /// This is `localSessionsEnabled`, on a server that is
    /// [read-only](crate::Server::set_read_only).
    ///
    /// Without local sessions, no client can connect to a read-only server, as since ZooKeeper 3.7:
    /// the handshake is answered with the header of a reply,
    /// [`NOT_READ_ONLY`](zk_proto::ErrorCode::NOT_READ_ONLY). Sessions that are opened while the
    /// server is not read-only belong to the ensemble in both cases; a real server keeps them to
    /// itself until they own a node.
    pub fn local_sessions(mut self, enabled: bool) -> Self {
        self.local_sessions = enabled;
        self
    }

    /// Sets whether nodes with a time to live are allowed: not by default.
    ///
    /// This is `extendedTypesEnabled`.
    pub fn extended_types(mut self, enabled: bool) -> Self {
        self.extended_types = enabled;
        self
    }

    /// Sets how often empty containers and expired nodes are removed: every 60 s by default.
    ///
    /// This is `znode.container.checkIntervalMs`.
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.container_check_interval = whole_millis(interval);
        self
    }

    /// Sets the digest, `super:BASE64`, of the superuser, who may do everything: none by default.
    pub fn super_digest(mut self, digest: impl Into<String>) -> Self {
        self.super_digest = Some(digest.into());
        self
    }

    /// Sets whether to record every change of the tree: not by default.
    ///
    /// The record is for tests that look back at the changes. It takes memory without limit.
    pub fn keep_history(mut self, keep: bool) -> Self {
        self.keep_history = keep;
        self
    }

    /// Returns the shortest and the longest session timeout that clients get.
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
