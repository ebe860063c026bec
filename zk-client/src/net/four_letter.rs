//! Four-letter words: what servers answer to four bytes in place of a handshake.
//!
//! A word takes a connection of its own, made like all others, so it goes wherever they go. Knows
//! no session.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::config::Host;
use crate::net::transport::{Connector, Transport};

/// The longest answer that is read: `cons` of some 50,000 connections.
const MAX_ANSWER: u64 = 16 * 1024 * 1024;

/// Asks, and leaves the answer to be read: servers close the connection behind it.
pub(crate) async fn ask(
    connector: &dyn Connector,
    host: &Host,
    word: [u8; 4],
) -> io::Result<Box<dyn Transport>> {
    let mut io = connector.connect(host).await?;
    io.write_all(&word).await?;
    io.flush().await?;
    Ok(io)
}

/// Asks, and reads the whole answer.
pub(crate) async fn answer(
    connector: &dyn Connector,
    host: &Host,
    word: [u8; 4],
) -> io::Result<String> {
    let mut answer = Vec::new();
    let mut io = ask(connector, host, word).await?.take(MAX_ANSWER + 1);
    // A server that hangs up hard may have said everything.
    match io.read_to_end(&mut answer).await {
        Err(error) if answer.is_empty() => return Err(error),
        _ => {}
    }
    if answer.len() as u64 > MAX_ANSWER {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "an endless answer"));
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
