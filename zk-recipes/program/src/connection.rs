//! The options with which every subcommand reaches its servers.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use zk_client::{
    Client, ClientBuilder, Dialect, ErrorKind, Limits, Pem, ServerName, TlsConnector, TlsOptions,
};

use crate::failure::{Failure, status, warn};

/// How to reach the servers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// The servers, and the path that all other paths are below: HOST:PORT,HOST:PORT/PATH
    #[arg(
        short,
        long,
        env = "ZK_CONNECT",
        default_value = "127.0.0.1:2181",
        value_name = "SERVERS"
    )]
    connect: String,

    /// A credential, such as digest:USER:PASSWORD. May be given more than once
    ///
    /// Other users of this machine can see the arguments of a program; the environment variable
    /// holds one credential that they cannot see.
    #[arg(long, env = "ZK_AUTH", hide_env_values = true, value_name = "SCHEME:CREDENTIAL")]
    auth: Vec<String>,

    /// For how long the servers keep the session without hearing of this program
    ///
    /// The servers may grant another time than this. If this machine fails, a lock is free again
    /// after this time.
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    session_timeout: Duration,

    /// For how long to look for a server
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    connect_timeout: Duration,

    /// The largest reply that is accepted, such as a list of many children, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().max_reply)]
    max_reply: usize,

    /// The largest request that is sent, in bytes: not more than the servers' jute.maxbuffer
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().max_request)]
    max_request: usize,

    /// What the servers understand, where they are not Apache's
    ///
    /// In ClickHouse Keeper a session ends with its connection. There, a lock may be free a moment
    /// before its holder can know, so a command must fence what it writes. To choose it for
    /// Apache's servers is safe and is not noticed: each lost connection ends the command, and what
    /// it held stays taken until its session times out.
    #[arg(long, env = "ZK_DIALECT", value_enum, default_value_t = Servers::Apache)]
    dialect: Servers,

    /// Encrypt, and trust servers whose certificates these authorities have signed, in PEM
    #[arg(long, env = "ZK_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// The certificate of this client and those up to its authority, in PEM
    #[arg(long, env = "ZK_TLS_CERT", value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    tls_cert: Option<PathBuf>,

    /// The key of this client's certificate, in PEM and not encrypted
    #[arg(long, env = "ZK_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// The name that the servers' certificates are for, where it is not that of --connect
    #[arg(long, env = "ZK_TLS_NAME", value_name = "NAME", requires = "tls_ca")]
    tls_name: Option<String>,
}

/// The servers whose dialects are known by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Servers {
    Apache,
    ClickhouseKeeper,
}

impl From<Servers> for Dialect {
    fn from(servers: Servers) -> Self {
        match servers {
            Servers::Apache => Self::apache(),
            Servers::ClickhouseKeeper => Self::clickhouse_keeper(),
        }
    }
}

impl Connection {
    /// The settings of a client. Files that are replaced while it runs are read again.
    pub(crate) fn builder(&self) -> Result<ClientBuilder, Failure> {
        let mut limits = Limits::default();
        limits.max_reply = self.max_reply;
        limits.max_request = self.max_request;
        let mut builder = Client::builder()
            .limits(limits)
            .dialect(self.dialect.into())
            .session_timeout(self.session_timeout)
            .connect_timeout(self.connect_timeout);
        if let Some(tls) = self.tls()? {
            builder = builder.connector(tls);
        }
        self.auth.iter().try_fold(builder, |builder, auth| {
            let (scheme, credential) = auth
                .split_once(':')
                .ok_or_else(|| Failure::of("--auth", "no SCHEME: before it"))?;
            Ok(builder.auth(scheme, credential.as_bytes()))
        })
    }

    fn tls(&self) -> Result<Option<TlsConnector>, Failure> {
        let Some(authorities) = &self.tls_ca else { return Ok(None) };
        let mut options = TlsOptions::new(Pem::file(authorities));
        if let Some((certificate, key)) = self.tls_cert.as_ref().zip(self.tls_key.as_ref()) {
            options = options.identity(Pem::file(certificate), Pem::file(key));
        }
        if let Some(name) = &self.tls_name {
            options = options.server_name(ServerName::Expected(name.clone()));
        }
        let connector = TlsConnector::new(options);
        connector.map(Some).map_err(|error| Failure::new(status::FAILED, error.to_string()))
    }

    /// Opens a session.
    pub(crate) async fn open(&self) -> Result<Client, Failure> {
        self.open_with(&self.builder()?).await
    }

    /// Opens the first of several sessions, with the [settings](Self::builder) of all of them.
    pub(crate) async fn open_with(&self, builder: &ClientBuilder) -> Result<Client, Failure> {
        let client = builder.clone().connect(&self.connect).await;
        client.map_err(|error| Failure::of(&self.connect, error))
    }

    /// Opens a session after another one, for as long as it takes to reach a server.
    pub(crate) async fn open_again(&self, builder: &ClientBuilder) -> Result<Client, Failure> {
        loop {
            let pause = tokio::time::sleep(self.connect_timeout);
            match builder.clone().connect(&self.connect).await {
                Err(error) if error.kind() == ErrorKind::NoServer => {
                    warn(&format!("{}: {error}", self.connect));
                    // Servers that refuse the client for good do so at once.
                    pause.await;
                }
                opened => return opened.map_err(|error| Failure::of(&self.connect, error)),
            }
        }
    }

    /// The servers, without the path that all other paths are below.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &str> {
        self.connect.split('/').next().unwrap_or_default().split(',')
    }

    /// The path that all other paths are below: `/` if there is none.
    pub(crate) fn chroot(&self) -> &str {
        self.connect.find('/').and_then(|at| self.connect.get(at..)).unwrap_or("/")
    }

    /// The same way to reach other servers.
    pub(crate) fn to(&self, servers: &str) -> Self {
        Self { connect: servers.to_owned(), ..self.clone() }
    }

    /// Asks one server a four-letter word.
    pub(crate) async fn four_letter_word(
        &self,
        server: &str,
        word: &str,
    ) -> Result<String, Failure> {
        let answer = self.builder()?.four_letter_word(server, word).await;
        answer.map_err(|error| Failure::of(server, error))
    }

    /// The size of the largest request.
    pub(crate) fn max_request(&self) -> usize {
        self.max_request
    }

    /// For how long a server is looked for.
    pub(crate) fn timeout(&self) -> Duration {
        self.connect_timeout
    }
}

/// Parses a time in seconds, with or without a fraction.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
