//! A member of an ensemble: its server, its links, and what the leader has sent to it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::calls::{Call, Member};
use crate::core::Core;
use crate::member::Message;

/// A member.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) core: Core,
    /// How long transactions wait here before they are applied.
    pub(crate) lag: Duration,
    /// What the leader has sent, with the time at which it did.
    pub(crate) queue: VecDeque<(Duration, Message)>,
    /// How long what it asks the leader for is on its way.
    pub(crate) call_lag: Duration,
    /// What it has asked the leader for, with the time at which it did.
    pub(crate) calls: VecDeque<(Duration, Call)>,
    pub(crate) is_cut: bool,
    pub(crate) is_stopped: bool,
    /// Since when it is without a quorum.
    pub(crate) lost_since: Option<Duration>,
    /// True if it must begin anew before it serves again: it has given up, or was cut off during an
    /// election.
    pub(crate) is_stale: bool,
}

impl Seat {
    pub(crate) fn is_up(&self) -> bool {
        !self.is_cut && !self.is_stopped
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.core.state.serving && !self.core.state.read_only
    }

    pub(crate) fn has_heard(&self) -> bool {
        self.core.state.member.as_ref().is_some_and(|member| !member.heard.is_empty())
    }

    /// Forgets what it has asked for: its clients are disconnected.
    pub(crate) fn forget_calls(&mut self) {
        self.calls.clear();
        self.core.state.forget_calls();
    }

    /// Sends the leader what this member asks for.
    pub(crate) fn send_calls(&mut self, time: Duration) {
        let calls = std::mem::take(&mut self.member().calls);
        self.calls.extend(calls.into_iter().map(|call| (time, call)));
    }

    /// Takes the next call that the leader gets now.
    pub(crate) fn next_call(&mut self, time: Duration, lag: Duration) -> Option<Call> {
        let (sent, _) = self.calls.front()?;
        sent.checked_add(lag).filter(|due| *due <= time)?;
        self.calls.pop_front().map(|(_, call)| call)
    }

    pub(crate) fn member(&mut self) -> &mut Member {
        self.core.state.member.get_or_insert_default()
    }
}
