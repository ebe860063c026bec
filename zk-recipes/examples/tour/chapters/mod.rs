//! The chapters, each a story of its own. They leave the queues as they found them: empty.

pub(crate) mod linger;
pub(crate) mod lost_reply;
pub(crate) mod lost_session;
pub(crate) mod queue;
pub(crate) mod requeue;
pub(crate) mod sharing;
pub(crate) mod two_levels;
