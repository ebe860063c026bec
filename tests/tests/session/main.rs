//! The session without I/O: what it is told, what it says, and when.

mod auth;
mod claims;
mod handshake;
mod lease;
mod model;
mod moving;
mod multi;
mod pipeline;
mod replace;
mod sasl;
mod streams;
mod time;
mod watches;
