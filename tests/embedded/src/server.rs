//! The server on tokio: the handle, and the tasks that accept connections and keep time.
//!
//! They and the connections share one state machine (`shared`); dropping the handle ends them all.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tracing::{debug, warn};
use zk_proto::SessionId;

use crate::config::Config;
use crate::core::Core;
use crate::fault::Fault;
use crate::history::Commit;
use crate::shared::{Shared, now};
use crate::wire::{connect, serve};

/// Servers that this process has started.
static STARTED: AtomicI64 = AtomicI64::new(0);

/// How long to wait before the next connection is accepted when none could be.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A ZooKeeper server inside this process.
///
/// It keeps its tree in memory, so it ends with the handle, and everything in it. Handles are not
/// clones of each other: share one behind an `Arc`.
///
/// # Runtime
///
/// A server lives on the tokio runtime that it was started on, and ends with it: one that several
/// `#[tokio::test]` share must be started on a runtime that outlives them all. Its methods may be
/// called from anywhere. Time is that runtime's, paused or not.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = zk_embedded::Server::start().await?;
/// println!("a ZooKeeper server listens on {}", server.address());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    address: String,
    shared: Arc<Shared>,
    /// Those that listen and keep time: they end with the handle.
    tasks: JoinSet<()>,
}

impl Server {
    /// Starts a server with the default settings on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// Those of binding a socket.
    ///
    /// # Panics
    ///
    /// As tokio does, outside of a runtime with time and io enabled.
    pub async fn start() -> io::Result<Self> {
        Self::with(Config::new()).await
    }

    /// Starts a server with other settings.
    ///
    /// # Errors
    ///
    /// Those of binding a socket.
    ///
    /// # Panics
    ///
    /// As tokio does, outside of a runtime with time and io enabled.
    pub async fn with(mut config: Config) -> io::Result<Self> {
        let socket = match config.listen {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // As tokio's own bind has it: a port whose last connections linger can be taken again.
        #[cfg(not(windows))]
        socket.set_reuseaddr(true)?;
        socket.bind(config.listen)?;
        let listener = socket.listen(config.listen_backlog)?;
        config.listen = listener.local_addr()?;
        let address = config.listen.to_string();
        let mut server = Self::new(config, address);
        server.tasks.spawn(accept(listener, Arc::clone(&server.shared)));
        Ok(server)
    }

    /// Starts a server without a socket: clients reach it by [`Server::connector`] and
    /// [`Server::connect`] alone. So a test on tokio's paused clock has all of time in its hands.
    /// [`Config::listen`] means nothing here.
    ///
    /// # Panics
    ///
    /// As tokio does, outside of a runtime with time enabled.
    pub fn in_memory(config: Config) -> Self {
        // A name that leads nowhere, so that nobody ends up at a real server by mistake.
        Self::new(config, "in-memory.invalid:2181".to_owned())
    }

    fn new(mut config: Config, address: String) -> Self {
        config.nth = STARTED.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(Shared::new(config));
        let mut tasks = JoinSet::new();
        tasks.spawn(keep_time(Arc::clone(&shared)));
        Self { address, shared, tasks }
    }

    /// Ends the server and waits until it does not listen any more, so that another can start at
    /// the same address.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the server like dropping the handle.
    pub async fn shutdown(mut self) {
        self.tasks.shutdown().await;
    }

    /// Where clients connect to, as a connect string has it: `127.0.0.1:PORT`. The name of a server
    /// in memory leads nowhere.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A connection in memory, as if from 127.0.0.1. It works like one over TCP, and on tokio's
    /// paused clock too.
    pub fn connect(&self) -> DuplexStream {
        connect(&self.shared)
    }

    /// What makes such connections, as the `connector` of a client's builder. It outlives the
    /// server, which then hangs up.
    ///
    /// Whatever a client names its host by will do for `H`, which is found out where it is used:
    /// `Client::builder().connector(server.connector())`.
    pub fn connector<H>(
        &self,
    ) -> impl Fn(&H) -> io::Result<DuplexStream> + Clone + Send + Sync + use<H> {
        let shared = Arc::clone(&self.shared);
        move |_| Ok(connect(&shared))
    }

    /// Calls the state machine, and tells the tasks what came of it.
    fn command<R>(&self, act: impl FnOnce(&mut Core, Instant) -> R) -> R {
        let _runtime = self.shared.runtime.enter();
        let mut running = self.shared.lock();
        let result = act(&mut running.core, now());
        self.shared.settle(&mut running, None);
        result
    }

    /// Lets something go wrong.
    pub fn inject(&self, fault: Fault) {
        self.command(|core, _| core.inject(fault));
    }

    /// How many faults have not happened yet, for instance because no request fits them.
    pub fn pending_faults(&self) -> usize {
        self.command(|core, _| core.pending_faults())
    }

    /// Takes back the faults that have not happened yet.
    pub fn clear_faults(&self) {
        self.command(|core, _| core.clear_faults());
    }

    /// Ends a session as if its time were over: see [`Core::expire`].
    pub fn expire(&self, session: SessionId) -> bool {
        self.command(|core, now| core.expire(now, session))
    }

    /// Cuts the connection of a session, which goes on: see [`Core::disconnect`].
    pub fn disconnect(&self, session: SessionId) -> bool {
        self.command(|core, _| core.disconnect(session))
    }

    /// Cuts every connection: see [`Core::disconnect_all`].
    pub fn disconnect_all(&self) {
        self.command(|core, _| core.disconnect_all());
    }

    /// Cuts the server of a session's connection off from its ensemble: see [`Core::partition`].
    pub fn partition(&self, session: SessionId) -> bool {
        self.command(|core, _| core.partition(session))
    }

    /// Ends all partitions: see [`Core::heal`].
    pub fn heal(&self) {
        self.command(Core::heal);
    }

    /// Stops or resumes to serve: see [`Core::set_serving`].
    pub fn set_serving(&self, serving: bool) {
        self.command(|core, now| core.set_serving(now, serving));
    }

    /// Makes the server read-only, or writable again: see [`Core::set_read_only`].
    pub fn set_read_only(&self, read_only: bool) {
        self.command(|core, now| core.set_read_only(now, read_only));
    }

    /// Sets the number of the next sequential child: see [`Core::preset_sequence`].
    pub fn preset_sequence(&self, path: &str, next: i32) -> bool {
        self.command(|core, _| core.preset_sequence(path, next))
    }

    /// Sets the version of a node's data: see [`Core::preset_version`].
    pub fn preset_version(&self, path: &str, version: i32) -> bool {
        self.command(|core, _| core.preset_version(path, version))
    }

    /// Removes empty containers and outlived nodes now: see [`Core::reap`].
    pub fn reap(&self) {
        self.command(Core::reap);
    }

    /// The sessions that have not ended, oldest first.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.command(|core, _| core.sessions())
    }

    /// Whether there is a node at `path`.
    pub fn has_node(&self, path: &str) -> bool {
        self.command(|core, _| core.has_node(path))
    }

    /// The names of the children of `path` in order; none if it is absent.
    pub fn children(&self, path: &str) -> Vec<String> {
        self.command(|core, _| core.children(path))
    }

    /// How many watches are set: see [`Core::watch_count`].
    pub fn watch_count(&self) -> usize {
        self.command(|core, _| core.watch_count())
    }

    /// Every change since the start, if [`Config::keep_history`] says that they are kept; else
    /// nothing.
    pub fn history(&self) -> Vec<Commit> {
        self.command(|core, _| core.history().to_vec())
    }
}

impl Drop for Server {
    /// Hangs up on everybody. The address is free again once the runtime has come to it:
    /// [`Server::shutdown`] waits for that.
    fn drop(&mut self) {
        let mut running = self.shared.lock();
        running.ended = true;
        running.wakers.values().for_each(Waker::wake_by_ref);
    }
}

/// Takes connections in until the server is dropped.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    debug!(%peer, %error, "no TCP_NODELAY");
                }
                connections.spawn(serve(stream, peer, Arc::clone(&shared)));
            }
            Err(error) => {
                warn!(%error, "cannot accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Lets what is due happen.
async fn keep_time(shared: Arc<Shared>) {
    let mut alarm = pin!(tokio::time::sleep(Duration::ZERO));
    loop {
        let deadline = {
            let mut running = shared.lock();
            running.core.handle_timeout(now());
            running.deadline = running.core.poll_timeout();
            shared.settle(&mut running, None);
            running.deadline
        };
        let mut rescheduled = pin!(shared.rescheduled.notified());
        poll_fn(|cx| {
            if rescheduled.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            match deadline {
                Some(deadline) => {
                    if alarm.deadline().into_std() != deadline {
                        alarm.as_mut().reset(deadline.into());
                    }
                    alarm.as_mut().poll(cx)
                }
                None => Poll::Pending,
            }
        })
        .await;
    }
}
