//! The type of a session: its state, and what can be read from it.
//!
//! This is one type, since requests, replies, the connection and the end of the session share its
//! fields. What can be decided without the rest is decided in the parts that the session is made
//! of, none of which knows the session. The modules after this one hold the methods that change the
//! state.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use zk_proto::{OpCode, Xid, Zxid};

use crate::auth::sasl::SaslStart;
use crate::config::{Dialect, SessionConfig, SessionIdentity};
use crate::error::{Ended, Failure, Hangup};
use crate::model::event::SessionState;
use crate::session::auths::{AuthId, Auths};
use crate::session::event::{Event, RawReply};
use crate::session::leases::Leases;
use crate::session::lost_requests::{LostRequests, RequestKind};
use crate::session::owned_nodes::{NodeRequest, OwnedNodeId, OwnedNodes};
use crate::session::pipeline::{PendingRequest, Pings, Pipeline, RequestId};
use crate::session::timers::{Timer, Timers};
use crate::session::watches::Watches;
use crate::session::watches::follow_up::FollowUp;
use crate::session::watches::path_watches::{CallerHandle, WatchId};
use crate::stats::{Stats, Totals};

/// A session with one ensemble, over one connection at a time.
///
/// `T` is what the caller gets back with a reply, `W` with the event of a watch and `S` with every
/// event of a stream: a channel in the driver, a number in tests.
///
/// # Calling order
///
/// For every connection, call [`handle_connecting`](Self::handle_connecting), then
/// [`handle_connected`](Self::handle_connected) once the transport is up (and before that, for a
/// session with [SASL](Self::sasl), [`begin_sasl`](Self::begin_sasl)), then
/// [`handle_frame`](Self::handle_frame) and [`handle_oversized`](Self::handle_oversized) any number
/// of times, and [`handle_disconnected`](Self::handle_disconnected) when the transport is gone or
/// could not be opened. A call of [`hang_up`](Self::hang_up) before that gives the reason. Call
/// [`handle_timeout`](Self::handle_timeout) at any time: early or spurious calls do nothing. Queue
/// requests at any time, in the order they shall have on the wire.
///
/// After each of these calls, call [`poll_event`](Self::poll_event) until it is empty,
/// [`poll_transmit`](Self::poll_transmit) if the transport has room, and
/// [`poll_timeout`](Self::poll_timeout) for the next deadline.
pub struct Session<T, W, S = W> {
    pub(super) config: SessionConfig,
    pub(super) phase: Phase,
    /// The session timeout: granted by the server, or before that the one that was asked for.
    pub(super) timeout: Duration,
    pub(super) identity: Option<SessionIdentity>,
    pub(super) last_zxid: Zxid,
    pub(super) auths: Auths<T>,
    /// The SASL exchange of this connection; `None` once its last token was sent.
    pub(super) exchange: Option<SaslStart>,
    pub(super) pipeline: Pipeline<Purpose<T>>,
    pub(super) lost_requests: LostRequests,
    /// The request on which the last connection was given up.
    pub(super) given_up: Option<(OpCode, Failure)>,
    /// Operations that a server has refused as unknown.
    pub(super) unsupported_ops: Vec<OpCode>,
    pub(super) watches: Watches<W, S>,
    pub(super) owned_nodes: OwnedNodes<T>,
    pub(super) timers: Timers,
    /// Frames that go out ahead of the pipeline and have no request in it, such as handshake and
    /// pings.
    pub(super) control: BytesMut,
    pub(super) pings: Pings,
    /// When the first connection was established, and when the present one was.
    pub(super) first_connected: Option<Instant>,
    pub(super) connected: Option<Instant>,
    /// How long the last request or ping that was answered took.
    pub(super) last_round_trip: Option<Duration>,
    /// What the session has counted. Nothing depends on it.
    pub(super) totals: Totals,
    pub(super) leases: Leases,
    /// How many setWatches requests have no reply. Until the last is answered, events may be about
    /// the past.
    pub(super) rearming: u32,
    /// How many connections in a row have ended on setWatches, which no server has answered.
    pub(super) rearms_lost: u32,
    /// Why the connection will be left once everything that was sent is answered.
    pub(super) leaving: Option<Hangup>,
    /// The request that the last call of a caller has queued.
    pub(super) last_request_id: Option<RequestId>,
    pub(super) closing: bool,
    /// True if the session closes on this side alone, and shall live on at the servers.
    pub(super) detaching: bool,
    /// The released nodes that a detached session could not delete.
    pub(super) left_behind: Vec<Arc<str>>,
    /// The last state that was reported.
    pub(super) state: SessionState,
    pub(super) last_hangup: Hangup,
    pub(super) events: VecDeque<Event<T, W, S>>,
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is no connection.
    Idle,
    /// The connect request is queued or in flight.
    Handshake,
    /// The session is established, and SASL takes place before anything else.
    Authenticating {
        /// The request that is owed a reply.
        xid: Xid,
        /// Whether the server is without a quorum, as its handshake said.
        read_only: bool,
    },
    /// Serving.
    Established,
    /// The connection broke the protocol or died; nothing that it delivers counts any more.
    Broken,
    /// The session is over.
    Over(Ended),
}

/// Why a request was made.
#[derive(Debug)]
pub(super) enum Purpose<T> {
    Call {
        token: T,
        watch: Option<WatchId>,
    },
    /// The tokens that wait for it: none if the session repeats it by itself.
    Auth(AuthId, Vec<T>),
    Create(OwnedNodeId),
    /// Creates with their indexes in the multi.
    Multi(Vec<(usize, OwnedNodeId)>),
    /// A multi that creates this owned node and, behind that, deletes another.
    Replace(NodeRequest, OwnedNodeId),
    NodeRequest(NodeRequest),
    /// One request that watches all these nodes.
    Arm(T, Vec<Arc<str>>),
    /// A request that watches this node, and the caller that waits for it and for those before it.
    /// Whatever was written behind this zxid was missed.
    ArmOne(Option<T>, Arc<str>, Zxid),
    Rearm,
    FollowUp(FollowUp),
    /// A write of the session's own, to prove that a quorum is there.
    Probe,
    Close,
}

impl<T> Purpose<T> {
    /// True if this is the delete of the released node at `path`.
    pub(super) fn deletes(&self, path: &str) -> bool {
        matches!(self, Self::NodeRequest(request) if request.deletes(path))
    }
}

impl<T> PendingRequest<Purpose<T>> {
    /// True if a caller has made it, and not the session by itself.
    pub(super) fn is_of_caller(&self) -> bool {
        match self.purpose {
            Purpose::Call { .. }
            | Purpose::Create(_)
            | Purpose::Multi(_)
            | Purpose::Replace(..)
            | Purpose::Arm(..) => true,
            Purpose::Auth(..)
            | Purpose::ArmOne(..)
            | Purpose::NodeRequest(_)
            | Purpose::Rearm
            | Purpose::FollowUp(_)
            | Purpose::Probe
            | Purpose::Close => false,
        }
    }

    /// What a repetition has in common with this request. `None` if it is small, or if no caller
    /// has made it.
    pub(super) fn large_kind(&self) -> Option<RequestKind<&str>> {
        if !self.is_large() || !self.is_of_caller() {
            return None;
        }
        let path = self.path.as_deref();
        let path = match self.purpose {
            Purpose::Create(_) => path.and_then(|path| path.rsplit_once('/')).map(|(it, _)| it),
            _ => path,
        };
        Some(RequestKind { op: self.op, size: self.size(), path })
    }
}

impl<T, W, S: Clone> Session<T, W, S> {
    /// Makes a session that has not connected to a server yet.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            phase: Phase::Idle,
            timeout: config.timeout,
            identity: config.resume,
            last_zxid: Zxid::default(),
            auths: Auths::new(),
            exchange: None,
            pipeline: Pipeline::new(config.limits),
            lost_requests: LostRequests::default(),
            given_up: None,
            unsupported_ops: Vec::new(),
            watches: Watches::new(&config.dialect),
            owned_nodes: OwnedNodes::new(&config.dialect),
            timers: Timers::default(),
            control: BytesMut::new(),
            pings: Pings::default(),
            first_connected: None,
            connected: None,
            last_round_trip: None,
            totals: Totals::default(),
            leases: Leases::new(config.deadline_rule),
            rearming: 0,
            rearms_lost: 0,
            leaving: None,
            last_request_id: None,
            closing: false,
            detaching: false,
            left_behind: Vec::new(),
            state: SessionState::Connecting,
            last_hangup: Hangup::Eof,
            events: VecDeque::new(),
            config,
        }
    }

    /// The session's id and password, once a server has given them.
    pub fn identity(&self) -> Option<SessionIdentity> {
        self.identity
    }

    /// What the servers understand.
    pub fn dialect(&self) -> Dialect {
        self.config.dialect
    }

    /// Whether another client began the session.
    pub fn is_resumed(&self) -> bool {
        self.config.resume.is_some()
    }

    /// The session timeout: the server's after the first handshake, the wanted one before.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The highest zxid that a reply has carried.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// The state of the session, as it was last reported.
    pub fn state(&self) -> SessionState {
        self.state
    }

    /// True if the transport is up and the handshake has no reply yet.
    pub(crate) fn is_shaking_hands(&self) -> bool {
        self.phase == Phase::Handshake
    }

    /// How the session ended, if it did.
    pub fn ended(&self) -> Option<Ended> {
        match self.phase {
            Phase::Over(ended) => Some(ended),
            _ => None,
        }
    }

    /// Whether a probe is queued and not sent.
    #[cfg(feature = "__fuzz")]
    pub(crate) fn is_probe_queued(&self) -> bool {
        self.leases.is_probe_queued()
    }

    /// The session in numbers.
    pub fn stats(&self, now: Instant) -> Stats {
        let since = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        let connected = self.connected.filter(|_| self.state.is_connected());
        let (in_flight, queued) = self.pipeline.lengths();
        let (watches, streams) = self.watches.lengths();
        Stats {
            state: self.state,
            session: self.identity.map(|own| own.id),
            session_timeout: self.timeout,
            age: since(self.first_connected),
            connected_for: since(connected),
            server: None,
            last_zxid: self.last_zxid,
            in_flight,
            queued,
            queued_bytes: self.pipeline.queued_bytes(),
            last_round_trip: self.last_round_trip,
            watches,
            streams,
            owned_nodes: self.owned_nodes.len(),
            leases: self.leases.running(),
            totals: self.totals.clone(),
        }
    }

    /// The next event that the session reports.
    pub fn poll_event(&mut self) -> Option<Event<T, W, S>> {
        self.events.pop_front()
    }

    /// Moves all events of the session to the end of `events`.
    ///
    /// This does at once what [`poll_event`](Self::poll_event) does until it is empty.
    #[inline]
    pub fn take_events(&mut self, events: &mut VecDeque<Event<T, W, S>>) {
        if self.events.is_empty() {
            return;
        }
        if events.is_empty() {
            std::mem::swap(&mut self.events, events);
        } else {
            events.append(&mut self.events);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// A time no later than that of [`poll_timeout`](Self::poll_timeout), known without a search.
    /// If nothing is due then, [`handle_timeout`](Self::handle_timeout) makes it a later one.
    #[inline]
    pub(crate) fn timeout_lower_bound(&self) -> Option<Instant> {
        self.timers.lower_bound()
    }

    /// The transport broke, or its bytes are no frames.
    ///
    /// If this is called more than once, the first reason counts.
    pub fn hang_up(&mut self, why: Hangup) {
        if !matches!(self.phase, Phase::Over(_) | Phase::Broken) {
            self.phase = Phase::Broken;
            self.last_hangup = why;
            self.timers.hung_up();
            if self.identity.is_none() {
                // No server that serves writes has given a session yet, so there is none to expire.
                self.timers.stop(Timer::Expiry);
            }
            self.events.push_back(Event::Hangup(why));
        }
    }
}

/// Helpers that the modules of the session share.
impl<T, W, S: Clone> Session<T, W, S> {
    /// True if [`close`](Self::close) was called, so that the server ends the session.
    pub(super) fn is_closing(&self) -> bool {
        self.closing && !self.detaching
    }

    pub(super) fn report_state(&mut self, state: SessionState) {
        self.state = state;
        self.events.push_back(Event::State(state));
    }

    pub(super) fn return_caller(&mut self, returned: Option<CallerHandle<W, S>>) {
        self.events.extend(returned.map(Event::from));
    }

    /// Reports how a request went. `reply` is the zxid of the reply that says so, if one does.
    #[inline]
    pub(super) fn complete(
        &mut self,
        token: T,
        result: Result<RawReply, Failure>,
        reply: Option<Zxid>,
    ) {
        let zxid = match &result {
            // Of a node that was looked for, this is not the zxid of the reply.
            Ok(answer) => valid_zxid(answer.zxid),
            Err(Failure::Refused(_) | Failure::OpRefused { .. }) => reply,
            Err(_) => None,
        };
        self.events.push_back(Event::Completed { token, result, zxid });
    }
}

/// The zxid of a reply, if it is that of a transaction: 0 and -1 are not.
#[inline]
pub(super) fn valid_zxid(zxid: Zxid) -> Option<Zxid> {
    (zxid.0 > 0).then_some(zxid)
}

impl<T, W, S: Clone> fmt::Debug for Session<T, W, S> {
    /// Shows the state alone, since requests that wait to be sent may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("state", &self.state)
            .field("id", &self.identity.map(|own| own.id))
            .field("timeout", &self.timeout)
            .field("last_zxid", &self.last_zxid)
            .field("requests", &self.pipeline.len())
            .field("watches", &self.watches.lengths())
            .field("owned_nodes", &self.owned_nodes.len())
            .finish_non_exhaustive()
    }
}
