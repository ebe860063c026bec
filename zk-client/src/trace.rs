//! The targets of trace events, which stay the same when files move, and what a trace may show of a
//! request.
//!
//! The table of all events is in the crate's documentation. No event contains data, passwords or
//! credentials.

use zk_proto::{Decode, OpCode, Reader};

/// Attempts to connect, and connections.
pub(crate) const CONNECTION: &str = "zk_client::connection";

/// The session's states, and its credentials, owned nodes and leases.
pub(crate) const SESSION: &str = "zk_client::session";

/// Single requests.
pub(crate) const REQUEST: &str = "zk_client::request";

/// Watch events, and watches that are armed again.
pub(crate) const WATCH: &str = "zk_client::watch";

/// The path of a request, if its operation's record begins with one. Other records may begin with a
/// secret.
pub(crate) fn path(op: OpCode, record: &[u8]) -> Option<&str> {
    op.has_path().then(|| <&str>::decode(&mut Reader::new(record)).ok()).flatten()
}
