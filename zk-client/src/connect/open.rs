//! The ways from settings to a client whose session runs: with a wait for the first server, without
//! one, or with a driver that the caller polls.
//!
//! Settings are checked here, so a wrong one fails before anything is spawned. This file does not
//! know what the first connection has to show.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{ConnectString, SessionConfig};
use crate::connect::builder::ClientBuilder;
use crate::connect::first_connection::FirstConnection;
use crate::driver::clock::Clock;
use crate::driver::shared_session::SharedSession;
use crate::driver::task::Driver;
use crate::driver::unique_names::UniqueNames;
use crate::error::{Cause, Error};
use crate::handles::client::{Client, Reply};
use crate::net::hosts::Hosts;
use crate::random::{Random, entropy};
use crate::session::Session;

/// The longest session timeout that the protocol can express.
const MAX_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

impl ClientBuilder {
    /// Connects, and fails if no server accepts the session within the connect timeout.
    ///
    /// It fails earlier if every server would refuse the next attempt, too: because of a
    /// certificate that is not trusted or is missing, or because there is no valid credential for
    /// SASL.
    ///
    /// # Errors
    ///
    /// A connect string or setting that breaks a rule; no server in time, with every server tried
    /// and why each failed; authentication that failed; a chroot that does not exist; a resumed
    /// session that is over; no tokio runtime.
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
        let first_connection = parts.first_connection();
        spawn(parts.driver)?;
        first_connection
            .with_timeout(timeout, async |error| Err(error))
            .await
            .map(|()| parts.client)
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
            return Err(Cause::Setting(rule).into());
        }
        if self.connect_timeout.is_zero() {
            let rule = "connect timeout 0 s: it takes some time to connect";
            return Err(Cause::Setting(rule.to_owned()).into());
        }
        if self.resume.is_some() && self.dialect.ends_sessions() {
            let rule = "a session to resume: in this dialect it has ended with its connection";
            return Err(Cause::Setting(rule.to_owned()).into());
        }
        tokio::runtime::Handle::try_current().map_err(|_| Cause::NoRuntime)?;
        let mut random = Random::new(self.seed.unwrap_or_else(entropy));
        let client = self.seed.map_or_else(entropy, |_| random.next());
        let mut config = SessionConfig::new(timeout, hosts.len());
        config.sasl = self.sasl;
        config.resume = self.resume;
        config.limits = self.limits;
        config.deadline_rule = self.deadline_rule;
        config.allow_read_only = self.allow_read_only;
        config.dialect = self.dialect;
        let clock = self.clock.unwrap_or_else(Clock::of_this_machine);
        let hosts = Hosts::new(hosts, random.next());
        let shared =
            SharedSession::new(Session::new(config), hosts, UniqueNames { client, random }, clock);
        let max_reply = self.limits.max_reply;
        let driver = Driver::new(Arc::clone(&shared), self.connector, self.losses, max_reply);
        let client = Client::new(Arc::clone(&shared), chroot.clone());
        let sent = self.credentials.into_iter().map(|credential| client.send_auth(credential));
        let auth_replies = sent.collect::<Result<_, _>>()?;
        let chroot = chroot.as_str().map(str::to_owned);
        Ok(Parts { client, shared, chroot, auth_replies, driver })
    }
}

/// A client whose driver does not run yet.
pub(crate) struct Parts {
    pub(crate) client: Client,
    pub(crate) shared: Arc<SharedSession>,
    chroot: Option<String>,
    /// The replies to the credentials that the builder was given.
    auth_replies: Vec<Reply<()>>,
    pub(crate) driver: Driver,
}

impl Parts {
    /// What the caller must wait for before the client is returned.
    pub(crate) fn first_connection(&mut self) -> FirstConnection {
        FirstConnection {
            client: self.client.clone(),
            shared: Arc::clone(&self.shared),
            chroot: self.chroot.take(),
            auth_replies: std::mem::take(&mut self.auth_replies),
        }
    }
}

fn spawn(driver: Driver) -> Result<(), Error> {
    let runtime = tokio::runtime::Handle::try_current().map_err(|_| Cause::NoRuntime)?;
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
