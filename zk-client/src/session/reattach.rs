//! What a new connection begins with, ahead of all requests of callers.

use tracing::{debug, warn};
use zk_proto::EventType;

use crate::model::event::Change;
use crate::session::event::Event;
use crate::session::lost_requests::MAX_HANG_UPS;
use crate::session::pipeline::Priority;
use crate::session::state::{Purpose, Session};
use crate::session::watches::path_watches::{CallerHandle, WatchKind, WatchType};
use crate::trace;

impl<T, W, S: Clone> Session<T, W, S> {
    /// Queues what must precede all requests of callers: credentials, watches, the search for lost
    /// creates, and due deletes.
    pub(super) fn reattach(&mut self) {
        for (id, tokens) in self.auths.replay() {
            if let Err(error) = self.queue_auth(Priority::Urgent, id, tokens) {
                warn!(target: trace::SESSION, %error, "a credential is not sent");
            }
        }
        if self.rearms_lost >= MAX_HANG_UPS {
            self.give_up_watches();
        }
        let Self { config, watches, pipeline, rearming, last_zxid, .. } = self;
        watches.rearm(*last_zxid, config.limits.max_request, |rearm| {
            match pipeline.push(Priority::Urgent, rearm.op(), rearm, Purpose::Rearm) {
                Ok(_) => *rearming += 1,
                Err(error) => {
                    warn!(target: trace::WATCH, %error, "a watch with so long a path is lost");
                }
            }
        });
        let (watches, streams) = self.watches.lengths();
        if self.rearming > 0 {
            let requests = self.rearming;
            debug!(target: trace::WATCH, watches, streams, requests, "rearming");
        }
        self.owned_nodes.on_new_connection();
        // Sends what that has left to do.
        self.do_housekeeping(Priority::Urgent);
    }

    /// Tells all watchers that they may have missed something, since servers do not let the session
    /// arm their watches again. Streams end. Whoever watches on asks the server anew.
    fn give_up_watches(&mut self) {
        warn!(target: trace::WATCH, "servers end the connection on setWatches: watches are lost");
        self.rearms_lost = 0;
        for (watch_type, path, caller) in self.watches.take_all() {
            let kind = match watch_type {
                WatchType::Once(WatchKind::Child) => EventType::NODE_CHILDREN_CHANGED,
                WatchType::Once(WatchKind::Exist) => EventType::NODE_CREATED,
                _ => EventType::NODE_DATA_CHANGED,
            };
            let change = Change { kind, zxid: None, missed: true };
            self.events.push_back(match caller {
                CallerHandle::Once(watcher) => Event::WatchFired { watcher, path, change },
                stream => Event::from(stream),
            });
        }
    }
}
