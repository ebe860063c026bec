//! The two-level locks: the tasks of one process queue up among themselves, and share one node in
//! the folder's queue.
//!
//! [`cohort`] decides who is next, without any I/O. [`local`] carries that out. [`reentrant`] has
//! the handles and guards.

mod cohort;

mod wakers;

mod local;

mod reentrant;

pub use reentrant::{Owner, ReentrantGuard, ReentrantLock, ReentrantRwLock};
