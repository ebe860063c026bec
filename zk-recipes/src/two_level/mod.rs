//! The two-level locks: the tasks of one process queue up among themselves, and share one node in
//! the folder's queue.
//!
//! [`holding`] is the node of the process, and [`cohort`] decides who is next, both without any
//! I/O. [`local`] carries that out. [`reentrant`] has the handles and guards, and [`keyed`] keeps
//! such locks by their keys.

mod cohort;
mod holding;
mod keyed;
mod local;
mod reentrant;
mod wakers;

pub use keyed::KeyedLocks;
pub use reentrant::{Owner, ReentrantGuard, ReentrantLock, ReentrantRwLock};
