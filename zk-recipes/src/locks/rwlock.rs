//! The read/write lock: readers share it, and a writer has it alone.
//!
//! All contenders queue in one folder, first come, first served. A reader waits for the writers
//! ahead of it, and a writer for all contenders ahead. No contender waits for one that came later,
//! so there are no circles of contenders that wait for each other.

use std::ops::Deref;
use std::sync::Arc;

use zk_client::{Client, CreateOptions, Op};

use crate::error::Error;
use crate::hold::Hold;
use crate::hold::transactions::NotReleased;
use crate::locks::inspect::LockFolder;
use crate::locks::lock::Guard;
use crate::node::Role;
use crate::options::Options;
use crate::queue::{Place, Queue};

/// A lock that many may read or one may write, across processes.
///
/// ```
/// # async fn f(client: &zk_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_recipes::RwLock;
///
/// let catalogue = RwLock::new(client, "/locks/catalogue")?;
/// let shared = catalogue.read().await?;
/// shared.release().await?;
///
/// let alone = catalogue.write().await?;
/// let shared = alone.downgrade().await?; // nobody wrote in between
/// shared.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// It is fair: readers that come later do not overtake a writer that waits, nor do writers overtake
/// a reader. It is not reentrant, and a reader cannot become a writer: a task that reads and waits
/// to write, without releasing first, waits for ever, like any two that wait for each other.
/// [`ReentrantRwLock`](crate::ReentrantRwLock) knows its owners and refuses that.
///
/// The promises of a guard, and the clients that share the lock, are as with [`Lock`](crate::Lock).
/// A future that is not polled keeps its place: see [`Lock::acquire`](crate::Lock::acquire).
#[derive(Clone, Debug)]
pub struct RwLock(LockFolder);

impl RwLock {
    /// As [`Lock::new`](crate::Lock::new).
    pub fn new(client: &Client, path: &str) -> Result<Self, Error> {
        Self::with_options(client, path, Options::new())
    }

    /// As [`Lock::with_options`](crate::Lock::with_options).
    pub fn with_options(client: &Client, path: &str, options: Options) -> Result<Self, Error> {
        let queue =
            Queue::new(client, path, options.settings.layout.read_write(), options.settings)?;
        Ok(Self(LockFolder(Arc::new(queue))))
    }

    /// Waits until the lock is ours to read: until no writer is ahead.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn read(&self) -> Result<ReadGuard, Error> {
        Hold::acquire(self.queue(), Role::Shared).await.map(Guard::new)
    }

    /// Waits until the lock is ours to write: until nobody is ahead.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn write(&self) -> Result<WriteGuard, Error> {
        Hold::acquire(self.queue(), Role::Exclusive).await.map(Guard::new)
    }

    /// Takes the lock to read if no writer is ahead; else leaves the queue.
    ///
    /// It costs and waits as [`Lock::try_acquire`](crate::Lock::try_acquire) does.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn try_read(&self) -> Result<Option<ReadGuard>, Error> {
        Ok(Hold::try_acquire(self.queue(), Role::Shared).await?.map(Guard::new))
    }

    /// Takes the lock to write if nobody is ahead; else leaves the queue.
    ///
    /// It costs and waits as [`Lock::try_acquire`](crate::Lock::try_acquire) does.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn try_write(&self) -> Result<Option<WriteGuard>, Error> {
        Ok(Hold::try_acquire(self.queue(), Role::Exclusive).await?.map(Guard::new))
    }
}

impl Deref for RwLock {
    type Target = LockFolder;

    fn deref(&self) -> &LockFolder {
        &self.0
    }
}

/// Proof of reading under an [`RwLock`], until it is dropped or released.
///
/// It is a [`Hold`], and what [`Guard`] says about dropping applies to it, too.
pub type ReadGuard = Guard<Reads>;

/// Proof of writing under an [`RwLock`], until it is dropped or released.
///
/// It is a [`Hold`], and what [`Guard`] says about dropping applies to it, too.
pub type WriteGuard = Guard<Writes>;

/// The kind of a [`ReadGuard`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Reads;

/// The kind of a [`WriteGuard`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Writes;

impl WriteGuard {
    /// Becomes a reader, at the same place in the queue, without letting any writer in between.
    ///
    /// One transaction replaces the node. Readers that wait directly behind get in.
    ///
    /// # Errors
    ///
    /// If nothing has happened and the lock is still ours, the error contains the guard.
    /// [`Unconfirmed`](crate::ErrorKind::Unconfirmed): the connection broke first. The lock is no
    /// longer ours, and the client goes on releasing it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock.
    pub async fn downgrade(self) -> Result<ReadGuard, NotReleased<Self>> {
        match self.become_reader().await {
            Ok(reader) => Ok(Guard::new(reader)),
            Err(error) => Err(self.not_released(error)),
        }
    }

    /// Replaces our node by a reader's.
    async fn become_reader(&self) -> Result<Hold, Error> {
        self.hold.ensure_held()?;
        let (queue, own) = (self.hold.queue(), self.hold.own());
        let name = queue.naming().downgraded_name(&own.name);
        let path = queue.child(&name.unwrap_or_default());
        let (client, options) = (queue.client(), queue.options());
        let reader = CreateOptions::ephemeral().with_acl(options.acl());
        let mut replies = client.multi_owned((
            Op::check(self.hold.node(), None),
            Op::create_owned(&path, &options.data, &reader),
            Op::delete(self.hold.node(), None),
        ));
        // One operation creates an owned node, so there is one reply.
        let Some(reply) = replies.pop() else {
            return Err(self.hold.status().mark_deleted());
        };
        let node = self.hold.ends_by(0, reply).await?;
        let reader = Hold::unconfirmed(Place::new(queue, node)?);
        reader.confirm().await?;
        Ok(reader.in_place_of(&self.hold))
    }
}
