//! The measuring tools of the benches of this project.
//!
//! The benches themselves are examples, one for each crate: they use only its public interface.
//!
//! ```text
//! cargo run --release -p zk-client --example bench -- get --depth 256 --pin
//! cargo run --release -p zk-client --example bench -- sketch --depth 256 --pin
//! cargo run --release -p zk-client --example bench -- --help
//! ```
//!
//! `tests/figures` measures the figures that the project promises, repeatedly and in turns, and
//! prints them as a table. For a profile, start a server by hand and connect to it:
//!
//! ```text
//! bench serve --server null
//! perf record bench get --depth 256 --connect 127.0.0.1:PORT
//! ```
//!
//! Each bench prints a line of JSON for each figure that it measured. The server is a process of
//! its own: a [null server](null), which answers at once with the same bytes so that the client's
//! own cost shows; an embedded one; or a real one that is already running.
//!
//! There are two floors. [`raw`] sends the same bytes without a client: a blocking loop writes a
//! batch of requests that were encoded before, and counts the replies. [`sketch`] sends the same
//! requests from the plainest possible async client, with a task for each request in flight, and
//! nothing else: no sessions, watches, deadlines or errors. With one request in flight nearly all
//! of the cost is the kernel's, so a get is bounded by a ratio to raw. With more, every async
//! client pays for tasks and their wake-ups, so a get is bounded by a ratio to the sketch. A ratio
//! within one round carries over to other machines, as microseconds do not.
//!
//! Do not compare figures of different machines, or of one machine at different times, or figures
//! with `--pin` and without: on two cores, the side that is to answer must be woken on the other
//! core, which in a virtual machine costs more than all the rest.

mod answers;
mod input;
pub mod loops;
pub mod meter;
pub mod null;
pub mod options;
pub mod pause;
pub mod race;
pub mod raw;
pub mod report;
pub mod requests;
pub mod server;
pub mod sketch;

pub use answers::{BURST, BURST_FOLDER};
