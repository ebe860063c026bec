//! Real ZooKeeper servers for tests: [`server`] starts, kills, pauses and restarts them. And
//! servers that are not real: [`peer`] is played by a test, frame by frame.
//!
//! The tests that use them are built by the feature `live`; `tests/run` installs what they need
//! and runs them.

pub mod fault;
pub mod peer;
pub mod server;
pub mod tour;
