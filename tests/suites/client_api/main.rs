//! A client as its callers see it, and its behaviour towards faulty servers.

mod deadlines;
mod hostile;
mod keeper;
mod oversize;
mod read_only;
mod run_each;
mod servers;
mod states;
mod stats;
mod traps;
mod try_client;
mod views;
