//! The servers of a session: which one is next, and how the attempts at them have gone.
//!
//! They are under the lock of the session, since a change of the list may end its connection. The
//! choice itself is made in `net/hosts`.

use std::pin::pin;

use crate::config::Host;
use crate::driver::shared_session::{Locked, SharedSession};
use crate::error::{Attempt, Hangup, UNANSWERED};
use crate::net::hosts::Hosts;

impl SharedSession {
    /// Runs `f` on the servers, for the driver's choice among them.
    pub(crate) fn hosts<R>(&self, f: impl FnOnce(&mut Hosts) -> R) -> R {
        f(&mut self.lock().hosts)
    }

    /// Replaces the list of servers.
    pub(crate) fn set_servers(&self, servers: Vec<Host>) {
        let now = self.clock().now();
        self.change(|Locked { core, hosts, attempts, .. }| {
            attempts.retain(&servers);
            core.set_server_count(servers.len());
            if hosts.replace(servers, core.state().is_connected()) {
                core.leave(now, Hangup::Moving);
            }
        });
    }

    /// Notes which server is being tried.
    pub(crate) fn trying(&self, host: &Host) {
        self.lock().server = Some(host.clone());
    }

    /// Notes an attempt at a server that begins.
    pub(crate) fn note_attempt(&self, server: String) {
        self.lock().attempts.begin(server);
    }

    /// Notes an attempt that has failed, and wakes those that wait until every server has refused.
    pub(crate) fn note_failed_attempt(&self, attempt: Attempt) {
        self.lock().attempts.fail(attempt);
        self.attempt_failed.notify_waiters();
    }

    /// Waits until the last attempt at every server was refused for good, and returns these
    /// attempts.
    pub(crate) async fn refused_by_all(&self) -> Vec<Attempt> {
        loop {
            let mut failed = pin!(self.attempt_failed.notified());
            failed.as_mut().enable();
            {
                let locked = self.lock();
                if locked.attempts.are_refused_by_all(locked.hosts.all()) {
                    return locked.attempts();
                }
            }
            failed.await;
        }
    }

    /// The last attempt at each server that was tried since the last success.
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        self.lock().attempts()
    }
}

impl Locked {
    /// The attempts, with the one that is being made.
    fn attempts(&self) -> Vec<Attempt> {
        self.attempts.list(&match self.core.is_shaking_hands() {
            true => format!("no answer yet, {UNANSWERED}"),
            false => "not connected yet".to_owned(),
        })
    }
}
