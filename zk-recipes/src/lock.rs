//! The exclusive lock.
//!
//! Contenders queue in the order in which the ensemble created their nodes. The first one owns the
//! lock for as long as its node exists; its end wakes the next one, however many there are behind.

use std::fmt;
use std::future::Future;

use zk_client::{Client, Deletion};

use crate::error::{Error, Fault};
use crate::tenure::Tenure;

/// A lock that one process in the world holds at a time.
///
/// ```
/// # async fn f(client: &zk_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_recipes::Lock;
///
/// let lock = Lock::new(client, "/locks/invoices")?;
/// let guard = lock.acquire().await?;
/// println!("mine, with token {}", guard.token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Who shares it
///
/// Everybody who uses the same path on the same ensemble, below the same chroot: this crate,
/// Curator's `InterProcessMutex`, go-zk's `Lock` and zookeeper-client's Curator lock. It is fair:
/// first come, first served. It is not reentrant: a second acquire queues like anybody's.
///
/// # What it does not promise
///
/// A holder that is stopped for longer than its session timeout, or cut off, loses the lock
/// without noticing at once, and another gets it. Where that would harm, let the resource refuse
/// tokens that are older than the newest it has seen: [`Guard::token`].
///
/// Servers tell nobody of the end of a node that may not be read (3.8.4, 3.9.2 and later). A
/// contender that is unreadable from the start is waited for all the same; if somebody takes the
/// permission away while it is already waited for, its end goes unnoticed.
#[derive(Clone, Debug)]
pub struct Lock {
    client: Client,
    path: String,
    data: Vec<u8>,
}

impl Lock {
    /// A lock on the folder `path`, which is made with its ancestors, as containers, when it is
    /// missing. It should hold nothing else.
    ///
    /// # Errors
    ///
    /// The path breaks a rule of ZooKeeper's.
    pub fn new(client: &Client, path: &str) -> Result<Self, Error> {
        zk_client::check_path(path)?;
        Ok(Self { client: client.clone(), path: path.to_owned(), data: Vec::new() })
    }

    /// Sets what this contender's node says to whoever looks, for instance host and process.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// The folder.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Waits in the queue until the lock is ours.
    ///
    /// A free lock takes one round trip: create and list leave together. A contended one takes
    /// another to watch those ahead, and then none: the event that frees it is the hand-over.
    ///
    /// A connection that breaks costs neither the place nor the lock while the session lives: a
    /// create whose answer was lost is found again.
    ///
    /// # Errors
    ///
    /// The server refuses ([`ErrorKind::Client`](crate::ErrorKind::Client)), for instance without
    /// permission; connections break again and again over what is asked; the session is over;
    /// somebody deleted our node while it waited; the folder's sequence numbers are nearly used
    /// up. Nothing is left behind in any case.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue: the node is deleted as soon as it can be, also if its
    /// create was still on its way. So this is how to wait no longer than that:
    ///
    /// ```
    /// # async fn f(lock: &zk_recipes::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// match tokio::time::timeout(Duration::from_secs(5), lock.acquire()).await {
    ///     Ok(guard) => println!("mine: {}", guard?.token()),
    ///     Err(_) => println!("taken for five seconds; no longer in the queue"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self) -> Result<Guard, Error> {
        Tenure::first(&self.client, &self.path, &self.data).await.map(Guard)
    }
}

/// Orders the holders of a lock: each one's token is greater than those of all before it, on any
/// path of the ensemble and also after the folder was deleted and made again.
///
/// Hand it to the resource with every write, and let the resource refuse a token that is smaller
/// than the greatest it has seen: then a holder that was stopped and lost the lock cannot do harm.
///
/// ```
/// # fn write(newest: &mut Option<zk_recipes::FencingToken>, token: zk_recipes::FencingToken) -> bool {
/// if newest.is_some_and(|newest| token < newest) {
///     return false;
/// }
/// *newest = Some(token);
/// true
/// # }
/// ```
///
/// A store in another process gets the pair `(token.czxid(), token.pass())`, and compares pairs or
/// makes a token of it again with [`new`](Self::new).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken {
    czxid: i64,
    pass: u32,
}

impl FencingToken {
    /// A token from its parts, as they came from another process.
    pub const fn new(czxid: i64, pass: u32) -> Self {
        Self { czxid, pass }
    }

    /// The transaction that created the holder's node.
    pub const fn czxid(&self) -> i64 {
        self.czxid
    }

    /// Tells holders apart that had one node after each other; always 0 for a [`Lock`].
    pub const fn pass(&self) -> u32 {
        self.pass
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}.{}", self.czxid, self.pass)
    }
}

/// What became of a lock that was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// It was ours until now.
    Released,
    /// Somebody deleted the node, or the session ended, before the release was carried out.
    AlreadyLost,
}

/// Proof of holding a [`Lock`], until it is dropped or released.
///
/// Not `Clone`: there is one holder. It keeps the session alive. Dropping it queues the release at
/// once, on any thread and without a runtime, behind every request made before. If the connection
/// breaks before the answer, the release is sent again ahead of all other requests of the next one.
/// `std::mem::forget` keeps the lock until the session ends.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct Guard(Tenure);

impl Guard {
    /// Orders this holder after all earlier ones.
    pub fn token(&self) -> FencingToken {
        FencingToken::new(self.0.node().czxid().0, 0)
    }

    /// The node that stands for this holder in the queue.
    pub fn node(&self) -> &str {
        self.0.node().path()
    }

    /// Releases the lock and waits until the server has said so. While the client is cut off that
    /// is the next connection, or the end of the session.
    ///
    /// # Errors
    ///
    /// [`Unconfirmed`](crate::ErrorKind::Unconfirmed): the connection broke first. The lock is no
    /// longer ours whatever happens, and the client goes on releasing it. Other errors are the
    /// server's refusal to delete the node, which then lasts until the session ends.
    ///
    /// # Cancel safety
    ///
    /// The release is on its way when this returns, whether or not the future is awaited.
    pub fn release(self) -> impl Future<Output = Result<Release, Error>> + Send + use<> {
        let deletion = self.0.into_node().delete();
        async move {
            match deletion.await {
                Ok(Deletion::Deleted) => Ok(Release::Released),
                Ok(_) => Ok(Release::AlreadyLost),
                Err(error) if error.is_session_over() => Ok(Release::AlreadyLost),
                Err(error) if error.is_connection_loss() => Err(Fault::Unconfirmed(error).into()),
                Err(error) => Err(error.into()),
            }
        }
    }
}
