//! The session without I/O: its inputs, its requests and events, and when they occur.

mod auth;
mod dialects;
mod handshake;
mod hang_ups;
mod lease;
mod model;
mod moving;
mod multi;
mod owned_nodes;
mod pipeline;
mod refused_deletes;
mod replace;
mod sasl;
mod streams;
mod time;
mod watches;
