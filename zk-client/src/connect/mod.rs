//! How a client connects: its settings, the wait for the first server, and the errors if there is
//! none.
//!
//! The modules below are in reading order. They know how a session begins, and not how it goes on.

pub(crate) mod builder;

/// What a call that connects waits for.
mod first_connection;

/// The calls that make a client.
mod open;

/// The call that opens no session.
mod four_letter_word;

pub use self::builder::ClientBuilder;
pub(crate) use self::open::Parts;
