//! Paths that a request on its way is about to watch: what a server tells of them may be of the past.
//!
//! It does so where a node is not as the request has it, which shows in the event. All else is told of
//! as ever, however many requests are on their way. Knows no watches.

use std::collections::HashMap;
use std::sync::Arc;

use zk_proto::EventType;

use crate::session::watches::keyed::Keyed;
use crate::session::watches::oneshots::WatchKind;

/// Room for so many paths is not given back.
const KEPT: usize = 128;

/// A path that a request watches, and how.
pub(crate) type Armed = (WatchKind, Arc<str>);

/// How many unanswered requests each path is in.
#[derive(Debug, Default)]
pub(crate) struct Arming(HashMap<Arc<str>, Requests, Keyed>);

/// By what they watch. Nothing asks for children in this way yet: what a server would tell then is here
/// all the same, so that whoever does gets it right.
#[derive(Debug, Default, PartialEq, Eq)]
struct Requests {
    data: u32,
    exist: u32,
    child: u32,
}

impl Requests {
    fn count(&mut self, kind: WatchKind) -> &mut u32 {
        match kind {
            WatchKind::Data => &mut self.data,
            WatchKind::Exist => &mut self.exist,
            WatchKind::Child => &mut self.child,
        }
    }
}

impl Arming {
    pub(crate) fn begin(&mut self, kind: WatchKind, path: Arc<str>) {
        *self.0.entry(path).or_default().count(kind) += 1;
    }

    /// A request for these was answered, or was lost.
    pub(crate) fn end(&mut self, armed: &[Armed]) {
        for (kind, path) in armed {
            if let Some(requests) = self.0.get_mut(path) {
                *requests.count(*kind) -= 1;
                if *requests == Requests::default() {
                    self.0.remove(path);
                }
            }
        }
        if self.0.is_empty() {
            self.0.shrink_to(KEPT);
        }
    }

    /// Whether a server may tell of this because it has come to such a request.
    pub(crate) fn may_tell(&self, event: EventType, path: &str) -> bool {
        let Some(Requests { data, exist, child }) = self.0.get(path) else {
            return false;
        };
        match event {
            EventType::NODE_CREATED => *exist > 0,
            EventType::NODE_DATA_CHANGED => *data > 0,
            EventType::NODE_CHILDREN_CHANGED => *child > 0,
            EventType::NODE_DELETED => *data > 0 || *child > 0,
            _ => true,
        }
    }
}
