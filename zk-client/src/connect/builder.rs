//! The settings of a client that is about to connect.
//!
//! A builder only keeps them: each way to connect checks them and makes a client. This file opens
//! no connection.

use std::sync::Arc;
use std::time::Duration;

use crate::auth::credentials::Credential;
use crate::auth::sasl::{Sasl, SaslMechanism};
use crate::config::{DeadlineRule, Dialect, Limits, SessionConfig, SessionIdentity};
use crate::driver::clock::Clock;
use crate::net::transport::{Connector, TcpConnector};
#[cfg(feature = "sasl-digest-md5")]
use crate::random::entropy;
use crate::session::SharedLosses;

/// Settings of a client that is about to connect.
///
/// ```
/// # async fn f() -> Result<(), zk_client::Error> {
/// use std::time::Duration;
/// use zk_client::Client;
///
/// let client = Client::builder()
///     .session_timeout(Duration::from_secs(6))
///     .connect_timeout(Duration::from_secs(3))
///     .connect("zk1:2181,zk2:2181,zk3:2181/shop")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    pub(crate) session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) limits: Limits,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) resume: Option<SessionIdentity>,
    pub(crate) sasl: Option<Sasl>,
    pub(crate) seed: Option<u64>,
    pub(crate) deadline_rule: DeadlineRule,
    pub(crate) allow_read_only: bool,
    pub(crate) dialect: Dialect,
    pub(crate) clock: Option<Clock>,
    pub(crate) credentials: Vec<Credential>,
    /// On which requests servers have hung up, for the clones of this builder.
    pub(crate) losses: SharedLosses,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            session_timeout: SessionConfig::DEFAULT_TIMEOUT,
            connect_timeout: SessionConfig::DEFAULT_TIMEOUT,
            limits: Limits::default(),
            connector: Arc::new(TcpConnector),
            resume: None,
            sasl: None,
            seed: None,
            deadline_rule: DeadlineRule::default(),
            allow_read_only: false,
            dialect: Dialect::default(),
            clock: None,
            credentials: Vec::new(),
            losses: SharedLosses::default(),
        }
    }
}

impl ClientBuilder {
    /// Sets how long the session lives without a sign of life. Default: 10 s.
    ///
    /// The server clamps it, by default to between 2 and 20 of its ticks.
    /// [`Client::session_timeout`](crate::Client::session_timeout) returns the negotiated timeout.
    pub fn session_timeout(self, timeout: Duration) -> Self {
        Self { session_timeout: timeout, ..self }
    }

    /// Sets how long [`connect`](Self::connect) tries to reach a server. Default: 10 s.
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: timeout, ..self }
    }

    /// Sets limits on memory and on the size of requests and replies.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets how connections are made. Default: [`TcpConnector`].
    pub fn connector(self, connector: impl Connector) -> Self {
        Self { connector: Arc::new(connector), ..self }
    }

    /// Proves an identity on every connection, ahead of all requests.
    ///
    /// See [`Client::add_auth`](crate::Client::add_auth).
    ///
    /// Call it once for each identity.
    ///
    /// [`connect`](Self::connect) fails with [`AuthFailed`](crate::ErrorKind::AuthFailed) if the
    /// server refuses a credential.
    pub fn auth(mut self, scheme: &str, auth: &[u8]) -> Self {
        self.credentials.push(Credential::new(scheme, auth));
        self
    }

    /// Authenticates by this mechanism of SASL on every connection, ahead of everything else.
    ///
    /// Queued requests wait until both sides have authenticated. A server keeps the identity for
    /// the connection, not for the session, so each connection begins with a new exchange. A
    /// mechanism whose [start](SaslMechanism::start) may block, as that of Kerberos, runs on
    /// tokio's threads for blocking work; a runtime that is dropped waits for it.
    ///
    /// If the server refuses, has no SASL, or does not authenticate itself,
    /// [`connect`](Self::connect) fails with [`AuthFailed`](crate::ErrorKind::AuthFailed), whose
    /// text says which of these it was. If that happens later, every request fails with it. The
    /// session itself goes on at the ensemble until its timeout has passed. `connect` fails with
    /// the same kind if this side has [no valid credential](crate::SaslError::Credential).
    pub fn sasl(self, mechanism: impl SaslMechanism) -> Self {
        Self { sasl: Some(Sasl::new(mechanism)), ..self }
    }

    /// Authenticates by SASL's DIGEST-MD5 on every connection, ahead of everything else.
    ///
    /// The user is one of those in the section `Server` of the servers' JAAS configuration. The
    /// server must show that it knows the password, too. What [`sasl`](Self::sasl) says holds here.
    ///
    /// An access list names the user by the scheme `sasl`, with `user` as id. The password does not
    /// go over the wire, but anyone who records the exchange can guess passwords offline: use it
    /// over TLS.
    ///
    /// ```
    /// # async fn f() -> Result<(), zk_client::Error> {
    /// use zk_client::Client;
    ///
    /// let builder = Client::builder().sasl_digest_md5("bob", "secret");
    /// let client = builder.connect("zk1:2181,zk2:2181,zk3:2181").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "sasl-digest-md5")]
    pub fn sasl_digest_md5(self, user: &str, password: &str) -> Self {
        let seed = u128::from(entropy()) << 64 | u128::from(entropy());
        Self { sasl: Some(Sasl::digest_md5(user, password, seed)), ..self }
    }

    /// Resumes a session that another client began, instead of opening a new one.
    ///
    /// The servers close the other client's connection, so the other client must have stopped.
    pub fn session(self, session: SessionIdentity) -> Self {
        Self { resume: Some(session), ..self }
    }

    /// Makes the client's random choices repeatable: the order of servers, waits, and unique names.
    ///
    /// This is for tests and simulations only: two clients with the same seed make the same names.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Sets how the client computes until when the ensemble certainly keeps the session.
    ///
    /// Default: [`DeadlineRule::Quorum`].
    pub fn deadline_rule(self, rule: DeadlineRule) -> Self {
        Self { deadline_rule: rule, ..self }
    }

    /// Sets whether the client may use a read-only server while it finds no other. Default: no.
    ///
    /// A server without a quorum is [read-only](crate::SessionState::ConnectedReadOnly) if it runs
    /// with `readonlymode.enabled`, and since 3.7 also with `localSessionsEnabled`. Reads and
    /// watches work there, and show the data that the server had when it lost the others. It
    /// refuses every write and sync with [`NotReadOnly`](crate::ErrorCode::NOT_READ_ONLY), at once
    /// and for good. Meanwhile the client asks all servers whether they serve writes, by the
    /// four-letter word `isro`, at intervals that grow from 100 ms up to a minute. When one does,
    /// the client moves there as gracefully as by [`set_servers`](crate::Client::set_servers).
    ///
    /// A session on a read-only server is not a session of the ensemble. Until a client has reached
    /// a server that serves writes, it has [no session](crate::Client::session), so none can expire
    /// however long the client is cut off. Its first session begins at that server, and its watches
    /// are kept. A client that has a session keeps it, but servers since 3.7 do not accept it while
    /// they are read-only: the client looks for another server, until it must assume that the
    /// session has expired.
    pub fn allow_read_only(self, allowed: bool) -> Self {
        Self { allow_read_only: allowed, ..self }
    }

    /// Sets what the servers understand. Default: [`Dialect::apache`].
    ///
    /// Set it for servers of other makers: most of them close the connection on a request that they
    /// do not know, and some end the session with it.
    ///
    /// A dialect in which [sessions end with their connections](Dialect::ends_sessions) has no
    /// session to [resume](Self::session): both together are
    /// [`InvalidSetting`](crate::ErrorKind::InvalidSetting).
    ///
    /// ```
    /// # async fn f() -> Result<(), zk_client::Error> {
    /// use zk_client::{Client, Dialect};
    ///
    /// let builder = Client::builder().dialect(Dialect::clickhouse_keeper());
    /// let client = builder.connect("keeper1:9181,keeper2:9181,keeper3:9181").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn dialect(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }

    /// Sets a function that returns how long the machine has been suspended.
    ///
    /// The time counts from any fixed moment. The function is for systems on which the client
    /// cannot measure this by itself: see [`Clock`]. It is called often, on any thread and under a
    /// lock, so it must be quick and must not use the client.
    pub fn suspend_time(self, suspend_time: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { clock: Some(Clock::new(suspend_time)), ..self }
    }
}
