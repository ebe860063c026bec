//! A one-shot channel for the answer to a request, from the driver to the caller.
//!
//! A slot also keeps the path that errors name. Later requests reuse its memory, so a client that
//! sends one request after the other allocates nothing for them. This file knows nothing of
//! sessions.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use zk_proto::Zxid;

use crate::error::Failure;
use crate::session::RawReply;

/// The result of a request.
pub(crate) type Completion = Result<RawReply, Failure>;

/// The same, with the zxid of the reply if it had one.
pub(crate) type Answered = (Completion, Option<Zxid>);

/// The number of slots that are kept for reuse: less than a MiB of them beside their paths, and
/// more than most clients have requests in flight.
const MAX_KEPT: usize = 4096;

/// A slot whose path needs more room than this is not kept.
const MAX_KEPT_PATH: usize = 256;

/// The slot of one request.
#[derive(Debug)]
struct ReplySlot {
    /// The path, as the caller wrote it.
    path: String,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// No answer yet. Holds the waker of the task that waits, if any.
    Waiting(Option<Waker>),
    Answered(Answered),
    /// The driver will not answer any more, or the caller has dropped its end.
    Closed,
}

impl ReplySlot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the state and returns the old one, so that the caller of this function wakes and
    /// drops without the lock.
    fn put(&self, state: State) -> State {
        mem::replace(&mut *self.state(), state)
    }
}

/// The driver's end. Dropping it notifies the receiver that there will be no answer.
#[derive(Debug)]
pub(crate) struct Responder(Option<Arc<ReplySlot>>);

impl Responder {
    /// Stores the answer, wakes the task that waits for it, and returns the slot for reuse.
    #[inline]
    pub(crate) fn answer(mut self, answered: Answered) -> Option<Spent> {
        let slot = self.0.take()?;
        let mut state = slot.state();
        // A caller that has dropped its end does not want the answer.
        if let State::Waiting(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Answered(answered);
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        } else {
            drop(state);
        }
        Some(Spent(slot))
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if let Some(slot) = &self.0
            && let State::Waiting(Some(waker)) = slot.put(State::Closed)
        {
            waker.wake();
        }
    }
}

/// The caller's end.
#[derive(Debug)]
pub(crate) struct ReplyReceiver {
    slot: Arc<ReplySlot>,
    /// Whether the answer was taken.
    done: bool,
}

impl ReplyReceiver {
    /// The path of the request, as the caller wrote it.
    pub(crate) fn path(&self) -> &str {
        &self.slot.path
    }

    /// Returns the answer, once; `None` if there will be none. Only the last task that polled is
    /// woken.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Option<Answered>> {
        let mut state = self.slot.state();
        match &mut *state {
            State::Waiting(Some(waker)) if waker.will_wake(cx.waker()) => Poll::Pending,
            State::Waiting(waker) => {
                let earlier = waker.replace(cx.waker().clone());
                drop(state);
                // Dropping a waker may run the user's code.
                drop(earlier);
                Poll::Pending
            }
            State::Answered(_) | State::Closed => {
                self.done = true;
                match mem::replace(&mut *state, State::Closed) {
                    State::Answered(answered) => Poll::Ready(Some(answered)),
                    State::Waiting(_) | State::Closed => Poll::Ready(None),
                }
            }
        }
    }
}

impl Drop for ReplyReceiver {
    fn drop(&mut self) {
        if !self.done {
            // Drop an answer that was not read now, and not when the slot is reused.
            drop(self.slot.put(State::Closed));
        }
    }
}

/// A slot that the driver no longer needs.
#[derive(Debug)]
pub(crate) struct Spent(Arc<ReplySlot>);

/// Slots to be reused, the longest unused first.
#[derive(Debug, Default)]
pub(crate) struct ReplySlots(VecDeque<Arc<ReplySlot>>);

impl ReplySlots {
    /// Both ends of a slot for a request about this path.
    #[inline]
    pub(crate) fn open(&mut self, path: &str) -> (Responder, ReplyReceiver) {
        let slot = self.reuse(path).unwrap_or_else(|| {
            let state = Mutex::new(State::Waiting(None));
            Arc::new(ReplySlot { path: path.to_owned(), state })
        });
        let responder = Responder(Some(Arc::clone(&slot)));
        (responder, ReplyReceiver { slot, done: false })
    }

    #[inline]
    fn reuse(&mut self, path: &str) -> Option<Arc<ReplySlot>> {
        let mut slot = self.0.pop_front()?;
        // A caller that has not read its answer yet keeps the slot for good.
        let own = Arc::get_mut(&mut slot)?;
        own.path.clear();
        own.path.push_str(path);
        *own.state.get_mut().unwrap_or_else(PoisonError::into_inner) = State::Waiting(None);
        Some(slot)
    }

    /// Keeps slots for reuse, within bounds.
    pub(crate) fn keep(&mut self, spent: impl Iterator<Item = Spent>) {
        for Spent(spent) in spent {
            if self.0.len() < MAX_KEPT && spent.path.capacity() <= MAX_KEPT_PATH {
                self.0.push_back(spent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::Bytes;

    use super::*;
    use crate::driver::wakes::Wakes;

    #[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
    fn answered(body: &Bytes) -> Answered {
        let reply = RawReply { zxid: Zxid(7), body: body.clone(), requested_at: Instant::now() };
        (Ok(reply), Some(Zxid(7)))
    }

    fn body() -> Bytes {
        Bytes::from(vec![1; 100])
    }

    fn poll(receiver: &mut ReplyReceiver, wakes: &Arc<Wakes>) -> Poll<Option<Bytes>> {
        let waker = Waker::from(Arc::clone(wakes));
        let answer = receiver.poll(&Context::from_waker(&waker));
        answer.map(|answer| answer.map(|(completion, _)| completion.unwrap().body))
    }

    #[test]
    fn an_answer_is_told_once_and_wakes_the_last_who_waited() {
        let (responder, mut receiver) = ReplySlots::default().open("/a");
        let (first, second) = (Arc::default(), Arc::default());
        assert!(poll(&mut receiver, &first).is_pending());
        assert!(poll(&mut receiver, &second).is_pending());
        assert_eq!(Arc::strong_count(&first), 1, "it waits no longer");
        assert!(responder.answer(answered(&body())).is_some());
        let woken = [first, second.clone()].map(|wakes| wakes.count());
        assert_eq!(woken, [0, 1]);
        assert_eq!(poll(&mut receiver, &second), Poll::Ready(Some(body())));
        assert_eq!(poll(&mut receiver, &second), Poll::Ready(None));
    }

    #[test]
    fn who_waits_in_vain_is_woken_and_told() {
        let (responder, mut receiver) = ReplySlots::default().open("/a");
        let wakes = Arc::default();
        assert!(poll(&mut receiver, &wakes).is_pending());
        drop(responder);
        assert_eq!(wakes.count(), 1);
        assert_eq!(poll(&mut receiver, &wakes), Poll::Ready(None));
    }

    #[test]
    fn an_answer_goes_with_who_asked_before_it_came_and_behind() {
        for polled in [false, true] {
            let (body, wakes) = (body(), Arc::default());
            let mut slots = ReplySlots::default();
            for before in [false, true] {
                let (responder, mut receiver) = slots.open("/a");
                if polled {
                    assert!(poll(&mut receiver, &wakes).is_pending());
                }
                let mut receiver = Some(receiver);
                receiver.take_if(|_| before);
                let spent = responder.answer(answered(&body));
                drop(receiver);
                assert!(body.is_unique(), "{polled} {before}: what is kept for later keeps it");
                assert_eq!(Arc::strong_count(&wakes), 1, "{polled} {before}");
                slots.keep(spent.into_iter());
            }
        }
    }

    #[test]
    fn a_slot_is_used_again_once_its_caller_is_done_and_not_before() {
        let wakes = Arc::default();
        let mut slots = ReplySlots::default();
        let (responder, mut late) = slots.open("/late");
        let kept = Arc::downgrade(&late.slot);
        slots.keep(responder.answer(answered(&body())).into_iter());
        let (responder, mut other) = slots.open("/other");
        assert!(!std::ptr::eq(kept.as_ptr(), Arc::as_ptr(&other.slot)));
        assert_eq!(late.path(), "/late");
        assert_eq!(poll(&mut late, &wakes), Poll::Ready(Some(body())));
        assert!(poll(&mut other, &wakes).is_pending());

        let used = Arc::as_ptr(&other.slot);
        slots.keep(responder.answer(answered(&body())).into_iter());
        assert_eq!(poll(&mut other, &wakes), Poll::Ready(Some(body())));
        drop(other);
        let (_responder, mut next) = slots.open("/next");
        assert!(std::ptr::eq(used, Arc::as_ptr(&next.slot)));
        assert_eq!(next.path(), "/next");
        assert!(poll(&mut next, &wakes).is_pending(), "the last answer is no answer to this");
    }

    #[test]
    fn no_more_is_kept_than_was_said() {
        let mut slots = ReplySlots::default();
        let spend =
            |(responder, _): (Responder, ReplyReceiver)| responder.answer(answered(&body()));
        let long = "x".repeat(MAX_KEPT_PATH + 1);
        let spent = slots.open(&long);
        slots.keep(spend(spent).into_iter());
        assert!(slots.0.is_empty());
        let open = (0..MAX_KEPT + 9).map(|_| slots.open("/a")).collect::<Vec<_>>();
        slots.keep(open.into_iter().filter_map(spend));
        assert_eq!(slots.0.len(), MAX_KEPT);
    }
}
