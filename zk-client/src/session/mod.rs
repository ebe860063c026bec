//! One ZooKeeper session, without a socket, a clock or a runtime.
//!
//! [`Session`] is the protocol as a state machine: frames, time and requests go in; bytes to send,
//! events and the next deadline come out. The driver of this crate runs it on tokio; tests, fuzzers
//! and simulations run it by hand, and you can run it on another runtime.
//!
//! The modules below are in reading order: first the parts, each of which decides one thing and
//! knows no session; then the session made of them, what it does by itself, what callers ask, how
//! it ends, what replies bring, and the connection, where a session's life begins.

mod counters;

mod timers;

mod pipeline;

mod pings;

mod deadline;

mod handshake;

mod auths;

mod watches;

mod event;

mod owned_nodes;

mod lease;

mod assurance;

mod state;

mod housekeeping;

mod requests;

mod ending;

mod replies;

mod sasl;

mod connection;

pub use self::event::{Answer, Event, Watch};
pub use self::lease::{Lapse, LeaseId, LeaseState};
pub use self::owned_nodes::OwnedNodeId;
pub use self::pipeline::RequestId;
pub use self::replies::HEAD_BYTES;
pub use self::state::Session;
pub use self::watches::one_shots::{WatchId, WatchKind};
pub use crate::model::event::Change;
