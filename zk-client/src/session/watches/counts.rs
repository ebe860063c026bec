//! How many watches of each type are set.
//!
//! Recursive watches are counted by their depth in the tree, so that an event is looked up at those
//! depths alone. This file keeps no watches.

use crate::model::event::WatchMode;
use crate::session::watches::ancestors::depth;
use crate::session::watches::path_watches::WatchType;

/// How many watches are set.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) one_shots: usize,
    pub(crate) persistent: usize,
    /// By the depth of their paths, so that an event is looked up at those depths alone.
    pub(crate) recursive: Vec<usize>,
}

impl Counts {
    pub(crate) fn add(&mut self, watch_type: WatchType, path: &str) {
        match watch_type {
            WatchType::Once(_) => self.one_shots += 1,
            WatchType::Stream(WatchMode::Persistent) => self.persistent += 1,
            WatchType::Stream(WatchMode::PersistentRecursive) => {
                let depth = depth(path);
                if self.recursive.len() <= depth {
                    self.recursive.resize(depth + 1, 0);
                }
                self.recursive.get_mut(depth).into_iter().for_each(|count| *count += 1);
            }
        }
    }

    pub(crate) fn subtract(&mut self, watch_type: WatchType, path: &str) {
        match watch_type {
            WatchType::Once(_) => self.one_shots -= 1,
            WatchType::Stream(WatchMode::Persistent) => self.persistent -= 1,
            WatchType::Stream(WatchMode::PersistentRecursive) => {
                self.recursive.get_mut(depth(path)).into_iter().for_each(|count| *count -= 1);
                while self.recursive.pop_if(|deepest| *deepest == 0).is_some() {}
            }
        }
    }
}
