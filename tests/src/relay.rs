//! A way to a server that can be cut and mended, for clients whose sockets are out of reach.
//!
//! Knows nothing of frames: see [`fault`](crate::fault) for that, on connections of our own.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Carries connections to a server until it is dropped.
#[derive(Debug)]
pub struct Relay {
    listener: Arc<TcpListener>,
    server: String,
    /// What carries, nothing while the way is cut. Dropping it breaks all connections.
    carriers: JoinSet<()>,
}

impl Relay {
    /// Listens on a free port of 127.0.0.1 for connections to `server`.
    pub async fn to(server: &str) -> Result<Self> {
        let listener = Arc::new(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?);
        let mut relay = Self { listener, server: server.to_owned(), carriers: JoinSet::new() };
        relay.mend();
        Ok(relay)
    }

    /// Where clients connect: `127.0.0.1:PORT`.
    pub fn address(&self) -> Result<String> {
        Ok(self.listener.local_addr()?.to_string())
    }

    /// Breaks all connections. New ones are left waiting.
    pub fn cut(&mut self) {
        self.carriers = JoinSet::new();
    }

    /// Lets connections through again.
    pub fn mend(&mut self) {
        let (listener, server) = (Arc::clone(&self.listener), self.server.clone());
        self.carriers.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let server = server.clone();
                connections.spawn(async move {
                    let mut server = TcpStream::connect(server).await?;
                    copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
    }
}
