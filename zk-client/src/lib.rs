//! An asynchronous ZooKeeper client: one session, pipelined, with watches that survive reconnects.
//!
//! ```
//! # async fn f() -> Result<(), zk_client::Error> {
//! use zk_client::{Client, CreateOptions};
//!
//! let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
//! client.create("/motd", b"hello", &CreateOptions::persistent()).await?;
//!
//! let (node, mut watch) = client.get_data_and_watch("/motd").await?;
//! client.set_data("/motd", b"bye", Some(node.stat.version)).await?;
//! println!("{}", watch.changed().await?.kind); // NodeDataChanged
//!
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! | to | see | and the example |
//! |---|---|---|
//! | read, write and watch nodes | [`Client`], [`Watcher`], [`WatchStream`] | `basics`, `watches` |
//! | ask what else servers know | [`Client::who_am_i`], [`Client::get_config`] | `operations` |
//! | change many nodes at once | [`Client::multi`], [`Op`] | `transactions` |
//! | read many nodes at once | [`Client::multi_read`], [`Read`] | `transactions` |
//! | make trees | [`Client::create_all`], [`Client::ensure`] | `trees` |
//! | walk and delete trees | [`Client::walk`], [`Client::delete_all`] | `trees` |
//! | own a node that is never left behind | [`OwnedNode`], [`Lease`] | `owned_nodes` |
//! | see what others wrote | [`Reply::with_zxid`], [`Client::wait_for_zxid`] | `read_your_writes` |
//! | know what a lost write did | [`Error::outcome`], [`Client::resolving`] | `idempotent` |
//! | wait no longer than so | [`Reply::within`] | `deadlines` |
//! | say who may do what | [`Acl`], [`Id`], [`Client::add_auth`] | `access`, `auth` |
//! | encrypt | `TlsConnector`, with the feature `tls` | `tls` |
//! | prove a user by SASL | the feature `sasl-digest-md5` and its method of the builder | |
//! | see the tree from another root | [`Client::chroot`] | `views` |
//! | live through the end of a session | [`SessionKeeper`] | `session_keeper` |
//! | hand a session over | [`Client::detach`], [`ClientBuilder::session`] | `handover` |
//! | follow a session's states | [`Client::states`], [`Client::state_stream`] | `states` |
//! | change the servers | [`Client::set_servers`] | `servers` |
//! | read where writes are impossible | [`ClientBuilder::allow_read_only`] | `read_only` |
//! | bound what is kept in memory | [`Limits`] | `limits` |
//! | export metrics, and traces | [`Client::stats`], [below](#seeing-inside) | `stats` |
//! | use it without async code | | `synchronous` |
//! | put frames of the protocol on a stream, in a proxy or a recorder | [`FrameCodec`] | `proxy` |
//!
//! Each example brings its own server: `cargo run -p zk-client --example basics`.
//!
//! # Ordering
//!
//! A call enqueues its request when it is *called*, not when its future is first polled. Requests
//! of one session reach the server in call order and are answered in that order; ten calls that are
//! awaited together cost one round trip and not ten. A watch event is delivered before any reply
//! that reflects the change.
//!
//! Between clients there is no such order: one may be at a server that has not heard yet of what
//! the other was told. Each answer has a [zxid](Reply::with_zxid), and a client that is
//! [`wait_for_zxid`](Client::wait_for_zxid) there sees what it stands for.
//!
//! # Outcomes
//!
//! Every [`Error`] answers [`outcome`](Error::outcome): [`NotApplied`](Outcome::NotApplied) if the
//! request never left this machine or the server refused it, [`Unknown`](Outcome::Unknown) if it
//! was sent and the connection broke before the answer. Nothing is ever sent twice behind the
//! caller's back, with one exception that says so: the delete of an [`OwnedNode`]. Who wants to
//! know asks: the writes of [`Client::resolving`] look what became of them, and are sent again
//! where they surely did not happen.
//!
//! # Cancel safety
//!
//! Dropping a [`Reply`] does not take its request back; it only throws the answer away. Dropping a
//! [`Watcher`] or a [`WatchStream`] forgets the watch, and dropping an [`OwnedNode`], or the reply
//! that would have brought it, deletes the node. Whatever is more than one request says in its own
//! section what is left of it when it is dropped.
//!
//! # The session
//!
//! A [`Client`] is one session, which lives at the ensemble and survives its connections:
//!
//! ```text
//!                  a server                connection lost
//!                  lets it in              ──────────────>
//!   Connecting ─────────────> Connected                    Disconnected
//!                             (or ConnectedReadOnly)
//!                                          <──────────────
//!                                          taken up again
//!
//!   and from each of these, for good:
//!
//!   AuthFailed                Closed                       Expired
//!   credentials refused       close(), detach(), the       a server says so, or cut off
//!                             last handle dropped          for 4/3 of the timeout
//! ```
//!
//! When the connection breaks, the next server is tried, the session is taken up again with its id
//! and password, identities are proven and watches armed again; requests that were not sent yet
//! wait for it. A new session is a new [`Client`], never a silent replacement, because everything
//! ephemeral is gone with the old one. For services that must live through that, a
//! [`SessionKeeper`] opens one after the other and tells of each.
//!
//! | after this part of the session timeout | without | the client |
//! |---|---|---|
//! | 1/3, at most 10 s | a frame sent | sends a ping |
//! | 2/3 | a frame received | drops the connection and tries the next server |
//! | 4/3 | a frame received | gives the session up |
//!
//! While there are [`Lease`]s, it sends pings after 1/15, and a small write in each third of the
//! timeout, to learn whether the ensemble still keeps the session: see [`DeadlineRule`].
//!
//! A machine that is suspended hears nothing while its session goes on at the ensemble. On Linux
//! and Android the client counts that time, so that the first look after it shows whether a lease
//! has lapsed. On other systems it does not, unless it is told: see [`Clock`].
//!
//! # Watches
//!
//! A [`Watcher`] waits for one change, a [`WatchStream`] for all of a node or a tree. Both survive
//! reconnects. A watcher is told what it missed; a stream is told that it may have missed
//! something, since servers do not replay it. Both are removed on the server when nobody waits any
//! more. A stream that is not read drops changes at its bound, and [says how
//! many](StreamEvent::Lagged).
//!
//! # Old servers
//!
//! It speaks to ZooKeeper 3.5 and later. Operations that came after that say so. A server that does
//! not know one refuses it with the [`code`](Error::code) `Unimplemented` and then hangs up:
//! requests behind it fail with `ConnectionLoss`, and the session goes on. The client asks that
//! once; then it refuses the operation by itself for as long as it lives, at no such cost.
//!
//! A server older than 3.5 refuses the first create like this. From then on the client knows: it
//! refuses by itself everything that came with 3.5 or later, and the text of the error of every
//! create says that the server is too old.
//!
//! Two operations can be switched off on servers that do know them, which refuse them without
//! hanging up and are asked again: [time to live](CreateOptions::ttl) and
//! [`reconfig`](Client::reconfig).
//!
//! # Seeing inside
//!
//! [`Client::stats`] is for metrics. What happens is told to [`tracing`], with targets, messages
//! and fields that stay; `connections` counts those of the session so far:
//!
//! | target | level | message | fields |
//! |---|---|---|---|
//! | `zk_client::connection` | debug | `connecting` | `server` |
//! | | debug | `attempt failed` | `server`, `why` |
//! | | info | `connected` | `server`, `session`, `timeout_ms`, `read_only`, `connections` |
//! | | info | `lost` | `server`, `why`, `lived_ms` |
//! | | debug | `serves writes`, while connected read-only | `server` |
//! | | info | `certificates replaced`, those of TLS | |
//! | | warn | `certificates kept`, since those that are there now cannot be used | `problem` |
//! | `zk_client::session` | debug | `authenticated` | `scheme` |
//! | | warn | `authentication refused` | `scheme` |
//! | | warn | `the server is older than 3.5`, and creates nothing for this client | |
//! | | info | `over`, if this side closed it | `session`, `why` |
//! | | warn | `over`, if it expired or was refused | `session`, `why` |
//! | | info | `another`, which a [`SessionKeeper`] opens in place of one that expired | `wait_ms` |
//! | `zk_client::request` | trace | `queued` | `xid`, `op`, `path` |
//! | | trace | `sent` | `xid`, `op`, `path` |
//! | | trace | `answered` | `xid`, `op`, `path`, `error`, `zxid`, `latency_us`, `bytes` |
//! | | trace | `appended`, if the answer has more than is known of it | `op`, `bytes` |
//! | | trace | `unanswered` | `xid`, `op`, `path`, `failure` |
//! | | trace | `ping answered` | `latency_us` |
//! | `zk_client::watch` | debug | `rearming` | `watches`, `streams`, `requests` |
//! | | debug | `rearmed` | |
//! | | trace | `event` | `kind`, `path`, `zxid`, `missed`, `watchers`, `streams` |
//!
//! `queued` and `appended` are told in the caller's span, and all else in the session's: `zk` of
//! the target `zk_client::session`, at level info, with the field `session` from `connected` on.
//! Warnings beside these tell of what should not happen. Data, passwords and credentials are in
//! none of them, and neither are they in the `Debug` of any type, but for records of `zk_proto` and
//! data that was read. Requests that are not traced cost one look at a flag each.
//!
//! # Performance
//!
//! What costs what, and how to go fast: see [`performance`].
//!
//! # What it runs on
//!
//! tokio, with time and io enabled: a client spawns one task, which does all of its I/O. The
//! protocol itself is [`session::Session`], a state machine without I/O, clock or runtime, for
//! those who want to run it differently.
//!
//! # Layout
//!
//! The folders are floors, the lowest first. A file uses only what stands above it here:
//!
//! | floor | what it holds | what the next floors get from it |
//! |---|---|---|
//! | `trace` | the targets of traces | their names |
//! | `auth` | credentials, SASL, DIGEST-MD5 | tokens to send, and whether the server's are right |
//! | `error` | what goes wrong, by whose fault it is | `Error`, and the reasons it is made from |
//! | `model` | values: paths, access lists, nodes, events | what calls take and return |
//! | `config`, `stats` | settings and numbers of a session | `SessionConfig`, `Stats` |
//! | `session` | the protocol: a state machine without I/O | bytes to send, events, deadlines |
//! | `net` | the choice of a server, TCP and TLS, frames | a connection, and whole frames from it |
//! | `driver` | the only task, and what it shares with callers | a session that runs |
//! | `handles` | replies, watchers, streams of events, leases | futures that decode the answer |
//! | `multi` | many operations or reads in one request | lists in any shape, with their results |
//! | `client` | the handle, one file for each family of calls | `Client` |
//! | `connect`, `keeper` | how a session begins, and the next after it | the ways to a `Client` |
//! | `fuzz` | the body of the fuzz target, behind a feature | nothing: no other file uses it |
//!
//! A request passes twelve files. This is the way of [`Client::get_data`]. The first nine run in
//! the call, the last three in the driver's task:
//!
//! ```text
//!  1  client/reads             makes the request's record
//!  2  client/handle            checks the path, and hands the request to the session
//!  3  model/path               holds the rules for paths; puts the chroot in front
//!  4  driver/shared_session    takes the lock; wakes the driver once it is released
//!  5  driver/reply_slot        opens a slot for the answer
//!  6  session/requests         refuses what comes too late or is unknown to the server
//!  7  session/state            notes what the request is for
//!  8  session/pipeline         gives it the next xid, encodes its frame, queues both
//!  9  handles/reply            is returned: the future that waits at the slot
//!
//! 10  driver/task              takes a turn: asks the session for bytes, and writes them
//! 11  session/connection       adds what is due by itself, and notes the time of sending
//! 12  net/transport            the socket
//! ```
//!
//! Its reply passes twelve as well, the last three in the caller's task:
//!
//! ```text
//!  1  net/transport            the socket
//!  2  driver/task              reads a buffer full, and takes a turn
//!  3  driver/shared_session    takes the lock, and reads the time
//!  4  net/codec                splits off one frame
//!  5  session/connection       knows by the phase what kind of frame it is
//!  6  session/replies          decodes the header, and does what the answer asks for
//!  7  session/pipeline         finds the request: the oldest one in flight
//!  8  session/state            makes an event of it
//!     driver/shared_session    delivers the event, once the lock is released
//!  9  driver/reply_slot        keeps the answer, and wakes the caller
//!
//! 10  handles/reply            finds the answer in the slot
//! 11  client/reads             decodes the record
//! 12  model/node               is what the caller gets
//! ```
//!
//! A notification passes thirteen on its way to a [`Watcher`]. The first five are those of a reply:
//!
//! ```text
//!  6  session/replies          decodes the event
//!  7  session/watches/arming   tells whether it may be of the past
//!  8  session/watches          finds the path, and drops it if nobody is left there
//!  9  session/watches/path_watches   finds who waits there
//! 10  session/watches/one_shots      knows which events end which watch
//!     driver/shared_session    delivers the event through the watcher's channel
//!
//! 11  handles/watcher          finds the change in the channel
//! 12  model/path               strips the chroot
//! 13  model/event              is what the caller gets
//! ```
//!
//! To a [`WatchStream`] it goes through `driver/event_queue` and `handles/watch_stream`, and if the
//! stream is of a tree, through `session/watches/ancestors`. On each of these ways the session also
//! looks whether timers, counters, leases or owned nodes are concerned.

mod trace;

mod auth;

mod error;

mod model;

mod config;

mod stats;

pub mod session;

mod net;

mod driver;

mod handles;

mod multi;

mod client;

mod connect;

mod keeper;

mod run_each;

/// The examples of the README, which are tested with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(feature = "__fuzz")]
#[doc(hidden)]
pub mod fuzz;

pub use auth::credentials::{Credential, Refusal, Scheme};
pub use auth::sasl::Sasl;
pub use client::{Client, OwnedNode, Resolving, StateStream, Visited, Walk};
pub use config::{DeadlineRule, Host, Limits, SessionConfig, SessionCredentials};
pub use connect::ClientBuilder;
pub use driver::clock::Clock;
pub use error::{
    Attempt, Ended, Error, ErrorKind, Failure, Hangup, Limit, Outcome, ProtocolError, Rejected,
};
pub use handles::lease::Lease;
pub use handles::reply::{Reply, WithZxid};
pub use handles::watch_stream::WatchStream;
pub use handles::watcher::Watcher;
pub use keeper::{KeptSession, SessionKeeper, Sessions};
pub use model::acl::{AccessList, Acl, Id, Perms};
pub use model::child_names::{Names, NamesIter};
pub use model::ensemble::{EnsembleConfig, Member, NotAMember, Reconfig, Role};
pub use model::event::{SessionState, StateEvent, StreamEvent, WatchMode, WatchedEvent};
pub use model::node::{Children, CreateOptions, Created, Deletion, Node};
pub use model::path::check as check_path;
pub use model::quota::{Quota, Usage};
pub use multi::op::{Op, OpResult};
pub use multi::read::{Read, ReadResult, Reads};
pub use multi::write::Operations;
pub use net::codec::{FrameCodec, FrameError};
#[cfg(feature = "tls")]
pub use net::tls::{Pem, ServerName, TlsConnector, TlsOptions};
pub use net::transport::{Connecting, Connector, TcpConnector, Transport};
pub use session::{Lapse, LeaseState};
pub use stats::Stats;

pub use zk_proto::{ErrorCode, EventType, OpCode, Password, PathRule, SessionId, Stat, Zxid};

// A page, and nothing to use. It is there for links in the code, too.
#[doc = include_str!("performance.md")]
pub mod performance {}
