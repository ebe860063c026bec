//! A relay to a server that can be cut and frozen, for sockets that are out of reach.
//!
//! A cut is noticed at once; a freeze is only noticed by the silence. The relay does not know
//! frames: see [`fault`](crate::fault) for that, on connections of our own.

use std::future::pending;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How many bytes are relayed at once.
const CHUNK: usize = 64 * 1024;

/// Relays connections to a server until it is dropped, which breaks them all.
#[derive(Debug)]
pub struct Relay {
    listener: Arc<TcpListener>,
    server: String,
    opening: Option<Opening>,
    /// Whether bytes are held back, in both directions.
    frozen: watch::Sender<bool>,
    /// The relaying tasks, none while the relay is cut. Dropping them breaks all connections.
    carriers: JoinSet<()>,
}

/// How a relay changes the first bytes that a client sends.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    /// Makes the first bytes to send from the bytes that have come so far and `word`. Returns
    /// `None` if it needs more bytes.
    pub(crate) rewrite: fn(&[u8], &str) -> Option<Vec<u8>>,
    /// A further argument of `rewrite`.
    pub(crate) word: String,
}

impl Relay {
    /// Listens on a free port of 127.0.0.1 for connections to `server`.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn to(server: &str) -> Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let mut relay = Self {
            listener: Arc::new(TcpListener::from_std(listener)?),
            server: server.to_owned(),
            opening: None,
            frozen: watch::Sender::new(false),
            carriers: JoinSet::new(),
        };
        relay.mend();
        Ok(relay)
    }

    /// Changes the first bytes of all connections from now on.
    pub(crate) fn rewrite(&mut self, opening: Opening) {
        self.opening = Some(opening);
        self.mend();
    }

    /// Where clients connect: `127.0.0.1:PORT`.
    pub fn address(&self) -> Result<String> {
        Ok(self.listener.local_addr()?.to_string())
    }

    /// Breaks all connections. New ones are left waiting.
    pub fn cut(&mut self) {
        self.carriers = JoinSet::new();
    }

    /// Accepts connections again after a cut.
    pub fn mend(&mut self) {
        let (listener, server) = (Arc::clone(&self.listener), self.server.clone());
        let (opening, mut frozen) = (self.opening.clone(), self.frozen.subscribe());
        self.carriers = JoinSet::new();
        self.carriers.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                thawed(&mut frozen).await;
                connections.spawn(carry(client, server.clone(), opening.clone(), frozen.clone()));
            }
        });
    }

    /// Stops everything that passes, including the end of a connection.
    ///
    /// To both sides the other has fallen silent. New connections seem to be accepted.
    pub fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    /// Lets everything pass again, beginning with the bytes that were held back.
    pub fn thaw(&self) {
        self.frozen.send_replace(false);
    }
}

/// Connects `client` to the server and relays both directions, until one of them fails or both have
/// ended.
///
/// A client that has hung up while the relay was cut is left out: its handshake would take the
/// session away from the connection that it has now.
async fn carry(
    mut client: TcpStream,
    server: String,
    opening: Option<Opening>,
    frozen: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut read = Vec::new();
    client.read_buf(&mut read).await?;
    if matches!(client.try_read_buf(&mut read), Ok(0)) {
        return Ok(());
    }
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    if let Some(opening) = opening {
        read = loop {
            match (opening.rewrite)(&read, &opening.word) {
                Some(rewritten) => break rewritten,
                None if client.read_buf(&mut read).await? == 0 => return Ok(()),
                None => {}
            }
        };
    }
    server.write_all(&read).await?;
    let (client, server) = (client.split(), server.split());
    let there = one_way(client.0, server.1, frozen.clone());
    let back = one_way(server.0, client.1, frozen);
    tokio::try_join!(there, back).map(|_| ())
}

/// Relays one direction of a connection, including its end.
async fn one_way(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut frozen: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = from.read(&mut chunk).await;
        thawed(&mut frozen).await;
        match count? {
            0 => return to.shutdown().await,
            count => to.write_all(&chunk[..count]).await?,
        }
    }
}

/// Waits until bytes may move.
async fn thawed(frozen: &mut watch::Receiver<bool>) {
    if frozen.wait_for(|frozen| !frozen).await.is_err() {
        // The relay is being dropped, and this task with it.
        pending().await
    }
}
