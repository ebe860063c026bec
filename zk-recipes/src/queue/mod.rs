//! The textbook queue: contenders are ephemeral sequential nodes in one folder, and the contender
//! with the lowest sequence number owns the lock.
//!
//! [`Queue`] is the folder as one client sees it. [`join`] creates our node in it and lists the
//! folder, in one round trip. That yields our [`Place`], and tells who is ahead. [`wait`] waits
//! until nobody is, and [`sight`] tells it what becomes of the nodes ahead. Only a listing that
//! contains our own node tells who is ahead of it.

mod failed_create;
pub(crate) mod join;
mod place;
#[expect(clippy::module_inception)]
mod queue;
mod sight;
mod wait;

pub(crate) use join::{Join, Patience};
pub(crate) use place::Place;
pub(crate) use queue::Queue;
