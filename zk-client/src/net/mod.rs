//! Servers and the connections to them: the choice of the next server, TCP and TLS, frames,
//! four-letter words.
//!
//! This folder knows addresses and bytes, and nothing of what a request or an event means. Of
//! replies, the codec knows only the length of their head.

pub(crate) mod backoff;

pub(crate) mod hosts;

pub(crate) mod codec;
pub(crate) mod transport;

pub(crate) mod four_letter;

pub(crate) mod find_writable;

#[cfg(feature = "tls")]
pub(crate) mod tls;
