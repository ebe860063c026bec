//! A session and the requests that were made of it: receives the session's events and checks them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use zk_proto::{CreateResponse, Decode, OpCode, Password, SessionId, Xid};

use crate::auth::sasl::Sasl;
use crate::config::{DeadlineRule, SessionConfig, SessionIdentity};
use crate::error::Failure;
use crate::fuzz::shadow::Shadow;
use crate::model::event::{SessionState, StreamEvent};
use crate::session::{Event, RawReply, Session, WatchId};

pub(super) const OWN: SessionId = SessionId(7);
pub(super) const TIMEOUT: Duration = Duration::from_secs(12);

/// More than any frame of the session's own takes, apart from paths.
pub(super) const OVERHEAD: usize = 64;

/// The number of credentials that callers have.
pub(super) const CREDENTIALS: u8 = 3;

/// A request that the server has read and not answered.
pub(super) struct Asked {
    pub(super) xid: Xid,
    pub(super) op: OpCode,
    pub(super) path: String,
    /// The operations of a multi.
    pub(super) parts: Vec<(OpCode, String)>,
}

/// The connection, as the server sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    Down,
    /// The handshake is not answered yet.
    Up,
    /// The handshake was answered, and nothing has gone wrong since.
    Serving,
    /// The session has reported that it hangs up.
    Broken,
}

/// A session, and everything around it.
pub(super) struct World {
    pub(super) session: Session<u32, u32>,
    pub(super) now: Instant,
    pub(super) zxid: i64,
    /// The last number given: tokens, watchers and nodes are numbered together.
    pub(super) numbered: u32,
    /// Tokens of requests that are accepted and not completed.
    pub(super) waiting: BTreeSet<u32>,
    /// Those of them whose request carries its token as path, with whether it was sent.
    pub(super) sent: BTreeMap<u32, bool>,
    /// Watches that may fire.
    pub(super) watching: BTreeMap<u32, (WatchId, String)>,
    pub(super) shadow: Shadow,
    /// Requests that the server has read on this connection and not answered.
    pub(super) asked: VecDeque<Asked>,
    /// All numbers that were ever on the wire.
    pub(super) numbers: BTreeSet<Xid>,
    pub(super) link: Link,
    /// Whether the server has read the handshake; a server may answer it without reading it.
    pub(super) met: bool,
    /// When the session must have left this connection, if it has to leave it.
    pub(super) leave_by: Option<Instant>,
    /// Bytes that the session may still send.
    pub(super) allowance: usize,
    /// Whether paths may be too long for a request.
    pub(super) cramped: bool,
    pub(super) closing: bool,
    pub(super) detaching: bool,
    pub(super) over: bool,
    pub(super) completed: Vec<u32>,
}

impl World {
    pub(super) fn new(settings: u8) -> Self {
        let mut config = SessionConfig::new(TIMEOUT, 3);
        if settings & 1 != 0 {
            config.limits.max_requests = 4;
        }
        if settings & 2 != 0 {
            config.limits.max_request = 40;
        }
        if settings & 4 != 0 {
            config.limits.max_queued_bytes = 100;
        }
        if settings & 8 != 0 {
            config.resume = Some(SessionIdentity::new(OWN, Password::ZERO));
        }
        if settings & 16 != 0 {
            config.deadline_rule = DeadlineRule::Contact;
        }
        if settings & 32 != 0 {
            config.sasl = Some(Sasl::scripted());
        }
        Self {
            session: Session::new(config),
            now: start(),
            zxid: 0,
            numbered: 0,
            waiting: BTreeSet::new(),
            sent: BTreeMap::new(),
            watching: BTreeMap::new(),
            shadow: Shadow::default(),
            asked: VecDeque::new(),
            numbers: BTreeSet::new(),
            link: Link::Down,
            met: false,
            leave_by: None,
            allowance: 0,
            cramped: settings & 2 != 0,
            closing: false,
            detaching: false,
            over: false,
            completed: Vec::new(),
        }
    }

    pub(super) fn number(&mut self) -> u32 {
        self.numbered += 1;
        self.numbered
    }

    pub(super) fn accepted(&mut self, token: u32, accepted: bool) -> bool {
        assert!(!(accepted && self.over), "a session that is over takes nothing");
        if accepted {
            self.waiting.insert(token);
            self.allowance += OVERHEAD;
        }
        accepted
    }

    /// Receives the session's events, and checks them.
    pub(super) fn listen(&mut self) {
        while let Some(event) = self.session.poll_event() {
            let over = self.over;
            match event {
                Event::Completed { token, result, .. } => {
                    assert!(!over, "{token} is completed behind the end");
                    assert!(self.waiting.remove(&token), "{token} was not waiting");
                    self.completed.push(token);
                    self.concluded(token, &result);
                }
                Event::WatchFired { watcher, path, .. } => {
                    assert!(!over, "{watcher} fires behind the end");
                    let watched = self.watching.remove(&watcher);
                    assert_eq!(
                        watched.map(|(_, path)| path).as_deref(),
                        Some(&*path),
                        "of {watcher}"
                    );
                }
                Event::WatchRemoved { watcher } => {
                    assert!(!over, "{watcher} is given back behind the end");
                    assert!(self.watching.remove(&watcher).is_some(), "{watcher} was not watching");
                }
                Event::State(state) => {
                    assert!(!over, "{state:?} behind the end");
                    self.over = state.ended().is_some();
                    assert!(!self.over || self.session.ended() == state.ended(), "{state:?}");
                    let expired = state == SessionState::Expired;
                    let is_none = self.session.identity().is_none();
                    assert!(!(expired && is_none), "a session that no server gave expires");
                }
                Event::StreamEvent { stream, event } => {
                    assert!(!over, "{stream} is told something behind the end");
                    let path = self.watching.get(&stream).map(|(_, path)| path.as_str());
                    assert!(path.is_some(), "{stream} was not watching");
                    if let StreamEvent::Changed(event) = event {
                        assert!(Some(event.path.as_str()) == path, "{stream} hears of {event:?}");
                    }
                }
                Event::StreamClosed { stream } => {
                    assert!(!over, "{stream} is given back behind the end");
                    assert!(self.watching.remove(&stream).is_some(), "{stream} was not watching");
                }
                Event::Leases => assert!(!over, "leases change behind the end"),
                Event::Hangup(_) => self.link = Link::Broken,
            }
        }
        assert_eq!(self.session.ended().is_some(), self.over, "the end is told");
        let Self { session, now, .. } = self;
        let connected = session.state() == SessionState::Connected;
        let state = |id| session.lease_state(*now, id);
        self.shadow.look(*now, session.timeout(), connected, state);
    }

    fn concluded(&mut self, token: u32, result: &Result<RawReply, Failure>) {
        let was_sent = self.sent.remove(&token);
        match result {
            Err(Failure::ConnectionLoss { sent, .. } | Failure::Ended { sent, .. }) => {
                assert!(was_sent.is_none_or(|was| was == *sent), "whether {token} was sent");
            }
            Ok(answer) if self.shadow.is_creator(token) => {
                let created = CreateResponse::decode_exact(&answer.body);
                assert!(created.is_ok(), "a creator is told a path");
                if let Ok(CreateResponse { path }) = created {
                    self.shadow.created(token, path);
                }
            }
            _ => {}
        }
    }

    pub(super) fn check_deadline(&self) {
        let deadline = self.session.poll_timeout();
        assert!(deadline.is_none_or(|at| at > self.now), "a deadline in the past");
        let late = self.leave_by.is_some_and(|by| by <= self.now) && !self.over;
        assert!(!late || matches!(self.link, Link::Down | Link::Broken), "it was to be left");
    }

    /// Checks that the session is over and holds nothing any more.
    pub(super) fn check_over(&self) {
        assert!(self.over);
        assert!(self.waiting.is_empty(), "nobody answered {:?}", self.waiting);
        assert!(self.watching.is_empty(), "nobody gave back {:?}", self.watching);
        let stats = self.session.stats(self.now);
        assert_eq!((stats.in_flight, stats.queued, stats.queued_bytes), (0, 0, 0));
        assert_eq!((stats.watches, stats.streams, stats.owned_nodes), (0, 0, 0));
        assert_eq!(stats.leases, 0);
        assert_eq!(self.session.poll_timeout(), None);
        assert!(!format!("{:?}", self.session).is_empty());
    }
}

/// The start of the virtual clock; its value does not matter.
#[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
fn start() -> Instant {
    Instant::now()
}
