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
//! | ask about users and servers | [`Client::who_am_i`], [`Client::get_config`] | `operations` |
//! | change many nodes at once | [`Client::multi`], [`Op`] | `transactions` |
//! | read many nodes at once | [`Client::multi_read`], [`Read`] | `transactions` |
//! | create trees | [`Client::create_all`], [`Client::ensure`] | `trees` |
//! | walk and delete trees | [`Client::walk`], [`Client::delete_all`] | `trees` |
//! | own a node that is never left behind | [`OwnedNode`], [`Lease`] | `owned_nodes` |
//! | see others' writes | [`Reply::with_zxid`], [`Client::wait_for_zxid`] | `read_your_writes` |
//! | learn if a lost write was applied | [`Error::outcome`], [`Client::resolving`] | `idempotent` |
//! | learn the same of a transaction | [`Marker`] | `idempotent` |
//! | limit how long a call waits | [`Reply::within`] | `deadlines` |
//! | control access | [`Acl`], [`Id`], [`Client::add_auth`] | `access`, `auth` |
//! | encrypt | `TlsConnector`, with the feature `tls` | `tls` |
//! | authenticate by Kerberos | `Gssapi`, with the feature `sasl-gssapi` | |
//! | authenticate by DIGEST-MD5 | the feature `sasl-digest-md5` | |
//! | authenticate by SASL in other ways | [`ClientBuilder::sasl`], [`SaslMechanism`] | |
//! | use another node as the root | [`Client::chroot`] | `views` |
//! | go on after a session has expired | [`SessionKeeper::run_each`] | `session_keeper` |
//! | hand a session over | [`Client::detach`], [`ClientBuilder::session`] | `handover` |
//! | follow a session's states | [`Client::states`], [`Client::state_stream`] | `states` |
//! | change the servers | [`Client::set_servers`] | `servers` |
//! | read without a quorum | [`ClientBuilder::allow_read_only`] | `read_only` |
//! | bound the client's memory | [`Limits`] | `limits` |
//! | export metrics, and traces | [`Client::stats`], [below](#seeing-inside) | `stats` |
//! | use it without async code | | `synchronous` |
//! | frame the protocol on a stream, in a proxy or a recorder | [`FrameCodec`] | `proxy` |
//!
//! Each example starts its own server: `cargo run -p zk-client --example basics`.
//!
//! # Ordering
//!
//! A call that returns a [`Reply`] enqueues its request when it is *called*, not when its future is
//! first polled. The
//! requests of one session reach the server in call order, and the server answers them in that
//! order. Ten calls that are awaited together cost one round trip, not ten. A watch event is
//! delivered before any reply that reflects the change.
//!
//! There is no such order between clients: one client may be connected to a server that has not
//! applied a change yet which another client has seen. Each reply has a [zxid](Reply::with_zxid),
//! and a client that has [waited](Client::wait_for_zxid) for that zxid sees the change.
//!
//! # Outcomes
//!
//! Every [`Error`] has an [`outcome`](Error::outcome). It is [`NotApplied`](Outcome::NotApplied) if
//! the request never left this machine or the server refused it, and [`Unknown`](Outcome::Unknown)
//! if the request was sent and the connection broke before the reply came. A write that is answered
//! with an error that [proves nothing](ErrorCode::proves_nothing_applied) is `Unknown`, too. The
//! client never sends a caller's write twice by itself, with one documented exception: the delete
//! of an [`OwnedNode`]. The writes of [`Client::resolving`] find out what became of a lost request,
//! and send it again if it was certainly not applied.
//!
//! # Cancel safety
//!
//! Dropping a [`Reply`] does not cancel its request; the client only discards the answer. Dropping
//! a [`Watcher`] or a [`WatchStream`] removes the watch. Dropping an [`OwnedNode`], or the reply of
//! the create that would have returned it, deletes the node. A call that sends several requests
//! documents in its own section what remains of it when it is dropped.
//!
//! # The session
//!
//! A [`Client`] is one session. The session lives at the ensemble and survives its connections:
//!
//! ```text
//!                  a server                connection lost
//!                  lets it in              ──────────────>
//!   Connecting ─────────────> Connected                    Disconnected
//!                             (or ConnectedReadOnly)
//!                                          <──────────────
//!                                          resumed
//!
//!   and from each of these, for good:
//!
//!   AuthFailed                Closed                       Expired
//!   credentials refused       close(), detach(), the       a server says so, or cut off
//!                             last handle dropped          for 4/3 of the timeout
//! ```
//!
//! When the connection breaks, the client tries the next server, resumes the session with its id
//! and password, sends the auth credentials again and arms the watches again. Requests that were
//! not sent yet wait until then. A new session is a new [`Client`], never a silent replacement,
//! because everything ephemeral is gone with the old session. For services that must survive that,
//! a [`SessionKeeper`] opens one session after the other and reports each of them.
//!
//! | after this part of the session timeout | without | the client |
//! |---|---|---|
//! | 1/3, at most 10 s | a frame sent | sends a ping |
//! | 2/3 | a frame received | drops the connection and tries the next server |
//! | 4/3 | a frame received | gives the session up |
//!
//! A connection that ends within a second counts as a failed attempt, although the session was
//! resumed. So reconnects to a server that hangs up soon after each handshake slow down to one in a
//! second. A request on which a server has hung up three times in a row, and that is large or of an
//! operation that no server has answered, fails with [`NeverAnswered`](ErrorKind::NeverAnswered).
//!
//! While there are [`Lease`]s, the client sends a ping after 1/15 of the timeout, and a small write
//! in each third of it, to learn whether the ensemble still keeps the session: see
//! [`DeadlineRule`].
//!
//! A machine that is suspended receives nothing, while the ensemble keeps counting the session
//! timeout. On Linux and Android the client counts the time of a suspension, so the first check
//! afterwards shows whether a lease has lapsed. On other systems it does so only with a function
//! that returns that time: see [`Clock`].
//!
//! # Watches
//!
//! A [`Watcher`] waits for one change, a [`WatchStream`] for all changes of a node or a tree. Both
//! survive reconnects. A watcher receives a change that it missed. A stream only reports that it
//! may have missed changes, since servers do not replay them. Below, Ben's watcher waits for the
//! deletion of Ana's node, which happens while Ben has no connection:
//!
#![doc = include_str!("../pictures/missed-change.svg")]
//!
//! Each arrow is a frame: dashed if it is a reply, dotted if it is a notification.
//!
//! When a watcher or stream is dropped, the client removes its watch on the server, unless another
//! one still needs it. A stream that is not read drops changes at its bound, and
//! [reports how many](StreamEvent::Lagged).
//!
//! # Old servers
//!
//! The client works with ZooKeeper 3.5 and later. Operations that came later say so in their
//! documentation. A server that does not know an operation refuses it with the
//! [`code`](Error::code) `Unimplemented` and then closes the connection: the requests behind it
//! fail with `ConnectionLoss`, and the session goes on. From the first such refusal on, the client
//! refuses the operation by itself for as long as it lives, without that cost.
//!
//! A server older than 3.5 refuses the first create in this way. From then on the client refuses by
//! itself everything that came with 3.5 or later, and the error of [`Client::create`] says that the
//! server is too old.
//!
//! # Other servers
//!
//! Servers of other makers speak the protocol too, and each lacks something. A [`Dialect`] says
//! what they understand, and is chosen with [`ClientBuilder::dialect`]: for instance
//! [`Dialect::clickhouse_keeper`]. Without it, a client learns what is missing only from
//! connections that end, and fails after the third with
//! [`NeverAnswered`](ErrorKind::NeverAnswered).
//!
//! Where a session ends with its connection, as in ClickHouse Keeper, it is over at the first sign
//! of a lost connection: no request is sent again, no session is resumed, and all that it owned is
//! lost. Between the end at the server and that sign there is a
//! [gap](Dialect::session_ends_with_connection), in which only fencing protects.
//!
//! Two operations can be disabled on servers that know them: [time to live](CreateOptions::ttl) and
//! [`reconfig`](Client::reconfig). Such a server refuses them without closing the connection, and
//! the client sends them again the next time.
//!
//! # Seeing inside
//!
//! [`Client::stats`] is for metrics. The client reports its events to [`tracing`], with targets,
//! messages and fields that are stable. The field `connections` counts the connections of the
//! session so far:
//!
//! | target | level | message | fields |
//! |---|---|---|---|
//! | `zk_client::connection` | debug | `connecting` | `server` |
//! | | debug | `attempt failed` | `server`, `why` |
//! | | debug | `SASL failed`, on a token of the server | `why` |
//! | | info | `connected` | `server`, `session`, `timeout_ms`, `read_only`, `connections` |
//! | | info | `lost` | `server`, `why`, `lived_ms` |
//! | | debug | `serves writes`, while connected read-only | `server` |
//! | | info | `certificates replaced`, of TLS | |
//! | | warn | `certificates kept`, since the new ones cannot be used | `problem` |
//! | `zk_client::session` | debug | `authenticated` | `scheme` |
//! | | warn | `authentication refused` | `scheme` |
//! | | warn | `the server is older than 3.5`, and creates nothing for this client | |
//! | | info | `over`, if this side closed it | `session`, `why` |
//! | | warn | `over`, if it expired or was refused | `session`, `why` |
//! | | info | `another`, which a [`SessionKeeper`] opens in place of one that expired | `wait_ms` |
//! | | trace | `due`, when a timer of the session fires | `timer` |
//! | `zk_client::request` | trace | `queued` | `xid`, `op`, `path` |
//! | | trace | `sent` | `xid`, `op`, `path` |
//! | | trace | `answered` | `xid`, `op`, `path`, `error`, `zxid`, `latency_us`, `bytes` |
//! | | trace | `appended`, if the record has more bytes than the client knows | `op`, `bytes` |
//! | | trace | `unanswered` | `xid`, `op`, `path`, `failure` |
//! | | trace | `ping answered` | `latency_us` |
//! | `zk_client::watch` | debug | `rearming` | `watches`, `streams`, `requests` |
//! | | debug | `rearmed` | |
//! | | trace | `event` | `kind`, `path`, `zxid`, `missed`, `watchers`, `streams` |
//!
//! Most events are in the session's span: `zk` of the target `zk_client::session`, at level info.
//! Its field `session` is set at `connected`. The events `queued` and `appended` are in the
//! caller's span, and so is `over` if a call ends the session. `another` is in the span of the
//! keeper's task. `certificates replaced` and `certificates kept` are in none, since files are read
//! on a thread for blocking work. A subscriber must not call the client: some events are reported
//! under its lock. Warnings other than these report something that should not happen. No event
//! contains data, passwords or credentials. Neither does the `Debug` of any type, except for
//! records of `zk_proto` and data that was read. A request that is not traced costs one check of a
//! flag each when it is queued, sent and answered.
//!
//! # Performance
//!
//! What each operation costs, and how to make a program fast: see [`performance`].
//!
//! # Runtime
//!
//! The client needs tokio with time and io enabled. It spawns one task, which does all of its I/O.
//! Outside of a runtime a call that makes a client or a keeper is an error. Calls of a client work
//! on any thread while its runtime lives, and so does awaiting them, except for those that wait for
//! a time: these say so in a section *Panics*.
//!
//! The protocol itself is [`session::Session`], a state machine without I/O, clock or runtime,
//! which can be run in other ways. What may block, as Kerberos may, runs on tokio's threads for
//! blocking work.
//!
//! The layout of the crate, and the ways through it, are on the page [`internals`].

mod trace;

mod random;

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

/// The examples of the README, which are tested with the examples of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(feature = "__fuzz")]
#[doc(hidden)]
pub mod fuzz;

pub use auth::credentials::Credential;
pub use auth::failure::{AuthFailure, Scheme};
#[cfg(feature = "sasl-gssapi")]
pub use auth::gssapi::Gssapi;
pub use auth::sasl::{Sasl, SaslError, SaslExchange, SaslMechanism, SaslStart, SaslStep};
pub use client::{Committed, Marker, OwnedNode, Resolving, StateStream, Visited, Walk};
pub use config::{DeadlineRule, Dialect, Host, Limits, SessionConfig, SessionIdentity};
pub use connect::ClientBuilder;
pub use driver::clock::Clock;
pub use error::{
    Attempt, Ended, Error, ErrorKind, Failure, Hangup, Limit, Outcome, ProtocolError, Rejected,
    Transient,
};
pub use handles::client::{Client, Reply, WithZxid};
pub use handles::lease::Lease;
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
pub use stats::{KeeperStats, Latencies, RequestCounts, Stats, Totals};

pub use zk_proto::{ErrorCode, EventType, OpCode, Password, PathRule, SessionId, Stat, Zxid};

// Modules that hold only a page of documentation each, so that links in the code can name them.
#[doc = include_str!("performance.md")]
pub mod performance {}

#[doc = include_str!("internals.md")]
pub mod internals {}
