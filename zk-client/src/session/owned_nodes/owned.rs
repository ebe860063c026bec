//! One owned node, from its create to the reply to its delete.
//!
//! Knows what to ask the server next on behalf of the node, and does not decode replies.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use zk_proto::{CreateResponse, Encode, Stat, Writer, Zxid};

use crate::error::Failure;
use crate::session::event::RawReply;
use crate::session::owned_nodes::node_request::{NodeOp, NodeRequest, OwnedNodeId};

/// Bytes that an encoded path takes besides its text.
const LENGTH_BYTES: usize = 4;

/// What the session is to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect<T> {
    /// Send this request.
    Send(NodeRequest),
    /// Report this result to a caller.
    Complete(T, Result<RawReply, Failure>),
}

#[derive(Debug)]
pub(crate) struct Owned<T> {
    /// The path up to the digits that the server appends; unique for ever.
    pub(crate) stem: String,
    pub(crate) state: State,
    /// The caller that waits for the result of the create or, later, of the delete.
    pub(crate) waiting: Option<T>,
    /// True if the holder has released the node, so that it must be deleted.
    pub(crate) released: bool,
    /// True once an event has told that it is deleted.
    pub(crate) gone: bool,
    /// True once the server has refused its delete.
    pub(crate) refused: bool,
    /// Requests that are queued or in flight.
    pub(crate) open_requests: u32,
    /// Nodes of this name that were found and not looked at yet, the oldest last.
    pub(crate) candidates: Vec<String>,
    /// True if the server refused to show one of them.
    pub(crate) unreadable: bool,
}

#[derive(Debug)]
pub(crate) enum State {
    /// The create is queued or in flight.
    Creating,
    /// The create was in flight when the connection broke, or its reply does not decode, was not
    /// kept or is an error that proves nothing. The creator receives this failure if the node is
    /// not found.
    Lost { failure: Failure },
    /// The node was searched for on this connection and not found. The create may be applied later,
    /// by a server that was slow, or may be unknown to a server that had been cut off. So every
    /// list is searched for the node, and it is searched for again after ever longer times: for the
    /// last time when another connection has lasted for a session timeout.
    Uncertain { epoch: u64 },
    /// The node exists.
    Held { path: Arc<str> },
    /// The node is to be deleted.
    Deleting { path: Arc<str> },
}

impl<T> Owned<T> {
    pub(crate) fn new(stem: &str, state: State, waiting: Option<T>) -> Self {
        Self {
            stem: stem.to_owned(),
            state,
            waiting,
            released: false,
            gone: false,
            refused: false,
            open_requests: 0,
            candidates: Vec::new(),
            unreadable: false,
        }
    }

    pub(crate) fn send(
        &mut self,
        id: OwnedNodeId,
        op: NodeOp,
        path: Arc<str>,
        effects: &mut VecDeque<Effect<T>>,
    ) {
        self.open_requests += 1;
        effects.push_back(Effect::Send(NodeRequest { node: id, op, path }));
    }

    /// Notes the nodes in its folder that may be this one. The oldest is looked at first. `names`
    /// are in order.
    pub(crate) fn set_candidates(&mut self, names: &[&str]) {
        let (folder, stem) = split(&self.stem);
        let folder = if folder == "/" { "" } else { folder };
        let first = names.partition_point(|name| *name < stem);
        // Other names may begin like ours. A server appends nothing but digits.
        let endings = names.iter().skip(first).map_while(|name| name.strip_prefix(stem));
        let ours = endings.filter(|ending| is_sequence(ending));
        self.candidates = ours.map(|ending| format!("{folder}/{stem}{ending}")).collect();
        self.candidates.reverse();
        self.unreadable = false;
    }

    /// Deletes the node that is held.
    pub(crate) fn delete(
        &mut self,
        id: OwnedNodeId,
        releaser: Option<T>,
        effects: &mut VecDeque<Effect<T>>,
    ) {
        if let State::Held { path } = &self.state {
            let path = Arc::clone(path);
            self.state = State::Deleting { path: Arc::clone(&path) };
            self.waiting = releaser;
            self.send(id, NodeOp::Delete, path, effects);
        }
    }

    /// The node that was searched for exists, and this session owns it.
    pub(crate) fn found(
        &mut self,
        id: OwnedNodeId,
        path: Arc<str>,
        stat: Stat,
        requested_at: Instant,
        effects: &mut VecDeque<Effect<T>>,
    ) {
        if !matches!(self.state, State::Lost { .. } | State::Uncertain { .. }) {
            return;
        }
        let creator = self.waiting.take();
        let answer = created(&path, stat.czxid, requested_at);
        self.state = State::Held { path };
        let wanted = creator.is_some() && !self.released;
        effects.extend(creator.map(|token| Effect::Complete(token, Ok(answer))));
        if !wanted {
            self.delete(id, None, effects);
        }
    }

    /// Reports to the creator of a lost node that it stays lost.
    pub(crate) fn report_lost(&mut self, sent: bool, effects: &mut VecDeque<Effect<T>>) {
        if let State::Lost { failure } = self.state {
            let failure = match failure {
                Failure::ConnectionLoss { why, .. } => Failure::ConnectionLoss { sent, why },
                failure => failure,
            };
            effects.extend(self.waiting.take().map(|token| Effect::Complete(token, Err(failure))));
        }
    }
}

/// What the creator of an owned node receives, whether from a reply or from a search.
pub(crate) fn created(path: &str, czxid: Zxid, requested_at: Instant) -> RawReply {
    let mut body = BytesMut::with_capacity(LENGTH_BYTES + path.len());
    CreateResponse { path }.encode(&mut Writer::new(&mut body, usize::MAX));
    RawReply { zxid: czxid, body: body.freeze(), requested_at }
}

/// True if this is what a server appends to a sequential name.
fn is_sequence(text: &str) -> bool {
    text.parse::<i32>().is_ok()
}

/// The folder and the last component of an absolute path.
pub(crate) fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((folder, name)) => (folder, name),
        None => ("/", path),
    }
}
