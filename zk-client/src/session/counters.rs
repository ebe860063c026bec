//! What a session counts, for `Client::stats`.
//!
//! These are numbers alone. Nothing in the session depends on them.

use std::time::{Duration, Instant};

use zk_proto::OpCode;

use crate::stats::{RequestCounts, Totals};

/// Counters since the session was made.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// When the first connection was established, and when the present one was.
    pub(crate) first: Option<Instant>,
    pub(crate) connected: Option<Instant>,
    /// What the session has counted. Of operations it used few: a search is cheaper than a map.
    pub(crate) totals: Totals,
    /// When the last request that was answered was sent, and when it was answered.
    last_round_trip: Option<(Instant, Instant)>,
}

impl Counters {
    /// A connection was established.
    pub(crate) fn established(&mut self, now: Instant) {
        self.first.get_or_insert(now);
        self.connected = Some(now);
        self.totals.connections += 1;
    }

    /// These many frames and bytes were handed to the transport.
    pub(crate) fn sent(&mut self, frames: usize, bytes: usize) {
        self.totals.frames_sent += frames as u64;
        self.totals.bytes_sent += bytes as u64;
    }

    /// A frame was received, with this many bytes on the wire.
    #[inline]
    pub(crate) fn received(&mut self, bytes: usize) {
        self.totals.frames_received += 1;
        self.totals.bytes_received += bytes as u64;
    }

    /// A request that was sent at `sent` is answered at `now`.
    #[inline]
    pub(crate) fn answered(&mut self, sent: Instant, now: Instant) {
        self.last_round_trip = Some((sent, now));
    }

    /// Counts a request of this operation that has ended. Only the first one allocates.
    #[inline]
    pub(crate) fn ended(&mut self, op: OpCode, count: impl FnOnce(&mut RequestCounts)) {
        match self.totals.requests.iter_mut().find(|counts| counts.op == op) {
            Some(counts) => count(counts),
            None => {
                let mut counts = RequestCounts::new(op);
                count(&mut counts);
                self.totals.requests.push(counts);
            }
        }
    }

    /// How long the last reply took.
    pub(crate) fn last_round_trip(&self) -> Option<Duration> {
        self.last_round_trip.map(|(sent, answered)| answered.saturating_duration_since(sent))
    }
}
