//! The client and the locks with real servers, which each test starts for itself, and stops.
//!
//! `tests/run` gives each file its turn, since some are about time that passes: a new file takes
//! its place there.

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
