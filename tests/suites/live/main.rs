//! The client and the locks with real servers. Each test starts and stops its own servers.
//!
//! `tests/run` runs the files one after another, since some of them measure time. A new file must
//! be added there.

mod chaos;
mod client;
mod conformance;
mod costs;
mod differential;
mod harness;
mod lock;
mod partition;
mod processes;
mod read_only;
mod sasl;
mod service;
mod snapshots;
mod tls;
