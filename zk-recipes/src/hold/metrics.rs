//! What a hold adds to the counters of its lock's meter, and the traces of its begin and end.
//!
//! Without a meter, and without a subscriber to the traces, nothing is counted or timed.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::{Level, debug, enabled, info};
use zk_client::Ended;

use crate::error::Loss;
use crate::queue::Queue;
use crate::steady::mutex::lock;
use crate::trace::LOCK;

/// One hold of a lock, from when the lock is surely ours until it is not.
#[derive(Debug)]
pub(super) struct HoldMetrics {
    has_waited: bool,
    requested: Instant,
    /// When the lock was granted, while it is held and observed.
    granted: Mutex<Option<Instant>>,
}

impl HoldMetrics {
    /// The metrics of a hold that has not begun.
    pub(super) fn new(has_waited: bool, requested: Instant) -> Self {
        Self { has_waited, requested, granted: Mutex::new(None) }
    }

    /// Notes that the lock is ours.
    pub(super) fn begin(&self, queue: &Queue, node: &str) {
        let options = queue.options();
        if options.meter.is_none() && !enabled!(target: LOCK, Level::INFO) {
            return;
        }
        let now = queue.client().clock().now();
        let waited = now.saturating_duration_since(self.requested);
        debug!(target: LOCK, node, waited_us = micros(waited), "acquired");
        options.count(|stats| {
            stats.acquired += 1;
            stats.handed_over += u64::from(self.has_waited);
            stats.waits.record(waited);
        });
        *lock(&self.granted) = Some(now);
    }

    /// Notes that the lock is not ours any more. Only the first call counts. `loss` is looked for
    /// only then.
    pub(super) fn end(&self, queue: &Queue, node: &str, loss: impl FnOnce() -> Option<Loss>) {
        let Some(granted) = lock(&self.granted).take() else {
            return;
        };
        let held = queue.client().clock().now().saturating_duration_since(granted);
        let held_us = micros(held);
        let loss = loss().filter(|loss| *loss != Loss::SessionOver(Ended::Closed));
        match loss {
            Some(loss) => info!(target: LOCK, node, %loss, held_us, "lost"),
            None => debug!(target: LOCK, node, held_us, "released"),
        }
        queue.options().count(|stats| {
            *stats.ended_by(loss) += 1;
            stats.holds.record(held);
        });
    }
}

fn micros(time: Duration) -> u64 {
    time.as_micros() as u64
}
