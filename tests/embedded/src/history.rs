//! What was changed, when and by whom, for tests that look back.

use std::time::Duration;

use zk_proto::{SessionId, Zxid};

/// What a transaction did to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// One change of one node; those of one multi, or of one session's end, share their zxid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Commit {
    /// The transaction.
    pub zxid: Zxid,
    /// The server's wall clock, since 1970.
    pub time: Duration,
    /// Whose request it was, or whose end; `None` for what the server removes by itself.
    pub session: Option<SessionId>,
    /// What happened.
    pub change: Change,
    /// To which node.
    pub path: String,
}
