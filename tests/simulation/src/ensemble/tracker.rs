//! The leader's table of sessions, the only one that decides when a session expires.
//!
//! Knows nothing of nodes. Times are counted from the start of the simulation.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_embedded::SessionId;

use super::message::ServerId;

#[derive(Debug)]
pub(super) struct Tracker {
    tick: Duration,
    /// By their ids.
    sessions: BTreeMap<i64, Tracked>,
}

#[derive(Debug)]
struct Tracked {
    expires: Duration,
    /// The server at which the client attached last. Writes through another one are refused.
    owner: ServerId,
}

impl Tracker {
    pub(super) fn new(tick: Duration) -> Self {
        Self { tick, sessions: BTreeMap::new() }
    }

    /// A client has attached: with a new session, or with one that it takes up again.
    pub(super) fn attach(
        &mut self,
        session: SessionId,
        owner: ServerId,
        timeout: Duration,
        now: Duration,
    ) {
        self.sessions.insert(session.0, Tracked { expires: self.expiry(timeout, now), owner });
    }

    /// The leader learns now that a server has heard of the session at some earlier time.
    pub(super) fn touch(&mut self, session: SessionId, timeout: Duration, now: Duration) {
        let expires = self.expiry(timeout, now);
        if let Some(tracked) = self.sessions.get_mut(&session.0) {
            tracked.expires = tracked.expires.max(expires);
        }
    }

    pub(super) fn close(&mut self, session: SessionId) {
        self.sessions.remove(&session.0);
    }

    /// The server at which the client attached last, if the session is not over.
    pub(super) fn owner(&self, session: SessionId) -> Option<ServerId> {
        self.sessions.get(&session.0).map(|tracked| tracked.owner)
    }

    /// The sessions whose time is over.
    pub(super) fn expired(&self, now: Duration) -> Vec<SessionId> {
        let over = self.sessions.iter().filter(|(_, tracked)| tracked.expires <= now);
        over.map(|(id, _)| SessionId(*id)).collect()
    }

    /// Sessions expire at whole ticks, at least one timeout after the touch.
    fn expiry(&self, timeout: Duration, now: Duration) -> Duration {
        let ticks = (now + timeout).as_millis() / self.tick.as_millis() + 1;
        self.tick * ticks as u32
    }
}
