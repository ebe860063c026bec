//! What the handles and the future of a keeper share.
//!
//! It is in a watch channel, so a task that waits for a session sees each change of it. Knows
//! nothing of how sessions are opened.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use crate::driver::shared_session::SharedSession;
use crate::error::{Ended, Error};
use crate::handles::client::Client;
use crate::stats::KeeperStats;

/// State that the handles and the future of a keeper share.
#[derive(Default)]
pub(super) struct Kept {
    /// The number of sessions so far.
    pub(super) number: u64,
    /// The client of the current session.
    pub(super) client: Option<Client>,
    /// Whether a server has accepted the current session.
    pub(super) answered: bool,
    /// When a server that serves writes accepted the current session.
    pub(super) began: Option<Instant>,
    /// The last session that began, whether or not it is over.
    pub(super) session: Option<Arc<SharedSession>>,
    /// The counters of the sessions before it.
    pub(super) earlier: KeeperStats,
    /// True if no more sessions are to be opened.
    pub(super) stopping: bool,
    /// Why the keeper is over, if it is. Its last session may still be closing.
    pub(super) over: Option<Error>,
    /// True if the future of the keeper has ended.
    pub(super) done: bool,
}

impl Kept {
    /// The current client, if a server has accepted its session and the session is neither over
    /// nor being closed. After the keeper was closed there is none.
    pub(super) fn current(&self) -> Option<&Client> {
        let is_open = |client: &&Client| client.shared().read(|core| core.check_open()).is_ok();
        self.client.as_ref().filter(|_| self.answered).filter(is_open)
    }

    pub(super) fn outcome<T>(&self, found: Option<T>) -> Result<T, Error> {
        match (&self.over, found) {
            (Some(over), _) => Err(over.clone()),
            (None, Some(found)) => Ok(found),
            (None, None) => Err(Ended::Closed.into()),
        }
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("number", &self.number)
            .field("client", &self.client)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}
