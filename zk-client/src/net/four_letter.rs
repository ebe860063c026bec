//! Four-letter words: servers answer four letters that they receive in place of a handshake.
//!
//! A word needs a connection of its own. The connector makes it as it makes all others, so it takes
//! the same route. This file knows no session.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::config::Host;
use crate::net::transport::{Connector, Transport};

/// The longest answer that is read: about that of `cons` with 50,000 connections.
const MAX_ANSWER: u64 = 16 * 1024 * 1024;

/// Sends a word and leaves the answer to be read: servers close the connection behind the answer.
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

/// Sends a word, and reads the whole answer. Sets `is_asked` once the word is sent.
pub(crate) async fn answer(
    connector: &dyn Connector,
    host: &Host,
    word: [u8; 4],
    is_asked: &mut bool,
) -> io::Result<String> {
    let mut answer = Vec::new();
    let mut io = ask(connector, host, word).await?.take(MAX_ANSWER + 1);
    *is_asked = true;
    // If the connection was reset, the server may still have sent the whole answer.
    match io.read_to_end(&mut answer).await {
        Err(error) if answer.is_empty() => return Err(error),
        _ => {}
    }
    if answer.len() as u64 > MAX_ANSWER {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "an endless answer"));
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
