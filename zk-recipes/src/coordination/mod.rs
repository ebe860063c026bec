//! Coordination beyond mutual exclusion, on the same queue as the locks or on single nodes.

pub(crate) mod barrier;

pub(crate) mod cached;

pub(crate) mod counter;

pub(crate) mod double_barrier;

pub(crate) mod election;

pub(crate) mod follow;

pub(crate) mod group;

pub(crate) mod partitioner;

pub(crate) mod semaphore;

pub(crate) mod tree_cache;
