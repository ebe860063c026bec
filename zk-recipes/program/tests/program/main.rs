//! The program `zk` as its users see it: its output, its exit statuses and the processes it starts.
//!
//! Every test has an embedded server of its own, and runs the real program. None waits for a time
//! to pass: it awaits lines of output, ends of processes, or nodes. None relies on INT, QUIT or
//! HUP, which may be ignored where tests run in the background.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod elect;
mod launch;
mod lock;
mod nodes;
mod program;
mod soak;
mod tap;
mod tls;
mod trees;
mod txn;
mod who;
