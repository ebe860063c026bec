//! Which folders are searched for lost nodes, and for which.
//!
//! One search of a folder serves all of its nodes, and few folders are searched at a time: replies
//! come in order, and those that prove a lease must not wait behind all folders.

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_proto::ErrorCode;

use crate::session::owned_nodes::node_request::OwnedNodeId;

/// How many folders are searched at a time. With one at a time, each would cost a round trip.
const MAX_UNDER_WAY: usize = 8;

/// The searches that are under way or due, by folder.
#[derive(Debug, Default)]
pub(super) struct SearchQueue(BTreeMap<Arc<str>, Search>);

/// The search of one folder.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The nodes that the request under way is for. There is no request if this is empty.
    pub(super) asked: Vec<OwnedNodeId>,
    /// The sync ahead of the request was refused, so its reply proves nothing.
    pub(super) sync_error: Option<ErrorCode>,
    /// The nodes that the next request will be for.
    waiting: Vec<OwnedNodeId>,
}

impl SearchQueue {
    /// The folder is to be searched for this node, by a request that is sent from now on.
    pub(super) fn add(&mut self, folder: &str, node: OwnedNodeId) {
        if let Some(search) = self.0.get_mut(folder) {
            search.waiting.push(node);
        } else {
            let search = Search { waiting: vec![node], ..Search::default() };
            self.0.insert(folder.into(), search);
        }
    }

    /// The folders that are to be asked for now, each with a node for which that is done.
    pub(super) fn begin(&mut self) -> Vec<(Arc<str>, OwnedNodeId)> {
        let under_way = self.0.values().filter(|search| !search.asked.is_empty()).count();
        let idle = self.0.iter_mut().filter(|(_, search)| search.asked.is_empty());
        idle.take(MAX_UNDER_WAY.saturating_sub(under_way))
            .filter_map(|(folder, search)| {
                search.asked = std::mem::take(&mut search.waiting);
                Some((Arc::clone(folder), *search.asked.first()?))
            })
            .collect()
    }

    /// The sync ahead of the request for this folder was refused.
    pub(super) fn refuse_sync(&mut self, folder: &str, code: ErrorCode) {
        if let Some(search) = self.0.get_mut(folder) {
            search.sync_error = Some(code);
        }
    }

    /// The request under way for this folder will get no further reply.
    pub(super) fn end(&mut self, folder: &str) -> Search {
        let Some(mut search) = self.0.remove(folder) else {
            return Search::default();
        };
        let waiting = std::mem::take(&mut search.waiting);
        if !waiting.is_empty() {
            self.0.insert(folder.into(), Search { waiting, ..Search::default() });
        }
        search
    }
}
