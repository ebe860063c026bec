//! Fuzzes any ZooKeeper server against zk-embedded, and any client with a hostile server.
//!
//! * [`differential`] runs the same random steps on two servers, compares their replies field by
//!   field, and makes small what differs. [`server`] does this for many seeds.
//! * [`hostile`] is a server that behaves correctly in the main, and runs a client's command
//!   against it for many seeds.
//! * [`conformance`] tries some hundreds of small claims on any server, and reports which of them
//!   do not hold.
//! * [`seeds`](seeds::seeds) turns a recording into inputs for the fuzz targets.
//!
//! The program `zk-fuzz` does all of it from the command line: see the README.

mod clock;
pub mod conformance;
mod connection;
pub mod differential;
pub mod hostile;
mod odd;
pub mod seeds;
pub mod server;
