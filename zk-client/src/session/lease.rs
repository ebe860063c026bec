//! Leases: until when callers may rely on the nodes that they own.
//!
//! A lease that has lapsed stays lapsed, even if the session turns out to be alive after all: a
//! caller may have acted on it. The state of a lease is a function of the time, so the first
//! reading after a long sleep is right. The marks that make a lapse permanent follow when the
//! session next runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::error::Ended;
use crate::session::owned_nodes::OwnedNodeId;

/// The state of a lease.
///
/// All instants are of the client's [`Clock`](crate::Clock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// reply, or the session was not confirmed since the lease was opened. Unless that
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

/// Identifies a lease of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(u64);

/// What the session knows about all leases at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionHealth {
    /// When all leases lapse, if nothing is learnt before.
    pub(crate) deadline: Instant,
    /// True if the deadline was confirmed and the connection is well.
    pub(crate) valid: bool,
}

#[derive(Debug)]
struct Lease {
    node: OwnedNodeId,
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
    /// When the leases that have not lapsed reach their maximal durations.
    expiries: BTreeSet<(Instant, LeaseId)>,
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

    /// A caller begins to rely on a node.
    pub(crate) fn open(&mut self, node: OwnedNodeId, expires_at: Option<Instant>) -> LeaseId {
        let id = LeaseId(self.next);
        self.next += 1;
        self.leases.insert(id, Lease { node, expires_at, lapse: None });
        self.running += 1;
        self.expiries.extend(expires_at.map(|at| (at, id)));
        id
    }

    /// The caller no longer relies on the node.
    pub(crate) fn close(&mut self, id: LeaseId) {
        self.lapse(id, Lapse::Deadline);
        self.leases.remove(&id);
    }

    /// The state of a lease at `now`, from what is known.
    pub(crate) fn state(
        &self,
        id: LeaseId,
        now: Instant,
        health: Option<SessionHealth>,
    ) -> LeaseState {
        let Some(lease) = self.leases.get(&id) else {
            return LeaseState::Lapsed(Lapse::Deadline);
        };
        let lapsed = lease.lapse.or_else(|| lease.lapsed(now, health));
        match (lapsed, health) {
            (Some(lapse), _) => LeaseState::Lapsed(lapse),
            (None, None) => LeaseState::Lapsed(Lapse::Deadline),
            (None, Some(SessionHealth { deadline, valid })) => {
                let until = lease.expires_at.map_or(deadline, |at| at.min(deadline));
                match valid {
                    true => LeaseState::Valid { until },
                    false => LeaseState::Suspended { until },
                }
            }
        }
    }

    /// Marks the leases that have lapsed by now, and returns the nodes to delete.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        health: Option<SessionHealth>,
    ) -> Vec<OwnedNodeId> {
        let over = health.is_none_or(|health| health.deadline <= now);
        if self.running == 0 || !(over || self.first_expiry().is_some_and(|at| at <= now)) {
            return Vec::new();
        }
        let running = self.leases.values().filter(|lease| lease.lapse.is_none());
        // The node is deleted, so all its other leases lapse too.
        let nodes: BTreeMap<OwnedNodeId, Lapse> =
            running.filter_map(|it| Some((it.node, it.lapsed(now, health)?))).collect();
        let lapsed = self.leases.iter();
        let lapsed: Vec<(LeaseId, Lapse)> =
            lapsed.filter_map(|(id, lease)| Some((*id, *nodes.get(&lease.node)?))).collect();
        lapsed.into_iter().for_each(|(id, lapse)| self.lapse(id, lapse));
        nodes.into_keys().collect()
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
            if let Some(at) = lease.expires_at {
                self.expiries.remove(&(at, id));
            }
        }
    }
}

impl Lease {
    /// Why the lease is over by now, if it is: its own time or the deadline, whichever came first.
    fn lapsed(&self, now: Instant, health: Option<SessionHealth>) -> Option<Lapse> {
        let deadline = health.map_or(now, |health| health.deadline);
        match self.expires_at {
            Some(at) if at <= now && at <= deadline => Some(Lapse::MaxDuration),
            _ => (deadline <= now).then_some(Lapse::Deadline),
        }
    }
}
