//! Distributed locks on ZooKeeper, built on the public interface of [`zk_client`] alone.
//!
//! | lock | for |
//! |---|---|
//! | [`Lock`] | one holder at a time, across processes |
//! | [`RwLock`] | many readers or one writer |
//! | [`ReentrantLock`], [`ReentrantRwLock`] | the same for many tasks in each process |
//! | [`MultiLock`] | several locks at once, [without deadlocks](MultiLock#deadlocks) |
//! | [`LockTicket`] | a lock that outlives a planned restart of its process |
//!
//! The tasks of a process hand a reentrant lock on among themselves without a request, and an owner
//! may take it again.
//!
//! # The queue
//!
//! A lock is a folder. Each contender creates an ephemeral sequential node in it, and the server
//! numbers the nodes. The lowest number holds the lock; everybody else watches the two nodes right
//! ahead, so that a release wakes one or two contenders and not all of them:
//!
//! ```text
//! /locks/invoices
//!   _c_71..-lock-0000000041   holds the lock
//!   _c_0e..-lock-0000000042   watches 41
//!   _c_c4..-lock-0000000043   watches 42 and 41
//!   _c_9a..-lock-0000000044   watches 43 and 42
//! ```
//!
//! An acquire has three steps: *join* creates the node and lists the folder in one round trip,
//! *wait* lasts until everybody ahead in that listing has gone, and *hold* is the guard. The
//! example `textbook_lock` is the same algorithm in sixty lines, with a link from each hazard that
//! it ignores to the file that handles it.
//!
//! All of them cost one round trip when they are free (two when the folder is missing: see
//! [`Options::persistent_folder`]) and no request at the hand-over, and leave no trace of whatever
//! is dropped, cancelled or lost on the way. What holds for every request (order, outcomes, the
//! session's life) stands at [`zk_client`]. End a program with a release, or with
//! [`Client::close`](zk_client::Client::close): see [`Guard`].
//!
//! ```
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! # async fn rebuild() -> Vec<u8> { Vec::new() }
//! use zk_client::{Client, Op};
//! use zk_recipes::Lock;
//!
//! let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
//! let lock = Lock::new(&client, "/locks/invoices")?;
//!
//! let guard = lock.acquire().await?;
//! let invoices = guard.run(rebuild()).await?; // stops when the lock is lost
//! guard.fenced(Op::set_data("/invoices", &invoices, None)).await?; // only while it is ours
//! guard.release().await?;
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # When a lock is lost
//!
//! A lock is an ephemeral node. It goes with the session of its holder, and the ensemble ends a
//! session that it has not heard from for a session timeout, whatever the holder believes. So every
//! guard knows until when it is surely held ([`Hold::state`]), tells when it no longer is
//! ([`Hold::lost`]) and stops work with it ([`Hold::run`]). It goes by the time at which requests
//! were sent, and by answers that only a majority of the servers could give: a server that is cut
//! off from the others answers pings for many seconds after the ensemble has given the lock away.
//!
//! A lock that is held and not used costs its client about three small writes and a dozen pings in
//! each session timeout, however many locks the client holds. For that, the lock stays
//! [`Held`](LockState::Held) although every answer is late by 0.3 session timeouts. What this
//! assumes of the servers is said at [`DeadlineRule`](zk_client::DeadlineRule).
//!
//! The time for which a machine is suspended counts on Linux and Android. On other systems the
//! client cannot measure it by itself: there a guard may say after a suspension that it is held
//! although it is lost. [`Clock`](zk_client::Clock) says what to do.
//!
//! No clock helps a process that is stopped between looking and acting. For that there is the
//! [`FencingToken`], which a store compares, and [`Hold::fenced`], which writes to ZooKeeper only
//! if the lock is still held. The example `fencing` shows both: `cargo run --example fencing`.
//!
//! # When a session ends
//!
//! Its locks are lost, and who waits for one gets an error: both answer
//! [`Error::is_session_over`]. A client is good for one session, and so are its locks. A service
//! that shall go on takes the client of a [`SessionKeeper`](zk_client::SessionKeeper), and makes a
//! new lock in each session. The example `leader` is such a loop:
//! `cargo run -p zk-recipes --example leader`.
//!
//! # Who else may share a lock
//!
//! Locks of other clients queue up with these: see [`Layout`].
//!
//! # Layout
//!
//! A file uses only what stands above it here:
//!
//! ```text
//! error, node, options   what goes wrong; what nodes are called, and who is ahead; settings
//! queue                  join (create and list), place (our node), wait (until nobody is ahead)
//! hold                   being the owner: what is known of the node, state, lost, fencing token
//! locks                  Lock, RwLock, MultiLock, LockTicket
//! two_level              cohort (who is next in this process), local (its I/O), reentrant
//! ```

mod error;

mod node;

mod options;

mod queue;

mod hold;

mod locks;

mod two_level;

/// The examples of the README, which are tested with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use error::{Error, ErrorKind, Loss, Timeout};
pub use hold::{Fenced, FencingToken, Hold, InvalidToken, LockState, NotReleased, Release};
pub use locks::{Guard, Lock, LockTicket, MultiGuard, MultiLock, ReadGuard, RwLock, WriteGuard};
pub use node::Layout;
pub use options::Options;
pub use queue::inspect::QueueEntry;
pub use two_level::{Owner, ReentrantGuard, ReentrantLock, ReentrantRwLock};
