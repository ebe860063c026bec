//! The program `zk` as its users see it: its output, its exit statuses and the processes it starts.
//!
//! Every test has an embedded server of its own, and runs the real program. None waits for a time
//! to pass: it awaits lines of output, ends of processes, or nodes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod lock;
mod program;
mod tap;
