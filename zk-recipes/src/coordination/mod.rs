//! Coordination beyond mutual exclusion, on the same queue as the locks.

pub(crate) mod election;

pub(crate) mod semaphore;
