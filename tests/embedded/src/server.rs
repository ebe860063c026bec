//! The server on tokio: a task for each connection, one for the deadlines, and the handle that
//! ends them.
//!
//! All of them share one state machine behind one lock, held for as long as it takes to serve what
//! one read brought. It is the only file that reads the clock.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Sleep;
use tokio_util::io::poll_read_buf;
use tracing::{debug, warn};
use zk_proto::SessionId;

use crate::config::Config;
use crate::connection::ConnectionId;
use crate::core::Core;
use crate::fault::Fault;
use crate::history::Commit;

/// Room for one read.
const READ_BYTES: usize = 64 * 1024;

/// What a connection in memory holds before its writer waits.
const DUPLEX_BYTES: usize = 1024 * 1024;

/// Where the ports begin that connections in memory come from.
const FIRST_PORT: u16 = 49_152;

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

#[derive(Debug)]
struct Shared {
    /// Where everything runs.
    runtime: Handle,
    running: Mutex<Running>,
    /// Something may be due earlier than it was.
    rescheduled: Notify,
}

#[derive(Debug)]
struct Running {
    core: Core,
    /// The tasks of connections, to be woken when there is something to send.
    wakers: BTreeMap<ConnectionId, Waker>,
    /// When the task that keeps time wakes up.
    deadline: Option<Instant>,
    /// Of connections in memory.
    last_port: u16,
    /// The handle is gone.
    ended: bool,
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
    pub async fn with(config: Config) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await?;
        let address = listener.local_addr()?.to_string();
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
        let core = Core::new(config, now(), wall());
        let wakers = BTreeMap::new();
        let running = Running { core, wakers, deadline: None, last_port: FIRST_PORT, ended: false };
        let shared = Arc::new(Shared {
            runtime: Handle::current(),
            running: Mutex::new(running),
            rescheduled: Notify::new(),
        });
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

impl Shared {
    /// Nothing in here panics half-way; if it ever does, the tests of the user go on.
    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the tasks that have something to do now, but that of `own`.
    fn settle(&self, running: &mut Running, own: Option<ConnectionId>) {
        while let Some(id) = running.core.poll_ready() {
            if Some(id) != own
                && let Some(waker) = running.wakers.get(&id)
            {
                waker.wake_by_ref();
            }
        }
        let deadline = running.core.poll_timeout();
        let earlier = match (running.deadline, deadline) {
            (Some(known), Some(deadline)) => deadline < known,
            (None, deadline) => deadline.is_some(),
            (Some(_), None) => false,
        };
        if earlier {
            running.deadline = deadline;
            self.rescheduled.notify_one();
        }
    }
}

fn connect(shared: &Arc<Shared>) -> DuplexStream {
    let (client, server) = tokio::io::duplex(DUPLEX_BYTES);
    let port = {
        let mut running = shared.lock();
        running.last_port = running.last_port.checked_add(1).unwrap_or(FIRST_PORT);
        running.last_port
    };
    let peer = (Ipv4Addr::LOCALHOST, port).into();
    shared.runtime.spawn(serve(server, peer, Arc::clone(shared)));
    client
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

/// One connection with what is half read and half written.
struct Wire<S> {
    io: S,
    id: ConnectionId,
    shared: Arc<Shared>,
    input: BytesMut,
    output: BytesMut,
    /// What the state machine has for the client behind the output.
    unsent: usize,
    closing: bool,
    alarm: Pin<Box<Sleep>>,
}

/// Serves one connection until either side closes it.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(io: S, peer: SocketAddr, shared: Arc<Shared>) {
    let id = {
        let mut running = shared.lock();
        let id = running.core.handle_connection(now(), peer);
        shared.settle(&mut running, Some(id));
        id
    };
    let mut wire = Wire {
        io,
        id,
        shared,
        input: BytesMut::new(),
        output: BytesMut::new(),
        unsent: 0,
        closing: false,
        alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
    };
    if let Err(error) = poll_fn(|cx| wire.poll_serve(cx)).await {
        debug!(connection = %id, %error, "connection broke");
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    fn poll_serve(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let behind = self.is_behind();
            let read = if behind || self.closing {
                Poll::Pending
            } else {
                self.input.reserve(READ_BYTES);
                poll_read_buf(Pin::new(&mut self.io), cx, &mut self.input)
            };
            if let Poll::Ready(read) = &read
                && !matches!(read, Ok(1..))
            {
                let closed = read.as_ref().map(|_| ()).map_err(|error| error.kind().into());
                return Poll::Ready(closed);
            }
            self.turn(cx);
            let mut wrote = false;
            while !self.output.is_empty() {
                match Pin::new(&mut self.io).poll_write(cx, &self.output) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(count)) => {
                        self.output.advance(count);
                        wrote = true;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => break,
                }
            }
            let written = self.output.is_empty();
            if written && self.closing {
                return Pin::new(&mut self.io).poll_shutdown(cx);
            }
            // There is room now, for what the state machine has left or for another read.
            let more = (wrote && written) || (behind && !self.is_behind());
            if read.is_pending() && !more {
                return Poll::Pending;
            }
        }
    }

    /// Whether the client is to read what it has asked for before more of it is heard.
    fn is_behind(&self) -> bool {
        self.output.len() + self.unsent > Core::MAX_BEHIND
    }

    /// One visit to the state machine.
    fn turn(&mut self, cx: &mut Context<'_>) {
        let mut running = self.shared.lock();
        let now = now();
        if !self.input.is_empty() && !running.ended {
            running.core.handle_input(now, self.id, &mut self.input);
        }
        if running.ended || running.core.poll_abort(self.id) {
            self.output.clear();
            self.closing = true;
        } else if self.output.is_empty() {
            self.closing = running.core.poll_transmit(now, self.id, &mut self.output);
        }
        self.unsent = running.core.unsent(self.id);
        match running.wakers.get_mut(&self.id) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => {
                running.wakers.insert(self.id, cx.waker().clone());
            }
        }
        self.shared.settle(&mut running, Some(self.id));
        let delay = running.core.poll_delay(self.id);
        drop(running);
        // What is due and behind the output is taken when that is written.
        if let Some(until) = delay.filter(|until| *until > now) {
            if self.alarm.deadline().into_std() != until {
                self.alarm.as_mut().reset(until.into());
            }
            if self.alarm.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
    }
}

impl<S> Drop for Wire<S> {
    fn drop(&mut self) {
        let mut running = self.shared.lock();
        running.wakers.remove(&self.id);
        running.core.handle_disconnected(self.id);
        self.shared.settle(&mut running, None);
    }
}

/// Time is tokio's, so that tests can make it virtual.
#[expect(
    clippy::disallowed_methods,
    reason = "the task that runs the state machine reads the clock"
)]
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The wall clock at the start; from there on it goes with [`now`].
#[expect(clippy::disallowed_methods, reason = "nodes carry the wall clock's time")]
fn wall() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
