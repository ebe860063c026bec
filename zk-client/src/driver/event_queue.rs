//! The queue of events between the driver and the reader of one stream.
//!
//! It never blocks and never grows beyond a bound: changes that find no room are counted in their
//! place. This file knows nothing of sessions.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::model::event::StreamEvent;

/// The bound of a queue, in bytes of memory. It is many times what one read of a connection brings,
/// so a reader that runs after every read, or a few reads later, misses nothing.
pub(crate) const CAPACITY: usize = 1024 * 1024;

/// The bytes that an event takes beside its path.
pub(crate) const EVENT_BYTES: usize = 64;

/// Room for this many events is not released.
const KEPT_EVENTS: usize = 16;

/// Written by the driver, read by one stream.
#[derive(Debug, Default)]
pub(crate) struct EventQueue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// Once the queue is full, it takes at most one more entry, which is not a change.
    events: VecDeque<StreamEvent>,
    /// The bytes that the events take.
    bytes: usize,
    closed: bool,
    reader: Option<Waker>,
}

impl EventQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, event: StreamEvent) {
        let mut waiting = self.lock();
        waiting.push(event);
        let reader = waiting.reader.take();
        drop(waiting);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Closes the queue: no event follows.
    pub(crate) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        let reader = waiting.reader.take();
        drop(waiting);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Moves all waiting events into `read`, which must be empty; it stays empty after the last
    /// event. If no event waits, only the last task that polled is woken for the next one.
    pub(crate) fn poll_take(&self, cx: &Context<'_>, read: &mut VecDeque<StreamEvent>) -> Poll<()> {
        read.shrink_to(KEPT_EVENTS);
        let mut waiting = self.lock();
        if waiting.events.is_empty() && !waiting.closed {
            if waiting.reader.as_ref().is_some_and(|reader| reader.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            let earlier = waiting.reader.replace(cx.waker().clone());
            drop(waiting);
            // Dropping a waker may run the user's code.
            drop(earlier);
            return Poll::Pending;
        }
        std::mem::swap(&mut waiting.events, read);
        waiting.bytes = 0;
        Poll::Ready(())
    }
}

impl Waiting {
    fn push(&mut self, event: StreamEvent) {
        let full = self.bytes >= CAPACITY;
        let path = match &event {
            StreamEvent::Changed(event) => event.path.len(),
            StreamEvent::Rearmed | StreamEvent::Lagged(_) => 0,
        };
        match (event, self.events.back_mut()) {
            // One entry is enough, and `Lagged` implies it.
            (StreamEvent::Rearmed, Some(StreamEvent::Rearmed | StreamEvent::Lagged(_))) => {}
            (StreamEvent::Changed(_), Some(StreamEvent::Lagged(dropped))) if full => *dropped += 1,
            (StreamEvent::Changed(_), Some(last @ StreamEvent::Rearmed)) if full => {
                *last = StreamEvent::Lagged(1);
            }
            (StreamEvent::Changed(_), _) if full => self.events.push_back(StreamEvent::Lagged(1)),
            (event, _) => {
                self.bytes += EVENT_BYTES + path;
                self.events.push_back(event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_proto::EventType;

    use super::*;
    use crate::model::event::WatchedEvent;

    /// This many changes fill a queue.
    const FULL: usize = CAPACITY.div_ceil(EVENT_BYTES + 6);

    fn change(n: usize) -> StreamEvent {
        let (kind, path) = (EventType::NODE_DATA_CHANGED, format!("/{n:05}"));
        StreamEvent::Changed(WatchedEvent { kind, path, zxid: None, missed: false })
    }

    fn take(queue: &EventQueue) -> VecDeque<StreamEvent> {
        let mut read = VecDeque::new();
        assert!(queue.poll_take(&Context::from_waker(Waker::noop()), &mut read).is_ready());
        read
    }

    #[test]
    fn what_finds_no_room_is_counted_in_its_place() {
        let queue = EventQueue::default();
        (0..FULL + 3).for_each(|n| queue.push(change(n)));
        let told = (0..FULL).map(change).chain([StreamEvent::Lagged(3)]).collect::<VecDeque<_>>();
        assert_eq!(take(&queue), told);
        queue.push(change(9));
        assert_eq!(take(&queue), [change(9)]);
        queue.close();
        assert_eq!(take(&queue), []);
    }

    #[test]
    fn it_holds_one_more_than_its_capacity_whatever_comes() {
        let queue = EventQueue::default();
        for n in 0..3 * FULL {
            queue.push(change(n));
            queue.push(StreamEvent::Rearmed);
            let bytes = queue.lock().events.len() * EVENT_BYTES;
            assert!(bytes < CAPACITY + 2 * EVENT_BYTES, "{bytes}");
        }
        let told = take(&queue);
        let changes = told.iter().filter(|told| matches!(told, StreamEvent::Changed(_))).count();
        let dropped = (3 * FULL - changes) as u64;
        assert_eq!(told.back(), Some(&StreamEvent::Lagged(dropped)), "each is told or counted");
    }

    #[test]
    fn long_paths_take_their_length_and_one_of_any_length_is_told() {
        let long = |n: usize| {
            let (kind, path) = (EventType::NODE_CREATED, "x".repeat(n));
            StreamEvent::Changed(WatchedEvent { kind, path, zxid: None, missed: false })
        };
        let queue = EventQueue::default();
        (0..100).for_each(|_| queue.push(long(CAPACITY / 4)));
        assert_eq!(take(&queue).len(), 4 + 1);
        (0..2).for_each(|_| queue.push(long(2 * CAPACITY)));
        assert_eq!(take(&queue), [long(2 * CAPACITY), StreamEvent::Lagged(1)]);
    }

    #[test]
    fn a_rearmed_watch_is_told_once_in_a_row() {
        let queue = EventQueue::default();
        (0..3).for_each(|_| queue.push(StreamEvent::Rearmed));
        queue.push(change(1));
        queue.push(StreamEvent::Rearmed);
        assert_eq!(take(&queue), [StreamEvent::Rearmed, change(1), StreamEvent::Rearmed]);
    }
}
