//! The wakers of the tasks that wait at the local level. One task is woken that was called or that
//! drives the acquire, or all are.
//!
//! They have a lock of their own: a future may call its waker while it is polled, and the acquire
//! is polled under the lock of the level.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use crate::two_level::cohort::WaitId;

/// The waiting tasks that were polled since they were last woken.
#[derive(Debug, Default)]
pub(crate) struct Wakers(Mutex<BTreeMap<WaitId, Waker>>);

/// Wakes the first task. If that one is not polled, the next call wakes the next one.
pub(crate) struct First(pub(crate) Arc<Wakers>);

/// Wakes all tasks.
pub(crate) struct All(pub(crate) Arc<Wakers>);

impl Wakers {
    fn wakers(&self) -> MutexGuard<'_, BTreeMap<WaitId, Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, id: WaitId, waker: &Waker) {
        self.wakers().insert(id, waker.clone());
    }

    pub(crate) fn remove(&self, id: WaitId) {
        self.wakers().remove(&id);
    }

    pub(crate) fn wake(&self, id: WaitId) {
        let waker = self.wakers().remove(&id);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Wake for First {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let first = self.0.wakers().pop_first();
        first.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Wake for All {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let all = std::mem::take(&mut *self.0.wakers());
        all.into_values().for_each(Waker::wake);
    }
}
