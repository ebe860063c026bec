//! The one invariant: while a guard reports that it holds the lock, no other node owns it.
//!
//! The leader's tree decides who owns the lock: the contender with the lowest number. It changes
//! only with an entry of the log, and a guard begins to report that it holds the lock only when it
//! is granted. So it is enough to check at these moments.

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_recipes::{Guard, LockState, Loss};

use super::world::World;
use crate::clock::now;
use crate::judge::told;

/// The guards of all processes.
#[derive(Default)]
pub(super) struct Believers {
    entries: u64,
    guards: BTreeMap<u64, Believer>,
}

/// A process with its guard.
struct Believer {
    process: usize,
    guard: Arc<Guard>,
}

impl Believers {
    /// The processes that have guards. Those with the newest guards come last.
    pub(super) fn processes(&self) -> impl Iterator<Item = usize> {
        self.guards.values().map(|believer| believer.process)
    }
}

impl Believer {
    /// True if the guard reports that the lock is held.
    fn believes(&self) -> bool {
        match self.guard.state() {
            LockState::Held => true,
            LockState::Suspended { until } => until > now(),
            _ => false,
        }
    }
}

impl World {
    /// Records that a process got the lock. Returns the argument for [`leaves`](Self::leaves).
    pub(super) fn enters(&mut self, process: usize, guard: &Arc<Guard>) -> u64 {
        self.journal.count("grants");
        self.journal.note(|| format!("process {process} HOLDS {}", guard.node()));
        self.believers.entries += 1;
        let id = self.believers.entries;
        self.believers.guards.insert(id, Believer { process, guard: Arc::clone(guard) });
        self.judge();
        id
    }

    /// Records that a process is about to release the lock.
    pub(super) fn leaves(&mut self, id: u64) {
        let Some(Believer { process, guard }) = self.believers.guards.remove(&id) else {
            return;
        };
        let state = guard.state();
        let node = guard.node();
        self.journal.note(|| format!("process {process} leaves {node}, {}", told(state)));
        self.journal.count(match state {
            LockState::Lost(Loss::Deadline) => "guards past their deadline",
            LockState::Lost(Loss::TermOver) => "guards past their term",
            LockState::Lost(_) => "guards that saw their session or node go",
            _ => "guards held to the end",
        });
    }

    /// Removes the guards of a process that has died.
    pub(super) fn dies(&mut self, process: usize) {
        self.believers.guards.retain(|_, believer| believer.process != process);
    }

    /// Checks whether a process believes in a lock that another one owns.
    pub(super) fn judge(&mut self) {
        self.journal.commits(self.servers[super::message::LEADER].core().history());
        let owner = self.journal.queue().min().map(|(_, _, czxid)| czxid);
        let believers = self.believers.guards.values().filter(|believer| believer.believes());
        let believers: Vec<_> = believers.collect();
        let violation =
            believers.iter().enumerate().find_map(|(nth, Believer { process, guard })| {
                let node = guard.node();
                if owner.is_some_and(|owner| owner != guard.token().czxid()) {
                    let state = told(guard.state());
                    return Some(format!(
                        "process {process} holds {node}, {state}; another one owns"
                    ));
                }
                let twin = believers[..nth].iter().find(|other| other.guard.node() == node)?;
                Some(format!("processes {} and {process} both hold {node}", twin.process))
            });
        if let Some(violation) = violation {
            self.journal.violate(violation);
        }
    }
}
