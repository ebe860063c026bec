//! What a student writes: a lock, a lock for readers and writers, or a withdrawal.
//!
//! Each level names the one that it wants. The gym calls these methods in one thread and in virtual
//! time, so nothing has to be `Send`.

use std::error::Error;
use std::fmt;

use zk_client::Client;

use crate::store::Store;

/// Any error will do: `?` turns each into this one.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The folder of the lock. It is there when a run begins.
pub const FOLDER: &str = "/lock";

/// The error of a file that has nothing but its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unwritten;

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this level is not written yet")
    }
}

impl Error for Unwritten {}

/// What stands in a file until something is written there.
pub fn unwritten<T>() -> Result<T> {
    Err(Unwritten.into())
}

/// A lock for one holder at a time.
#[allow(async_fn_in_trait, reason = "all futures run in one thread")]
pub trait Lock: 'static {
    /// What a holder has to remember: the path of its node, for example.
    type Held: 'static;

    /// Waits until the lock is held.
    ///
    /// An error is no fault as such: the process tries again. It is one if nothing has gone wrong,
    /// or if it leaves something behind.
    ///
    /// # Cancel safety
    ///
    /// That of the level: the last one drops this future, the others do not.
    async fn acquire(&self, client: &Client) -> Result<Self::Held>;

    /// Gives the lock back. It is called once for each acquire, whatever has happened.
    ///
    /// If the session has ended meanwhile, `client` is a new one, of the same process.
    ///
    /// # Cancel safety
    ///
    /// It is not dropped, unless its process dies.
    async fn release(&self, client: &Client, held: Self::Held) -> Result<()>;

    /// Waits until the lock is not surely held any more. The process stops its work then.
    ///
    /// Without this method it works on until it releases the lock.
    ///
    /// # Cancel safety
    ///
    /// It is dropped when the work is done.
    async fn lost(&self, client: &Client, held: &Self::Held) {
        let _ = (client, held);
        std::future::pending().await
    }
}

/// A lock for many readers or one writer.
#[allow(async_fn_in_trait, reason = "all futures run in one thread")]
pub trait RwLock: 'static {
    /// What a holder has to remember.
    type Held: 'static;

    /// Waits until the lock is held beside other readers.
    ///
    /// # Cancel safety
    ///
    /// It is not dropped, unless its process dies.
    async fn read(&self, client: &Client) -> Result<Self::Held>;

    /// Waits until the lock is held alone.
    ///
    /// # Cancel safety
    ///
    /// It is not dropped, unless its process dies.
    async fn write(&self, client: &Client) -> Result<Self::Held>;

    /// Gives the lock back.
    ///
    /// # Cancel safety
    ///
    /// It is not dropped, unless its process dies.
    async fn release(&self, client: &Client, held: Self::Held) -> Result<()>;
}

/// A program that takes money from a store under a lock of its own.
#[allow(async_fn_in_trait, reason = "all futures run in one thread")]
pub trait Withdraw: 'static {
    /// Takes `amount` from the balance of the store. Returns true if that was written.
    ///
    /// It reads the balance, [works](Store::work), and writes the new balance. All of that is under
    /// the lock, which it acquires and releases itself.
    ///
    /// # Cancel safety
    ///
    /// It is not dropped, unless its process dies.
    async fn withdraw(&self, client: &Client, store: &Store, amount: u32) -> Result<bool>;
}
