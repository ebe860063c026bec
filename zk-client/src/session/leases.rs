//! Leases: until when callers may rely on the nodes that they own, and what the session does for
//! that.
//!
//! A lease that has lapsed stays lapsed, even if the session turns out to be alive after all: a
//! caller may have acted on it. The state of a lease is a function of the time, so the first
//! reading after a long sleep is right. The marks that make a lapse permanent follow when the
//! session next runs: every input first [`expire`](Leases::expire)s the leases that have lapsed by
//! then, so that nothing learnt later revives them, and in the end
//! [`update_timers`](Leases::update_timers) sets the timers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zk_proto::{ErrorCode, OpCode};

use crate::config::DeadlineRule;
use crate::error::Ended;
use crate::session::deadline::{Evidence, SessionDeadline};
use crate::session::owned_nodes::OwnedNodeId;
use crate::session::timers::{Timer, Timers};

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
    /// True if a new lease may begin: the connection is well, and the next proof comes before the
    /// deadline, even if it is late. If all replies are late, that is so once a request was
    /// confirmed that was sent since the lease was opened: from then on there are samples enough.
    fn lets_begin(&self, now: Instant, opened: Instant) -> bool {
        let is_enough = |deadline| deadline >= now + self.needed || deadline >= opened + self.term;
        self.valid && self.deadline.is_some_and(is_enough)
    }
}

/// A lease that has not begun, since the last proof of the session is too old, or the connection is
/// not well.
#[derive(Clone, Copy, Debug)]
struct Pending {
    opened: Instant,
    /// When it lapses without a proof. No caller relies on it yet, so that may be after the
    /// deadline.
    until: Option<Instant>,
}

#[derive(Debug)]
struct Lease {
    node: OwnedNodeId,
    path: Arc<str>,
    expires_at: Option<Instant>,
    lapse: Option<Lapse>,
}

/// The connection, as far as leases depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionHealth {
    /// Whether the connection serves requests, writes included.
    pub(crate) up: bool,
    /// When the oldest request or ping without a reply was sent.
    pub(crate) oldest: Option<Instant>,
    /// The session timeout.
    pub(crate) timeout: Duration,
}

impl ConnectionHealth {
    /// When the connection counts as unwell, if nothing is answered before.
    fn patience(&self) -> Option<Instant> {
        self.oldest.map(|sent| sent + self.timeout / 3)
    }

    fn is_well(&self, now: Instant) -> bool {
        self.up && self.patience().is_none_or(|until| now < until)
    }
}

/// What is to be done after [`Leases::update_timers`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseActions {
    /// Send a probe: a write that may confirm the deadline.
    pub(crate) probe: bool,
    /// Notify those callers that wait for a change.
    pub(crate) changed: bool,
}

/// The leases of a session, with the deadline that they rest on.
#[derive(Debug)]
pub(crate) struct Leases {
    deadline: SessionDeadline,
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
    /// The earliest time at which the handshake of this connection may have been sent.
    handshake: Option<Instant>,
    /// Whether a probe is queued and not sent.
    probing: bool,
    /// Whether leases were valid when that was last reported.
    valid: bool,
    /// Whether a lease has lapsed that was not reported yet.
    lapsed: bool,
    /// Whether there is no lease to watch over, and no timer set.
    idle: bool,
}

impl Leases {
    pub(crate) fn new(rule: DeadlineRule) -> Self {
        Self {
            deadline: SessionDeadline::new(rule),
            next: 0,
            leases: BTreeMap::new(),
            running: 0,
            pending: BTreeMap::new(),
            expiries: BTreeSet::new(),
            paths: BTreeMap::new(),
            handshake: None,
            probing: false,
            valid: false,
            lapsed: false,
            idle: false,
        }
    }

    /// How many have not lapsed.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    // What happened.

    /// The handshake was handed to the transport, or will be.
    pub(crate) fn shaking_hands(&mut self, now: Instant) {
        self.handshake = Some(now);
    }

    /// The handshake was answered.
    pub(crate) fn established(&mut self, now: Instant, timeout: Duration) {
        self.deadline.established(self.handshake.unwrap_or(now), timeout);
        // From now on there is a proof to wait for.
        let until = now + self.deadline.safe_timeout();
        self.pending.values_mut().for_each(|pending| _ = pending.until.get_or_insert(until));
    }

    /// Everything that was queued was handed to the transport.
    pub(crate) fn sent(&mut self, now: Instant) {
        if std::mem::take(&mut self.probing) {
            self.deadline.probe_sent(now);
        }
    }

    /// A ping that was sent at `sent` was answered.
    pub(crate) fn ping_answered(&mut self, now: Instant, sent: Instant) {
        self.deadline.answered(now, sent, Evidence::Contact);
    }

    /// A request that was sent at `sent` was answered.
    #[inline]
    pub(crate) fn answered(&mut self, now: Instant, sent: Instant, op: OpCode, code: ErrorCode) {
        self.deadline.answered(now, sent, Evidence::of(op, code));
    }

    /// Whether a probe is queued and not sent.
    #[cfg(feature = "__fuzz")]
    pub(crate) fn is_probe_queued(&self) -> bool {
        self.probing
    }

    /// The probe that was sent at `sent` was answered, in addition to what
    /// [`answered`](Self::answered) noted.
    pub(crate) fn probe_answered(&mut self, sent: Instant) {
        self.deadline.probe_answered(sent);
    }

    /// The connection is gone, and with it a probe that was not sent.
    pub(crate) fn disconnected(&mut self) {
        self.deadline.disconnected();
        (self.handshake, self.probing) = (None, false);
    }

    /// The session is over. Returns true if there is a change to report.
    pub(crate) fn end(&mut self, ended: Ended) -> bool {
        let running = self.running > 0;
        let all: Vec<LeaseId> = self.leases.keys().copied().collect();
        all.into_iter().for_each(|id| self.lapse(id, Lapse::Ended(ended)));
        std::mem::take(&mut self.lapsed) || running
    }

    // Leases.

    /// A caller opens a lease on a node. If the last proof of the session is too old, or will be
    /// when the connection is back, the lease is suspended until there is a new one. But it begins
    /// at once if another one has begun, whose deadline is the same. If nothing is known about the
    /// session any more, it has lapsed by the time that it is next looked at.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        (node, path): (OwnedNodeId, Arc<str>),
        expires_at: Option<Instant>,
        connection: ConnectionHealth,
    ) -> LeaseId {
        self.idle = false;
        let health = self.health(now, connection);
        if self.running == 0 {
            self.valid = health.valid;
        }
        let id = LeaseId(self.next);
        self.next += 1;
        if self.running == self.pending.len() && !health.lets_begin(now, now) {
            // Without a connection there is no proof to wait for.
            let until = self.deadline.has_contact().then(|| now + health.term);
            self.pending.insert(id, Pending { opened: now, until });
        }
        self.paths.entry(Arc::clone(&path)).or_default().push(id);
        self.leases.insert(id, Lease { node, path, expires_at, lapse: None });
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
        now: Instant,
        id: LeaseId,
        connection: ConnectionHealth,
    ) -> LeaseState {
        let Some(lease) = self.leases.get(&id) else {
            return LeaseState::Lapsed(Lapse::Deadline);
        };
        let health = self.health(now, connection);
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

    /// The node that has a running lease, and this path.
    pub(crate) fn node_at(&self, path: &str) -> Option<OwnedNodeId> {
        let id = self.paths.get(path)?.first()?;
        self.leases.get(id).map(|lease| lease.node)
    }

    /// The node at this path is deleted: all leases of it lapse.
    pub(crate) fn node_deleted(&mut self, path: &str) {
        let ids = self.paths.remove(path).unwrap_or_default();
        ids.into_iter().for_each(|id| self.lapse(id, Lapse::NodeDeleted));
        self.lapsed = true;
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

    /// What is known about all leases now.
    fn health(&self, now: Instant, connection: ConnectionHealth) -> SessionHealth {
        let deadline = self.deadline.until();
        let valid = deadline.is_some_and(|until| until > now) && connection.is_well(now);
        let (needed, term) = (self.deadline.needed(), self.deadline.safe_timeout());
        SessionHealth { deadline, valid, needed, term }
    }

    // What to do.

    /// Whether neither [`expire`](Self::expire) nor [`update_timers`](Self::update_timers) would do
    /// anything, until the next lease is opened.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.idle
    }

    /// Marks the leases that have lapsed by now, and returns the nodes to delete.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        connection: ConnectionHealth,
    ) -> Vec<OwnedNodeId> {
        let health = self.health(now, connection);
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
        self.lapsed |= !nodes.is_empty();
        nodes.into_keys().collect()
    }

    /// Sets the timers from what is known now.
    pub(crate) fn update_timers(
        &mut self,
        now: Instant,
        connection: ConnectionHealth,
        timers: &mut Timers,
    ) -> LeaseActions {
        let mut actions = LeaseActions { probe: false, changed: std::mem::take(&mut self.lapsed) };
        if self.running == 0 {
            for timer in [Timer::Probe, Timer::LeaseAtRisk, Timer::Lapse] {
                timers.stop(timer);
            }
            self.idle = true;
            return actions;
        }
        let health = self.health(now, connection);
        actions.changed |= self.begin(now, health);
        actions.changed |= std::mem::replace(&mut self.valid, health.valid) != health.valid;
        timers.reset(Timer::Lapse, self.first_lapse(health));
        let patience = connection.patience().filter(|_| connection.is_well(now));
        timers.reset(Timer::LeaseAtRisk, patience);
        if let Some(interval) = self.deadline.sample_interval().filter(|_| connection.up) {
            timers.set_earlier(Timer::Ping, now + interval);
        }
        let next = self.deadline.next_probe().filter(|_| connection.up && !self.probing);
        actions.probe = next.is_some_and(|next| next <= now);
        self.probing |= actions.probe;
        timers.reset(Timer::Probe, next.filter(|next| *next > now));
        actions
    }

    /// Begins all leases if one of them can begin now. True if there was one that waited for it.
    fn begin(&mut self, now: Instant, health: SessionHealth) -> bool {
        let begins = self.pending.values().any(|pending| health.lets_begin(now, pending.opened));
        if begins {
            self.pending.clear();
        }
        begins
    }

    /// The first time at which a lease lapses, if nothing is learnt before.
    fn first_lapse(&self, health: SessionHealth) -> Option<Instant> {
        let begun = health.deadline.filter(|_| self.running > self.pending.len());
        let pending = self.pending.values().filter_map(|it| it.until.max(health.deadline));
        let expiry = self.expiries.first().map(|(at, _)| *at);
        pending.chain(begun).chain(expiry).min()
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
