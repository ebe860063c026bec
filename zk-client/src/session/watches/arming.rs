//! Paths that an unanswered request is about to watch: an event about them may be of the past.
//!
//! When a server executes the request, it sends such an event for each node that has changed or
//! gone. All other events are news, however many requests are in flight. Knows no watches.

use std::collections::HashMap;
use std::sync::Arc;

use zk_proto::EventType;

/// The capacity that an empty table keeps at most.
const KEPT: usize = 128;

/// How many unanswered requests each path is in.
#[derive(Debug, Default)]
pub(crate) struct Arming(HashMap<Arc<str>, u32>);

impl Arming {
    pub(crate) fn begin(&mut self, path: Arc<str>) {
        *self.0.entry(path).or_default() += 1;
    }

    /// A request for these was answered, or was lost.
    pub(crate) fn end(&mut self, armed: &[Arc<str>]) {
        for path in armed {
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

    /// True if a server may send this event because it executes such a request.
    pub(crate) fn may_be_old(&self, event: EventType, path: &str) -> bool {
        self.0.contains_key(path)
            && !matches!(event, EventType::NODE_CREATED | EventType::NODE_CHILDREN_CHANGED)
    }
}
