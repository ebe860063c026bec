//! The server on tokio: the handle, and the tasks that accept connections and keep time.
//!
//! These tasks and the connections share one state machine (`shared`). Dropping the handle ends all
//! of them.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tracing::{debug, warn};
use zk_proto::{SessionId, Stat, Zxid};

use crate::config::Config;
use crate::core::{Core, Watch};
use crate::fault::Fault;
use crate::history::Commit;
use crate::mutation::Mutation;
use crate::shared::{Machine, Shared, now};
use crate::snapshot::SnapshotError;
use crate::wire::{connect, serve};

/// The number of servers that this process has started.
pub(crate) static STARTED: AtomicI64 = AtomicI64::new(0);

/// How long to wait before accepting again after accepting a connection has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A ZooKeeper server inside this process.
///
/// The server keeps its tree in memory, so the tree is gone when the handle is dropped. A handle
/// cannot be cloned: share one behind an `Arc`.
///
/// # Runtime
///
/// A server runs on the tokio runtime that it was started on, and ends with it. If several
/// `#[tokio::test]` share a server, start it on a runtime that outlives them all. Its methods may
/// be called from anywhere. It uses the clock of that runtime, paused or not.
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
    /// The tasks that accept connections and keep time. They end with the handle.
    tasks: JoinSet<()>,
}

impl Server {
    /// Starts a server with the default settings on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// The errors of binding a socket.
    ///
    /// # Panics
    ///
    /// Panics as tokio does when called outside of a runtime with time and io enabled.
    pub async fn start() -> io::Result<Self> {
        Self::with(Config::new()).await
    }

    /// Starts a server with the given settings.
    ///
    /// # Errors
    ///
    /// The errors of binding a socket.
    ///
    /// # Panics
    ///
    /// Panics as tokio does when called outside of a runtime with time and io enabled.
    pub async fn with(mut config: Config) -> io::Result<Self> {
        let listener = listen(config.listen, config.listen_backlog)?;
        config.listen = listener.local_addr()?;
        let address = config.listen.to_string();
        let mut server = Self::new(config, address);
        server.tasks.spawn(accept(listener, 0, Arc::clone(&server.shared)));
        Ok(server)
    }

    /// Starts a server without a socket.
    ///
    /// Clients reach it only by [`Server::connector`] and [`Server::connect`]. So a test on tokio's
    /// paused clock fully controls the time. [`Config::listen`] is ignored.
    ///
    /// # Panics
    ///
    /// Panics as tokio does when called outside of a runtime with time enabled.
    pub fn in_memory(config: Config) -> Self {
        // A name that does not resolve, so that no client connects to a real server by mistake.
        Self::new(config, "in-memory.invalid:2181".to_owned())
    }

    fn new(mut config: Config, address: String) -> Self {
        config.nth = STARTED.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(Shared::new(config));
        let mut tasks = JoinSet::new();
        tasks.spawn(keep_time(Arc::clone(&shared)));
        Self { address, shared, tasks }
    }

    /// Ends the server and waits until it no longer listens.
    ///
    /// After that, another server can start at the same address.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the server, as dropping the handle does.
    pub async fn shutdown(mut self) {
        self.tasks.shutdown().await;
    }

    /// Returns the connect string of the server: `127.0.0.1:PORT`.
    ///
    /// The name of a server in memory does not resolve.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Opens a connection in memory, which seems to come from 127.0.0.1.
    ///
    /// It works like a connection over TCP, and works on tokio's paused clock too.
    pub fn connect(&self) -> DuplexStream {
        connect(&self.shared, 0)
    }

    /// Returns a function that opens connections in memory, for a client builder's `connector`.
    ///
    /// The function outlives the server; its connections are then closed at once.
    ///
    /// `H` is the client's type of host name. Any type is accepted, and the compiler infers it
    /// where the function is used: `Client::builder().connector(server.connector())`.
    pub fn connector<H>(
        &self,
    ) -> impl Fn(&H) -> io::Result<DuplexStream> + Clone + Send + Sync + use<H> {
        let shared = Arc::clone(&self.shared);
        move |_| Ok(connect(&shared, 0))
    }

    /// Serves a connection that the caller has accepted, until either side closes it.
    ///
    /// This is for connections of other kinds than TCP, such as encrypted ones. The client seems to
    /// be at `peer`. The connection is closed when the server ends, or when the future is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// let server = zk_embedded::Server::in_memory(zk_embedded::Config::new());
    /// let (mut client, accepted) = tokio::io::duplex(1024);
    /// tokio::spawn(server.serve(accepted, ([127, 0, 0, 1], 50_000).into()));
    /// client.write_all(b"ruok").await?;
    /// let mut answer = String::new();
    /// client.read_to_string(&mut answer).await?;
    /// assert_eq!(answer, "imok");
    /// # Ok(())
    /// # }
    /// ```
    pub fn serve<S>(&self, connection: S, peer: SocketAddr) -> impl Future<Output = ()> + use<S>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        serve(connection, peer, 0, Arc::clone(&self.shared))
    }

    /// Calls the state machine, and wakes the tasks that have something to do after it.
    fn command<R>(&self, act: impl FnOnce(&mut Core, Instant) -> R) -> R {
        let _runtime = self.shared.runtime.enter();
        let mut running = self.shared.lock();
        let result = act(&mut running.core, now());
        self.shared.settle(&mut running, None);
        result
    }

    /// Looks at the state machine: its tree, its watches, its zxid.
    ///
    /// The server waits until `look` returns, so that all it sees is of one moment.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let server = zk_embedded::Server::in_memory(zk_embedded::Config::new());
    /// let (names, zxid) = server.look(|core| (core.children("/"), core.last_zxid()));
    /// assert_eq!(names, ["zookeeper"]);
    /// assert_eq!(zxid.0, 0);
    /// # }
    /// ```
    pub fn look<R>(&self, look: impl FnOnce(&Core) -> R) -> R {
        self.command(|core, _| look(core))
    }

    /// Injects a fault: something that goes wrong at a later request.
    pub fn inject(&self, fault: Fault) {
        self.command(|core, _| core.inject(fault));
    }

    /// Returns how many faults have not happened yet, for instance because no request matches them.
    pub fn pending_faults(&self) -> usize {
        self.command(|core, _| core.pending_faults())
    }

    /// Removes the faults that have not happened yet.
    pub fn clear_faults(&self) {
        self.command(|core, _| core.clear_faults());
    }

    /// Returns the replies that [`Fault::mutate`] has corrupted, oldest first.
    pub fn mutations(&self) -> Vec<Mutation> {
        self.command(|core, _| core.mutations().to_vec())
    }

    /// Ends a session as if its timeout had passed: see [`Core::expire`]. A client's own is
    /// `client.session()`, once it is connected.
    pub fn expire(&self, session: SessionId) -> bool {
        self.command(|core, now| core.expire(now, session))
    }

    /// Cuts the connection of a session, which stays alive: see [`Core::disconnect`].
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

    /// Stops or resumes serving: see [`Core::set_serving`].
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

    /// Removes empty containers and expired nodes now: see [`Core::reap`].
    pub fn reap(&self) {
        self.command(Core::reap);
    }

    /// Returns the tree as bytes, in the format of real servers: see [`Core::snapshot`].
    pub fn snapshot(&self) -> Vec<u8> {
        self.command(|core, _| core.snapshot())
    }

    /// Replaces the tree by that of a snapshot: see [`Core::restore`].
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no snapshot. Then the server is as it was.
    pub fn restore(&self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        self.command(|core, now| core.restore(now, snapshot))
    }

    /// Returns the sessions that have not ended, oldest first.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.command(|core, _| core.sessions())
    }

    /// Returns whether there is a node at `path`.
    pub fn has_node(&self, path: &str) -> bool {
        self.command(|core, _| core.has_node(path))
    }

    /// Returns the names of the children of `path` in order, or nothing if there is no such node.
    pub fn children(&self, path: &str) -> Vec<String> {
        self.command(|core, _| core.children(path))
    }

    /// Returns the stat of the node at `path`, or nothing if there is no such node.
    pub fn stat(&self, path: &str) -> Option<Stat> {
        self.command(|core, _| core.stat(path))
    }

    /// Returns the data of the node at `path`, or nothing if there is no such node.
    pub fn data(&self, path: &str) -> Option<Bytes> {
        self.command(|core, _| core.data(path))
    }

    /// Returns when a session ends unless its client is heard from: see
    /// [`Core::session_deadline`].
    pub fn session_deadline(&self, session: SessionId) -> Option<Instant> {
        self.command(|core, _| core.session_deadline(session))
    }

    /// Returns the watches that are set: see [`Core::watches`].
    pub fn watches(&self) -> Vec<Watch> {
        self.command(|core, _| core.watches())
    }

    /// Returns how many watches are set: see [`Core::watch_count`].
    pub fn watch_count(&self) -> usize {
        self.command(|core, _| core.watch_count())
    }

    /// Returns the zxid of the last transaction.
    pub fn last_zxid(&self) -> Zxid {
        self.command(|core, _| core.last_zxid())
    }

    /// Returns every change since the start, if [`Config::keep_history`] is set, else nothing.
    pub fn history(&self) -> Vec<Commit> {
        self.command(|core, _| core.history().to_vec())
    }
}

impl Drop for Server {
    /// Closes all connections. The address is free again once the runtime has run the tasks to
    /// their end: [`Server::shutdown`] waits for that.
    fn drop(&mut self) {
        let mut running = self.shared.lock();
        running.ended = true;
        running.wakers.values().for_each(Waker::wake_by_ref);
    }
}

/// Binds a socket, which clients can connect to from then on.
pub(crate) fn listen(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Like tokio's own bind: a port whose old connections still linger can be bound again.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(backlog)
}

/// Accepts connections to one of the servers until its handle is dropped.
pub(crate) async fn accept<M: Machine>(
    listener: TcpListener,
    server: usize,
    shared: Arc<Shared<M>>,
) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    debug!(%peer, %error, "no TCP_NODELAY");
                }
                connections.spawn(serve(stream, peer, server, Arc::clone(&shared)));
            }
            Err(error) => {
                warn!(%error, "cannot accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Runs everything that is due, and sleeps until the next deadline.
pub(crate) async fn keep_time<M: Machine>(shared: Arc<Shared<M>>) {
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
