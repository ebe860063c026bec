//! The task that runs a session on tokio, and what it shares with the handles of callers.
//!
//! Callers and the task meet in [`shared_session`]: requests go in under its lock, and answers,
//! events and states come out. No file here decides about the protocol, or knows what an operation
//! returns.

#[cfg(test)]
pub(crate) mod wake_counter;

pub(crate) mod event_queue;

pub(crate) mod state_log;

pub(crate) mod clock;

pub(crate) mod unique_names;

pub(crate) mod attempts;

pub(crate) mod connection_end;

pub(crate) mod sasl;

pub(crate) mod shared_session;

pub(crate) mod servers;

pub(crate) mod wire;

pub(crate) mod task;
