//! The chapters that clients play on a server, and the questions. Each leaves the queues empty.

pub(crate) mod election;
pub(crate) mod linger;
pub(crate) mod lost_reply;
pub(crate) mod lost_session;
pub(crate) mod multi_lock;
pub(crate) mod questions;
pub(crate) mod queue;
pub(crate) mod requeue;
pub(crate) mod revocation;
pub(crate) mod sharing;
pub(crate) mod textbook;
pub(crate) mod ticket;
pub(crate) mod two_levels;
pub(crate) mod words;
