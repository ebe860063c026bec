//! A model of the nodes that callers own, as far as callers and server can know: which nodes may be
//! deleted, which must be, and which have leases.
//!
//! It makes no claim about nodes whose creator got no path: only the session may know them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::session::{Lapse, LeaseId, LeaseState, OwnedNodeId};

/// An owned node.
#[derive(Default)]
struct Holding {
    /// The path that its creator received.
    path: Option<String>,
    released: bool,
    /// A lease of it has lapsed.
    lapsed: bool,
    /// An event has told that it is deleted.
    gone: bool,
    /// The session leaves the node alone from then on, unless it was released before.
    forgotten: bool,
}

impl Holding {
    fn may_go(&self) -> bool {
        self.released || self.lapsed
    }

    fn is_held(&self) -> bool {
        self.path.is_some() && !self.may_go() && !self.gone && !self.forgotten
    }
}

struct Lease {
    id: LeaseId,
    /// The node, unless the lease has lapsed since it was opened.
    node: Option<OwnedNodeId>,
}

#[derive(Default)]
pub(super) struct Shadow {
    holdings: BTreeMap<OwnedNodeId, Holding>,
    /// Owned nodes by the token of the create.
    creators: BTreeMap<u32, OwnedNodeId>,
    leases: Vec<Lease>,
    /// Paths whose delete was carried out, or that were gone before.
    gone: BTreeSet<String>,
    /// Whether a lease was running since the last probe could be sent.
    relied: bool,
}

impl Shadow {
    pub(super) fn owned_nodes(&self) -> Vec<OwnedNodeId> {
        self.holdings.keys().copied().collect()
    }

    pub(super) fn leases(&self) -> Vec<LeaseId> {
        self.leases.iter().map(|lease| lease.id).collect()
    }

    pub(super) fn creating(&mut self, token: u32, node: OwnedNodeId) {
        self.creators.insert(token, node);
        self.holdings.insert(node, Holding::default());
    }

    /// A create was completed with this path.
    pub(super) fn created(&mut self, token: u32, path: &str) {
        if let Some(holding) =
            self.creators.get(&token).and_then(|node| self.holdings.get_mut(node))
        {
            holding.path = Some(path.to_owned());
        }
    }

    /// The path of an owned node, if its creator received it.
    pub(super) fn path(&self, node: OwnedNodeId) -> Option<&str> {
        self.holdings.get(&node)?.path.as_deref()
    }

    /// Whether this token belongs to a create.
    pub(super) fn is_creator(&self, token: u32) -> bool {
        self.creators.contains_key(&token)
    }

    pub(super) fn adopted(&mut self, node: OwnedNodeId, path: String) {
        self.holdings.insert(node, Holding { path: Some(path), ..Holding::default() });
    }

    pub(super) fn released(&mut self, node: OwnedNodeId) {
        if let Some(holding) = self.holdings.get_mut(&node).filter(|holding| !holding.forgotten) {
            holding.released = true;
        }
    }

    pub(super) fn forgotten(&mut self, node: OwnedNodeId) {
        if let Some(holding) = self.holdings.get_mut(&node)
            && holding.path.is_some()
            && !holding.released
        {
            holding.forgotten = true;
        }
    }

    /// A lease was opened, and is in this state.
    pub(super) fn leased(&mut self, id: LeaseId, node: OwnedNodeId, state: LeaseState) {
        let held = self.holdings.get_mut(&node).filter(|holding| holding.is_held());
        match (held, state) {
            // Nothing was known of the session, so the node is deleted.
            (Some(holding), LeaseState::Lapsed(Lapse::Deadline | Lapse::MaxDuration)) => {
                holding.lapsed = true;
                self.leases.push(Lease { id, node: None });
            }
            (_, LeaseState::Lapsed(_)) => self.leases.push(Lease { id, node: None }),
            (held, _) => {
                assert!(held.is_some(), "a lease of a node that is not held: {state:?}");
                self.leases.push(Lease { id, node: Some(node) });
            }
        }
    }

    /// A lease is closed.
    pub(super) fn closed(&mut self, id: LeaseId) {
        self.leases.retain(|lease| lease.id != id);
    }

    /// Checks the states of leases: a lapsed lease stays lapsed, and a valid one is valid for less
    /// than the session timeout.
    pub(super) fn look(
        &mut self,
        now: Instant,
        timeout: Duration,
        connected: bool,
        state: impl Fn(LeaseId) -> LeaseState,
    ) {
        for lease in &mut self.leases {
            match (lease.node, state(lease.id)) {
                (None, state) => {
                    assert!(matches!(state, LeaseState::Lapsed(_)), "{state:?} behind a lapse");
                }
                (Some(_), LeaseState::Lapsed(Lapse::Ended(_))) => lease.node = None,
                (Some(node), LeaseState::Lapsed(lapse)) => {
                    lease.node = None;
                    if let Some(holding) = self.holdings.get_mut(&node) {
                        holding.gone |= lapse == Lapse::NodeDeleted;
                        holding.lapsed |= lapse != Lapse::NodeDeleted;
                    }
                }
                (Some(_), LeaseState::Suspended { until }) => {
                    assert!(now < until, "suspended until the past");
                    self.relied = true;
                }
                (Some(_), LeaseState::Valid { until }) => {
                    assert!(connected, "valid without a connection");
                    assert!(now < until && until <= now + timeout, "valid for longer than T");
                    self.relied = true;
                }
            }
        }
    }

    /// This many probes were sent at once: at most one is allowed, and only while a lease is
    /// running. `waits` tells whether one is still queued, perhaps for a lease that has lapsed: a
    /// session that is about to leave its server sends nothing.
    pub(super) fn probed(&mut self, probes: usize, waits: bool) {
        assert!(probes <= usize::from(self.relied), "{probes} probes");
        let may_wait = self.relied && probes == 0 && waits;
        self.relied = may_wait || self.leases.iter().any(|lease| lease.node.is_some());
    }

    /// A node is about to be deleted: its holder has released it.
    pub(super) fn deleting(&self, path: &str) {
        let mut known = self.holdings.values().filter(|it| it.path.as_deref() == Some(path));
        let kept = known.clone().count() > 0 && !known.any(Holding::may_go);
        assert!(!kept, "{path} is deleted and was not let go");
    }

    /// A delete was answered, and the node is gone.
    pub(super) fn deleted(&mut self, path: String) {
        self.gone.insert(path);
    }

    /// Checks that every node that was released is deleted, but for those that a detached session
    /// says it has left behind, since the server refused to delete them.
    pub(super) fn check_gone(&self, left_behind: &[Arc<str>]) {
        for holding in self.holdings.values().filter(|it| it.may_go() && !it.forgotten) {
            if let Some(path) = &holding.path {
                let is_told = left_behind.iter().any(|left| **left == **path);
                assert!(self.gone.contains(path) || is_told, "{path} is still there");
            }
        }
    }

    /// The number of nodes that are held, once all replies have come.
    pub(super) fn held(&self) -> usize {
        self.holdings.values().filter(|holding| holding.is_held()).count()
    }
}
