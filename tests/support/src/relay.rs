//! A relay to a server that can be cut and frozen, for sockets that are out of reach.
//!
//! A cut is noticed at once; a freeze is only noticed by the silence. The relay does not know
//! frames: see [`fault`](crate::fault) for that, on connections of our own.

use std::future::pending;
use std::io;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::Arc;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Relays connections to a server until it is dropped, which breaks them all.
#[derive(Debug)]
pub struct Relay {
    listener: Arc<TcpListener>,
    server: String,
    advertised: Option<String>,
    /// Whether bytes are held back, in both directions.
    frozen: watch::Sender<bool>,
    /// The relaying tasks, none while the relay is cut. Dropping them breaks all connections.
    carriers: JoinSet<()>,
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
            advertised: None,
            frozen: watch::Sender::new(false),
            carriers: JoinSet::new(),
        };
        relay.mend();
        Ok(relay)
    }

    /// [Advertises](advertise) this address in the first message of all connections from now on.
    pub(crate) fn advertise(&mut self, address: String) {
        self.advertised = Some(address);
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
        let (advertised, mut frozen) = (self.advertised.clone(), self.frozen.subscribe());
        self.carriers = JoinSet::new();
        self.carriers.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                thawed(&mut frozen).await;
                let (server, advertised) = (server.clone(), advertised.clone());
                connections.spawn(carry(client, server, advertised, frozen.clone()));
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
    advertised: Option<String>,
    mut frozen: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut read = Vec::new();
    client.read_buf(&mut read).await?;
    if matches!(client.try_read_buf(&mut read), Ok(0)) {
        return Ok(());
    }
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    if let Some(address) = advertised {
        read = loop {
            match advertise(&read, &address) {
                Some(rewritten) => break rewritten,
                None if client.read_buf(&mut read).await? == 0 => return Ok(()),
                None => {}
            }
        };
    }
    server.write_all(&read).await?;
    let mut relaying = pin!(copy_bidirectional(&mut client, &mut server));
    loop {
        thawed(&mut frozen).await;
        tokio::select! {
            biased;
            _ = frozen.wait_for(|frozen| *frozen) => {}
            ended = &mut relaying => return ended.map(drop),
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

/// Replaces the address where the caller says that it listens for elections. The message is a
/// protocol version and the caller's id, 8 bytes each, then the length of the address in 4 bytes,
/// and the address.
pub fn advertise(message: &[u8], address: &str) -> Option<Vec<u8>> {
    let (head, rest) = message.split_at_checked(16)?;
    let (length, rest) = rest.split_first_chunk()?;
    let rest = rest.get(usize::try_from(u32::from_be_bytes(*length)).ok()?..)?;
    let length = u32::try_from(address.len()).ok()?.to_be_bytes();
    Some([head, &length, address.as_bytes(), rest].concat())
}
