//! Nodes that this session owns on a caller's behalf, and must not forget.
//!
//! Ownership begins with the create of an ephemeral node under a unique name, and ends when no such
//! node is left. In between, the session does what keeps ghosts from staying behind: it looks for a
//! node by its name after the reconnect if the reply to the create was lost, it repeats a delete
//! until that is answered, and it deletes a node as soon as it can once the caller has dropped it.
//!
//! Pure: replies and losses go in, [`Effect`]s come out, and the session carries them out.

mod question;

mod multi;

mod owned;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use tracing::warn;
use zk_proto::{
    Create2Response, Decode, ErrorCode, ExistsResponse, GetChildrenResponse, Reader, SessionId,
    Zxid,
};

use crate::error::{Failure, ProtocolError};
use crate::session::event::Answer;
pub(crate) use crate::session::owned_nodes::owned::Effect;
use crate::session::owned_nodes::owned::{Owned, State, created};
pub use crate::session::owned_nodes::question::OwnedNodeId;
use crate::session::owned_nodes::question::Query;
pub(crate) use crate::session::owned_nodes::question::Question;
use crate::trace;

/// All nodes that a session owns, oldest first.
#[derive(Debug)]
pub(crate) struct OwnedNodes<T> {
    next: u64,
    nodes: BTreeMap<OwnedNodeId, Owned<T>>,
    effects: VecDeque<Effect<T>>,
    /// How often the session was attached to a server.
    connection: u64,
    /// Whether there may be a suspect.
    suspects: bool,
    /// How often suspects were looked for again on this connection.
    looks: u32,
}

impl<T> OwnedNodes<T> {
    pub(crate) fn new() -> Self {
        let (nodes, effects) = (BTreeMap::new(), VecDeque::new());
        Self { next: 0, nodes, effects, connection: 0, suspects: false, looks: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    #[inline]
    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// What is to be done after whatever was called.
    pub(crate) fn poll_effect(&mut self) -> Option<Effect<T>> {
        self.effects.pop_front()
    }

    /// A create under `stem` is about to be queued.
    pub(crate) fn open(&mut self, stem: &str, creator: T) -> OwnedNodeId {
        self.insert(stem, State::Creating, Some(creator))
    }

    /// A node that is there is somebody's from now on.
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
        result: Result<Answer, Failure>,
    ) -> Result<(), ProtocolError> {
        match result {
            Ok(answer) => match Create2Response::decode(&mut Reader::new(&answer.body)) {
                Ok(Create2Response { path, stat }) => {
                    self.created(id, path, stat.czxid, answer.requested_at);
                }
                Err(error) => return Err(self.garbled([id], error.into())),
            },
            Err(failure @ Failure::ReplyTooLarge { .. }) => self.unheard([id], failure),
            Err(failure) => self.refused([id], failure),
        }
        Ok(())
    }

    /// A multi was answered, in which these creates have their places.
    pub(crate) fn multi_answered(
        &mut self,
        owned: &[(usize, OwnedNodeId)],
        result: Result<Answer, Failure>,
    ) -> Result<(), ProtocolError> {
        let ids = owned.iter().map(|(_, id)| *id);
        let answer = match result {
            Ok(answer) => answer,
            Err(failure @ Failure::ReplyTooLarge { .. }) => {
                self.unheard(ids, failure);
                return Ok(());
            }
            Err(failure) => {
                self.refused(ids, failure);
                return Ok(());
            }
        };
        match multi::created_paths(&answer, owned.iter().map(|(place, _)| *place)) {
            Ok(Ok(paths)) => ids
                .zip(paths)
                .for_each(|(id, path)| self.created(id, path, answer.zxid, answer.requested_at)),
            Ok(Err(failure)) => self.refused(ids, failure),
            Err(error) => return Err(self.garbled(ids, error.into())),
        }
        Ok(())
    }

    /// A multi was answered of the create of this owned node and, behind it, a delete.
    pub(crate) fn replace_answered(
        &mut self,
        delete: Question,
        create: OwnedNodeId,
        result: Result<Answer, Failure>,
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
                self.created(create, path, answer.zxid, answer.requested_at);
            }
            // There is nothing left to delete, or it may not be done: as if asked for alone.
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

    /// The create made this. It goes at once if its holder has.
    fn created(&mut self, id: OwnedNodeId, path: &str, czxid: Zxid, requested_at: Instant) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.state = State::Held { path: path.into() };
            if let Some(creator) = node.waiting.take() {
                let answer = created(path, czxid, requested_at);
                self.effects.push_back(Effect::Complete(creator, Ok(answer)));
            }
            if node.due {
                node.delete(id, None, &mut self.effects);
            }
        }
    }

    /// The creates were refused: nothing was made.
    fn refused(&mut self, ids: impl IntoIterator<Item = OwnedNodeId>, failure: Failure) {
        for id in ids {
            let creator = self.withdraw(id);
            self.effects.extend(creator.map(|token| Effect::Complete(token, Err(failure))));
        }
    }

    /// The answer makes no sense. Something was created; the next connection will tell what.
    fn garbled(
        &mut self,
        ids: impl IntoIterator<Item = OwnedNodeId>,
        error: ProtocolError,
    ) -> ProtocolError {
        let failure = Failure::ConnectionLoss { sent: true, why: error.into() };
        ids.into_iter().for_each(|id| self.lost(id, failure));
        error
    }

    /// The answer was not kept. Something may have been created, which the server can be asked for.
    fn unheard(&mut self, ids: impl IntoIterator<Item = OwnedNodeId>, failure: Failure) {
        for id in ids {
            self.lost(id, failure);
            if let Some(node) = self.nodes.get_mut(&id) {
                node.look(id, &mut self.effects);
            }
        }
    }

    /// The create made nothing. Gives back who waits to hear it.
    pub(crate) fn withdraw(&mut self, id: OwnedNodeId) -> Option<T> {
        self.nodes.remove(&id)?.waiting
    }

    /// The create may have made something.
    fn lost(&mut self, id: OwnedNodeId, failure: Failure) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.state = State::Lost { failure };
        }
    }

    /// The create will get no answer. Gives back its creator, unless the node will be looked for.
    pub(crate) fn create_unanswered(&mut self, id: OwnedNodeId, failure: Failure) -> Option<T> {
        if let Failure::ConnectionLoss { sent: true, .. } = failure {
            self.lost(id, failure);
            return None;
        }
        self.withdraw(id)
    }

    /// Whether the node is there and is to stay.
    pub(crate) fn holds(&self, id: OwnedNodeId) -> bool {
        self.nodes
            .get(&id)
            .is_some_and(|node| !node.due && matches!(node.state, State::Held { .. }))
    }

    /// The holder lets go. If the node is not known to exist, `releaser` hears that at once, and
    /// the owned node is looked for by itself.
    pub(crate) fn release(&mut self, id: OwnedNodeId, releaser: Option<T>) {
        let releaser = match self.nodes.get_mut(&id) {
            Some(node) => {
                node.due = true;
                if matches!(node.state, State::Held { .. }) {
                    return node.delete(id, releaser, &mut self.effects);
                }
                // Being deleted already, and nobody waits to hear how that went.
                if matches!(node.state, State::Deleting { .. }) && node.waiting.is_none() {
                    node.waiting = releaser;
                    return;
                }
                node.tell_creator(true, &mut self.effects);
                releaser
            }
            None => releaser,
        };
        let answer = Err(Failure::Refused(ErrorCode::NO_NODE));
        self.effects.extend(releaser.map(|token| Effect::Complete(token, answer)));
    }

    /// The holder lets go of a node that shall stay, or that is gone.
    pub(crate) fn forget(&mut self, id: OwnedNodeId) {
        let held = |node: &Owned<T>| matches!(node.state, State::Held { .. });
        if self.nodes.get(&id).is_some_and(held) {
            self.nodes.remove(&id);
        }
    }

    /// Whether there is something left to learn or to delete, if need be on the next connection.
    pub(crate) fn is_busy(&self) -> bool {
        self.nodes.values().any(|node| match &node.state {
            State::Lost { .. } => node.due || node.waiting.is_some(),
            State::Deleting { .. } => true,
            State::Creating | State::Suspect { .. } | State::Held { .. } => false,
        })
    }

    /// A question was answered. `own` is the session that nodes must belong to.
    pub(crate) fn answered(
        &mut self,
        question: Question,
        result: Result<Answer, Failure>,
        own: Option<SessionId>,
    ) -> Result<(), ProtocolError> {
        let Question { node: id, query, path } = question;
        let Some(node) = self.nodes.get_mut(&id) else {
            return Ok(());
        };
        node.asking = node.asking.saturating_sub(1);
        let effects = &mut self.effects;
        let mut result = result;
        if query == Query::List
            && let Some(code) = node.unsynced.take()
        {
            result = Err(Failure::Refused(code));
        }
        match (query, &result) {
            (Query::Sync, Ok(_)) => {}
            (Query::Sync, Err(Failure::Refused(code))) => node.unsynced = Some(*code),
            // Shed unexecuted by a server that is overloaded, and that paces us by its answers.
            (Query::List, Err(Failure::Refused(ErrorCode::THROTTLED_OP))) => {
                node.look(id, effects);
            }
            (_, Err(Failure::Refused(ErrorCode::THROTTLED_OP))) => {
                node.ask(id, query, path, effects);
            }
            (Query::List, Ok(answer)) => {
                let list = GetChildrenResponse::decode(&mut Reader::new(&answer.body))?;
                node.choose(&list);
                self.look_closer(id);
            }
            (Query::Stat, Ok(answer)) => {
                let ExistsResponse { stat } = Decode::decode(&mut Reader::new(&answer.body))?;
                match own == Some(stat.ephemeral_owner) {
                    true => node.found(id, path, stat, answer.requested_at, effects),
                    // Another session's: perhaps an earlier life of ours, under the same names.
                    false => self.look_closer(id),
                }
            }
            (Query::List | Query::Stat, Err(Failure::Refused(ErrorCode::NO_NODE))) => {
                self.look_closer(id);
            }
            // It may be anybody's (since 3.9.2 exists needs the permission to read), but ours may
            // be among the others.
            (Query::Stat, Err(Failure::Refused(ErrorCode::NO_AUTH))) => {
                node.unreadable = true;
                self.look_closer(id);
            }
            (Query::Sync | Query::List | Query::Stat, Err(_)) => {
                // Nothing was learnt. The caller must not wait for the next connection to tell
                // more; what is found then belongs to nobody, and goes.
                node.tell_creator(true, effects);
            }
            (Query::Delete, result) => {
                if let Err(Failure::Refused(code)) = result
                    && *code != ErrorCode::NO_NODE
                {
                    warn!(
                        target: trace::SESSION, %code, %path,
                        "a node outlives its owner until the session ends"
                    );
                }
                let releaser = self.nodes.remove(&id).and_then(|node| node.waiting);
                let told = releaser.map(|token| Effect::Complete(token, result.clone()));
                effects.extend(told);
            }
        }
        Ok(())
    }

    /// A question went down with its connection. It is asked again on the next one; who waits for
    /// a delete hears of the loss.
    pub(crate) fn unanswered(&mut self, question: &Question, failure: Failure) {
        if let Some(node) = self.nodes.get_mut(&question.node) {
            node.asking = node.asking.saturating_sub(1);
            node.unsynced = None;
            node.candidates.clear();
            if matches!(node.state, State::Deleting { .. }) {
                let releaser = node.waiting.take();
                self.effects.extend(releaser.map(|token| Effect::Complete(token, Err(failure))));
            }
        }
    }

    /// A question was not decided, and is asked again.
    fn repeat(&mut self, question: Question) {
        let Question { node: id, query, path } = question;
        if let Some(node) = self.nodes.get_mut(&id) {
            node.asking = node.asking.saturating_sub(1);
            node.ask(id, query, path, &mut self.effects);
        }
    }

    /// Whether nodes are suspected to come although they were not found.
    #[inline]
    pub(crate) fn has_suspects(&self) -> bool {
        self.suspects
    }

    /// Those of which nothing is being asked just now.
    fn suspects(&mut self) -> impl Iterator<Item = (OwnedNodeId, &mut Owned<T>)> {
        let is_suspect = |node: &Owned<T>| matches!(node.state, State::Suspect { .. });
        self.suspects = self.nodes.values().any(is_suspect);
        let is_idle = move |node: &Owned<T>| is_suspect(node) && node.asking == 0;
        self.nodes.iter_mut().map(|(id, node)| (*id, node)).filter(move |(_, it)| is_idle(it))
    }

    /// Somebody has listed a folder: a node that is suspected may be in it.
    pub(crate) fn listed(&mut self, list: &Answer) {
        // Whoever asked for a list that makes no sense will say so.
        if let Ok(list) = GetChildrenResponse::decode(&mut Reader::new(&list.body)) {
            let mut found = Vec::new();
            for (id, node) in self.suspects() {
                node.choose(&list);
                found.extend((!node.candidates.is_empty()).then_some(id));
            }
            found.into_iter().for_each(|id| self.look_closer(id));
        }
    }

    /// How often it was looked again for what is suspected.
    pub(crate) fn looks(&self) -> u32 {
        self.looks
    }

    /// Looks again for what is suspected.
    pub(crate) fn look_again(&mut self) {
        self.looks = self.looks.saturating_add(1);
        let mut effects = std::mem::take(&mut self.effects);
        self.suspects().for_each(|(id, node)| node.look(id, &mut effects));
        self.effects = effects;
    }

    /// The session is attached to a server again: asks what must precede everything else.
    pub(crate) fn attached(&mut self) {
        self.connection += 1;
        self.looks = 0;
        for (id, node) in self.nodes.iter_mut().filter(|(_, node)| node.asking == 0) {
            match &node.state {
                State::Creating | State::Held { .. } => {}
                State::Lost { .. } | State::Suspect { .. } => node.look(*id, &mut self.effects),
                State::Deleting { path } => {
                    let path = Arc::clone(path);
                    node.ask(*id, Query::Delete, path, &mut self.effects);
                }
            }
        }
    }

    /// The session is over, and every node with it: all who wait hear `failure`.
    pub(crate) fn end(&mut self, failure: Failure) {
        self.suspects = false;
        let waiting = std::mem::take(&mut self.nodes).into_values().filter_map(|it| it.waiting);
        self.effects.extend(waiting.map(|token| Effect::Complete(token, Err(failure))));
    }

    /// Looks whose the next node of this name is.
    fn look_closer(&mut self, id: OwnedNodeId) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        match node.candidates.pop() {
            Some(path) => node.ask(id, Query::Stat, path.into(), &mut self.effects),
            // Nothing was learnt.
            None if node.unreadable => node.tell_creator(true, &mut self.effects),
            None => self.missing(id),
        }
    }

    /// There is no such node, or only somebody else's.
    fn missing(&mut self, id: OwnedNodeId) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        match &node.state {
            State::Lost { .. } => {
                node.tell_creator(false, &mut self.effects);
                node.state = State::Suspect { connection: self.connection };
                self.suspects = true;
            }
            // The server has answered on two connections that it is not there.
            State::Suspect { connection } if *connection < self.connection => {
                self.nodes.remove(&id);
            }
            State::Suspect { .. } => {}
            State::Creating | State::Held { .. } | State::Deleting { .. } => {}
        }
    }
}
