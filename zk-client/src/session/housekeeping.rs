//! What a session does by itself: for the nodes it owns, its watches and its leases.
//!
//! These parts decide what is to be done. The session polls them after every input that may have
//! given them work, and does it here.

use std::time::Instant;

use tracing::warn;
use zk_proto::{CheckVersionRequest, MultiOp, MultiRequest, OpCode, Operation, Zxid};

use crate::error::{Ended, Failure};
use crate::model::event::SessionState;
use crate::session::event::Event;
use crate::session::leases::{ConnectionHealth, LeaseActions};
use crate::session::owned_nodes::{Effect, NodeRequest};
use crate::session::pipeline::Priority;
use crate::session::state::{Phase, Purpose, Session};
use crate::session::timers::Timer;
use crate::trace;

impl<T, W, S: Clone> Session<T, W, S> {
    /// Does the pending work of owned nodes and watches. The requests of owned nodes are queued
    /// with this priority.
    #[inline]
    pub(super) fn do_housekeeping(&mut self, priority: Priority) {
        self.do_housekeeping_after(None, priority);
    }

    /// The same after a reply with this zxid.
    #[inline]
    pub(super) fn do_housekeeping_after(&mut self, reply: Option<Zxid>, priority: Priority) {
        if self.owned_nodes.has_effects() || self.watches.has_follow_ups() {
            self.do_housekeeping_now(reply, priority);
        }
    }

    fn do_housekeeping_now(&mut self, reply: Option<Zxid>, priority: Priority) {
        while let Some(effect) = self.owned_nodes.poll_effect() {
            match effect {
                Effect::Complete(token, result) => self.complete(token, result, reply),
                Effect::Send(request) => self.queue_node_request(priority, request),
            }
        }
        while let Some(follow_up) = self.watches.poll_follow_up() {
            // Without a server there is nothing to ask: the next connection arms only the watches
            // that are wanted.
            if self.phase == Phase::Established && !self.closing {
                let purpose = Purpose::FollowUp(follow_up.clone());
                if let Err(error) =
                    self.pipeline.push(Priority::Normal, follow_up.op(), &follow_up, purpose)
                {
                    // The path is near the frame limit, and another request has carried it.
                    warn!(target: trace::WATCH, %error, ?follow_up, "not asked");
                }
            }
        }
    }

    pub(super) fn queue_node_request(&mut self, priority: Priority, request: NodeRequest) {
        if self.is_closing() && request.op_code() == OpCode::DELETE {
            // The close deletes the node. A server that has carried it out reads no more, and what
            // is written to it then could cost the replies that are on their way.
            return;
        }
        let purpose = Purpose::NodeRequest(request.clone());
        if let Err(error) = self.pipeline.push(priority, request.op_code(), &request, purpose) {
            // The request is small, so its path is near the frame limit.
            warn!(
                target: trace::SESSION, %error,
                "a node may outlive its owner until the session ends"
            );
            let failure = Failure::ConnectionLoss { sent: false, why: self.last_hangup };
            self.owned_nodes.unanswered(&request, failure);
        }
    }

    /// Sets the timer to look for uncertain nodes again: after one session timeout, and then after
    /// twice as long each time.
    pub(super) fn schedule_search(&mut self, now: Instant) {
        let doubled = 1_u32.checked_shl(self.owned_nodes.repetitions()).unwrap_or(u32::MAX);
        let wait = self.timeout.saturating_mul(doubled);
        self.timers.reset(Timer::SearchLostNodes, now.checked_add(wait));
    }

    /// Sets the timer to repeat the deletes that were refused, if there are any.
    #[inline]
    pub(super) fn schedule_deletes(&mut self, now: Instant) {
        if self.owned_nodes.has_refusals() && !self.timers.is_set(Timer::RepeatDeletes) {
            self.timers.reset(Timer::RepeatDeletes, now.checked_add(self.timeout));
        }
    }

    /// Marks the leases that have lapsed by now, and deletes their nodes.
    #[inline]
    pub(super) fn expire_leases(&mut self, now: Instant) {
        if !self.leases.is_idle() {
            self.expire_now(now);
        }
    }

    #[inline(never)]
    fn expire_now(&mut self, now: Instant) {
        for node in self.leases.expire(now, self.connection_health()) {
            self.owned_nodes.release(node, None);
            self.do_housekeeping(Priority::Normal);
        }
    }

    /// Does the pending work of leases.
    #[inline]
    pub(super) fn update_lease_timers(&mut self, now: Instant) {
        if !self.leases.is_idle() {
            self.update_timers_now(now);
        }
    }

    #[inline(never)]
    fn update_timers_now(&mut self, now: Instant) {
        let connection = self.connection_health();
        let LeaseActions { probe, changed } =
            self.leases.update_timers(now, connection, &mut self.timers);
        if probe {
            // If "/" may not be read, the check fails, and the reply is still that of a
            // transaction.
            let check = [MultiOp::Check(CheckVersionRequest { path: "/", version: -1 })];
            let multi = MultiRequest::new(&check);
            let pushed = self.pipeline.push(Priority::Urgent, multi.op(), &multi, Purpose::Probe);
            if let Err(error) = pushed {
                warn!(target: trace::SESSION, %error, "leases cannot be confirmed");
            }
        }
        if changed {
            self.events.push_back(Event::Leases);
        }
    }

    pub(super) fn end_leases(&mut self, ended: Ended) {
        if self.leases.end(ended) {
            self.events.push_back(Event::Leases);
        }
    }

    pub(super) fn connection_health(&self) -> ConnectionHealth {
        ConnectionHealth {
            up: self.phase == Phase::Established && self.state == SessionState::Connected,
            oldest: self.pipeline.oldest().into_iter().chain(self.pings.oldest()).min(),
            timeout: self.timeout,
        }
    }
}
