//! A member of an ensemble: its server, its links, and what the leader has sent to it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::calls::Member;
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

    pub(crate) fn member(&mut self) -> &mut Member {
        self.core.state.member.get_or_insert_default()
    }
}
