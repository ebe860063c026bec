//! Pings without a reply, and when they were sent. `session/timeouts` queues them, and
//! `session/connection` sends them.
//!
//! Pings are answered in order but are not in the pipeline, so this is all that is known about
//! them. The size is bounded: with many in flight, some count as sent when an older one was.

use std::collections::VecDeque;
use std::time::Instant;

/// How many times are kept. A client sends up to fifteen pings in each session timeout, and hangs
/// up after two thirds of silence: only a server that answers everything else can owe more replies
/// than this.
const MAX_TIMES: usize = 12;

/// The pings of one connection.
#[derive(Debug, Default)]
pub(crate) struct Pings {
    waiting: u32,
    /// When some were sent, and how many, oldest first.
    sent: VecDeque<(Instant, u32)>,
}

impl Pings {
    /// A ping waits to be sent.
    pub(crate) fn queued(&mut self) {
        self.waiting += 1;
    }

    /// All pings that waited are sent. Returns how many.
    pub(crate) fn sent(&mut self, now: Instant) -> u32 {
        let count = std::mem::take(&mut self.waiting);
        let full = self.sent.len() == MAX_TIMES;
        match self.sent.back_mut() {
            _ if count == 0 => {}
            Some((_, with)) if full => *with += count,
            _ => self.sent.push_back((now, count)),
        }
        count
    }

    /// A ping was answered. Returns the earliest time at which the oldest ping may have been sent,
    /// if it was sent. `None` if there is no ping.
    pub(crate) fn answered(&mut self) -> Option<Option<Instant>> {
        let Some((at, count)) = self.sent.front_mut() else {
            self.waiting = self.waiting.checked_sub(1)?;
            return Some(None);
        };
        let at = *at;
        *count -= 1;
        if *count == 0 {
            self.sent.pop_front();
        }
        Some(Some(at))
    }

    /// When the oldest ping was sent.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.sent.front().map(|(at, _)| *at)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
    fn many_pings_count_as_sent_no_later_than_they_were() {
        let start = Instant::now();
        let mut pings = Pings::default();
        for n in 0..1000 {
            pings.queued();
            pings.sent(start + Duration::from_secs(n));
        }
        assert_eq!(pings.sent.len(), MAX_TIMES);
        for n in 0..1000 {
            let at = pings.answered().unwrap().unwrap();
            assert!(at <= start + Duration::from_secs(n), "ping {n}");
            assert!(n >= MAX_TIMES as u64 || at == start + Duration::from_secs(n), "ping {n}");
        }
        assert_eq!(pings.answered(), None, "there are no more");
        pings.queued();
        assert_eq!(pings.answered(), Some(None), "answered before it was sent");
    }
}
