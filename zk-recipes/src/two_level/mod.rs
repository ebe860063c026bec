//! The two-level locks: the tasks of one process queue up among themselves, and share one node in
//! the folder's queue.
//!
//! ```text
//! keyed         a lock for each key, of those that are used
//!     |
//! reentrant     what users hold: the handles of the locks, owners and guards
//!     |         enter, leave
//! node          the node that the tasks share: its acquire, hold, release and linger
//!     |         poll, leave, on_granted: each is answered with what to do with the node
//! local_queue   which task is next, without any I/O
//! ```
//!
//! The way of a hand-over: a guard is dropped, the local queue names the next waiter, the node
//! wakes it, and when it is polled it enters, with a hold of the same node and a greater token.

mod keyed;
mod local_queue;
mod node;
mod reentrant;

pub use keyed::KeyedLocks;
pub use reentrant::{Owner, ReentrantGuard, ReentrantLock, ReentrantRwLock};
