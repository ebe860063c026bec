//! The read/write lock: readers share it, and a writer has it alone.
//!
//! All contenders queue in one folder, first come, first served. A reader waits for the writers
//! ahead of it, and a writer for all contenders ahead. No contender waits for one that came later,
//! so there are no circles of contenders that wait for each other.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use zk_client::{Client, CreateOptions, Op, Operations, Outcome, OwnedNode};

use crate::error::Error;
use crate::hold::transactions::NotReleased;
use crate::hold::{Hold, Release};
use crate::node::Role;
use crate::options::Options;
use crate::queue::inspect::QueueEntry;
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
pub struct RwLock(Arc<Queue>);

impl RwLock {
    /// Makes a lock on the folder `path`, which should hold nothing else.
    ///
    /// If the folder is missing, an acquire creates it and its ancestors as containers.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper.
    pub fn new(client: &Client, path: &str) -> Result<Self, Error> {
        Self::with_options(client, path, Options::new())
    }

    /// Makes a lock on the folder `path` with other settings than the defaults.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper.
    pub fn with_options(client: &Client, path: &str, options: Options) -> Result<Self, Error> {
        let queue = Queue::new(client, path, options.layout.read_write(), options)?;
        Ok(Self(Arc::new(queue)))
    }

    /// The path of the folder.
    pub fn path(&self) -> &str {
        self.0.folder()
    }

    /// Waits until the lock is ours to read: until no writer is ahead.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn read(&self) -> Result<ReadGuard, Error> {
        Hold::acquire(&self.0, Role::Shared).await.map(ReadGuard)
    }

    /// Waits until the lock is ours to write: until nobody is ahead.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn write(&self) -> Result<WriteGuard, Error> {
        Hold::acquire(&self.0, Role::Exclusive).await.map(WriteGuard)
    }

    /// Takes the lock to read if no writer is ahead, in one round trip; else leaves the queue.
    ///
    /// While the client is cut off this waits: see [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn try_read(&self) -> Result<Option<ReadGuard>, Error> {
        Ok(Hold::try_acquire(&self.0, Role::Shared).await?.map(ReadGuard))
    }

    /// Takes the lock to write if nobody is ahead, in one round trip; else leaves the queue.
    ///
    /// While the client is cut off this waits: see [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn try_write(&self) -> Result<Option<WriteGuard>, Error> {
        Ok(Hold::try_acquire(&self.0, Role::Exclusive).await?.map(WriteGuard))
    }

    /// Waits like [`read`](Self::read), but for no longer than `time`: see
    /// [`Lock::acquire_within`](crate::Lock::acquire_within).
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn read_within(&self, time: Duration) -> Result<ReadGuard, Error> {
        self.0.within(time, self.read()).await
    }

    /// Waits like [`write`](Self::write), but for no longer than `time`: see
    /// [`Lock::acquire_within`](crate::Lock::acquire_within).
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn write_within(&self, time: Duration) -> Result<WriteGuard, Error> {
        self.0.within(time, self.write()).await
    }

    /// All contenders, which hold the lock or wait for it, in the order of the queue.
    ///
    /// # Errors
    ///
    /// As any read, for instance without permission.
    pub async fn contenders(&self) -> Result<Vec<QueueEntry>, Error> {
        self.0.contenders().await
    }

    /// Asks all holders to give the lock back: see [`Lock::revoke`](crate::Lock::revoke).
    ///
    /// # Errors
    ///
    /// As any read and write, for instance without permission.
    pub async fn revoke(&self) -> Result<usize, Error> {
        self.0.revoke().await
    }
}

/// Proof of reading under an [`RwLock`], until it is dropped or released.
///
/// It is a [`Hold`]. What [`Guard`](crate::Guard) says about dropping applies to it, too.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct ReadGuard(Hold);

impl ReadGuard {
    /// Releases the lock and waits until the server has confirmed it.
    ///
    /// See [`Guard::release`](crate::Guard::release).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// The release is on its way when this returns, whether or not the future is awaited.
    pub fn release(&self) -> impl Future<Output = Result<Release, Error>> + Send + use<> {
        self.0.let_go()
    }
}

/// Proof of writing under an [`RwLock`], until it is dropped or released.
///
/// It is a [`Hold`]. What [`Guard`](crate::Guard) says about dropping applies to it, too.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct WriteGuard(Hold);

impl WriteGuard {
    /// Releases the lock and waits until the server has confirmed it.
    ///
    /// See [`Guard::release`](crate::Guard::release).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// The release is on its way when this returns, whether or not the future is awaited.
    pub fn release(&self) -> impl Future<Output = Result<Release, Error>> + Send + use<> {
        self.0.let_go()
    }

    /// Carries out `ops` and releases the lock, in one transaction.
    ///
    /// See [`Guard::release_with`](crate::Guard::release_with).
    ///
    /// # Errors
    ///
    /// If nothing has happened and the lock is still ours, the error contains the guard.
    ///
    /// # Cancel safety
    ///
    /// As there.
    pub async fn release_with<O: Operations>(
        self,
        ops: O,
    ) -> Result<O::Results, NotReleased<Self>> {
        match self.0.let_go_with(ops).await {
            Ok(results) => Ok(results),
            Err(error) => Err(NotReleased { guard: self.0.has_node().then_some(self), error }),
        }
    }

    /// Becomes a reader, at the same place in the queue, without letting any writer in between.
    ///
    /// One transaction replaces the node. Readers that wait directly behind get in.
    ///
    /// # Errors
    ///
    /// If nothing has happened and the lock is still ours, the error contains the guard.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock.
    pub async fn downgrade(self) -> Result<ReadGuard, NotReleased<Self>> {
        match self.replace_by_reader().await {
            Ok(node) => {
                if let Some(writer) = self.0.take_node() {
                    writer.forget();
                }
                let reader = Place::new(self.0.queue(), node);
                let hold = match reader {
                    Ok(reader) => Hold::new(reader).await,
                    Err(error) => Err(error),
                };
                let hold = hold.map(|reader| ReadGuard(reader.in_place_of(&self.0)));
                hold.map_err(|error| NotReleased { guard: None, error })
            }
            Err(error) => {
                if error.outcome() == Outcome::Unknown {
                    // The node may be gone. If it is not, dropping it here deletes it.
                    drop(self.0.take_node());
                }
                Err(NotReleased { guard: self.0.has_node().then_some(self), error })
            }
        }
    }

    /// Replaces our node by a reader's.
    async fn replace_by_reader(&self) -> Result<OwnedNode, Error> {
        if let Some(loss) = self.0.known_loss() {
            return Err(self.0.ownership().lost_error(loss));
        }
        let (queue, own) = (self.0.queue(), self.0.own());
        let name = queue.naming().downgraded_name(&own.name, Role::Exclusive, Role::Shared);
        let path = queue.child(&name.unwrap_or_default());
        let (client, options) = (queue.client(), queue.options());
        let reader = CreateOptions::ephemeral().with_acl(&options.acl);
        let mut replies = client.multi_owned((
            Op::check(self.0.node(), None),
            Op::create_owned(&path, &options.data, &reader),
            Op::delete(self.0.node(), None),
        ));
        // One operation creates an owned node, so there is one reply.
        let Some(reply) = replies.pop() else {
            return Err(self.0.ownership().mark_deleted());
        };
        reply.await.map_err(|error| match error.is_no_node() {
            true => self.0.ownership().mark_deleted(),
            false => self.0.ownership().transaction_error(error),
        })
    }
}

impl Deref for ReadGuard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.0
    }
}

impl Deref for WriteGuard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.0
    }
}
