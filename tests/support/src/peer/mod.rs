//! The server's side of the protocol, played by a test and checked to the last byte.
//!
//! [`Bench`] is at the other end of a [`Session`](zk_client::session::Session) without I/O, with a
//! clock of its own. [`Network`] is what a whole client connects to: the test gets each attempt as
//! a [`Dial`], and plays the server over a [`Peer`]. Traffic in both directions is compared as
//! text, such as `getData#1 /a` for a request and `7 saw NodeDeleted /a` for an event; see
//! [`Request`] and [`Bench::said`].
//!
//! All three fail a test that leaves something unread behind.

mod bench;
mod frames;
mod network;

pub use bench::Bench;
pub use frames::{
    Clock, Request, SESSION, TIMEOUT, created, data, expired, notification, password, payload,
    reply, stat_of, there, welcome,
};
pub(crate) use frames::{frame_of, next_frame, send_frame};
pub use network::{Dial, Dialer, Network, Peer};
