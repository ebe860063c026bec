//! Real ZooKeeper servers for tests: [`server`] starts, kills, pauses and restarts them. And
//! servers that are not real: [`peer`] is played by a test, frame by frame, and [`old_server`]
//! looks like a ZooKeeper 3.4. And clients that are not ours: [`foreign`] runs them. And a client
//! that is only frames: [`raw`]. [`differential`] compares two servers of any kind, and [`claims`]
//! hold on each. [`contender`] runs a process that fights for a lock, and [`history`] writes down
//! and judges what such processes do. Tests of locks on the embedded server begin with [`locks`],
//! and [`explore`] runs them in every order. [`capture`] hears what is traced.
//!
//! The suites `live` and `interop` use them. Cargo runs these two only where they are named;
//! `tests/run` installs what they need and runs them.

pub mod capture;
pub mod claims;
pub mod contender;
pub mod differential;
pub mod explore;
pub mod fault;
pub mod foreign;
pub mod history;
pub mod locks;
pub mod old_server;
pub mod peer;
pub mod raw;
pub mod relay;
pub mod server;
pub mod tls;
pub mod tour;
