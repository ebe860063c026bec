//! The nodes that a session owns on a caller's behalf, and must not forget.
//!
//! Ownership begins with the create of an ephemeral node under a unique name, and ends when no such
//! node is left. In between, the session makes sure that no node stays behind without a holder. It
//! looks for a node by its name after a reconnect if the reply to the create was lost, it deletes a
//! node as soon as it can once the caller has dropped it, and it repeats the delete until the node
//! is gone.
//!
//! Pure: replies and losses go in, [`Effect`]s come out, and the session carries them out.

/// How nodes are released, and how their deletes end.
mod deletes;

/// Which requests ask for a node, and what they answer.
mod node_request;

/// Nodes that are created by one transaction.
mod multi;

/// One node: what state it is in, and what follows from a reply.
mod owned;

/// Which folders are searched for lost nodes.
mod search_queue;

/// The search for nodes whose creates got no reply that proves anything.
mod searches;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use zk_proto::{Decode, ErrorCode, ExistsResponse, OpCode, Reader, SessionId, Zxid};

use crate::config::Dialect;
use crate::error::{Failure, ProtocolError};
use crate::model::node::CreateReply;
use crate::session::event::RawReply;
use crate::session::owned_nodes::node_request::NodeOp;
pub(crate) use crate::session::owned_nodes::node_request::NodeRequest;
pub use crate::session::owned_nodes::node_request::OwnedNodeId;
pub(crate) use crate::session::owned_nodes::owned::Effect;
use crate::session::owned_nodes::owned::{Owned, State, created};
use crate::session::owned_nodes::search_queue::SearchQueue;

/// All nodes that a session owns, oldest first.
#[derive(Debug)]
pub(crate) struct OwnedNodes<T> {
    next: u64,
    nodes: BTreeMap<OwnedNodeId, Owned<T>>,
    effects: VecDeque<Effect<T>>,
    /// How many times the session was attached to a server.
    epoch: u64,
    /// True if a node may be in [`State::Uncertain`], or in [`State::Lost`] without a search.
    uncertain: bool,
    searches: SearchQueue,
    /// How many times uncertain nodes were searched for again on this connection.
    repetitions: u32,
    /// True if the server does not know getEphemerals.
    by_listing: bool,
    /// How creates are spelled.
    create: OpCode,
    /// True if only the Stat of a node tells its czxid.
    reads_czxids: bool,
    /// True if the server may have refused the delete of a node.
    refusals: bool,
}

impl<T> OwnedNodes<T> {
    pub(crate) fn new(dialect: &Dialect) -> Self {
        Self {
            next: 0,
            nodes: BTreeMap::new(),
            effects: VecDeque::new(),
            epoch: 0,
            uncertain: false,
            searches: SearchQueue::default(),
            repetitions: 0,
            by_listing: !dialect.understands(OpCode::GET_EPHEMERALS),
            create: dialect.spell(OpCode::CREATE2),
            reads_czxids: !dialect.tells_czxids(),
            refusals: false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    #[inline]
    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// True if nodes may exist or appear later that were not found, or could not be searched for.
    #[inline]
    pub(crate) fn has_uncertain(&self) -> bool {
        self.uncertain
    }

    /// True if the server may have refused the delete of a node that is still owned.
    #[inline]
    pub(crate) fn has_refusals(&self) -> bool {
        self.refusals
    }

    /// The next effect to carry out. Poll this until it is empty after every call that may add one.
    pub(crate) fn poll_effect(&mut self) -> Option<Effect<T>> {
        self.effects.pop_front()
    }

    /// A create under `stem` is about to be queued.
    pub(crate) fn open(&mut self, stem: &str, creator: T) -> OwnedNodeId {
        self.insert(stem, State::Creating, Some(creator))
    }

    /// Takes ownership of a node that exists.
    ///
    /// `None` if the session owns it already.
    pub(crate) fn adopt(&mut self, path: &str) -> Option<OwnedNodeId> {
        let is_owned = self.nodes.values().any(|node| match &node.state {
            State::Held { path: held } | State::Deleting { path: held } => **held == *path,
            _ => false,
        });
        (!is_owned).then(|| self.insert(path, State::Held { path: path.into() }, None))
    }

    fn insert(&mut self, stem: &str, state: State, waiting: Option<T>) -> OwnedNodeId {
        let id = OwnedNodeId(self.next);
        self.next += 1;
        self.nodes.insert(id, Owned::new(stem, state, waiting));
        id
    }

    /// The create was answered.
    pub(crate) fn create_answered(
        &mut self,
        id: OwnedNodeId,
        result: Result<RawReply, Failure>,
    ) -> Result<(), ProtocolError> {
        match result {
            Ok(answer) => match CreateReply::decode(self.create, &mut Reader::new(&answer.body)) {
                Ok(CreateReply { path, stat: Some(stat) }) => {
                    self.created(id, path, stat.czxid, answer.requested_at);
                }
                Ok(CreateReply { path, stat: None }) => self.created_by(id, path, &answer),
                Err(error) => return Err(self.garbled([id], error.into())),
            },
            Err(failure) => self.failed([id], failure),
        }
        Ok(())
    }

    /// A multi was answered that contains these creates, each with its index in the multi.
    pub(crate) fn multi_answered(
        &mut self,
        owned: &[(usize, OwnedNodeId)],
        result: Result<RawReply, Failure>,
    ) -> Result<(), ProtocolError> {
        let ids = owned.iter().map(|(_, id)| *id);
        let answer = match result {
            Ok(answer) => answer,
            Err(failure) => {
                self.failed(ids, failure);
                return Ok(());
            }
        };
        match multi::created_paths(&answer, owned.iter().map(|(index, _)| *index)) {
            Ok(Ok(paths)) => {
                ids.zip(paths).for_each(|(id, path)| self.created_by(id, path, &answer))
            }
            Ok(Err(failure)) => self.refused(ids, failure),
            Err(error) => return Err(self.garbled(ids, error.into())),
        }
        Ok(())
    }

    /// A multi was answered that creates this owned node and, behind that, deletes another.
    pub(crate) fn replace_answered(
        &mut self,
        delete: NodeRequest,
        create: OwnedNodeId,
        result: Result<RawReply, Failure>,
    ) -> Result<(), ProtocolError> {
        let answer = match result {
            Ok(answer) => answer,
            Err(failure) => {
                self.repeat(delete);
                return self.create_answered(create, Err(failure));
            }
        };
        match multi::created_path(&answer, 0) {
            Ok(Ok(path)) => {
                self.answered(delete, Ok(answer.clone()), None)?;
                self.created_by(create, path, &answer);
            }
            // The node is gone already, or the server refuses the delete: the same as for a delete
            // alone.
            Ok(Err(failure @ Failure::OpRefused { index: 1, code })) => {
                self.answered(delete, Err(Failure::Refused(code)), None)?;
                self.refused([create], failure);
            }
            Ok(Err(failure)) => {
                self.repeat(delete);
                let failure = match failure {
                    Failure::OpRefused { code, .. } => Failure::Refused(code),
                    failure => failure,
                };
                self.refused([create], failure);
            }
            Err(error) => {
                let error = self.garbled([create], error.into());
                let failure = Failure::ConnectionLoss { sent: true, why: error.into() };
                self.unanswered(&delete, failure);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The create made a node at `path`, in the transaction of this answer. Where that is not the
    /// node's czxid, the node is read first, like one whose create was lost.
    fn created_by(&mut self, id: OwnedNodeId, path: &str, answer: &RawReply) {
        if !self.reads_czxids {
            return self.created(id, path, answer.zxid, answer.requested_at);
        }
        self.lost(id, Failure::Refused(ErrorCode::NO_NODE));
        if let Some(node) = self.nodes.get_mut(&id) {
            node.candidates = vec![path.to_owned()];
        }
        self.search_next_candidate(id);
    }

    /// The create made a node at `path`. It is deleted at once if its holder has released it.
    fn created(&mut self, id: OwnedNodeId, path: &str, czxid: Zxid, requested_at: Instant) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.state = State::Held { path: path.into() };
            if let Some(creator) = node.waiting.take() {
                let answer = created(path, czxid, requested_at);
                self.effects.push_back(Effect::Complete(creator, Ok(answer)));
            }
            if node.released {
                node.delete(id, None, &mut self.effects);
            }
        }
    }

    /// The creates were refused: no node was created.
    fn refused(&mut self, ids: impl IntoIterator<Item = OwnedNodeId>, failure: Failure) {
        for id in ids {
            let creator = self.withdraw(id);
            self.effects.extend(creator.map(|token| Effect::Complete(token, Err(failure))));
        }
    }

    /// The reply does not decode, so nodes may exist. The session looks for them on the next
    /// connection.
    fn garbled(
        &mut self,
        ids: impl IntoIterator<Item = OwnedNodeId>,
        error: ProtocolError,
    ) -> ProtocolError {
        let failure = Failure::ConnectionLoss { sent: true, why: error.into() };
        ids.into_iter().for_each(|id| self.lost(id, failure));
        error
    }

    /// The creates were answered with this failure. If the reply was too large to keep, or is an
    /// error that proves nothing, nodes may exist. The session looks for them at once.
    fn failed(&mut self, ids: impl IntoIterator<Item = OwnedNodeId>, failure: Failure) {
        let unproven = match failure {
            Failure::Refused(code) => !code.proves_nothing_applied(),
            failure => matches!(failure, Failure::ReplyTooLarge { .. }),
        };
        if !unproven {
            return self.refused(ids, failure);
        }
        let ids = ids.into_iter().collect::<Vec<_>>();
        ids.iter().for_each(|id| self.lost(*id, failure));
        self.search(ids);
    }

    /// The create made no node. Gives back the creator that waits for it.
    pub(crate) fn withdraw(&mut self, id: OwnedNodeId) -> Option<T> {
        self.nodes.remove(&id)?.waiting
    }

    /// The create may have made a node, but its reply is lost.
    fn lost(&mut self, id: OwnedNodeId, failure: Failure) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.state = State::Lost { failure };
        }
    }

    /// The create will get no reply. Gives back its creator, unless the session will look for the
    /// node.
    pub(crate) fn create_unanswered(&mut self, id: OwnedNodeId, failure: Failure) -> Option<T> {
        let may_exist = matches!(
            failure,
            Failure::ConnectionLoss { sent: true, .. } | Failure::NeverAnswered { .. }
        );
        if may_exist {
            self.lost(id, failure);
            return None;
        }
        self.withdraw(id)
    }

    /// The path of a node that exists, as far as is known, and was not released.
    pub(crate) fn held(&self, id: OwnedNodeId) -> Option<Arc<str>> {
        match self.nodes.get(&id) {
            Some(Owned { state: State::Held { path }, released: false, gone: false, .. }) => {
                Some(Arc::clone(path))
            }
            _ => None,
        }
    }

    /// An event tells that the node is deleted. True if it was held. Its delete is sent all the
    /// same when it is released.
    pub(crate) fn note_gone(&mut self, id: OwnedNodeId) -> bool {
        let is_held = self.held(id).is_some();
        if let Some(node) = self.nodes.get_mut(&id).filter(|_| is_held) {
            node.gone = true;
        }
        is_held
    }

    /// Gives up a node without a delete: it shall stay, or is gone already.
    pub(crate) fn disown(&mut self, id: OwnedNodeId) {
        let held = |node: &Owned<T>| matches!(node.state, State::Held { .. });
        if self.nodes.get(&id).is_some_and(held) {
            self.nodes.remove(&id);
        }
    }

    /// A request was answered. `own` is the session that must own the nodes.
    pub(crate) fn answered(
        &mut self,
        request: NodeRequest,
        result: Result<RawReply, Failure>,
        own: Option<SessionId>,
    ) -> Result<(), ProtocolError> {
        let NodeRequest { node: id, op, path } = request;
        if op.is_of_folder() {
            return self.search_answered(op, &path, result);
        }
        let Some(node) = self.nodes.get_mut(&id) else {
            return Ok(());
        };
        node.open_requests = node.open_requests.saturating_sub(1);
        let effects = &mut self.effects;
        match (op, &result) {
            // An overloaded server has shed the request unexecuted. It is sent again at once, since
            // the server paces the session by its replies.
            (_, Err(Failure::Refused(ErrorCode::THROTTLED_OP))) => {
                node.send(id, op, path, effects);
            }
            (NodeOp::Stat, Ok(answer)) => {
                let ExistsResponse { stat } = Decode::decode(&mut Reader::new(&answer.body))?;
                match own == Some(stat.ephemeral_owner) {
                    true => node.found(id, path, stat, answer.requested_at, effects),
                    // Another session's: perhaps an earlier life of ours, under the same names.
                    false => self.search_next_candidate(id),
                }
            }
            (NodeOp::Stat, Err(Failure::Refused(ErrorCode::NO_NODE))) => {
                self.search_next_candidate(id);
            }
            // The owner of this node is unknown (since 3.9.2 exists needs the permission to read),
            // but ours may be among the other candidates.
            (NodeOp::Stat, Err(Failure::Refused(ErrorCode::NO_AUTH))) => {
                node.unreadable = true;
                self.search_next_candidate(id);
            }
            (NodeOp::Stat, Err(_)) => self.learnt_nothing(id),
            // A delete.
            _ => self.delete_answered(id, &path, result),
        }
        Ok(())
    }

    /// A request was lost with its connection, and is sent again on the next one. A caller that
    /// waits for a delete receives the failure.
    pub(crate) fn unanswered(&mut self, request: &NodeRequest, failure: Failure) {
        if request.op.is_of_folder() {
            // The search that begins with the sync ends with the request behind it.
            if request.op != NodeOp::Sync {
                self.end_search(&request.path);
            }
        } else if let Some(node) = self.nodes.get_mut(&request.node) {
            node.open_requests = node.open_requests.saturating_sub(1);
            node.candidates.clear();
            if matches!(node.state, State::Deleting { .. }) {
                let releaser = node.waiting.take();
                self.effects.extend(releaser.map(|token| Effect::Complete(token, Err(failure))));
            }
        }
    }

    /// Sends a request again that the server has not decided.
    fn repeat(&mut self, request: NodeRequest) {
        let NodeRequest { node: id, op, path } = request;
        if let Some(node) = self.nodes.get_mut(&id) {
            node.open_requests = node.open_requests.saturating_sub(1);
            node.send(id, op, path, &mut self.effects);
        }
    }

    /// The session is attached to a server again. Chooses what must precede all other requests: the
    /// searches for creates and the deletes whose replies were lost.
    pub(crate) fn on_new_connection(&mut self) {
        self.epoch += 1;
        self.repetitions = 0;
        let mut lost = Vec::new();
        for (id, node) in self.nodes.iter_mut().filter(|(_, node)| node.open_requests == 0) {
            match &node.state {
                State::Creating | State::Held { .. } => {}
                State::Lost { .. } | State::Uncertain { .. } => lost.push(*id),
                State::Deleting { path } => {
                    let path = Arc::clone(path);
                    node.send(*id, NodeOp::Delete, path, &mut self.effects);
                }
            }
        }
        self.search(lost);
    }

    /// The session is over, and every node with it. All callers that wait receive `failure`, but
    /// for those whose request is not to be repeated.
    pub(crate) fn end(&mut self, failure: Failure) {
        (self.uncertain, self.refusals) = (false, false);
        self.searches = SearchQueue::default();
        for node in std::mem::take(&mut self.nodes).into_values() {
            let failure = match node.state {
                State::Lost { failure: never @ Failure::NeverAnswered { .. } } => never,
                _ => failure,
            };
            self.effects.extend(node.waiting.map(|token| Effect::Complete(token, Err(failure))));
        }
    }
}
