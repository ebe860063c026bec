//! What waits for the reader of one stream: a queue that never blocks and never grows beyond a
//! bound.
//!
//! What finds no room is counted in its place. Knows nothing of sessions.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::event::StreamEvent;

/// Changes that may wait: what one large transaction makes, but no more than some 100 KiB of
/// ordinary paths for a stream that nobody reads.
pub(crate) const CAPACITY: usize = 1024;

/// Written by the driver, read by one stream.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// At most one more than fit, and that is no change.
    events: VecDeque<StreamEvent>,
    closed: bool,
    reader: Option<Waker>,
}

impl Inbox {
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

    /// Nothing comes any more.
    pub(crate) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        let reader = waiting.reader.take();
        drop(waiting);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// The next event, or `None` behind the last one. Wakes the last reader that found none.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Option<StreamEvent>> {
        let mut waiting = self.lock();
        match waiting.events.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if waiting.closed => Poll::Ready(None),
            None => {
                let earlier = waiting.reader.replace(cx.waker().clone());
                drop(waiting);
                // Dropping a waker may run code of the user's.
                drop(earlier);
                Poll::Pending
            }
        }
    }
}

impl Waiting {
    fn push(&mut self, event: StreamEvent) {
        let full = self.events.len() >= CAPACITY;
        match (event, self.events.back_mut()) {
            // Once is enough, and what was dropped says the same.
            (StreamEvent::Rearmed, Some(StreamEvent::Rearmed | StreamEvent::Lagged(_))) => {}
            (StreamEvent::Changed(_), Some(StreamEvent::Lagged(dropped))) if full => *dropped += 1,
            (StreamEvent::Changed(_), Some(last @ StreamEvent::Rearmed)) if full => {
                *last = StreamEvent::Lagged(1);
            }
            (StreamEvent::Changed(_), _) if full => self.events.push_back(StreamEvent::Lagged(1)),
            (event, _) => self.events.push_back(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_proto::EventType;

    use super::*;
    use crate::event::WatchedEvent;

    fn change(n: usize) -> StreamEvent {
        let kind = EventType::NODE_DATA_CHANGED;
        StreamEvent::Changed(WatchedEvent { kind, path: n.to_string(), zxid: None, missed: false })
    }

    fn next(inbox: &Inbox) -> Option<StreamEvent> {
        match inbox.poll(&Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_in_its_place() {
        let inbox = Inbox::default();
        (0..CAPACITY + 3).for_each(|n| inbox.push(change(n)));
        assert_eq!(next(&inbox), Some(change(0)));
        inbox.push(change(9000));
        assert_eq!(next(&inbox), Some(change(1)));
        inbox.push(change(9001));
        (2..CAPACITY).for_each(|n| assert_eq!(next(&inbox), Some(change(n))));
        assert_eq!(next(&inbox), Some(StreamEvent::Lagged(4)));
        assert_eq!(next(&inbox), Some(change(9001)));
        assert_eq!(next(&inbox), None);
    }

    #[test]
    fn it_holds_one_more_than_its_capacity_whatever_comes() {
        let inbox = Inbox::default();
        for n in 0..3 * CAPACITY {
            inbox.push(change(n));
            inbox.push(StreamEvent::Rearmed);
            assert!(inbox.lock().events.len() <= CAPACITY + 1);
        }
        let told = std::iter::from_fn(|| next(&inbox)).collect::<Vec<_>>();
        let changes = told.iter().filter(|told| matches!(told, StreamEvent::Changed(_))).count();
        let dropped = (3 * CAPACITY - changes) as u64;
        assert_eq!(told.last(), Some(&StreamEvent::Lagged(dropped)), "each is told or counted");
    }

    #[test]
    fn a_rearmed_watch_is_told_once_in_a_row() {
        let inbox = Inbox::default();
        (0..3).for_each(|_| inbox.push(StreamEvent::Rearmed));
        inbox.push(change(1));
        inbox.push(StreamEvent::Rearmed);
        let told = std::iter::from_fn(|| next(&inbox)).collect::<Vec<_>>();
        assert_eq!(told, [StreamEvent::Rearmed, change(1), StreamEvent::Rearmed]);
    }
}
