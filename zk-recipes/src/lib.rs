//! Distributed locks and their relatives on ZooKeeper, on the public interface of [`zk_client`].
//!
//! | type | for |
//! |---|---|
//! | [`Lock`] | one holder at a time, across processes |
//! | [`RwLock`] | many readers or one writer |
//! | [`ReentrantLock`], [`ReentrantRwLock`] | the same for many tasks in each process |
//! | [`KeyedLocks`] | a lock for each key, for instance for each user |
//! | [`MultiLock`] | several locks at once, [without deadlocks](MultiLock#deadlocks) |
//! | [`LockTicket`] | a lock that outlives a planned restart of its process |
//! | [`Election`] | a leader among the processes of a service, with its data for all to see |
//! | [`Semaphore`] | at most so many holders at a time, each with one permit or several |
//! | [`Barrier`] | keeping everybody waiting until it is opened |
//! | [`DoubleBarrier`] | beginning and ending together with a number of others |
//! | [`Counter`] | a number that all processes count with, and blocks of unique ids |
//! | [`Cached`] | the value of a node at hand, for instance a live configuration |
//! | [`TreeCache`] | a node and everything below it at hand |
//! | [`Group`] | which processes of a service are there, with their data for all to see |
//! | [`Partitioner`] | which of them works on which shards of the work |
//!
//! The tasks of one process hand a reentrant lock on among themselves without a request, and an
//! owner may acquire it again.
//!
//! ```
//! use zk_client::{Client, CreateOptions, Op};
//! use zk_recipes::{Error, Lock, retry};
//!
//! # async fn rebuild() -> Vec<u8> { Vec::new() }
//! # async fn f() -> Result<(), Error> {
//! let keeper = Client::builder().keep("zk1:2181,zk2:2181,zk3:2181").await?;
//! // A session may end, and a connection break. Then the work begins anew, until it is done.
//! let done = keeper.run_each(|client| async move { retry(|| invoice(&client)).await }).await;
//! keeper.close().await;
//! # done
//! # }
//!
//! async fn invoice(client: &Client) -> Result<(), Error> {
//!     client.ensure("/invoices", &CreateOptions::persistent()).await?;
//!     let guard = Lock::new(client, "/locks/invoices")?.acquire().await?;
//!     let invoices = guard.run(rebuild()).await?; // stops when the lock is lost
//!     guard.fenced(Op::set_data("/invoices", &invoices, None)).await?; // only while it is ours
//!     guard.release().await?;
//!     Ok(())
//! }
//! ```
//!
//! # The queue
//!
//! A lock is a folder. Each contender creates an ephemeral sequential node in it, and the server
//! numbers the nodes. The contender with the lowest number holds the lock. Every other contender
//! watches the two nearest nodes that it waits for, so that a release wakes one or two contenders
//! and not all of them:
//!
//! ```text
//! /locks/invoices
//!   _c_71..-lock-0000000041   holds the lock
//!   _c_0e..-lock-0000000042   watches 41
//!   _c_c4..-lock-0000000043   watches 42 and 41
//!   _c_9a..-lock-0000000044   watches 43 and 42
//! ```
//!
//! The picture shows a release. Each arrow is a frame: dashed if it is a reply, dotted if it is a
//! notification. A bar is hollow while its contender waits, and green while it holds the lock. Like
//! the others on this page, it is drawn from what the real client sends.
//!
#![doc = include_str!("../pictures/hand-over.svg")]
//!
//! An acquire has three steps: *join* creates the node and lists the folder in one round trip,
//! *wait* lasts until every contender ahead in that listing has gone, and *hold* is the guard. The
//! example `textbook_lock` is the same algorithm in one function, with a link from each hazard that
//! it ignores to the file that handles it. Why nobody else is inside, and how the crate is built,
//! stands on the page [`internals`].
//!
//! Each of these locks costs one round trip when it is free (two when the folder is missing, three
//! when its parent is, too: see [`Options::persistent_folder`]) and no request at the hand-over;
//! [`Semaphore`] states its own costs. The rules for every request (order, outcomes, the session's
//! life) are at [`zk_client`]. End a program with a release, or with
//! [`Client::close`](zk_client::Client::close): see [`Guard`].
//!
//! Whatever is dropped, cancelled or lost on the way leaves no node behind, at the latest when the
//! session ends. Here the reply to Ana's
//! create is lost, and the connection with it. Her client connects again, and finds the node by the
//! unique name that it chose:
//!
#![doc = include_str!("../pictures/lost-reply.svg")]
//!
//! # When a lock is lost
//!
//! A lock is an ephemeral node, so it ends with the session of its holder. The ensemble ends a
//! session that it has not heard from for a session timeout, whatever the holder believes. So every
//! guard knows until when the lock is surely held ([`Hold::state`]), reports when that is nearly
//! over ([`Hold::running_out`]) and when the lock is lost ([`Hold::lost`]), and stops work at that
//! moment ([`Hold::run`]). It computes this from the times at which requests were sent, and from
//! replies that only a majority of the servers can give: a server that is cut off from the others
//! answers pings for many seconds after the ensemble has given the lock away.
//!
//! A lock that is held and not used costs its client about three small writes and a dozen pings in
//! each session timeout, however many locks the client holds. In return, the lock stays
//! [`Held`](LockState::Held) even if every reply is late by 0.3 session timeouts.
//! [`DeadlineRule`](zk_client::DeadlineRule) states what this assumes of the servers.
//!
//! Here Ana's link is cut. Her bar turns pale when nothing new proves that the lock is hers, and it
//! ends with her lease. The server ends her session later, and Ben is next:
//!
#![doc = include_str!("../pictures/deadline.svg")]
//!
//! The time for which a machine is suspended counts on Linux and Android. On other systems the
//! client cannot measure it by itself. There a guard may report after a suspension that the lock is
//! held although it is lost. [`Clock`](zk_client::Clock) says what to do.
//!
//! No clock helps a process that is stopped between looking and acting. Two tools are for that: the
//! [`FencingToken`], which a store compares, and [`Hold::fenced`], which writes to ZooKeeper only
//! if the lock is still held. The example `fencing` shows both: `cargo run -p zk-recipes
//! --example fencing`.
//!
//! # When a session ends
//!
//! The locks of the session are lost, and a contender that waits for one gets an error.
//! [`Error::is_session_over`] is true for the errors of both. A client is valid for one session,
//! and so are its locks. A service that must continue works in each session of a
//! [`SessionKeeper`](zk_client::SessionKeeper::run_each), and makes its locks there. [`retry`]
//! keeps the work going within a session. The example `service` does both, in a hundred lines:
//! `cargo run -p zk-recipes --example service`. What several tasks share a keeper for, and how they
//! end: see [`in_a_service`].
//!
//! # What else can happen
//!
//! A delete that is refused, a folder that is removed, a node that an operator deletes, a server
//! without a quorum, a slow reply: [`faults`] says what each recipe does then.
//!
//! # No queue of work
//!
//! There is no distributed queue of messages or jobs here, since ZooKeeper is the wrong place for
//! one, as [Curator's authors] explain for theirs: all nodes are in the memory of every server, a
//! folder with many children cannot be listed any more, since the list is one reply with a limit
//! of about a megabyte, and each message costs writes that all servers agree on. Use a message
//! broker or a table of a database. A few jobs can be handed out under a lock, as the example
//! `service` does.
//!
//! [Curator's authors]: https://cwiki.apache.org/confluence/display/CURATOR/TN4
//!
//! # Who else may share a lock
//!
//! Locks of other clients queue up with these: see [`Layout`], and [`moving`] for a service that
//! moves from kazoo or Curator.
//!
//! # A lock for each user
//!
//! Many locks that are seldom used have other costs than one that is used all the time: see
//! [`lock_per_key`].
//!
//! # Runtime
//!
//! All of this runs on the tokio runtime of its client. A lock can be acquired, used and released
//! on any thread, also outside of a runtime, while that one lives; only a time limit needs a
//! runtime with time enabled. Await the other recipes inside of one: where they wait for a time,
//! they panic elsewhere, as tokio does.
//!
//! # Seeing inside
//!
//! A [`LockMeter`] counts for metrics, across all locks and sessions: the example `metrics` serves
//! it to Prometheus, `cargo run -p zk-recipes --example metrics`. The locks report their events to
//! [`tracing`], with targets, messages and fields that are stable, and beside those of
//! [`zk_client`](zk_client#seeing-inside):
//!
//! | target | level | message | fields |
//! |---|---|---|---|
//! | `zk_recipes::queue` | debug | `making the folder`, which is missing | `folder` |
//! | | debug | `the server has no containers`, and gets persistent nodes | |
//! | | debug | `joined`, where `ahead` is missing if the listing was lost | `node`, `ahead` |
//! | | trace | `listed` again | `nearest`, `farther` |
//! | | debug | `first`, after a wait or without one | `node` |
//! | | debug | `making the folder anew`, for [`Options::rotate`] | `error` |
//! | | warn | `half of the sequence numbers are used up` | `folder`, `sequence` |
//! | | warn | `a contender of another layout is ignored` | `node`, `layout` |
//! | `zk_recipes::lock` | debug | `acquired` | `node`, `waited_us` |
//! | | debug | `released`, also by a drop, a ticket or a close | `node`, `held_us` |
//! | | info | `lost` | `node`, `loss`, `held_us` |
//! | | debug | `not watched`: only the session tells of a loss then | `node`, `error` |
//! | `zk_recipes::coordination` | debug | `trying again`, by [`retry`] | `error` |
//! | | debug | `no permit is free` of a semaphore, for the first in its queue | `folder` |
//! | | debug | `a round begins` of a double barrier | `folder`, `number`, `members` |
//! | | debug | `somebody deleted the marker` of a counter | `node`, `error` |
//! | | debug | `the shards to have`, of a partitioner's member | `id`, `epoch`, `shards` |
//! | | debug | `the work was dropped`, since its shard was lost | `shard`, `error` |
//! | | debug | `the work has not stopped in time`, and was dropped | `shard` |
//! | | debug | `a release is unconfirmed`, of a leader, shard or member | `of`, `error` |
//! | | debug | `the member tries again`, of a partitioner | `of`, `error` |
//!
//! They are reported in the caller's span, and contain no data. An owner of a two-level lock that
//! gets in under a node that its process has already is counted and not traced.

mod coordination;
mod error;
mod hold;
mod locks;
mod node;
mod options;
mod queue;
mod stats;
mod steady;
mod trace;
mod two_level;

/// Runs the examples of the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use coordination::barrier::Barrier;
pub use coordination::cached::Cached;
pub use coordination::counter::{Counter, CounterFormat};
pub use coordination::double_barrier::{DoubleBarrier, Round};
pub use coordination::election::{Election, Leaders, StepDown};
pub use coordination::follow::Freshness;
pub use coordination::group::{Group, Member, Members, Membership, View};
pub use coordination::partitioner::{Partitioner, Shard};
pub use coordination::semaphore::{Permit, Semaphore};
pub use coordination::tree_cache::{TreeCache, TreeLimits, TreeNode, TreeStatus, TreeView};
pub use error::{Error, ErrorKind, Loss, Timeout};
pub use hold::transactions::{Fenced, NotReleased};
pub use hold::{FencingToken, Hold, InvalidToken, LockState, Release, Releasing};
pub use locks::inspect::{LockFolder, QueueEntry};
pub use locks::{
    Exclusive, Guard, Lock, LockTicket, MultiGuard, MultiLock, ReadGuard, Reads, RwLock,
    WriteGuard, Writes,
};
pub use node::Layout;
pub use options::{OfAnyLock, OfLock, OfMember, OfTwoLevelLock, Options};
pub use stats::{LockMeter, LockStats, LossCounts};
pub use steady::retry::{retry, retry_if};
pub use two_level::{KeyedLocks, Owner, ReentrantGuard, ReentrantLock, ReentrantRwLock};

// Modules that hold only a page of documentation each, so that links in the code can name them.
#[doc = include_str!("moving.md")]
pub mod moving {}

#[doc = include_str!("in_a_service.md")]
pub mod in_a_service {}

#[doc = include_str!("lock_per_key.md")]
pub mod lock_per_key {}

#[doc = include_str!("faults.md")]
pub mod faults {}

#[doc = include_str!("internals.md")]
pub mod internals {}
