//! The program `zk-embedded` as its users see it: its output, its exit statuses, its commands and
//! its snapshots.
//!
//! Every test runs the real program, on free ports. None waits for a time to pass, and every wait
//! for output ends with a panic when it takes too long.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod arguments;
mod commands;
mod ensemble;
mod program;
mod readme;
mod snapshots;
#[cfg(feature = "tls")]
mod tls;
