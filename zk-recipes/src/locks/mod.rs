//! The locks of one level: each holder has a node in the queue.

pub(crate) mod inspect;
pub(crate) mod lock;
pub(crate) mod multi_lock;
pub(crate) mod rwlock;
pub(crate) mod ticket;

pub use lock::{Exclusive, Guard, Lock};
pub use multi_lock::{MultiGuard, MultiLock};
pub use rwlock::{ReadGuard, Reads, RwLock, WriteGuard, Writes};
pub use ticket::LockTicket;
