//! How a client connects: its settings, the wait for the first server, and the errors if there is
//! none.

use std::collections::hash_map::RandomState;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::auth::credentials::Credential;
use crate::auth::sasl::{Sasl, SaslMechanism};
use crate::client::Client;
use crate::config::{ConnectString, DeadlineRule, Limits, SessionConfig, SessionCredentials};
use crate::driver::clock::Clock;
use crate::driver::shared_session::{SharedSession, UniqueNames};
use crate::driver::task::Driver;
use crate::error::{Attempt, Error, Fault};
use crate::handles::reply::Reply;
use crate::net::four_letter;
use crate::net::hosts::{Hosts, Random};
use crate::net::transport::{Connector, TcpConnector};
use crate::session::Session;

/// The longest session timeout that the protocol can express.
const MAX_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

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
    session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    limits: Limits,
    connector: Arc<dyn Connector>,
    pub(crate) resume: Option<SessionCredentials>,
    pub(crate) sasl: Option<Sasl>,
    pub(crate) seed: Option<u64>,
    deadline_rule: DeadlineRule,
    allow_read_only: bool,
    clock: Option<Clock>,
    credentials: Vec<Credential>,
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
            clock: None,
            credentials: Vec::new(),
        }
    }
}

impl ClientBuilder {
    /// Sets how long the session lives without a sign of life. Default: 10 s.
    ///
    /// The server clamps it, by default to between 2 and 20 of its ticks.
    /// [`Client::session_timeout`] returns the negotiated timeout.
    pub fn session_timeout(self, timeout: Duration) -> Self {
        Self { session_timeout: timeout, ..self }
    }

    /// Sets how long [`connect`](Self::connect) tries to reach a server. Default: 10 s.
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: timeout, ..self }
    }

    /// Sets caps on what the client holds in memory.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets how connections are made. Default: [`TcpConnector`].
    pub fn connector(self, connector: impl Connector) -> Self {
        Self { connector: Arc::new(connector), ..self }
    }

    /// Proves an identity on every connection, ahead of all requests: see [`Client::add_auth`].
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
    pub fn session(self, session: SessionCredentials) -> Self {
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
    /// the client moves there as gracefully as by [`set_servers`](Client::set_servers).
    ///
    /// A session on a read-only server is not a session of the ensemble. Until a client has reached
    /// a server that serves writes, it has [no session](Client::session), so none can expire
    /// however long the client is cut off. Its first session begins at that server, and its watches
    /// are kept. A client that has a session keeps it, but servers since 3.7 do not accept it while
    /// they are read-only: the client looks for another server, until it must assume that the
    /// session has expired.
    pub fn allow_read_only(self, allowed: bool) -> Self {
        Self { allow_read_only: allowed, ..self }
    }

    /// Sets a function that returns how long the machine has been suspended.
    ///
    /// The time counts from any fixed moment. The function is for systems on which the client
    /// cannot measure this by itself: see [`Clock`]. It is called often, on any thread and under a
    /// lock, so it must be quick and must not use the client.
    pub fn suspended(self, suspended: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { clock: Some(Clock::new(suspended)), ..self }
    }

    /// Connects, and fails if no server accepts the session within the connect timeout.
    ///
    /// It fails earlier if TLS shows that every server would refuse the next attempt, too: because
    /// of a certificate that is not trusted, or because a certificate is missing.
    ///
    /// # Errors
    ///
    /// A connect string or setting that breaks a rule; no server in time, with every server tried
    /// and why each failed; a chroot that does not exist; a resumed session that is over.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the attempt; a session that was opened meanwhile is closed again.
    ///
    /// # Panics
    ///
    /// Panics, as tokio does, in a runtime without time or io enabled.
    pub async fn connect(self, servers: &str) -> Result<Client, Error> {
        let timeout = self.connect_timeout;
        let mut parts = self.parts(servers.parse()?)?;
        let settling = parts.settling();
        spawn(parts.driver)?;
        settling.within(timeout, async |error| Err(error)).await.map(|()| parts.client)
    }

    /// Starts to connect and returns at once.
    ///
    /// The client keeps trying; requests wait until it succeeds. It does not check whether the
    /// chroot exists.
    ///
    /// # Errors
    ///
    /// A connect string or setting that breaks a rule; no tokio runtime.
    ///
    /// # Panics
    ///
    /// Panics, as tokio does, in a runtime without time or io enabled.
    pub fn connect_lazily(self, servers: &str) -> Result<Client, Error> {
        let Parts { client, driver, .. } = self.parts(servers.parse()?)?;
        spawn(driver)?;
        Ok(client)
    }

    /// Asks a server with a four-letter word: `srvr`, `mntr`, `ruok`, `conf` and so on.
    ///
    /// No session is opened. The connection is made by the builder's connector, and the server
    /// counts it as one that it has received.
    ///
    /// Servers answer the words that `4lw.commands.whitelist` allows, by default only `srvr` since
    /// ZooKeeper 3.5.3. To all others they answer that the word is not allowed. Bytes that are not
    /// UTF-8 become replacement characters. If the connection is reset behind a part of the answer,
    /// that part is returned.
    ///
    /// ```
    /// # async fn f() -> Result<(), zk_client::Error> {
    /// use zk_client::Client;
    ///
    /// let report = Client::builder().four_letter_word("zk1:2181", "srvr").await?;
    /// println!("{:?}", report.lines().find(|line| line.starts_with("Mode:")));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`](crate::ErrorKind::InvalidSetting) for a word that is not four ASCII
    /// characters, [`InvalidConnectString`](crate::ErrorKind::InvalidConnectString) for anything
    /// but one server, and [`NoServer`](crate::ErrorKind::NoServer) if the connection failed, the
    /// server did not answer within the connect timeout, or it answered with more than 16 MiB.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the connection.
    pub async fn four_letter_word(&self, server: &str, word: &str) -> Result<String, Error> {
        let letters = word.as_bytes().try_into();
        let Some(letters) = letters.ok().filter(|letters: &[u8; 4]| letters.is_ascii()) else {
            return Err(Fault::Setting(format!("{word:?} is no four-letter word")).into());
        };
        let ConnectString { hosts, chroot } = server.parse()?;
        let ([host], None) = (hosts.as_slice(), chroot.as_str()) else {
            let (string, rule) = (server.to_owned(), "a word is for one server".to_owned());
            return Err(Fault::ConnectString { string, rule }.into());
        };
        let asking = four_letter::answer(&*self.connector, host, letters);
        let why = match tokio::time::timeout(self.connect_timeout, asking).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        let attempt = Attempt::new(host.to_string(), why);
        Err(Fault::Word { word: word.to_owned(), attempt }.into())
    }

    /// Makes a client, and a future that does its work and can be polled anywhere.
    ///
    /// The caller decides where and when to poll the future.
    /// [`connect_lazily`](Self::connect_lazily) spawns it on tokio's runtime.
    ///
    /// The future ends when the session does. Dropping it ends the client: open requests fail, and
    /// the session is left to expire.
    ///
    /// ```
    /// # async fn f() -> Result<(), zk_client::Error> {
    /// use zk_client::Client;
    ///
    /// let (client, driver) = Client::builder().split("127.0.0.1:2181")?;
    /// let local = tokio::task::LocalSet::new();
    /// local.spawn_local(driver);
    /// local.run_until(client.get_data("/config")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A connect string or setting that breaks a rule; no tokio runtime.
    ///
    /// # Panics
    ///
    /// Panics, as tokio does, in a runtime without time or io enabled. The future uses the timers
    /// of the runtime in which this is called, and panics once that runtime is shut down.
    pub fn split(
        self,
        servers: &str,
    ) -> Result<(Client, impl Future<Output = ()> + Send + use<>), Error> {
        let Parts { client, driver, .. } = self.parts(servers.parse()?)?;
        Ok((client, driver.run()))
    }

    pub(crate) fn parts(self, servers: ConnectString) -> Result<Parts, Error> {
        let ConnectString { hosts, chroot } = servers;
        let timeout = self.session_timeout;
        if timeout < Duration::from_millis(1) || timeout > MAX_TIMEOUT {
            let longest = MAX_TIMEOUT.as_millis();
            let rule = format!("session timeout {timeout:?}: it is from 1 ms to {longest} ms");
            return Err(Fault::Setting(rule).into());
        }
        if self.connect_timeout.is_zero() {
            let rule = "connect timeout 0 s: it takes some time to connect";
            return Err(Fault::Setting(rule.to_owned()).into());
        }
        tokio::runtime::Handle::try_current().map_err(|_| Fault::NoRuntime)?;
        let mut random = Random::new(self.seed.unwrap_or_else(entropy));
        let client = self.seed.map_or_else(entropy, |_| random.next());
        let mut config = SessionConfig::new(timeout, hosts.len());
        config.sasl = self.sasl;
        config.resume = self.resume;
        config.limits = self.limits;
        config.deadline_rule = self.deadline_rule;
        config.allow_read_only = self.allow_read_only;
        let clock = self.clock.unwrap_or_else(Clock::of_this_machine);
        let hosts = Hosts::new(hosts, random.next());
        let shared =
            SharedSession::new(Session::new(config), hosts, UniqueNames { client, random }, clock);
        let max_reply = self.limits.max_reply;
        let driver = Driver::new(Arc::clone(&shared), self.connector, max_reply);
        let client = Client::new(Arc::clone(&shared), chroot.clone());
        let proofs = self.credentials.into_iter().map(|proof| client.send_auth(proof));
        let proofs = proofs.collect::<Result<_, _>>()?;
        Ok(Parts { client, shared, chroot: chroot.as_str().map(str::to_owned), proofs, driver })
    }
}

/// A client whose driver does not run yet.
pub(crate) struct Parts {
    pub(crate) client: Client,
    pub(crate) shared: Arc<SharedSession>,
    chroot: Option<String>,
    /// The replies to the credentials that the builder was given.
    proofs: Vec<Reply<()>>,
    pub(crate) driver: Driver,
}

impl Parts {
    /// What the caller must wait for before the client is returned.
    pub(crate) fn settling(&mut self) -> Settling {
        Settling {
            client: self.client.clone(),
            shared: Arc::clone(&self.shared),
            chroot: self.chroot.take(),
            proofs: std::mem::take(&mut self.proofs),
        }
    }
}

/// A client that waits for its first server.
pub(crate) struct Settling {
    client: Client,
    shared: Arc<SharedSession>,
    chroot: Option<String>,
    proofs: Vec<Reply<()>>,
}

impl Settling {
    /// Waits at most `timeout` until a server has accepted the session and the credentials.
    /// `unless` handles an error that occurs before.
    pub(crate) async fn within(
        self,
        timeout: Duration,
        unless: impl AsyncFnOnce(Error) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Self { client, shared, chroot, proofs } = self;
        let settled = async {
            match unless_refused(&shared, settled(&client, &shared, proofs, chroot)).await {
                Err(error) => unless(error).await,
                Ok(()) => Ok(()),
            }
        };
        match tokio::time::timeout(timeout, settled).await {
            Ok(settled) => settled,
            Err(_) => {
                let (timeout, attempts) = (Some(timeout), shared.attempts());
                Err(Fault::NoServer { timeout, attempts }.into())
            }
        }
    }
}

fn spawn(driver: Driver) -> Result<(), Error> {
    let runtime = tokio::runtime::Handle::try_current().map_err(|_| Fault::NoRuntime)?;
    runtime.spawn(driver.run());
    Ok(())
}

impl Client {
    /// Begins a client with settings other than the default.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Connects with the default settings: see [`ClientBuilder::connect`].
    ///
    /// The string is a list of servers and an optional chroot:
    /// `zk1:2181,zk2:2181,[2001:db8::1]:2181/shop`. The chroot is the node that this client sees as
    /// its root, and it must exist. The default port is 2181.
    pub fn connect(servers: &str) -> impl Future<Output = Result<Self, Error>> + Send {
        Self::builder().connect(servers)
    }

    /// Starts to connect with the default settings: see [`ClientBuilder::connect_lazily`].
    pub fn connect_lazily(servers: &str) -> Result<Self, Error> {
        Self::builder().connect_lazily(servers)
    }
}

/// Waits until a server has accepted the session and the credentials, and checks that the chroot
/// exists.
async fn settled(
    client: &Client,
    shared: &SharedSession,
    proofs: Vec<Reply<()>>,
    chroot: Option<String>,
) -> Result<(), Error> {
    for proof in proofs {
        proof.await?;
    }
    loop {
        let mut states = shared.states();
        // This cannot fail: the sender is in the shared session, which we hold.
        drop(states.wait_for(|state| state.is_connected() || state.ended().is_some()).await);
        if let Some(ended) = shared.state().ended() {
            return Err(ended.into());
        }
        let Some(chroot) = &chroot else {
            return Ok(());
        };
        match client.exists("/").await {
            Ok(Some(_)) => return Ok(()),
            Ok(None) => return Err(Fault::ChrootNotFound { chroot: chroot.clone() }.into()),
            Err(error) if error.is_connection_loss() => {}
            // Without the permission to read the chroot, it may well exist.
            Err(error) if error.code().is_some() => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Fails when every server has refused for good.
async fn unless_refused(
    shared: &SharedSession,
    settled: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let (mut settled, mut refused) = (pin!(settled), pin!(shared.refused_by_all()));
    poll_fn(|cx| match settled.as_mut().poll(cx) {
        Poll::Pending => refused
            .as_mut()
            .poll(cx)
            .map(|attempts| Err(Fault::NoServer { timeout: None, attempts }.into())),
        settled => settled,
    })
    .await
}

/// A random number: the standard library keys its hash maps with the operating system's randomness.
pub(crate) fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}
