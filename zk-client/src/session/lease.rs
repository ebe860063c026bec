//! Leases: until when callers may rely on the nodes that they own.
//!
//! A lease that has lapsed stays lapsed, even if the session turns out to be alive after all: a
//! caller may have acted on it. The state of a lease is a function of the time, so the first
//! reading after a long sleep is right. The marks that make a lapse permanent follow when the
//! session next runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Ended;
use crate::session::owned_nodes::OwnedNodeId;

/// The state of a lease.
///
/// All instants are of the client's [`Clock`](crate::Clock).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseState {
    /// The lease is valid, at least until `until`.
    ///
    /// As long as the session is well, `until` moves on before it comes, up to the end of its
    /// maximal duration.
    Valid {
        /// The deadline of the session, or the end of the maximal duration if that is earlier.
        until: Instant,
    },
    /// The lease lapses at `until`, unless the session recovers.
    ///
    /// The connection is gone, or something that was sent a third of the session timeout ago has no
    /// reply, or the lease is new and the last proof of the session is too old for it. Unless that
    /// changes, the lease lapses: begin nothing that takes longer, and postpone what can wait.
    Suspended {
        /// The deadline of the session, or the end of the maximal duration if that is earlier.
        ///
        /// A lease that was valid before can be relied on until then.
        until: Instant,
    },
    /// The lease is over for good, even if its node still exists: the client deletes it.
    Lapsed(Lapse),
}

/// Why a lease is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lapse {
    /// The session is over, and the node with it.
    Ended(Ended),
    /// The session was not confirmed in time.
    ///
    /// The servers may have ended it. This is also the reason if an earlier lease of the same
    /// node is over.
    Deadline,
    /// The maximal duration of the lease has passed.
    MaxDuration,
    /// A watch of this client has reported that the node is deleted, and not by its owner.
    NodeDeleted,
}

/// Identifies a lease of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(u64);

/// What the session knows about all leases at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionHealth {
    /// When the leases lapse, if nothing is learnt before. `None` if that is not known.
    pub(crate) deadline: Option<Instant>,
    /// True if the deadline has not passed and the connection is well.
    pub(crate) valid: bool,
    /// How far away the deadline must be for a new lease to begin.
    pub(crate) needed: Duration,
    /// How far the deadline lies behind the request that it counts from.
    pub(crate) term: Duration,
}

impl SessionHealth {
    fn is_over(&self, now: Instant) -> bool {
        self.deadline.is_none_or(|deadline| deadline <= now)
    }

    /// True if a new lease may begin: the next proof comes before the deadline, even if it is late.
    /// If all replies are late, that is so once a request was confirmed that was sent since the
    /// lease was opened: from then on there are samples enough.
    fn lets_begin(&self, now: Instant, opened: Instant) -> bool {
        let is_enough = |deadline| deadline >= now + self.needed || deadline >= opened + self.term;
        !self.is_over(now) && self.deadline.is_some_and(is_enough)
    }
}

/// A lease that has not begun, since the last proof of the session is too old.
#[derive(Clone, Copy, Debug)]
struct Pending {
    opened: Instant,
    /// When it lapses without a proof. Nobody relies on it, so that may be after the deadline.
    until: Option<Instant>,
}

#[derive(Debug)]
struct Lease {
    node: OwnedNodeId,
    path: Arc<str>,
    expires_at: Option<Instant>,
    lapse: Option<Lapse>,
}

/// The leases of a session.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    next: u64,
    leases: BTreeMap<LeaseId, Lease>,
    /// How many have not lapsed.
    running: usize,
    /// Those that have neither begun nor lapsed.
    pending: BTreeMap<LeaseId, Pending>,
    /// When the leases that have not lapsed reach their maximal durations.
    expiries: BTreeSet<(Instant, LeaseId)>,
    /// The paths of the nodes of the leases that have not lapsed.
    paths: BTreeMap<Arc<str>, Vec<LeaseId>>,
}

impl Leases {
    /// How many have not lapsed.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// When the first lease reaches its maximal duration.
    pub(crate) fn first_expiry(&self) -> Option<Instant> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// The first time at which a lease lapses, if nothing is learnt before.
    pub(crate) fn first_lapse(&self, health: SessionHealth) -> Option<Instant> {
        let begun = health.deadline.filter(|_| self.running > self.pending.len());
        let pending = self.pending.values().filter_map(|it| it.until.max(health.deadline));
        pending.chain(begun).chain(self.first_expiry()).min()
    }

    /// A caller opens a lease on a node. If the last proof of the session is too old, the lease
    /// begins with a new one, which is waited for until `patience` at least. But it begins at once
    /// if another one has begun, whose deadline is the same.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        (node, path): (OwnedNodeId, Arc<str>),
        expires_at: Option<Instant>,
        health: SessionHealth,
        patience: Option<Instant>,
    ) -> LeaseId {
        let id = LeaseId(self.next);
        self.next += 1;
        if self.running == self.pending.len() && !health.lets_begin(now, now) {
            self.pending.insert(id, Pending { opened: now, until: patience });
        }
        self.paths.entry(Arc::clone(&path)).or_default().push(id);
        self.leases.insert(id, Lease { node, path, expires_at, lapse: None });
        self.running += 1;
        self.expiries.extend(expires_at.map(|at| (at, id)));
        id
    }

    /// Begins all leases if one of them can begin now. True if there was one that waited for it.
    pub(crate) fn begin(&mut self, now: Instant, health: SessionHealth) -> bool {
        let begins = self.pending.values().any(|pending| health.lets_begin(now, pending.opened));
        if begins {
            self.pending.clear();
        }
        begins
    }

    /// The caller no longer relies on the node.
    pub(crate) fn close(&mut self, id: LeaseId) {
        self.lapse(id, Lapse::Deadline);
        self.leases.remove(&id);
    }

    /// The state of a lease at `now`, from what is known.
    pub(crate) fn state(&self, id: LeaseId, now: Instant, health: SessionHealth) -> LeaseState {
        let Some(lease) = self.leases.get(&id) else {
            return LeaseState::Lapsed(Lapse::Deadline);
        };
        let pending = self.pending(id, now, health);
        let deadline = health.deadline.max(pending.and_then(|it| it.until));
        match (lease.lapse.or_else(|| lease.lapsed(now, deadline)), deadline) {
            (Some(lapse), _) => LeaseState::Lapsed(lapse),
            (None, None) => LeaseState::Lapsed(Lapse::Deadline),
            (None, Some(deadline)) => {
                let until = lease.expires_at.map_or(deadline, |at| at.min(deadline));
                match health.valid && pending.is_none() {
                    true => LeaseState::Valid { until },
                    false => LeaseState::Suspended { until },
                }
            }
        }
    }

    /// What a lease waits for, if it cannot begin by now.
    fn pending(&self, id: LeaseId, now: Instant, health: SessionHealth) -> Option<&Pending> {
        self.pending.get(&id).filter(|pending| !health.lets_begin(now, pending.opened))
    }

    /// Marks the leases that have lapsed by now, and returns the nodes to delete.
    pub(crate) fn expire(&mut self, now: Instant, health: SessionHealth) -> Vec<OwnedNodeId> {
        let is_unknown = health.deadline.is_none();
        let is_due = is_unknown || self.first_lapse(health).is_some_and(|at| at <= now);
        if self.running == 0 || !is_due {
            return Vec::new();
        }
        let lapse_of = |(id, lease): (&LeaseId, &Lease)| {
            let pending = self.pending(*id, now, health);
            let deadline = health.deadline.max(pending.and_then(|it| it.until));
            Some((lease.node, lease.lapsed(now, deadline)?))
        };
        let running = self.leases.iter().filter(|(_, lease)| lease.lapse.is_none());
        // The node is deleted, so all its other leases lapse too.
        let nodes: BTreeMap<OwnedNodeId, Lapse> = running.filter_map(lapse_of).collect();
        let lapsed = self.leases.iter();
        let lapsed: Vec<(LeaseId, Lapse)> =
            lapsed.filter_map(|(id, lease)| Some((*id, *nodes.get(&lease.node)?))).collect();
        lapsed.into_iter().for_each(|(id, lapse)| self.lapse(id, lapse));
        nodes.into_keys().collect()
    }

    /// The node that has a running lease, and this path.
    pub(crate) fn node_at(&self, path: &str) -> Option<OwnedNodeId> {
        let id = self.paths.get(path)?.first()?;
        self.leases.get(id).map(|lease| lease.node)
    }

    /// The node at this path is deleted: all leases of it lapse.
    pub(crate) fn node_deleted(&mut self, path: &str) {
        let ids = self.paths.remove(path).unwrap_or_default();
        ids.into_iter().for_each(|id| self.lapse(id, Lapse::NodeDeleted));
    }

    /// The session is over.
    pub(crate) fn end(&mut self, ended: Ended) {
        let all: Vec<LeaseId> = self.leases.keys().copied().collect();
        all.into_iter().for_each(|id| self.lapse(id, Lapse::Ended(ended)));
    }

    /// Marks a lease as lapsed. Its first lapse counts.
    pub(crate) fn lapse(&mut self, id: LeaseId, lapse: Lapse) {
        if let Some(lease) = self.leases.get_mut(&id)
            && lease.lapse.is_none()
        {
            lease.lapse = Some(lapse);
            self.running -= 1;
            self.pending.remove(&id);
            if let Some(ids) = self.paths.get_mut(&lease.path) {
                ids.retain(|one| *one != id);
                if ids.is_empty() {
                    self.paths.remove(&lease.path);
                }
            }
            if let Some(at) = lease.expires_at {
                self.expiries.remove(&(at, id));
            }
        }
    }
}

impl Lease {
    /// Why the lease is over by now, if it is: its own time or the deadline, whichever came first.
    fn lapsed(&self, now: Instant, deadline: Option<Instant>) -> Option<Lapse> {
        let deadline = deadline.unwrap_or(now);
        match self.expires_at {
            Some(at) if at <= now && at <= deadline => Some(Lapse::MaxDuration),
            _ => (deadline <= now).then_some(Lapse::Deadline),
        }
    }
}
