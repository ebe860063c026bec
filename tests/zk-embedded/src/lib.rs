//! A ZooKeeper server inside your test: no Java, no Docker, no port to choose, faults on demand.
//!
//! [`Server`] speaks the real protocol to any client of any language, over TCP or over a connection
//! in memory. It does what a standalone ZooKeeper 3.9 (or, if asked, 3.8) does: sessions that
//! expire by ticks, sequential, ephemeral, container and TTL nodes, multi, watches of all kinds,
//! access lists, limits, four-letter words. It is **in memory by design**: nothing is written to
//! disk, and its data is gone when the [`Server`] is dropped. [`Server::snapshot`] returns it as
//! bytes, in the format of real servers, and [`Server::restore`] reads such bytes.
//!
//! The program `zk-embedded` is the same server for tests in other languages. It is built with the
//! default feature `program`, which a test in Rust can leave out; the README describes it.
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
//!     // The write happens, but its reply is lost, so the caller cannot know.
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
//! There are three ways to reach the server, and an [ensemble](#several-servers) of them:
//!
//! * [`Server::start`] listens on a free port of 127.0.0.1, for services that take an address, and
//!   for clients in other languages. [`Server::address`] is the connect string.
//! * [`Server::in_memory`] with [`Server::connect`] gives connections that are not sockets. Only
//!   they work with tokio's paused clock, which jumps ahead while bytes are in a socket.
//!   [`Server::serve`] serves connections of any other kind, such as encrypted ones.
//! * [`Core`] is the server without any I/O: bytes and time go in, bytes and deadlines come out.
//!   It is for simulations, fuzzers and other runtimes, and is deterministic.
//!
//! # What can go wrong, on demand
//!
//! | what happens | how |
//! |---|---|
//! | a request is lost before it is served | [`Fault::lose_request`] |
//! | a request seems lost, but is served after a while | [`Fault::serve_late`] |
//! | a request is served, but its reply is lost | [`Fault::lose_reply`] |
//! | the reply is lost from byte n on | [`Fault::cut_reply`] |
//! | the connection falls silent without being cut | [`Fault::go_silent`] |
//! | a reply comes late | [`Fault::delay`] |
//! | a reply is corrupted, as a seed decides | [`Fault::mutate`] |
//! | a request is refused, for example as throttled | [`Fault::refuse`] |
//! | a reply says that the session is expired | [`Fault::expire_session`] |
//! | a reconnecting client gets another session than its own | [`Fault::swap_session`] |
//! | a session expires now | [`Server::expire`] |
//! | connections are cut | [`Server::disconnect`], [`Server::disconnect_all`] |
//! | a follower answers pings and commits nothing | [`Server::partition`], [`Server::heal`] |
//! | the server goes down, and comes up again with all of its data | [`Server::set_serving`] |
//! | the server has lost its quorum and serves only reads | [`Server::set_read_only`] |
//! | a server without a quorum still opens sessions | [`Config::local_sessions`] |
//! | sequence numbers are near their end | [`Server::preset_sequence`] |
//! | versions are near their end | [`Server::preset_version`] |
//! | empty containers are removed | [`Server::reap`] |
//! | the server comes up with other data, and without its sessions | [`Server::restore`] |
//!
//! The operation, path, session and count select the request that a fault strikes: see [`Fault`].
//! Afterwards [`Server::history`] shows what was really committed.
//!
//! # Several servers
//!
//! [`Ensemble`] is a leader and its followers, each with a tree of its own. A member may be behind,
//! cut off or down, another may become the leader, and sessions move between members.
//!
//! ```
//! use std::time::Duration;
//! use zk_client::{Client, CreateOptions};
//! use zk_embedded::{Config, Ensemble};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), zk_client::Error> {
//! let ensemble = Ensemble::in_memory(Config::new(), 3);
//! let builder = Client::builder().connector(ensemble.connector());
//! let client = builder.connect(&ensemble.connect_string()).await?;
//! client.create("/mine", b"", &CreateOptions::ephemeral()).await?;
//!
//! // The leader goes down. The session and its node live on at the others.
//! ensemble.stop(0);
//! assert!(ensemble.elect(1));
//! tokio::time::sleep(Duration::from_secs(1)).await;
//! assert!(client.exists("/mine").await?.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! # How far it is ZooKeeper
//!
//! In each run of the tests 45,000 random requests, many of them malformed, are answered as a real
//! server answers them, in every field: results, errors, stats, zxids and watch events. kazoo,
//! ZooKeeper's own C client and `zkCli.sh` work with it unmodified. All of kazoo's own tests that
//! pass on one real server pass on it too, and so do those of aiozk, tooz and zk-shell. The
//! differences are:
//!
//! * Quotas, SASL and reconfiguration behave as on a server on which they are switched off. So does
//!   TLS in the library; the program has it with the feature `tls`, without the scheme `x509`.
//! * A [`Server`] is one server, which [`Server::partition`] and [`Server::set_read_only`] let look
//!   like a member of an ensemble. An [`Ensemble`] has members, but holds no elections by itself.
//! * `deleteContainer`, which real servers accept from clients by mistake, and `check` outside of a
//!   multi, which corrupts the log of some servers, are both answered with `Unimplemented`.
//! * Requests do not overlap: each is served before the next is read. So two pipelined creates
//!   never get sequence numbers beyond the end of their range, as two creates of one multi do, and
//!   an auth reply never overtakes another reply.
//! * Replies and events that wait for a client that does not read are bounded, where a real server
//!   keeps them until it runs out of memory. Behind 1 MiB of replies the client's requests wait
//!   until it reads, and behind 64 MiB of replies and events its connection is closed.
//! * A read-only server without [local sessions](Config::local_sessions) answers a handshake for a
//!   session that it never knew by saying that the session is over. A real server resumes the
//!   session if the password is the one that it would have derived from the session id.
//! * All four-letter words are allowed, without a whitelist. `hash` prints no digests, `envi`
//!   prints only the version, and all values about disks and latencies are 0. `mntr` has the keys
//!   of 3.8, and counts a descriptor for each connection.
//! * Children are listed in a real server's order, which is that of a hash table of Java. It is
//!   another one where nine names or more share a bucket, and may be after a snapshot was loaded
//!   for nodes of one transaction.

mod manner;

mod config;
mod history;

mod access;
mod listing;
mod node;
mod tree;

mod fault;
mod mutation;

mod connection;

mod sessions;
mod watches;

mod store;

mod calls;
mod connections;

mod create;
mod multi;

mod state;

mod handshake;

mod asked;
mod decodable_path;

mod reads;
mod requests;

mod member;

mod monitor;
mod words;

mod core;
mod snapshot;

mod seat;

mod ensemble_core;

mod ensemble_turns;

mod shared;
mod wire;

mod server;

mod ensemble;

/// The examples of the README, which are tested together with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[doc(hidden)]
pub mod fuzz;

pub use crate::config::{Config, ServerVersion};
pub use crate::connection::ConnectionId;
pub use crate::core::{Core, Watch};
pub use crate::ensemble::Ensemble;
pub use crate::ensemble_core::EnsembleCore;
pub use crate::fault::Fault;
pub use crate::history::{Change, Commit};
pub use crate::manner::{Deviation, Manner};
pub use crate::mutation::Mutation;
pub use crate::server::Server;
pub use crate::shared::Machine;
pub use crate::snapshot::SnapshotError;

pub use zk_proto::{ErrorCode, OpCode, SessionId, Stat, WatcherType, Zxid};
