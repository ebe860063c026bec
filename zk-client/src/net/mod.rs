//! Servers and the connections to them: the choice of the next server, TCP and TLS, frames,
//! four-letter words.
//!
//! This folder knows addresses and bytes, and nothing of what a request or an event means. The
//! client's own frames are split in `driver/wire`.

/// How long to wait before the next attempt.
pub(crate) mod backoff;

/// Which server to try next.
pub(crate) mod hosts;

/// The framing as a public codec, which the client itself does not use.
pub(crate) mod codec;

/// The addresses of names.
pub(crate) mod lookup;

/// Streams of bytes, and TCP.
pub(crate) mod transport;

/// Four-letter words, each on a connection of its own.
pub(crate) mod four_letter;

/// The search for a server that serves writes, by the word `isro`.
pub(crate) mod find_writable;

/// TLS over another connector's connections.
#[cfg(feature = "tls")]
pub(crate) mod tls;
