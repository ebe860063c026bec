//! Which failures are followed by another try, and how many of them in a row.
//!
//! A request that breaks each connection on which it is sent takes all other requests of the
//! session with it. So even a failure that may pass is followed by another try only a few times.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

use zk_client::{Error as ClientError, Outcome, Transient};

/// How many failures in a row are each followed by another try.
const MAX_RETRIES: u32 = 5;

/// Counts the failures of one piece of work since it last made progress.
#[derive(Debug, Default)]
pub(crate) struct Retries(u32);

impl Retries {
    /// Counts a failure that may pass. Returns the error if it cannot pass, or if too many came in
    /// a row.
    pub(crate) fn count<E: std::error::Error + 'static>(&mut self, error: E) -> Result<(), E> {
        match Transient::of(&error) {
            Some(_) => self.count_any(error),
            None => Err(error),
        }
    }

    /// Counts a failure of which the caller knows that it may pass. Returns the error if too many
    /// came in a row.
    pub(crate) fn count_any<E>(&mut self, error: E) -> Result<(), E> {
        if self.0 == MAX_RETRIES {
            return Err(error);
        }
        self.0 += 1;
        Ok(())
    }

    /// The work has made progress.
    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }
}

/// True if the connection of a create was lost, and the client has looked for the node in vain.
/// Should it appear later, the client deletes it.
pub(crate) fn was_looked_for_in_vain(error: &ClientError) -> bool {
    error.is_connection_loss() && error.outcome() == Outcome::NotApplied
}

/// True if a transaction was carried out, and the client could not read a node that it has created:
/// it does that where a reply does not tell the czxid. The node may be gone.
pub(crate) fn was_created_unseen(error: &ClientError) -> bool {
    error.is_no_node() && error.failed_op().is_none()
}

/// Sends a request until it is answered, cannot pass, or has failed too often.
pub(crate) async fn with_retries<T, E, R>(mut request: impl FnMut() -> R) -> Result<T, E>
where
    R: Future<Output = Result<T, E>>,
    E: std::error::Error + 'static,
{
    let mut retries = Retries::default();
    loop {
        match request().await {
            Ok(done) => return Ok(done),
            Err(error) => retries.count(error)?,
        }
    }
}

/// Counts the failures of work that never gives up, over all connections of a session: after too
/// many in a row it pauses.
#[derive(Debug, Default)]
pub(crate) struct Attempts(AtomicU32);

impl Attempts {
    /// Begins an attempt. It counts as failed until it succeeds, because the end of the connection
    /// ends the attempt, too.
    pub(crate) fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// True if a pause is due ahead of the attempt that has begun.
    pub(crate) fn needs_pause(&self) -> bool {
        self.0.load(Ordering::Relaxed) > MAX_RETRIES + 1
    }

    /// True if the next attempt may follow this error at once.
    pub(crate) fn may_retry(&self, error: &ClientError) -> bool {
        error.is_transient() && self.0.load(Ordering::Relaxed) <= MAX_RETRIES
    }

    /// The caller pauses ahead of the next attempt, which needs no further pause.
    pub(crate) fn note_pause(&self) {
        self.0.fetch_min(MAX_RETRIES, Ordering::Relaxed);
    }

    /// The work has made progress.
    pub(crate) fn note_success(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
