//! Paths that a request on its way is about to watch: what a server tells of them may be of the past.
//!
//! Others are told of as ever, however many requests are on their way. Knows no watches.

use std::collections::HashMap;
use std::sync::Arc;

use crate::session::watches::keyed::Keyed;

/// Room for so many paths is not given back.
const KEPT: usize = 128;

/// How many unanswered requests each path is in.
#[derive(Debug, Default)]
pub(crate) struct Arming(HashMap<Arc<str>, u32, Keyed>);

impl Arming {
    pub(crate) fn begin(&mut self, path: Arc<str>) {
        *self.0.entry(path).or_default() += 1;
    }

    /// A request for these was answered, or was lost.
    pub(crate) fn end(&mut self, paths: &[Arc<str>]) {
        for path in paths {
            if let Some(requests) = self.0.get_mut(path) {
                *requests -= 1;
                if *requests == 0 {
                    self.0.remove(path);
                }
            }
        }
        if self.0.is_empty() {
            self.0.shrink_to(KEPT);
        }
    }

    pub(crate) fn contains(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }
}
