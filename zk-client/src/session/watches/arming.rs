//! Paths that a request on its way is about to watch: an event about them may be of the past.
//!
//! A server sends one for a node that has changed or gone when it comes to the request. All other
//! events are news, however many requests are on their way. Knows no watches.

use std::collections::HashMap;
use std::sync::Arc;

use zk_proto::EventType;

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

    /// True if a server may send this event because it has come to such a request.
    pub(crate) fn may_tell(&self, event: EventType, path: &str) -> bool {
        self.0.contains_key(path)
            && !matches!(event, EventType::NODE_CREATED | EventType::NODE_CHILDREN_CHANGED)
    }
}
