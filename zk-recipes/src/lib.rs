//! Distributed locks on ZooKeeper, built on the public interface of [`zk_client`] alone.
//!
//! [`Lock`] is the exclusive lock: one round trip when it is free, no request at all at the
//! hand-over, a fencing token on every guard, and no trace left by whatever is dropped, cancelled
//! or lost on the way. What holds for every request (order, outcomes, the session's life) stands at
//! [`zk_client`].
//!
//! ```
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_client::Client;
//! use zk_recipes::Lock;
//!
//! let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
//! let lock = Lock::new(&client, "/locks/invoices")?;
//!
//! let guard = lock.acquire().await?;
//! // One holder at a time, here.
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```

mod error;

mod layout;

mod options;

mod contender;

mod mirror;

mod cohort;

mod wakers;

mod queue;

mod tenure;

mod wait;

mod token;

mod hold;

mod roster;

mod lock;

mod rwlock;

mod reentrant;

mod multilock;

mod ticket;

pub use error::{Error, ErrorKind, Loss};
pub use hold::{Hold, LockState, NotReleased, Release};
pub use layout::Layout;
pub use lock::{Guard, Lock};
pub use multilock::{MultiGuard, MultiLock};
pub use options::Options;
pub use reentrant::{Owner, ReentrantGuard, ReentrantLock, ReentrantRwLock};
pub use roster::QueueEntry;
pub use rwlock::{ReadGuard, RwLock, WriteGuard};
pub use ticket::LockTicket;
pub use token::{FencingToken, InvalidToken};
