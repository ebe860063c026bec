//! The one invariant: while a guard reports that it holds the lock, no other node owns it.
//!
//! The leader's tree decides who owns the lock: the contender with the lowest number. It changes
//! only with an entry of the log, and a guard begins to report that it holds the lock only when it
//! is granted. So it is enough to check at these moments.

use std::sync::Arc;

use zk_recipes::{Guard, LockState, Loss};

use super::world::World;
use crate::clock::now;
use crate::judge::told;

impl World {
    /// Records that a process got the lock.
    pub(super) fn enters(&mut self, process: usize, guard: &Arc<Guard>) {
        self.journal.count("grants");
        self.journal.note(|| format!("process {process} HOLDS {}", guard.node()));
        self.believers.push((process, Arc::clone(guard)));
        self.judge();
    }

    /// Records that a process is about to release the lock.
    pub(super) fn leaves(&mut self, process: usize, guard: &Arc<Guard>) {
        self.believers.retain(|(_, one)| !Arc::ptr_eq(one, guard));
        let (state, node) = (guard.state(), guard.node());
        self.journal.note(|| format!("process {process} leaves {node}, {}", told(state)));
        self.journal.count(match state {
            LockState::Lost(Loss::Deadline) => "guards past their deadline",
            LockState::Lost(Loss::TermOver) => "guards past their term",
            LockState::Lost(_) => "guards that saw their session or node go",
            _ => "guards held to the end",
        });
    }

    /// Checks whether a process believes in a lock that another one owns.
    pub(super) fn judge(&mut self) {
        let owner = self.journal.queue().min().map(|(_, _, czxid)| czxid);
        let believers = self.believers.iter().filter(|(_, guard)| believes(guard));
        let believers = believers.collect::<Vec<_>>();
        for (nth, (process, guard)) in believers.iter().enumerate() {
            let node = guard.node();
            if owner.is_some_and(|owner| owner != guard.token().czxid()) {
                let state = told(guard.state());
                let what = format!("process {process} holds {node}, {state}; another one owns");
                return self.journal.violate(what);
            }
            if let Some((twin, _)) = believers[..nth].iter().find(|(_, other)| other.node() == node)
            {
                let what = format!("processes {twin} and {process} both hold {node}");
                return self.journal.violate(what);
            }
        }
    }
}

/// True if the guard reports that the lock is held.
fn believes(guard: &Guard) -> bool {
    match guard.state() {
        LockState::Held => true,
        LockState::Suspended { until } => until > now(),
        _ => false,
    }
}
