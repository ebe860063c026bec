//! What a session does for its leases: when to send a probe, when to report leases as suspended,
//! and when they lapse.
//!
//! The deadline and the leases are decided in modules of their own; here they meet the state of the
//! connection and the timers. Every input to a session first [`expire`](LeaseManager::expire)s the
//! leases that have lapsed by then, so that nothing learnt later revives them, and in the end
//! [`update_timers`](LeaseManager::update_timers) sets the timers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zk_proto::{ErrorCode, OpCode};

use crate::config::DeadlineRule;
use crate::error::Ended;
use crate::session::deadline::{Evidence, SessionDeadline};
use crate::session::lease::{Lapse, LeaseId, LeaseState, Leases, SessionHealth};
use crate::session::owned_nodes::OwnedNodeId;
use crate::session::timers::{Timer, Timers};

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

/// What is to be done after [`LeaseManager::update_timers`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseActions {
    /// Send a probe: a write that may confirm the deadline.
    pub(crate) probe: bool,
    /// Notify those callers that wait for a change.
    pub(crate) changed: bool,
}

/// Leases with the deadline that they rest on.
#[derive(Debug)]
pub(crate) struct LeaseManager {
    deadline: SessionDeadline,
    leases: Leases,
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

impl LeaseManager {
    pub(crate) fn new(rule: DeadlineRule) -> Self {
        Self {
            deadline: SessionDeadline::new(rule),
            leases: Leases::default(),
            handshake: None,
            probing: false,
            valid: false,
            lapsed: false,
            idle: false,
        }
    }

    /// Leases that have not lapsed.
    pub(crate) fn lease_count(&self) -> usize {
        self.leases.running()
    }

    // What happened.

    /// The handshake was handed to the transport, or will be.
    pub(crate) fn shaking_hands(&mut self, now: Instant) {
        self.handshake = Some(now);
    }

    /// The handshake was answered.
    pub(crate) fn established(&mut self, now: Instant, timeout: Duration) {
        self.deadline.established(self.handshake.unwrap_or(now), timeout);
    }

    /// Everything that was queued was handed to the transport.
    pub(crate) fn sent(&mut self, now: Instant) {
        if std::mem::take(&mut self.probing) {
            self.deadline.probe_sent(now);
        }
    }

    /// A ping that was sent at `sent` was answered.
    pub(crate) fn ponged(&mut self, now: Instant, sent: Instant) {
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
        let running = self.leases.running() > 0;
        self.leases.end(ended);
        std::mem::take(&mut self.lapsed) || running
    }

    // Leases.

    /// A caller begins to rely on a node. If the last proof of the session is too old, the lease is
    /// suspended until there is a new one. If nothing is known about the session any more, it has
    /// lapsed by the time that it is next looked at.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        node: (OwnedNodeId, Arc<str>),
        expires_at: Option<Instant>,
        connection: ConnectionHealth,
    ) -> LeaseId {
        self.idle = false;
        let health = self.health(now, connection);
        if self.leases.running() == 0 {
            self.valid = health.valid;
        }
        // Without a connection there is no proof to wait for.
        let patience = self.deadline.has_contact().then(|| now + health.term);
        self.leases.open(now, node, expires_at, health, patience)
    }

    /// The node that has a running lease, and this path.
    pub(crate) fn node_at(&self, path: &str) -> Option<OwnedNodeId> {
        self.leases.node_at(path)
    }

    /// The node at this path is deleted.
    pub(crate) fn node_deleted(&mut self, path: &str) {
        self.leases.node_deleted(path);
        self.lapsed = true;
    }

    /// A new lease has lapsed, since its node cannot be relied on.
    pub(crate) fn void(&mut self, id: LeaseId) {
        self.leases.lapse(id, Lapse::Deadline);
    }

    /// The caller no longer relies on the node.
    pub(crate) fn close(&mut self, id: LeaseId) {
        self.leases.close(id);
    }

    /// The state of a lease at `now`.
    pub(crate) fn state(
        &self,
        now: Instant,
        id: LeaseId,
        connection: ConnectionHealth,
    ) -> LeaseState {
        self.leases.state(id, now, self.health(now, connection))
    }

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
        let nodes = self.leases.expire(now, self.health(now, connection));
        self.lapsed |= !nodes.is_empty();
        nodes
    }

    /// Sets the timers from what is known now.
    pub(crate) fn update_timers(
        &mut self,
        now: Instant,
        connection: ConnectionHealth,
        timers: &mut Timers,
    ) -> LeaseActions {
        let mut actions = LeaseActions { probe: false, changed: std::mem::take(&mut self.lapsed) };
        if self.leases.running() == 0 {
            for timer in [Timer::Probe, Timer::LeaseAtRisk, Timer::Lapse] {
                timers.stop(timer);
            }
            self.idle = true;
            return actions;
        }
        let health = self.health(now, connection);
        actions.changed |= self.leases.begin(now, health);
        actions.changed |= std::mem::replace(&mut self.valid, health.valid) != health.valid;
        timers.reset(Timer::Lapse, self.leases.first_lapse(health));
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
}
