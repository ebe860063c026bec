//! The client and the locks with real servers, which each test starts for itself, and stops.
//!
//! A file is a room of its own: `tests/run` runs one after the other, since some are about time
//! that passes.

mod chaos;
mod client;
mod costs;
mod differential;
mod harness;
mod leaks;
mod lock;
mod partition;
mod processes;
mod read_only;
mod sasl;
mod tls;
