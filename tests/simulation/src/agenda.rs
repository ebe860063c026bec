//! What is to happen, in the order of its times.

use std::collections::BTreeMap;
use std::task::{Context, Waker};
use std::time::Instant;

/// What is to happen at which time. Of what is due at the same time, what was planned first comes
/// first.
#[derive(Debug)]
pub struct Agenda<D> {
    due: BTreeMap<(Instant, u64), D>,
    planned: u64,
    /// How many entries have come due.
    pub steps: u64,
    pump: Option<Waker>,
}

impl<D> Default for Agenda<D> {
    fn default() -> Self {
        Self { due: BTreeMap::new(), planned: 0, steps: 0, pump: None }
    }
}

impl<D> Agenda<D> {
    /// Adds an entry, and has the pump look again.
    pub fn plan(&mut self, at: Instant, due: D) {
        self.planned += 1;
        self.due.insert((at, self.planned), due);
        self.wake();
    }

    /// When the next entry is due.
    pub fn first(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next entry, if it is due now.
    pub fn next(&mut self, now: Instant) -> Option<D> {
        self.first().filter(|at| *at <= now)?;
        self.steps += 1;
        self.due.pop_first().map(|(_, due)| due)
    }

    /// Takes all entries that are meant, whenever they are due.
    pub fn take(&mut self, is_meant: impl Fn(&D) -> bool) -> Vec<D> {
        let keys = self.due.iter().filter(|(_, due)| is_meant(due)).map(|(key, _)| *key);
        let keys = keys.collect::<Vec<_>>();
        keys.iter().filter_map(|key| self.due.remove(key)).collect()
    }

    /// Has the pump look again at what is due.
    pub fn wake(&mut self) {
        self.pump.take().into_iter().for_each(Waker::wake);
    }

    /// Remembers the pump, which waits until something is due or planned.
    pub fn wait(&mut self, cx: &Context<'_>) {
        self.pump = Some(cx.waker().clone());
    }
}
