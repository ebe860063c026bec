//! ZooKeeper's wire protocol: jute records and frames, and nothing else.
//!
//! The crate has every record that clients and servers of ZooKeeper 3.4 to 3.9 exchange, in both
//! directions, so that clients, servers, proxies, dissectors and fuzzers can share one codec. It
//! has no I/O, no clock and no runtime.
//!
//! * A **frame** is a four-byte length and a payload: [`frame::split`] and [`frame::encode`].
//! * The first payload each way is a [`ConnectRequest`] or a [`ConnectResponse`].
//! * Every later payload is a [`RequestHeader`] or [`ReplyHeader`] and the record of its operation.
//!   A reply does not name the operation that it answers: the client knows it by the [`Xid`].
//!
//! Tools that do not know which frame comes, such as proxies and dissectors, decode and show it by
//! [`any`].
//!
//! Records are **views**. A decoded record borrows its strings and buffers from the frame, and its
//! lists are decoded as they are walked. An encoded record is appended to a buffer that the caller
//! owns, which may grow that buffer. Nothing else is allocated in either direction.
//!
//! # Opcodes without a record
//!
//! Three opcodes have no body that a client and a server exchange:
//!
//! * [`NOTIFICATION`](OpCode::NOTIFICATION) is never a request; a [`WatcherEvent`] follows a header
//!   with the xid [`NOTIFICATION`](Xid::NOTIFICATION).
//! * [`CREATE_SESSION`](OpCode::CREATE_SESSION) is the request that a server makes from a
//!   [`ConnectRequest`] for its ensemble.
//! * [`ERROR`](OpCode::ERROR) is the type of a failed transaction in a server's log, and of a
//!   [`MultiResult::Error`].
//!
//! ZooKeeper also declares SetSASLRequest, GetMaxChildrenRequest, GetMaxChildrenResponse and
//! SetMaxChildrenRequest, which belong to no opcode. The formats of its log, its snapshots and the
//! traffic between servers are other protocols.
//!
//! # Bytes from a peer
//!
//! Nothing that a peer sends can cause a panic. Lengths in a record are checked against the bytes
//! that are there. The length of a frame is checked against a limit of the caller's, before
//! [`frame::split`] reserves memory for the rest of the frame. Unknown codes survive as values.
//! Bytes after a record are fields that a newer peer appended: [`Decode::decode`] leaves them in
//! the reader, and [`Decode::decode_exact`] refuses them.
//!
//! # Example
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::{Decode, Encode, GetDataRequest, Operation, Reader, RequestHeader, Xid, frame};
//!
//! let request = GetDataRequest { path: "/config", watch: true };
//! let mut wire = BytesMut::new();
//! frame::encode(&mut wire, frame::SERVER_FRAME_LIMIT, |writer| {
//!     RequestHeader { xid: Xid(1), op: request.op() }.encode(writer);
//!     request.encode(writer);
//! })?;
//!
//! let payload = frame::split(&mut wire, frame::SERVER_FRAME_LIMIT)?.expect("a whole frame");
//! let mut reader = Reader::new(&payload);
//! assert_eq!(RequestHeader::decode(&mut reader)?.xid, Xid(1));
//! assert_eq!(GetDataRequest::decode(&mut reader)?, request);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod jute;

pub mod any;
pub mod frame;

mod acl;
mod codes;
mod connect;
mod header;
mod multi;
mod operations;
mod ops;
mod path;
mod stat;
mod watch;

/// The examples of the README, which are tested with the examples of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(feature = "arbitrary")]
pub mod arbitrary;

#[cfg(feature = "__fuzz")]
#[doc(hidden)]
pub mod fuzz;

#[cfg(feature = "digest")]
pub use acl::digest;
pub use acl::{Acl, Id};
pub use codes::{AddWatchMode, CreateMode, ErrorCode, EventType, KeeperState, WatcherType};
pub use connect::{ConnectRequest, ConnectResponse, Password, SessionId};
pub use error::{DecodeError, EncodeError};
pub use header::{ReplyHeader, RequestHeader, Xid, Zxid};
pub use jute::{Decode, Encode, List, ListIter, Reader, Secret, Text, Writer};
pub use multi::{
    Entry, MultiHeader, MultiIter, MultiList, MultiOp, MultiRequest, MultiResponse, MultiResult,
};
pub use operations::{Access, OpCode, OpInfo};
pub use ops::*;
pub use path::{PathRule, check_path};
pub use stat::Stat;
pub use watch::{SetWatches, SetWatches2, WatcherEvent};
