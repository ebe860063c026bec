//! The last attempt at each server since the last success: what a failed connect reports.
//!
//! Each server is in the list at most once, so the list stays as short as that of the servers. This
//! file makes no attempts, and does not know who waits for them.

use crate::config::Host;
use crate::error::{Attempt, Prospect};

/// The last attempt at each server that was tried since the last success.
#[derive(Default)]
pub(crate) struct Attempts(Vec<Attempt>);

impl Attempts {
    /// Adds an attempt that begins, unless one at the same server is in the list already.
    pub(crate) fn begin(&mut self, attempt: Attempt) {
        if self.0.iter().all(|earlier| earlier.server != attempt.server) {
            self.0.push(attempt);
        }
    }

    /// Adds an attempt that has failed, in place of the last one at the same server.
    pub(crate) fn fail(&mut self, attempt: Attempt) {
        self.0.retain(|earlier| earlier.server != attempt.server);
        self.0.push(attempt);
    }

    /// Empties the list, after a success.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Drops the attempts at servers that are not among these. Otherwise the attempts would add up
    /// while no server accepts the client and the list of servers changes.
    pub(crate) fn retain(&mut self, servers: &[Host]) {
        self.0.retain(|attempt| servers.iter().any(|host| host.to_string() == attempt.server));
    }

    /// True if the last attempt at each of these servers was refused for good.
    pub(crate) fn are_refused_by_all(&self, servers: &[Host]) -> bool {
        servers.iter().all(|host| {
            let server = host.to_string();
            self.0.iter().any(|last| last.prospect != Prospect::Open && last.server == server)
        })
    }

    pub(crate) fn to_vec(&self) -> Vec<Attempt> {
        self.0.clone()
    }
}
