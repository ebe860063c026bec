//! What a member of an ensemble asks its leader for.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use zk_proto::SessionId;

use crate::connection::{Connection, ConnectionId};

/// What a server of an ensemble is there.
#[derive(Debug, Default)]
pub(crate) struct Member {
    /// True if it leads, and has a quorum.
    pub(crate) leads: bool,
    /// How many other members follow the leader.
    pub(crate) followers: usize,
    /// What it has asked the leader for, oldest first.
    pub(crate) calls: Vec<Call>,
    /// The ids of the sessions whose clients have sent something since it last told the leader.
    pub(crate) heard: BTreeSet<i64>,
    /// Whether it refuses by itself the writes that its own copy of an access list forbids.
    pub(crate) checks_early: bool,
}

/// What a server asks the leader of its ensemble for. The leader asks itself in the same way.
#[derive(Debug)]
pub(crate) enum Call {
    /// To open a session.
    Open { connection: ConnectionId, timeout: Duration },
    /// To let a client resume its session here.
    Resume { connection: ConnectionId, session: SessionId, timeout: Duration },
    /// To carry out a request.
    Request { connection: ConnectionId, session: SessionId, caller: Box<Connection>, frame: Bytes },
    /// To start the timeouts of these sessions anew.
    Touch(BTreeSet<i64>),
    /// To end a session.
    End(SessionId),
}
