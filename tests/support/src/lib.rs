//! Servers, clients and checks for the tests.
//!
//! * [`server`] starts, kills, pauses and restarts real ZooKeeper servers.
//! * [`kdc`] does the same with a KDC of Kerberos.
//! * [`peer`] is a server that a test plays frame by frame, and [`old_server`] looks like a
//!   ZooKeeper 3.4.
//! * [`foreign`] runs clients other than ours, and [`raw`] is a client of bare frames.
//! * [`claims`] hold on any server, and [`like`] knows those that are not Apache's. [`trials`] try
//!   each recipe there, and lose any of its requests.
//! * [`contender`] runs a process that contends for a lock, and [`history`] records and judges what
//!   such processes do.
//! * [`locks`] is the base of tests of locks on the embedded server, and [`explore`] runs them in
//!   every order.
//! * [`capture`] records what is traced.
//!
//! The suites `live` and `interop` use these modules. Cargo runs these two only where they are
//! named; `tests/run` installs what they need and runs them.

pub mod capture;
pub mod claims;
pub mod contender;
pub mod explore;
pub mod fault;
pub mod foreign;
pub mod history;
pub mod kdc;
pub mod like;
pub mod locks;
pub mod old_server;
pub mod peer;
pub mod raw;
pub mod relay;
pub mod server;
pub mod tls;
pub mod tour;
pub mod trials;
