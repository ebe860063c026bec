//! How owned nodes are released, and how their deletes end.
//!
//! A delete that the server refuses is not the end: the permission may come back, and until the
//! node is gone it stands in the way of others. So the session repeats the delete, after each
//! session timeout and on each connection. A caller that waits for it gets the refusal at once.

use std::sync::Arc;

use tracing::warn;
use zk_proto::ErrorCode;

use crate::error::Failure;
use crate::session::event::RawReply;
use crate::session::owned_nodes::OwnedNodes;
use crate::session::owned_nodes::node_request::{NodeOp, OwnedNodeId};
use crate::session::owned_nodes::owned::{Effect, State};
use crate::trace;

impl<T> OwnedNodes<T> {
    /// Releases a node, which is deleted as soon as possible. If the node is not known to exist,
    /// `releaser` receives `NoNode` at once, and the session finds and deletes the node by itself.
    pub(crate) fn release(&mut self, id: OwnedNodeId, releaser: Option<T>) {
        let releaser = match self.nodes.get_mut(&id) {
            Some(node) => {
                node.released = true;
                if matches!(node.state, State::Held { .. }) {
                    return node.delete(id, releaser, &mut self.effects);
                }
                // The delete is under way or was refused, and no caller waits for its result.
                if let State::Deleting { path } = &node.state
                    && node.waiting.is_none()
                {
                    node.waiting = releaser;
                    if node.refused && node.open_requests == 0 {
                        let path = Arc::clone(path);
                        node.send(id, NodeOp::Delete, path, &mut self.effects);
                    }
                    return;
                }
                node.report_lost(true, &mut self.effects);
                releaser
            }
            None => releaser,
        };
        let answer = Err(Failure::Refused(ErrorCode::NO_NODE));
        self.effects.extend(releaser.map(|token| Effect::Complete(token, answer)));
    }

    /// True if a node is still to be found or deleted, if need be on the next connection. A
    /// node whose delete was refused is not waited for, since that may take for ever.
    pub(crate) fn is_busy(&self) -> bool {
        self.nodes.values().any(|node| match &node.state {
            State::Lost { .. } => node.released || node.waiting.is_some(),
            State::Deleting { .. } => !node.refused,
            State::Creating | State::Uncertain { .. } | State::Held { .. } => false,
        })
    }

    /// A delete was answered. Unless it was refused, the node is gone.
    pub(super) fn delete_answered(
        &mut self,
        id: OwnedNodeId,
        path: &str,
        result: Result<RawReply, Failure>,
    ) {
        let releaser = match result {
            Err(Failure::Refused(code)) if code != ErrorCode::NO_NODE => {
                self.refusals = true;
                self.nodes.get_mut(&id).and_then(|node| {
                    if !node.refused {
                        warn!(
                            target: trace::SESSION, %code, path,
                            "a delete is refused, and repeated until the node is gone"
                        );
                    }
                    node.refused = true;
                    node.waiting.take()
                })
            }
            _ => self.nodes.remove(&id).and_then(|node| node.waiting),
        };
        self.effects.extend(releaser.map(|token| Effect::Complete(token, result)));
    }

    /// Repeats the deletes that were refused.
    pub(crate) fn repeat_refused(&mut self) {
        self.refusals = false;
        for (id, node) in self.nodes.iter_mut().filter(|(_, node)| node.refused) {
            self.refusals = true;
            if let State::Deleting { path } = &node.state
                && node.open_requests == 0
            {
                let path = Arc::clone(path);
                node.send(*id, NodeOp::Delete, path, &mut self.effects);
            }
        }
    }

    /// The paths of the nodes whose delete was refused, oldest first.
    pub(crate) fn undeleted(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.values().filter_map(|node| match &node.state {
            State::Deleting { path } if node.refused => Some(path),
            _ => None,
        })
    }
}
