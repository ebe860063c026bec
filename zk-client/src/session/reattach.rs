//! What a new connection begins with, ahead of all requests of callers.

use tracing::{debug, warn};

use crate::session::pipeline::Priority;
use crate::session::state::{Purpose, Session};
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
}
