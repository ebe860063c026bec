//! The read/write lock: readers share it, a writer has it alone.
//!
//! All queue in one folder, first come, first served. A reader waits for the writers ahead of it, a
//! writer for everybody ahead; nobody waits for who came later, so nobody waits in a circle.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use zk_client::{Client, CreateOptions, Op, Operations, Outcome, OwnedNode};

use crate::error::Error;
use crate::hold::{Hold, NotReleased, Release};
use crate::node::Role;
use crate::options::Options;
use crate::queue::Queue;
use crate::queue::inspect::QueueEntry;
use crate::queue::place::Place;

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
/// It is fair: a writer that waits is not overtaken by readers that come later, nor a reader by
/// writers. It is not reentrant, and a reader cannot become a writer: whoever reads and waits to
/// write without letting go first waits for ever, like any two that wait for each other.
/// [`ReentrantRwLock`](crate::ReentrantRwLock) knows its owners and refuses that.
///
/// What a guard promises, and whom the lock is shared with, is as with [`Lock`](crate::Lock). A
/// future that is not polled keeps its place: see [`Lock::acquire`](crate::Lock::acquire).
#[derive(Clone, Debug)]
pub struct RwLock(Arc<Queue>);

impl RwLock {
    /// A lock on the folder `path`, which is made with its ancestors, as containers, when it is
    /// missing. It should hold nothing else.
    ///
    /// # Errors
    ///
    /// The path breaks a rule of ZooKeeper's.
    pub fn new(client: &Client, path: &str) -> Result<Self, Error> {
        Self::with_options(client, path, Options::new())
    }

    /// The same, used in another way.
    ///
    /// # Errors
    ///
    /// The path breaks a rule of ZooKeeper's.
    pub fn with_options(client: &Client, path: &str, options: Options) -> Result<Self, Error> {
        let queue = Queue::new(client, path, options.layout.read_write(), options)?;
        Ok(Self(Arc::new(queue)))
    }

    /// The folder.
    pub fn path(&self) -> &str {
        self.0.folder()
    }

    /// Waits until no writer is ahead.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn read(&self) -> Result<ReadGuard, Error> {
        Hold::acquire(&self.0, Role::Shared).await.map(ReadGuard)
    }

    /// Waits until nobody is ahead.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn write(&self) -> Result<WriteGuard, Error> {
        Hold::acquire(&self.0, Role::Exclusive).await.map(WriteGuard)
    }

    /// Reads if no writer is ahead, in one round trip, and otherwise leaves the queue. While the
    /// client is cut off it waits: see [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn try_read(&self) -> Result<Option<ReadGuard>, Error> {
        Ok(Hold::try_acquire(&self.0, Role::Shared).await?.map(ReadGuard))
    }

    /// Writes if nobody is ahead, in one round trip, and otherwise leaves the queue. While the
    /// client is cut off it waits: see [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn try_write(&self) -> Result<Option<WriteGuard>, Error> {
        Ok(Hold::try_acquire(&self.0, Role::Exclusive).await?.map(WriteGuard))
    }

    /// [`read`](Self::read) for no longer than `time`: see
    /// [`Lock::acquire_within`](crate::Lock::acquire_within).
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn read_within(&self, time: Duration) -> Result<ReadGuard, Error> {
        self.0.within(time, self.read()).await
    }

    /// [`write`](Self::write) for no longer than `time`: see
    /// [`Lock::acquire_within`](crate::Lock::acquire_within).
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn write_within(&self, time: Duration) -> Result<WriteGuard, Error> {
        self.0.within(time, self.write()).await
    }

    /// Everybody who holds the lock or waits for it, first come first.
    ///
    /// # Errors
    ///
    /// As any read, for instance without permission.
    pub async fn contenders(&self) -> Result<Vec<QueueEntry>, Error> {
        self.0.contenders().await
    }

    /// Asks all who hold the lock to give it back: see [`Lock::revoke`](crate::Lock::revoke).
    ///
    /// # Errors
    ///
    /// As any read and write, for instance without permission.
    pub async fn revoke(&self) -> Result<usize, Error> {
        self.0.revoke().await
    }
}

/// Proof of reading under an [`RwLock`], until it is dropped or released: a [`Hold`], with what
/// [`Guard`](crate::Guard) says of dropping.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct ReadGuard(Hold);

impl ReadGuard {
    /// Releases the lock and waits until the server has said so: see
    /// [`Guard::release`](crate::Guard::release).
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

/// Proof of writing under an [`RwLock`], until it is dropped or released: a [`Hold`], with what
/// [`Guard`](crate::Guard) says of dropping.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct WriteGuard(Hold);

impl WriteGuard {
    /// Releases the lock and waits until the server has said so: see
    /// [`Guard::release`](crate::Guard::release).
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

    /// Carries out `ops` and releases the lock, in one transaction: see
    /// [`Guard::release_with`](crate::Guard::release_with).
    ///
    /// # Errors
    ///
    /// If nothing has happened and the lock is still ours, the error brings the guard back.
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

    /// Becomes a reader, at the same place in the queue, and without letting any writer in between:
    /// the two are one transaction. Readers that wait right behind get in.
    ///
    /// # Errors
    ///
    /// If nothing has happened and the lock is still ours, the error brings the guard back.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock.
    pub async fn downgrade(self) -> Result<ReadGuard, NotReleased<Self>> {
        match self.downgraded_name().await {
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
                    // It may be gone, and must be.
                    drop(self.0.take_node());
                }
                Err(NotReleased { guard: self.0.has_node().then_some(self), error })
            }
        }
    }

    /// Puts a reader's node in place of ours.
    async fn downgraded_name(&self) -> Result<OwnedNode, Error> {
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
        // One operation makes an owned node, so there is one reply.
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
