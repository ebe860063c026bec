//! One ZooKeeper session, without a socket, a clock or a runtime.
//!
//! [`Session`] is the protocol as a state machine: frames, time and requests go in; bytes to send,
//! events and the next deadline come out. The driver of this crate runs it on tokio; tests, fuzzers
//! and simulations run it by hand, and you can run it on another runtime.
//!
//! The modules below are in reading order.

// Parts, each of which decides one thing. They send nothing themselves.

/// Timers and their deadlines.
mod timers;

/// The requests and pings that are owed a reply, and their xids.
mod pipeline;

/// How often in a row a server has hung up on the same request.
mod lost_requests;

/// Until when the ensemble surely keeps the session.
mod deadline;

/// The first request and reply of a connection.
mod handshake;

/// The auth credentials, which `reattach` sends again on each connection.
mod auths;

/// The watches and the callers that wait for them.
mod watches;

/// What the session reports to its driver.
mod event;

/// The nodes that are deleted whatever happens, and the search for those whose create was lost.
mod owned_nodes;

/// The leases with the deadline that they share: when to probe, when leases are at risk or lapse.
mod leases;

// The session that is made of them.

/// [`Session`] itself: its fields, and what it tells about itself.
mod state;

/// Requests that the session makes by itself.
mod housekeeping;

/// What callers ask for.
mod requests;

/// How requests and the session end.
mod ending;

/// What follows from a reply.
mod replies;

/// Dispatches a notification to watchers and streams.
mod notifications;

/// Authentication by SASL.
mod sasl;

/// What is sent first on a new connection: credentials, watches, the search for lost creates.
mod reattach;

/// A connection from the attempt to the loss: bytes and time in, bytes out.
mod connection;

pub use self::event::{Event, RawReply, Watch};
pub use self::leases::{Lapse, LeaseId, LeaseState};
pub(crate) use self::lost_requests::SharedLosses;
pub use self::owned_nodes::OwnedNodeId;
pub use self::pipeline::RequestId;
pub use self::replies::HEAD_BYTES;
pub use self::state::Session;
pub use self::watches::path_watches::{WatchId, WatchKind};
pub use crate::model::event::Change;
