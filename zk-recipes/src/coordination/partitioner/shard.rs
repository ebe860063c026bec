//! A shard that a member works on.

use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::watch;

use crate::hold::Hold;
use crate::locks::Guard;

/// A shard that is this member's to work on, until its work has ended: see
/// [`Partitioner::run`](crate::Partitioner::run).
///
/// It dereferences to [`Hold`], which tells whether the shard is surely still this member's, and
/// for how long. It has a [token](Hold::token), and [writes](Hold::fenced) only while that is so.
#[derive(Clone, Debug)]
pub struct Shard {
    pub(super) name: Arc<str>,
    pub(super) guard: Arc<Guard>,
    pub(super) stopping: watch::Receiver<bool>,
}

impl Shard {
    /// The name of the shard.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the work on this shard should stop, because the shard is to move.
    ///
    /// The work has the [`grace`](crate::Partitioner::grace) time from then on. The shard moves as
    /// soon as the work is done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. Any number of tasks may wait, and from then on each call
    /// returns at once.
    pub async fn stopping(&self) {
        // An error means that the shard was released.
        drop(self.stopping.clone().wait_for(|is_stopping| *is_stopping).await);
    }

    /// True once the work on this shard should stop.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow() || self.stopping.has_changed().is_err()
    }
}

impl Deref for Shard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.guard
    }
}
