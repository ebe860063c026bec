//! The last attempt at each server since the last success: what a failed connect reports.
//!
//! Each server is in the list at most once, so the list stays as short as that of the servers. This
//! file makes no attempts, and knows no callers.

use crate::config::Host;
use crate::error::{Attempt, Prospect};

/// The last attempt at each server that was tried since the last success.
#[derive(Default)]
pub(crate) struct Attempts {
    failed: Vec<Attempt>,
    /// The server that is being tried.
    trying: Option<String>,
}

impl Attempts {
    /// Notes the server of an attempt that begins.
    pub(crate) fn begin(&mut self, server: String) {
        self.trying = Some(server);
    }

    /// Adds an attempt that has failed, in place of the last one at the same server.
    pub(crate) fn fail(&mut self, attempt: Attempt) {
        self.trying = None;
        self.failed.retain(|earlier| earlier.server != attempt.server);
        self.failed.push(attempt);
    }

    /// Empties the list, after a success.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Drops the attempts at servers that are not among these. Otherwise the attempts would add up
    /// while no server accepts the client and the list of servers changes.
    pub(crate) fn retain(&mut self, servers: &[Host]) {
        let is_listed = |server: &String| servers.iter().any(|host| host.to_string() == *server);
        self.failed.retain(|attempt| is_listed(&attempt.server));
        self.trying = self.trying.take().filter(is_listed);
    }

    /// True if the last attempt at each of these servers was refused for good.
    pub(crate) fn are_refused_by_all(&self, servers: &[Host]) -> bool {
        servers.iter().all(|host| {
            let server = host.to_string();
            self.failed.iter().any(|last| last.prospect != Prospect::Open && last.server == server)
        })
    }

    /// The list, with the attempt that is being made, and `so_far` as how far that has come, unless
    /// an earlier one at the same server has failed.
    pub(crate) fn list(&self, so_far: &str) -> Vec<Attempt> {
        let is_new =
            |server: &&String| self.failed.iter().all(|earlier| earlier.server != **server);
        let trying = self.trying.iter().filter(is_new).map(|server| Attempt::new(server, so_far));
        self.failed.iter().cloned().chain(trying).collect()
    }
}
