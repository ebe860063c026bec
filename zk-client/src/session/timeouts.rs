//! What the session does when a timer is due: a ping, a hang-up, the end.

use std::time::{Duration, Instant};

use tracing::trace;
use zk_proto::{Encode, Operation, PingRequest, RequestHeader, Xid};

use crate::error::{Ended, Hangup};
use crate::session::pipeline::Priority;
use crate::session::state::{Phase, Session};
use crate::session::timers::{self, Timer};
use crate::trace;

/// How long a close waits for the answer to the first handshake, so that the server need not keep
/// an empty session until it expires.
const CLOSE_NEW: Duration = Duration::from_secs(1);

impl<T, W, S: Clone> Session<T, W, S> {
    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.expire_leases(now);
        if self.closing && self.ended().is_none() && !self.timers.is_set(Timer::Close) {
            // A session that no server has given yet leaves nothing behind, at most an empty one.
            let is_new = self.phase == Phase::Handshake && self.identity.is_none();
            let patience = if is_new { self.timeout.min(CLOSE_NEW) } else { self.timeout };
            self.timers.set(Timer::Close, now + patience);
        }
        while let Some(timer) = self.timers.take_due(now) {
            trace!(target: trace::SESSION, ?timer, "due");
            match timer {
                Timer::Attempt => {
                    let time = self.attempt_timeout();
                    self.hang_up(match self.is_shaking_hands() {
                        true => Hangup::Unanswered(time),
                        false => Hangup::AttemptTimedOut(time),
                    });
                }
                Timer::Ping => self.queue_ping(now),
                Timer::Silence => self.hang_up(Hangup::Silence(timers::silence(self.timeout))),
                Timer::Expiry => self.end(Ended::Expired),
                Timer::Close => self.end(Ended::Closed),
                Timer::Leave => self.leaving.into_iter().for_each(|why| self.hang_up(why)),
                Timer::SearchLostNodes => {
                    self.owned_nodes.search_again();
                    self.do_housekeeping(Priority::Normal);
                    if self.owned_nodes.has_suspects() {
                        self.schedule_search(now);
                    }
                }
                Timer::RepeatDeletes => {
                    // At the end of its use the session only waits for what is on its way.
                    if !self.closing {
                        self.owned_nodes.repeat_refused();
                        self.do_housekeeping(Priority::Normal);
                        self.schedule_deletes(now);
                    }
                }
                // `update_lease_timers` handles these below.
                Timer::Probe | Timer::LeaseAtRisk | Timer::Lapse => {}
            }
        }
        self.update_lease_timers(now);
    }

    /// Queues a ping ahead of all requests, and sets the timer of the next one.
    fn queue_ping(&mut self, now: Instant) {
        self.put_control(|writer| {
            let ping = PingRequest;
            RequestHeader { xid: Xid::PING, op: ping.op() }.encode(writer);
        });
        self.pings.queued();
        self.timers.sent(now, self.timeout);
    }
}
