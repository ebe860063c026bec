//! ZooKeeper servers as child processes: one [`Standalone`], or an [`Ensemble`] of [`Server`]s.
//!
//! Servers listen on free ports of the loopback interface and keep their data in a temporary
//! folder. Dropping a server, also by a panic, kills its process, reaps it and removes the folder;
//! where `setpriv` of util-linux is installed, a server does not outlive even a test process that
//! was killed.
//!
//! Each start looks for ZooKeeper in the folder `ZOOKEEPER_HOME` (a release, or just jars), else in
//! Debian's package `zookeeper`; and for Java in `JAVA_HOME`, else in `PATH`.
//!
//! Every wait is for an external process and is bounded by a deadline, so tests need tokio's
//! running clock, not the paused one.

mod config;
mod ensemble;
mod installation;
pub(crate) mod process;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

pub use config::{ServerConfig, ServerTls};
pub use ensemble::Ensemble;
use installation::classpath;
pub(crate) use installation::{QUICK_TO_START, java};
use process::Process;

/// How long a server may take until it serves, or an ensemble until it has a quorum.
const START_DEADLINE: Duration = Duration::from_secs(60);
/// How long a server may take to answer a four-letter word.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);
/// How long a server may take to answer a question that is repeated anyway.
const POLL_DEADLINE: Duration = Duration::from_secs(1);
/// How long to wait before repeating a question.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often a start is tried, each time on new ports, if other processes take the ports.
const START_ATTEMPTS: usize = 3;

/// The ports for servers. The default of `net.ipv4.ip_local_port_range` begins behind them.
const PORTS: Range<u16> = 10_000..32_768;

/// A server that runs alone.
pub type Standalone = Server;

/// One server, running or killed. Its address and its data never change.
#[derive(Debug)]
pub struct Server {
    // This field stands before the folder, so that the process ends before the folder is removed.
    process: Option<Process>,
    folder: TempDir,
    config: ServerConfig,
    port: u16,
    secure_port: Option<u16>,
}

impl Server {
    /// Starts a server with the default [`ServerConfig`] and returns when it serves clients.
    pub async fn start() -> anyhow::Result<Self> {
        Self::with(&ServerConfig::default()).await
    }

    /// Starts a server with `config` and returns when it serves clients.
    ///
    /// An error shows the end of the server's log.
    pub async fn with(config: &ServerConfig) -> anyhow::Result<Self> {
        Self::on(config, || Ok(free_ports(1)?[0])).await
    }

    /// Like [`with`](Self::with), on the port that `port` returns.
    ///
    /// If another process has taken that port, `port` is called again.
    pub async fn on(
        config: &ServerConfig,
        port: impl Fn() -> io::Result<u16>,
    ) -> anyhow::Result<Self> {
        let create = || Ok([Server::create(config, port()?, "")?]);
        start(create).await.map(|[server]| server)
    }

    /// Where clients connect: `127.0.0.1:PORT`, or the address that [`ServerConfig::listen`] sets.
    pub fn address(&self) -> String {
        SocketAddr::new(self.config.listen, self.port).to_string()
    }

    /// Where clients connect over TLS.
    ///
    /// # Panics
    ///
    /// The server was made without [`ServerConfig::tls`].
    pub fn secure_address(&self) -> String {
        let port = self.secure_port.expect("only a server made with tls has a secure port");
        SocketAddr::new(self.config.listen, port).to_string()
    }

    /// Where the server keeps its configuration and its data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The id of the server's process, or `None` after [`kill`](Self::kill).
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref()?.child.id()
    }

    /// Kills the process (SIGKILL) and returns when it has ended; the data stays.
    ///
    /// A killed server stays killed until [`restart`](Self::restart). A paused server can be killed
    /// too.
    pub async fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It fails for a process that has ended, which is the aim.
            process.child.kill().await.ok();
        }
    }

    /// Starts the server again, with the same address and data, and returns when it serves clients.
    ///
    /// A running server is killed first.
    ///
    /// A member of an ensemble serves only in a quorum: when several are down, let their restarts
    /// run concurrently. An error shows the end of the server's log.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.kill().await;
        self.launch().await?;
        self.wait_until_serving().await
    }

    /// Stops the process without ending it (SIGSTOP) and returns when it has stopped.
    ///
    /// The kernel still accepts connections and bytes for a paused server.
    pub async fn pause(&mut self) -> anyhow::Result<()> {
        process::pause(&mut self.running()?.child).await
    }

    /// Lets a paused server continue (SIGCONT); does nothing to a running one.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        process::resume(&mut self.running()?.child)
    }

    /// Sends a four-letter word, such as `srvr`, and returns all of the answer.
    ///
    /// Fails if the server cannot be reached or has not answered in full within 5 s.
    pub async fn four_letter(&self, word: &str) -> anyhow::Result<String> {
        four_letter(&self.address(), word).await
    }

    /// Returns the mode that the server reports: `leader`, `follower` or `standalone`.
    ///
    /// Returns `None` while it does not serve clients, or does not answer within 1 s.
    pub async fn mode(&self) -> Option<String> {
        mode(self.address()).await
    }

    /// Waits until the server reports this mode; see [`mode`](Self::mode).
    ///
    /// Fails if that takes more than 60 s.
    pub async fn wait_for_mode(&self, expected: Option<&str>) -> anyhow::Result<()> {
        until(async || (self.mode().await.as_deref() == expected).then_some(()))
            .await
            .with_context(|| format!("{} did not become {expected:?}", self.address()))
    }

    /// How many packets the server has received since its process started.
    ///
    /// Every four-letter word counts as one packet, also the one that this function sends: two
    /// calls in a row differ by 1. The first packet of a connection and pings count too.
    pub async fn packets_received(&self) -> anyhow::Result<u64> {
        packets_received(&self.address()).await
    }

    /// Writes the folder of a server for clients on `port`; `peers` are the lines of its
    /// configuration that make it a member of an ensemble. The server is not started.
    fn create(config: &ServerConfig, port: u16, peers: &str) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("zk-tests-").tempdir()?;
        let secure_port = config.tls.as_ref().map(|_| free_ports(1)).transpose()?;
        let secure_port = secure_port.map(|ports| ports[0]);
        config.write(folder.path(), port, secure_port, peers)?;
        Ok(Self { process: None, folder, config: config.clone(), port, secure_port })
    }

    /// Starts the Java process that serves from the folder.
    async fn launch(&mut self) -> anyhow::Result<()> {
        let folder = self.folder.path();
        let flags = match self.config.java_as_in_production {
            // ZooKeeper's own scripts pass this.
            true => "-Xmx1000m".to_owned(),
            // Most tests start a server, so it also takes little memory.
            false => format!("-Xmx256m {QUICK_TO_START}"),
        };
        let mut command = process::command(java());
        command
            .current_dir(folder)
            .args(flags.split(' '))
            .args(self.config.properties())
            .arg("-classpath")
            .arg(classpath(folder)?)
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(folder.join(config::FILE));
        self.process = Some(Process::start(command, &folder.join("server.log")).await?);
        Ok(())
    }

    /// Waits until the launched process, and not another one that took its port, serves clients.
    async fn wait_until_serving(&mut self) -> anyhow::Result<()> {
        let (address, folder) = (self.address(), self.folder.path().display().to_string());
        let serves = async || {
            mode(address.clone()).await.is_some()
                && four_letter(&address, "conf").await.is_ok_and(|conf| conf.contains(&folder))
        };
        self.running()?.wait_until(serves).await
    }

    /// The process, or an error after [`kill`](Self::kill).
    fn running(&mut self) -> anyhow::Result<&mut Process> {
        self.process.as_mut().context("the server was killed")
    }
}

/// Starts the servers that `create` makes, and returns when all of them serve clients. If another
/// process took one of their ports, tries again with new servers on other ports.
async fn start<S: AsMut<[Server]>>(create: impl Fn() -> anyhow::Result<S>) -> anyhow::Result<S> {
    let mut attempt = 1;
    loop {
        let mut servers = create()?;
        let started = async {
            for server in servers.as_mut() {
                server.launch().await?;
            }
            for server in servers.as_mut() {
                server.wait_until_serving().await?;
            }
            Ok(())
        };
        let started = started.await;
        // A member of an ensemble serves clients without its port for elections, and ends later.
        let mut processes = servers.as_mut().iter().filter_map(|server| server.process.as_ref());
        let lost_a_port = processes.any(Process::lost_a_port);
        match started {
            Ok(()) if !lost_a_port => return Ok(servers),
            _ if lost_a_port && attempt < START_ATTEMPTS => attempt += 1,
            Ok(()) => bail!("another process took a port of each of {attempt} attempts"),
            Err(error) => return Err(error),
        }
    }
}

/// Asks until there is an answer. Fails if that takes more than 60 s.
pub(crate) async fn until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> anyhow::Result<T> {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    timeout(START_DEADLINE, asking).await.with_context(|| format!("not within {START_DEADLINE:?}"))
}

/// Different ports of 127.0.0.1 that nothing listened on a moment ago.
///
/// They are below the ports that Linux gives to outgoing connections, which could otherwise take
/// them while a server is about to listen or is killed.
pub(crate) fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let mut listeners = Vec::new();
    while listeners.len() < count {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, fastrand::u16(PORTS))) {
            Ok(listener) => listeners.push(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

/// The mode that the server at `address` reports, such as `leader`; `None` while it does not serve
/// clients, or if it answers too slowly.
async fn mode(address: String) -> Option<String> {
    let answer = timeout(POLL_DEADLINE, ask(&address, "srvr")).await.ok()?.ok()?;
    field(&answer, "Mode").map(str::to_owned)
}

/// [`Server::four_letter`] of the server at `address`, of any kind.
pub async fn four_letter(address: &str, word: &str) -> anyhow::Result<String> {
    let answer = timeout(ANSWER_DEADLINE, ask(address, word)).await;
    answer
        .unwrap_or_else(|elapsed| Err(elapsed.into()))
        .with_context(|| format!("{address} did not answer {word:?}"))
}

/// [`Server::packets_received`] of the server at `address`, of any kind.
pub async fn packets_received(address: &str) -> anyhow::Result<u64> {
    let answer = four_letter(address, "srvr").await?;
    let count = field(&answer, "Received").context("`srvr` tells no count of packets")?;
    Ok(count.parse()?)
}

/// The whole answer of the server at `address` to a four-letter word.
async fn ask(address: &str, word: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(word.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The value in the line `name: value` of an answer to `srvr`.
pub(crate) fn field<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
