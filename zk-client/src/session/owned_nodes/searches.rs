//! The search for nodes whose creates got no reply that proves anything.
//!
//! A node that is not found is uncertain: it may be created or become visible later.

use std::sync::Arc;

use zk_proto::{Decode, ErrorCode, GetChildrenResponse, GetEphemeralsResponse, Reader};

use crate::error::{Failure, ProtocolError};
use crate::session::event::RawReply;
use crate::session::owned_nodes::OwnedNodes;
use crate::session::owned_nodes::node_request::{NodeOp, NodeRequest, OwnedNodeId, inside};
use crate::session::owned_nodes::owned::{Effect, Owned, State, split};
use crate::session::owned_nodes::search_queue::Search;

/// On so many further connections a session looks for a node that it has not found, at most. Fewer
/// will do if one of them lasts for a session timeout.
const MAX_CONNECTIONS: u64 = 8;

impl<T> OwnedNodes<T> {
    /// Looks for these nodes by their names.
    pub(super) fn search(&mut self, ids: Vec<OwnedNodeId>) {
        for id in ids {
            if let Some(node) = self.nodes.get_mut(&id) {
                node.open_requests += 1;
                self.searches.add(split(&node.stem).0, id);
            }
        }
        self.begin_searches();
    }

    fn begin_searches(&mut self) {
        let find = if self.by_listing { NodeOp::List } else { NodeOp::Ephemerals };
        for (path, node) in self.searches.begin() {
            let send = |op| Effect::Send(NodeRequest { node, op, path: Arc::clone(&path) });
            self.effects.extend([NodeOp::Sync, find].map(send));
        }
    }

    /// The request of a search will get no further reply.
    pub(super) fn end_search(&mut self, folder: &str) -> Search {
        let search = self.searches.end(folder);
        for id in &search.asked {
            if let Some(node) = self.nodes.get_mut(id) {
                node.open_requests = node.open_requests.saturating_sub(1);
            }
        }
        search
    }

    /// The sync of a search, or the request behind it, was answered.
    pub(super) fn search_answered(
        &mut self,
        op: NodeOp,
        folder: &str,
        result: Result<RawReply, Failure>,
    ) -> Result<(), ProtocolError> {
        if op == NodeOp::Sync {
            if let Err(Failure::Refused(code)) = result {
                self.searches.refuse_sync(folder, code);
            }
            return Ok(());
        }
        let Search { asked, sync_error, .. } = self.end_search(folder);
        let result = sync_error.map_or(result, |code| Err(Failure::Refused(code)));
        match &result {
            Ok(answer) => {
                let names = match op {
                    NodeOp::Ephemerals => ephemerals(answer, &inside(folder))?,
                    _ => children(answer)?,
                };
                self.look(&asked, &names);
            }
            Err(Failure::Refused(ErrorCode::NO_NODE)) => self.look(&asked, &[]),
            // An overloaded server has shed the request unexecuted. It is sent again at once, since
            // the server paces the session by its replies.
            Err(Failure::Refused(ErrorCode::THROTTLED_OP)) => self.search(asked),
            // From now on it is asked for a listing.
            Err(Failure::Refused(ErrorCode::UNIMPLEMENTED)) if op == NodeOp::Ephemerals => {
                self.search(asked);
            }
            Err(_) => asked.into_iter().for_each(|id| self.learnt_nothing(id)),
        }
        self.begin_searches();
        Ok(())
    }

    /// The server does not know getEphemerals.
    pub(crate) fn search_by_listing(&mut self) {
        self.by_listing = true;
    }

    /// Looks for these nodes among the names in their folder.
    fn look(&mut self, ids: &[OwnedNodeId], names: &[&str]) {
        for id in ids {
            if let Some(node) = self.nodes.get_mut(id) {
                node.set_candidates(names);
                self.search_next_candidate(*id);
            }
        }
    }

    /// The uncertain nodes without a request that is queued or in flight.
    fn idle_uncertain(&mut self) -> impl Iterator<Item = (OwnedNodeId, &mut Owned<T>)> {
        let is_uncertain = |node: &Owned<T>| match node.state {
            State::Uncertain { .. } => true,
            // Nothing was learnt when it was searched for.
            State::Lost { .. } => node.waiting.is_none(),
            _ => false,
        };
        self.uncertain = self.nodes.values().any(is_uncertain);
        let is_idle = move |node: &Owned<T>| is_uncertain(node) && node.open_requests == 0;
        self.nodes.iter_mut().map(|(id, node)| (*id, node)).filter(move |(_, it)| is_idle(it))
    }

    /// A caller has listed a folder, which may contain an uncertain node.
    pub(crate) fn listed(&mut self, list: &RawReply) {
        // A list that does not decode is reported by the caller that asked for it.
        if let Ok(names) = children(list) {
            let mut found = Vec::new();
            for (id, node) in self.idle_uncertain() {
                node.set_candidates(&names);
                found.extend((!node.candidates.is_empty()).then_some(id));
            }
            found.into_iter().for_each(|id| self.search_next_candidate(id));
        }
    }

    /// How many times uncertain nodes were searched for again on this connection.
    pub(crate) fn repetitions(&self) -> u32 {
        self.repetitions
    }

    /// Looks for the uncertain nodes again.
    pub(crate) fn search_again(&mut self) {
        self.repetitions = self.repetitions.saturating_add(1);
        let uncertain = self.idle_uncertain().map(|(id, _)| id).collect();
        self.search(uncertain);
    }

    /// Asks which session owns the next candidate.
    pub(super) fn search_next_candidate(&mut self, id: OwnedNodeId) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        match node.candidates.pop() {
            Some(path) => node.send(id, NodeOp::Stat, path.into(), &mut self.effects),
            // The owner of a candidate is unknown: it may be ours.
            None if node.unreadable => self.learnt_nothing(id),
            None => self.missing(id),
        }
    }

    /// A search was refused, or a candidate cannot be looked at. The caller must not have to wait
    /// until something is learnt. A node that is found later has no holder any more and is deleted.
    pub(super) fn learnt_nothing(&mut self, id: OwnedNodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.report_lost(true, &mut self.effects);
            self.uncertain = true;
        }
    }

    /// No node has this name, or only nodes of other sessions have it.
    fn missing(&mut self, id: OwnedNodeId) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        match &node.state {
            State::Lost { .. } => {
                node.report_lost(false, &mut self.effects);
                node.state = State::Uncertain { epoch: self.epoch };
                self.uncertain = true;
            }
            // A further connection alone proves little: the create may still be on its way.
            State::Uncertain { epoch } => {
                let further = self.epoch.saturating_sub(*epoch);
                let has_lasted = further > 0 && self.repetitions > 0;
                match has_lasted || further >= MAX_CONNECTIONS {
                    true => drop(self.nodes.remove(&id)),
                    false => self.uncertain = true,
                }
            }
            State::Creating | State::Held { .. } | State::Deleting { .. } => {}
        }
    }
}

/// The names in a listing, in order.
fn children(answer: &RawReply) -> Result<Vec<&str>, ProtocolError> {
    let list = GetChildrenResponse::decode(&mut Reader::new(&answer.body))?;
    let mut names = list.children.iter().collect::<Vec<_>>();
    names.sort_unstable();
    Ok(names)
}

/// The names of this session's ephemeral nodes in a folder, in order. Paths of nodes further down
/// are among them, and no owned node has such a name.
fn ephemerals<'a>(answer: &'a RawReply, inside: &str) -> Result<Vec<&'a str>, ProtocolError> {
    let own = GetEphemeralsResponse::decode(&mut Reader::new(&answer.body))?;
    let mut names =
        own.ephemerals.iter().filter_map(|path| path.strip_prefix(inside)).collect::<Vec<_>>();
    names.sort_unstable();
    Ok(names)
}
