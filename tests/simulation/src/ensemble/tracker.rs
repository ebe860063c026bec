//! The leader's table of sessions, the only one that decides when a session expires.
//!
//! It knows no nodes. Times are counted from the start of the simulation.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_embedded::SessionId;

use super::message::ServerId;

#[derive(Debug)]
pub(super) struct Tracker {
    tick: Duration,
    /// The sessions by their ids.
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

    /// Records that a client has attached, with a new or a resumed session.
    pub(super) fn attach(
        &mut self,
        session: SessionId,
        owner: ServerId,
        timeout: Duration,
        now: Duration,
    ) {
        self.sessions.insert(session.0, Tracked { expires: self.expiry(timeout, now), owner });
    }

    /// Records that a server has seen the session, of which the leader learns only now.
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

    /// The sessions whose timeout has passed.
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
