//! The search for a server that serves writes, while the session is at one that does not.
//!
//! Servers are asked by the word `isro`, on connections of their own that are made like all others,
//! so it goes wherever they go. Knows neither the session nor the one connection that serves it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use crate::config::Host;
use crate::net::four_letter;
use crate::net::transport::Connector;

/// The wait before the first round of questions; each later one doubles it. As ZooKeeper's own
/// client has it, like the longest.
const FIRST: Duration = Duration::from_millis(100);

/// The longest wait between two rounds.
const LONGEST: Duration = Duration::from_secs(60);

/// How long one server may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks all servers, again and again, until one of them serves writes.
pub(crate) async fn read_write(
    servers: impl Fn() -> Vec<Host>,
    connector: Arc<dyn Connector>,
) -> Host {
    let mut wait = FIRST;
    loop {
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST);
        for host in servers() {
            let asked = tokio::time::timeout(PATIENCE, serves_writes(&*connector, &host)).await;
            if let Ok(Ok(true)) = asked {
                return host;
            }
        }
    }
}

async fn serves_writes(connector: &dyn Connector, host: &Host) -> io::Result<bool> {
    let mut io = four_letter::ask(connector, host, *b"isro").await?;
    // Others say "ro" or "null", or a sentence about words that are not allowed.
    let mut answer = [0; 2];
    io.read_exact(&mut answer).await?;
    Ok(&answer == b"rw")
}
