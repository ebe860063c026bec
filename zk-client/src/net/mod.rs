//! Servers and the connections to them: which server is next, TCP and TLS, frames, short questions.
//!
//! Addresses and bytes alone. Nothing here knows what a request or an event means; of replies the
//! codec knows how long their heads are.

pub(crate) mod hosts;

pub(crate) mod codec;
pub(crate) mod transport;

pub(crate) mod four_letter;

pub(crate) mod find_writable;

#[cfg(feature = "tls")]
pub(crate) mod tls;
