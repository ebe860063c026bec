//! A client as its callers see it, and what servers may do to it.

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
mod views;
