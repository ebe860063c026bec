//! The session without I/O: what it is told, what it says, and when.

mod auth;
mod handshake;
mod lease;
mod model;
mod moving;
mod multi;
mod owned_nodes;
mod pipeline;
mod replace;
mod sasl;
mod streams;
mod time;
mod watches;
