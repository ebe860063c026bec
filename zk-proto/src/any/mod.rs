//! Any frame by its opcode: decoded, shown, compared, and encoded again.
//!
//! The other modules of this crate are for programs that know which record they expect. This one is
//! for tools that do not: proxies, dissectors, recorders, fuzzers and pages that draw a frame. A
//! [`Frame`] borrows a payload that [`frame::split`](crate::frame::split) returned. Its kind is up
//! to the caller, because no payload states it:
//!
//! * The first payload each way is a handshake: [`Frame::connect_request`] and
//!   [`Frame::connect_response`].
//! * Every later payload of a client is a request, whose header has the opcode: [`Frame::request`].
//! * A later payload of a server is a notification if its xid is
//!   [`Xid::NOTIFICATION`](crate::Xid::NOTIFICATION), or otherwise the reply to the request with
//!   that xid. A reply does not name its operation: [`Frame::from_server`] asks for it by the xid.
//!
//! # What survives
//!
//! A frame encodes to the bytes that it was made of, whatever they are. An unknown opcode is
//! [`Request::Unknown`] or [`Reply::Unknown`] with the bytes of its body, unknown codes are
//! numbers, and bytes behind a record, which a newer peer may append, are [`Frame::trailing`].
//!
//! # Bytes from a peer
//!
//! A payload that ends inside a record, or that no record has the form of, is a [`DecodeError`].
//! Decoding allocates nothing. [`Frame::fields`] returns at most [`FIELD_LIMIT`] fields, and a line
//! takes at most [`LINE_LIMIT`] bytes, whatever a payload announces.
//!
//! # Secrets
//!
//! The passwords of sessions and the proofs of identities are shown as their length alone, unless
//! [`Frame::exposing_secrets`] asks for them. What nodes hold is shown.
//!
//! # Example
//!
//! ```
//! use zk_proto::any::{Frame, Value};
//!
//! let payload = b"\x00\x00\x00\x07\x00\x00\x00\x02\x00\x00\x00\x02/a\xff\xff\xff\xff";
//! let frame = Frame::request(payload)?;
//! assert_eq!(frame.to_string(), "delete /a version=-1");
//!
//! let fields = frame.fields();
//! let version = fields.last().expect("a delete has fields");
//! assert_eq!((version.name.to_string(), version.value), ("version".into(), Value::Number(-1)));
//! assert_eq!((version.offset, version.length, version.depth), (14, 4, 1));
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```
//!
//! [`DecodeError`]: crate::DecodeError

mod compare;
mod frame;
mod line;
mod operations;

pub use crate::jute::{Field, Name, Value};
pub use compare::Difference;
pub use frame::{FIELD_LIMIT, Frame, Message};
pub use line::{LINE_LIMIT, Tree};
pub use operations::{Reply, Request};
