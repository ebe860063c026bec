//! What the benches of this project measure with.
//!
//! The benches themselves are examples, one for each crate: they use its public interface alone.
//!
//! ```text
//! cargo run --release -p zk-client --example bench -- get --depth 256 --pin
//! cargo run --release -p zk-client --example bench -- sketch --depth 256 --pin
//! cargo run --release -p zk-client --example bench -- --help
//! ```
//!
//! `tests/figures` runs what the project promises, again and again and in turns, and prints it as a
//! table. For a profile, start a server by hand and connect to it:
//!
//! ```text
//! bench serve --server null
//! perf record bench get --depth 256 --connect 127.0.0.1:PORT
//! ```
//!
//! Each bench prints a line of JSON for each thing that it measured. The server is a process of its
//! own: a [null server](null), which answers at once with the same bytes so that the client's own
//! cost shows; an embedded one; or a real one that is there already.
//!
//! There are two floors. [`raw`] is the same bytes without a client: a blocking loop that writes a
//! batch of requests made before and counts the replies. [`sketch`] is the same requests from the
//! plainest async client there can be, with a task for each request in flight, and nothing else: no
//! sessions, watches, deadlines or errors. With one request in flight nearly all of the cost is the
//! kernel's, so a get is bounded by a ratio to raw; with more, what tasks and their wake-ups cost
//! is every async client's, so it is bounded by a ratio to the sketch. A ratio within one round
//! carries over to other machines, as microseconds do not.
//!
//! Figures of different machines, or of one machine at different times, do not compare. Neither do
//! figures with `--pin` and without: on two cores, whoever is to answer has to be woken on the
//! other one, which in a virtual machine costs more than all the rest.

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
pub mod server;
pub mod sketch;

pub use answers::{BURST, BURST_FOLDER};
