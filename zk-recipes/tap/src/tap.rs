//! The road: bytes from one side to the other, as they are and as soon as they come.
//!
//! Each direction of a connection is a loop that reads, writes, and then cuts what it has written
//! into frames for the observer. It knows no record.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use zk_proto::frame;

use crate::observer::{Observer, Report};
use crate::queue::{Event, Sender, Side, Stamp, queue};

/// How many bytes are read at once.
const CHUNK: usize = 64 << 10;

/// How long to wait after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A proxy that is running. Dropping it closes all connections.
#[derive(Debug)]
pub struct Tap {
    address: SocketAddr,
    road: JoinSet<()>,
    /// Ends the road when it is dropped.
    stop: oneshot::Sender<()>,
    sender: Sender,
    observer: JoinHandle<Report>,
}

impl Tap {
    /// Passes each connection that `listener` accepts on to `target`, a host and a port.
    ///
    /// # Errors
    ///
    /// The errors of asking the listener for its address, and of starting a thread.
    pub fn start(listener: TcpListener, target: String, observer: Observer) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (sender, queue) = queue();
        let observer = std::thread::Builder::new()
            .name("zk-tap observer".to_owned())
            .spawn(move || observer.run(&queue))?;
        let mut road = JoinSet::new();
        let (stop, stopped) = oneshot::channel();
        road.spawn(accept(listener, target, Lookout::new(sender.clone()), stopped));
        Ok(Self { address, road, stop, sender, observer })
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes all connections, lets the observer finish, and returns what it has seen.
    ///
    /// # Errors
    ///
    /// An error if the observer has panicked.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the connections are closed all the same, and the report is lost.
    pub async fn stop(self) -> io::Result<Report> {
        let Self { mut road, stop, sender, observer, .. } = self;
        drop(stop);
        // Whatever has passed is in the queue when the loops have ended.
        while road.join_next().await.is_some() {}
        let joined = tokio::task::spawn_blocking(move || {
            sender.stop();
            observer.join()
        });
        joined.await?.map_err(|_| io::Error::other("the observer of the tap has panicked"))
    }
}

/// What the loops tell the observer, and the time of it.
#[derive(Clone)]
struct Lookout {
    sender: Sender,
    start: Instant,
    connections: Arc<AtomicU64>,
}

#[expect(clippy::disallowed_methods, reason = "the tap measures time, and nothing depends on it")]
impl Lookout {
    fn new(sender: Sender) -> Self {
        Self { sender, start: Instant::now(), connections: Arc::default() }
    }

    fn now(&self) -> Stamp {
        Instant::now().saturating_duration_since(self.start)
    }
}

async fn accept(
    listener: TcpListener,
    target: String,
    lookout: Lookout,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => return connections.shutdown().await,
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    connections.spawn(connection(client, target.clone(), lookout.clone()));
                }
                // Too many files, or a client that is gone already: the next may do better.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(client: TcpStream, target: String, lookout: Lookout) {
    let number = lookout.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let _closing = Closing { lookout: lookout.clone(), connection: number };
    // What goes wrong here is seen by both ends, whose connection closes.
    if let Ok(server) = TcpStream::connect(&target).await
        && client.set_nodelay(true).is_ok()
        && server.set_nodelay(true).is_ok()
    {
        let (client_in, client_out) = client.into_split();
        let (server_in, server_out) = server.into_split();
        let there = pass(client_in, server_out, Cutter::new(&lookout, number, Side::Client));
        let back = pass(server_in, client_out, Cutter::new(&lookout, number, Side::Server));
        // A side that only ends its half leaves the other open; an error ends both.
        drop(tokio::try_join!(there, back));
    }
}

/// Reports the end of a connection when it is dropped, however the connection ends.
struct Closing {
    lookout: Lookout,
    connection: u64,
}

impl Drop for Closing {
    fn drop(&mut self) {
        let (connection, at) = (self.connection, self.lookout.now());
        self.lookout.sender.send(Event::Closed { connection, at });
    }
}

/// Passes on what comes until the end of the stream.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut cutter: Cutter,
) -> io::Result<()> {
    let mut buffer = BytesMut::with_capacity(CHUNK);
    loop {
        buffer.reserve(CHUNK);
        let read = from.read_buf(&mut buffer).await?;
        let at = cutter.lookout.now();
        if read == 0 {
            return to.shutdown().await;
        }
        let chunk = buffer.split();
        to.write_all(&chunk).await?;
        cutter.cut(at, chunk);
    }
}

/// Cuts what one side has sent into frames.
struct Cutter {
    lookout: Lookout,
    connection: u64,
    side: Side,
    /// The start of a frame that is not complete.
    rest: BytesMut,
    is_readable: bool,
}

impl Cutter {
    fn new(lookout: &Lookout, connection: u64, side: Side) -> Self {
        let rest = BytesMut::new();
        Self { lookout: lookout.clone(), connection, side, rest, is_readable: true }
    }

    fn cut(&mut self, at: Stamp, chunk: BytesMut) {
        if !self.is_readable {
            return;
        }
        if self.rest.is_empty() {
            self.rest = chunk;
        } else {
            self.rest.extend_from_slice(&chunk);
        }
        let (connection, side) = (self.connection, self.side);
        loop {
            match frame::split(&mut self.rest, frame::CLIENT_FRAME_LIMIT) {
                Ok(Some(payload)) => {
                    // A copy, so that a frame in the queue keeps no more than its own bytes.
                    let payload = Bytes::copy_from_slice(&payload);
                    self.lookout.sender.send(Event::Frame { connection, side, at, payload });
                }
                Ok(None) => return,
                Err(_) => {
                    self.is_readable = false;
                    self.rest = BytesMut::new();
                    self.lookout.sender.send(Event::Unreadable { connection, side, at });
                    return;
                }
            }
        }
    }
}
