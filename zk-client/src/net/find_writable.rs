//! The search for a server that serves writes, while the session is on a read-only one.
//!
//! The search asks servers with the four-letter word `isro`, on connections of its own. The
//! connector makes them as it makes all others, so they take the same route. This file knows
//! neither the session nor the connection that serves it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use crate::config::Host;
use crate::net::four_letter;
use crate::net::transport::Connector;

/// The wait before the first round of questions; each later round doubles it. This and the longest
/// wait are those of ZooKeeper's own client.
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
    // Other servers answer "ro" or "null", or with a sentence about words that are not allowed.
    let mut answer = [0; 2];
    io.read_exact(&mut answer).await?;
    Ok(&answer == b"rw")
}
