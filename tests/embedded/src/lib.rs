//! A ZooKeeper server inside of your test: no Java, no Docker, no port to choose, and faults on
//! demand.
//!
//! [`Server`] speaks the real protocol to any client of any language, over TCP or over a connection
//! in memory. It does what a standalone ZooKeeper 3.9 (or, if asked, 3.8) does: sessions that
//! expire by ticks, sequential, ephemeral, container and TTL nodes, multi, watches of all kinds,
//! access lists, limits, four-letter words. It is **in memory by design**: nothing is written to
//! disk, and what it holds ends with the [`Server`].
//!
//! # Test your own service with it
//!
//! A lost reply and the end of a session, in a test that takes milliseconds:
//!
//! ```
//! use std::time::Duration;
//! use zk_client::{Client, CreateOptions, Outcome};
//! use zk_embedded::{Config, Fault, OpCode, Server};
//!
//! // #[tokio::test(start_paused = true)]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), zk_client::Error> { a_worker_sees_the_worst().await }
//! async fn a_worker_sees_the_worst() -> Result<(), zk_client::Error> {
//!     let server = Server::in_memory(Config::new());
//!     let client = Client::builder().connector(server.connector()).connect("zk").await?;
//!
//!     // The write happens, and whoever asked for it cannot know.
//!     client.create("/jobs", b"none", &CreateOptions::persistent()).await?;
//!     server.inject(Fault::lose_reply().op(OpCode::SET_DATA));
//!     let error = client.set_data("/jobs", b"one", None).await.unwrap_err();
//!     assert_eq!(error.outcome(), Outcome::Unknown);
//!     assert_eq!(&client.get_data("/jobs").await?.data[..], b"one");
//!
//!     // The client's server is cut off from the ensemble, where the session expires.
//!     client.create("/jobs/mine", b"", &CreateOptions::ephemeral()).await?;
//!     server.partition(server.sessions()[0]);
//!     tokio::time::sleep(Duration::from_secs(3600)).await;
//!     assert!(!server.has_node("/jobs/mine"));
//!     server.heal();
//!     assert!(client.get_data("/jobs").await.unwrap_err().is_session_over());
//!     Ok(())
//! }
//! ```
//!
//! Three ways to be reached:
//!
//! * [`Server::start`] listens on a free port of 127.0.0.1, for services that take an address, and
//!   clients of other languages. [`Server::address`] is the connect string.
//! * [`Server::in_memory`] with [`Server::connect`] gives connections that are no sockets. Only
//!   they go well with tokio's paused clock, which jumps ahead while bytes are in a socket.
//! * [`Core`] is the server without any I/O: bytes and time go in, bytes and deadlines come out.
//!   It is for simulations, fuzzers and other runtimes, and is deterministic.
//!
//! # What can go wrong, on demand
//!
//! | what happens | how |
//! |---|---|
//! | a request is lost before it is served | [`Fault::lose_request`] |
//! | it seems so, and it is served after a while | [`Fault::serve_late`] |
//! | it is served and its reply is lost | [`Fault::lose_reply`] |
//! | the reply is lost from byte n on | [`Fault::cut_reply`] |
//! | the connection falls silent without being cut | [`Fault::go_silent`] |
//! | a reply comes late | [`Fault::delay`] |
//! | a request is refused, say throttled | [`Fault::refuse`] |
//! | a client gets another session than its own back | [`Fault::swap_session`] |
//! | a session expires now | [`Server::expire`] |
//! | connections are cut | [`Server::disconnect`], [`Server::disconnect_all`] |
//! | a follower answers pings and commits nothing | [`Server::partition`], [`Server::heal`] |
//! | the server is down, and up again with all that it held | [`Server::set_serving`] |
//! | it has lost its quorum and serves reads alone | [`Server::set_read_only`] |
//! | and opens sessions all the same | [`Config::local_sessions`] |
//! | sequence numbers are near their end | [`Server::preset_sequence`] |
//! | versions are near their end | [`Server::preset_version`] |
//! | empty containers are removed | [`Server::reap`] |
//!
//! Which request a fault strikes is said by operation, path, session and count: see [`Fault`].
//! [`Server::history`] tells afterwards what was really committed.
//!
//! # How far it is ZooKeeper
//!
//! A hundred thousand random requests, many of them malformed, are answered as the real servers
//! answer them, in every field: results, errors, stats, zxids and watch events. kazoo, ZooKeeper's
//! own C client and `zkCli.sh` work on it unmodified, and of kazoo's own tests all pass that pass
//! on one real server. What is different:
//!
//! * Quotas, SASL, TLS and reconfiguration are answered as by a server on which they are switched
//!   off.
//! * There is no ensemble. There is one server, which [`Server::partition`] and
//!   [`Server::set_read_only`] let look like a member of one.
//! * `deleteContainer`, which real servers take from clients by mistake, and `check` outside of a
//!   multi, which spoils the log of some, are both answered with `Unimplemented`.
//! * Requests do not overlap: each is served before the next is read. So two pipelined creates
//!   never get sequence numbers beyond the end of their range, as those of one multi do, and an
//!   auth reply never overtakes.
//! * What waits for a client that does not read is bounded, where a real server goes on until its
//!   memory ends. Behind 1 MiB of replies its requests wait until it reads, and behind 64 MiB of
//!   replies and events it is hung up on.
//! * A read-only server without [local sessions](Config::local_sessions) answers a handshake for a
//!   session that it never knew with its end. A real one takes the session up if the password is
//!   what it would have made of the number.
//! * All four-letter words are allowed, without a whitelist. `hash` tells no digests, `envi` the
//!   version alone, and what words tell of disks and latencies is 0.

mod config;
mod history;

mod access;
mod tree;

mod fault;

mod connection;

mod sessions;
mod watches;

mod store;

mod create;
mod multi;

mod state;

mod handshake;

mod asked;
mod mending;

mod reads;
mod requests;

mod words;

mod core;
mod replica;

mod shared;
mod wire;

mod server;

/// The examples of the README, which are tested with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[doc(hidden)]
pub mod fuzz;

pub use crate::config::{Config, Release};
pub use crate::connection::ConnectionId;
pub use crate::core::Core;
pub use crate::fault::Fault;
pub use crate::history::{Change, Commit};
pub use crate::server::Server;

pub use zk_proto::{ErrorCode, OpCode, SessionId, Zxid};
