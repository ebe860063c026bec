//! The targets of trace events, which stay the same when files move.
//!
//! The table of all events is in the crate's documentation.

/// Contenders on their way to the head of a queue.
pub(crate) const QUEUE: &str = "zk_recipes::queue";

/// Locks that are held.
pub(crate) const LOCK: &str = "zk_recipes::lock";

/// The relatives of locks, and work that is tried again.
pub(crate) const COORDINATION: &str = "zk_recipes::coordination";
