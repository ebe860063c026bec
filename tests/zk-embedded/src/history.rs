//! The record of changes, for tests that look back: what changed, when, and by which session.

use std::time::Duration;

use zk_proto::{SessionId, Zxid};

/// What a transaction did to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// The node was created.
    Created,
    /// The node was deleted.
    Deleted,
    /// Its data was written.
    DataSet,
    /// Its access list was replaced.
    AclSet,
}

/// One change of one node.
///
/// All changes of one multi share their zxid, and so do those of one session's end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Commit {
    /// The zxid of the transaction.
    pub zxid: Zxid,
    /// The server's wall clock at the change, since 1970.
    pub time: Duration,
    /// The session whose request or end made the change.
    ///
    /// `None` if the server removed the node by itself.
    pub session: Option<SessionId>,
    /// What was done to the node.
    pub change: Change,
    /// The path of the node.
    pub path: String,
}
