//! The events of the road, and the queue on which the observer gets them.
//!
//! The queue never blocks its senders. It is limited in frames and in bytes: what does not fit is
//! dropped and counted, and the frames behind it are whole again.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// How many events wait at most: some seconds of a busy server.
const EVENTS: usize = 1 << 16;

/// How many bytes of frames wait at most.
const BYTES: usize = 64 << 20;

/// With more events than this waiting, the observer shows none until it has caught up.
const LAG: usize = EVENTS / 4;

/// Who sends a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "a connection has two ends")]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// When something passed the tap, since the tap was started.
pub type Stamp = Duration;

/// What the observer is told.
#[derive(Debug)]
pub(crate) enum Event {
    /// A whole frame without the length in front of it.
    Frame { connection: u64, side: Side, at: Stamp, payload: Bytes },
    /// Bytes that are no frames; no more frames come from this side.
    Unreadable { connection: u64, side: Side, at: Stamp },
    /// The connection is over.
    Closed { connection: u64, at: Stamp },
    /// The tap is stopped.
    Stop,
}

impl Event {
    fn bytes(&self) -> usize {
        match self {
            Self::Frame { payload, .. } => payload.len(),
            _ => 0,
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    events: AtomicUsize,
    bytes: AtomicUsize,
    dropped: AtomicU64,
    /// The connections that are over, where that event was dropped.
    closed: Mutex<Vec<u64>>,
}

impl Counts {
    fn closed(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The road's end of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    events: SyncSender<Event>,
    counts: Arc<Counts>,
}

/// The observer's end of the queue.
#[derive(Debug)]
pub(crate) struct Queue {
    events: Receiver<Event>,
    counts: Arc<Counts>,
}

/// Makes a queue.
pub(crate) fn queue() -> (Sender, Queue) {
    let (sender, receiver) = sync_channel(EVENTS);
    let counts = Arc::new(Counts::default());
    (Sender { events: sender, counts: Arc::clone(&counts) }, Queue { events: receiver, counts })
}

impl Sender {
    /// Hands an event over, or drops and counts it.
    pub(crate) fn send(&self, event: Event) {
        let bytes = event.bytes();
        let closed = match event {
            Event::Closed { connection, .. } => Some(connection),
            _ => None,
        };
        let waiting = self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counts.events.fetch_add(1, Ordering::Relaxed);
        if waiting.saturating_add(bytes) > BYTES || self.events.try_send(event).is_err() {
            self.counts.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.events.fetch_sub(1, Ordering::Relaxed);
            self.counts.closed().extend(closed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells the observer to stop behind all that waits, once there is room. This may block.
    pub(crate) fn stop(&self) {
        self.counts.events.fetch_add(1, Ordering::Relaxed);
        // An error means that the observer has ended.
        drop(self.events.send(Event::Stop));
    }
}

impl Queue {
    /// Waits for the next event; `None` if no more can come.
    pub(crate) fn next(&self) -> Option<Event> {
        let event = self.events.recv().ok()?;
        self.counts.bytes.fetch_sub(event.bytes(), Ordering::Relaxed);
        self.counts.events.fetch_sub(1, Ordering::Relaxed);
        Some(event)
    }

    /// Whether so much waits that nothing should be shown.
    pub(crate) fn is_late(&self) -> bool {
        self.counts.events.load(Ordering::Relaxed) > LAG
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.events.load(Ordering::Relaxed) == 0
    }

    /// The connections that were seen to close by a dropped event, since this was asked last.
    pub(crate) fn closed(&self) -> Vec<u64> {
        std::mem::take(&mut *self.counts.closed())
    }

    /// How many events were dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }
}
