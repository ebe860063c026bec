//! What the future of a cached tree and its readers share.
//!
//! Readers look at the tree while they run code of their own, which may look at it again. So no
//! look holds a lock of the standard library, behind whose waiting writers a second one would wait.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use zk_client::Zxid;

use crate::coordination::follow::Stop;
use crate::coordination::tree_cache::tree::TreeView;
use crate::error::Cause;
use crate::steady::mutex::lock;

/// The most that a tree in memory may take: see [`TreeCache::follow`](crate::TreeCache::follow).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeLimits {
    /// The number of nodes. By default a million.
    pub max_nodes: usize,
    /// The bytes of all paths and data, with 150 more for each node. Each node has its whole path.
    /// By default 256 MiB.
    pub max_bytes: usize,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self { max_nodes: 1_000_000, max_bytes: 256 * 1024 * 1024 }
    }
}

/// What the future and the readers of its tree share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) root: String,
    pub(super) limits: TreeLimits,
    pub(super) tree: Held,
    /// The highest zxid that somebody waits for.
    pub(super) wanted: watch::Sender<Zxid>,
}

impl Shared {
    /// Fails if the tree is more than so many times as large as it may be. Of a tree that was never
    /// whole nothing is kept then.
    pub(super) fn ensure_within_limits(
        &self,
        tree: &mut TreeView,
        times: usize,
    ) -> Result<(), Stop> {
        let TreeLimits { max_nodes, max_bytes } = self.limits;
        let is_within = tree.nodes.len() <= max_nodes.saturating_mul(times)
            && tree.bytes <= max_bytes.saturating_mul(times);
        if is_within {
            return Ok(());
        }
        if !tree.is_whole {
            *tree = TreeView::default();
        }
        Err(Stop::Ended(Cause::TreeTooLarge(self.root.clone()).into()))
    }
}

thread_local! {
    /// How many looks at trees this thread is in.
    static LOOKS: Cell<usize> = const { Cell::new(0) };
}

/// A tree that one changes while many look at it.
///
/// A change waits until no look is left, and new looks wait for it. A look inside of a look does
/// not wait, because the change waits for the outer one. No lock is held while a look lasts.
#[derive(Debug, Default)]
pub(super) struct Held {
    state: Mutex<State>,
    turn: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Each look has a clone.
    tree: Arc<TreeView>,
    /// True while a change waits for the looks.
    is_due: bool,
}

impl Held {
    pub(super) fn look<R>(&self, look: impl FnOnce(&TreeView) -> R) -> R {
        // Dropped behind the tree.
        let _leaving = Leaving(self);
        let is_inside = LOOKS.replace(LOOKS.get() + 1) > 0;
        let tree = {
            let state = self.turn.wait_while(self.state(), |state| state.is_due && !is_inside);
            Arc::clone(&state.unwrap_or_else(PoisonError::into_inner).tree)
        };
        look(&tree)
    }

    pub(super) fn change<R>(&self, change: impl FnOnce(&mut TreeView) -> R) -> R {
        let mut state = self.state();
        loop {
            let State { tree, is_due } = &mut *state;
            if let Some(tree) = Arc::get_mut(tree) {
                // Those who wait go on when this returns, or panics.
                if std::mem::take(is_due) {
                    self.turn.notify_all();
                }
                return change(tree);
            }
            state.is_due = true;
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Ends a look, also one that panics.
struct Leaving<'a>(&'a Held);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        LOOKS.set(LOOKS.get() - 1);
        if self.0.state().is_due {
            self.0.turn.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_look_inside_of_a_look_goes_on_while_a_change_waits_and_other_looks_follow_it() {
        let held = Held::default();
        thread::scope(|threads| {
            let late = held.look(|_| {
                let change = threads.spawn(|| held.change(|tree| tree.changes = 1));
                while !held.state().is_due {
                    thread::yield_now();
                }
                let late = threads.spawn(|| held.look(|tree| tree.changes));
                for _ in 0..3 {
                    assert_eq!(held.look(|_| held.look(|tree| tree.changes)), 0);
                }
                assert!(!change.is_finished());
                late
            });
            assert_eq!(late.join().unwrap(), 1, "it waits for the change");
        });
        assert_eq!(LOOKS.get(), 0);
    }
}
