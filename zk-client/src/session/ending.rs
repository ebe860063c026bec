//! How requests and sessions end without a reply.
//!
//! All callers that wait are notified, exactly once: after a loss those whose request was sent, at
//! the end of the session all.

use std::sync::Arc;

use tracing::{info, trace, warn};
use zk_proto::CloseSessionRequest;

use crate::config::SessionIdentity;
use crate::error::{Ended, Failure, Hangup};
use crate::session::event::Event;
use crate::session::owned_nodes::OwnedNodeId;
use crate::session::pipeline::{PendingRequest, Priority};
use crate::session::state::{Phase, Purpose, Session};
use crate::trace;

/// The ways to end a session.
impl<T, W, S: Clone> Session<T, W, S> {
    /// Ends the session behind all queued requests. Later requests and releases are refused, and
    /// later events are dropped: they may be consequences of the close.
    ///
    /// Gives up if nothing is answered for one session timeout, counted from the next
    /// [`handle_timeout`](Self::handle_timeout).
    pub fn close(&mut self) {
        if self.closing || self.ended().is_some() {
            return;
        }
        self.closing = true;
        self.stay();
        self.end_leases(Ended::Closed);
        if self.phase == Phase::Idle && self.identity.is_none() {
            return self.end(Ended::Closed);
        }
        let queued = self.queue(&CloseSessionRequest, Purpose::Close);
        if queued.is_err() {
            self.end(Ended::Closed);
        }
    }

    /// Ends the session on this side alone and at once, since it will not be driven any more.
    pub fn abandon(&mut self) {
        if self.ended().is_none() {
            self.end(Ended::Closed);
        }
    }

    /// Ends this side of the session once all queued requests are answered.
    ///
    /// Later requests and releases are rejected. The server is not notified, and nodes that are
    /// held stay, as do those that the server did not let it delete: see
    /// [`undeleted`](Self::undeleted).
    ///
    /// Gives up like [`close`](Self::close).
    pub fn detach(&mut self) {
        if self.closing || self.ended().is_some() {
            return;
        }
        self.closing = true;
        self.stay();
        self.detaching = true;
        self.detach_if_done();
    }

    /// The session that [`detach`](Self::detach) has left to the servers, once that is done. `None`
    /// where it has [ended](crate::Dialect::ends_sessions) with its connection.
    pub fn detached(&self) -> Option<SessionIdentity> {
        let lives_on = self.detaching && !self.config.dialect.ends_sessions();
        let is_detached = lives_on && self.ended() == Some(Ended::Closed);
        self.identity.filter(|_| is_detached)
    }

    /// The paths of the released nodes that the server has refused to delete, and that the session
    /// tries to delete again. Once it is detached, those that it has left behind.
    pub fn undeleted(&self) -> Vec<Arc<str>> {
        self.owned_nodes.undeleted().chain(&self.left_behind).cloned().collect()
    }
}

impl<T, W, S: Clone> Session<T, W, S> {
    /// A request will get no reply.
    pub(super) fn fail_request(&mut self, request: PendingRequest<Purpose<T>>, failure: Failure) {
        let PendingRequest { xid, op, ref path, .. } = request;
        trace!(target: trace::REQUEST, xid = xid.0, %op, path, ?failure, "unanswered");
        match request.purpose {
            Purpose::Create(node) => self.fail_create(node, failure),
            Purpose::Multi(owned) => {
                owned.into_iter().for_each(|(_, node)| self.fail_create(node, failure));
            }
            Purpose::Replace(delete, create) => {
                self.owned_nodes.unanswered(&delete, failure);
                self.fail_create(create, failure);
            }
            Purpose::Call { token, watch } => {
                self.complete(token, Err(failure), None);
                let returned = watch.and_then(|id| self.watches.answered(id, None));
                self.return_caller(returned);
            }
            Purpose::Auth(id, tokens) => match failure {
                Failure::ConnectionLoss { .. } => self.auths.wait(id, tokens),
                _ => tokens.into_iter().for_each(|token| self.complete(token, Err(failure), None)),
            },
            Purpose::NodeRequest(request) => self.owned_nodes.unanswered(&request, failure),
            Purpose::Arm(token, armed) => {
                self.watches.end_arming(&armed);
                self.complete(token, Err(failure), None);
            }
            Purpose::ArmOne(token, path, _) => {
                self.watches.end_arming([&path]);
                token.into_iter().for_each(|token| self.complete(token, Err(failure), None));
            }
            Purpose::Rearm | Purpose::FollowUp(_) | Purpose::Probe | Purpose::Close => {}
        }
    }

    fn fail_create(&mut self, node: OwnedNodeId, failure: Failure) {
        if let Some(creator) = self.owned_nodes.create_unanswered(node, failure) {
            self.complete(creator, Err(failure), None);
        }
    }

    /// The session is over: all callers that wait are notified, and nothing is left.
    pub(super) fn end(&mut self, ended: Ended) {
        let session = self.identity.map(|own| tracing::field::display(own.id));
        match ended {
            Ended::Closed => info!(target: trace::SESSION, session, why = %ended, "over"),
            _ => warn!(target: trace::SESSION, session, why = %ended, "over"),
        }
        let connected = matches!(
            self.phase,
            Phase::Handshake | Phase::Authenticating { .. } | Phase::Established
        );
        self.phase = Phase::Over(ended);
        for (sent, request) in self.pipeline.take_all() {
            self.totals.count(request.op, |counts| {
                let ends = if sent { &mut counts.unanswered } else { &mut counts.not_sent };
                *ends += 1;
            });
            self.fail_request(request, Failure::Ended { sent, ended });
        }
        for token in self.auths.take_all() {
            self.complete(token, Err(Failure::Ended { sent: false, ended }), None);
        }
        if self.detaching {
            self.left_behind = self.owned_nodes.undeleted().cloned().collect();
            for path in &self.left_behind {
                warn!(target: trace::SESSION, session, %path, "a released node is left behind");
            }
        }
        self.owned_nodes.end(Failure::Ended { sent: true, ended });
        self.end_leases(ended);
        self.do_housekeeping(Priority::Normal);
        let watchers = self.watches.take_all();
        self.events.extend(watchers.map(|(.., caller)| Event::from(caller)));
        self.timers.stop_all();
        self.control.clear();
        self.exchange = None;
        self.report_state(ended.into());
        if connected {
            self.events.push_back(Event::Hangup(Hangup::Ended(ended)));
        }
    }
}
