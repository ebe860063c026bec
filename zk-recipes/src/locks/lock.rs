//! The exclusive lock.
//!
//! Contenders queue in the order in which the ensemble created their nodes. The first one owns the
//! lock for as long as its node exists. The end of its node wakes the next one, however many wait
//! behind.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use zk_client::{Client, Operations};

use crate::error::Error;
use crate::hold::transactions::NotReleased;
use crate::hold::{Hold, Releasing};
use crate::locks::inspect::LockFolder;
use crate::node::Role;
use crate::options::Options;
use crate::queue::{Join, Queue};

/// An exclusive lock: it has one holder at a time, across all processes.
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
/// A free lock costs three requests in two writes: a create and a list that are sent together, and
/// the delete. A contended lock costs one more, for watches, and the hand-over itself costs none,
/// unless the contender ahead is of the same client: then the queue is listed once more.
/// [`requeue`](Guard::requeue) replaces a delete and a create by one transaction.
///
/// # Who shares it
///
/// The lock is shared by all clients that use the same path on the same ensemble, below the same
/// chroot: those of this crate, and those that its [`Layout`](crate::Layout) names. It is fair:
/// first come, first served. It is not reentrant: a second acquire queues like any other. For many
/// tasks of one process [`ReentrantLock`](crate::ReentrantLock) is cheaper.
///
/// # What it does not promise
///
/// A holder that is stopped for longer than its session timeout, or cut off, loses the lock, and
/// another contender gets it. The [guard](Hold) reports this, but not to a process that is stopped.
#[derive(Clone, Debug)]
pub struct Lock(LockFolder);

impl Lock {
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
    /// `/` is a folder, too: the root, or the node that is the client's chroot.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper.
    pub fn with_options(client: &Client, path: &str, options: Options) -> Result<Self, Error> {
        let queue = Queue::new(client, path, options.settings.layout.mutex(), options.settings)?;
        Ok(Self(LockFolder(Arc::new(queue))))
    }

    /// Waits in the queue until the lock is ours.
    ///
    /// A free lock costs one round trip, a second one if the folder is missing, and a third one if
    /// the folder's parent is missing, too: servers remove empty folders, unless they are
    /// [persistent](Options::persistent_folder). A contended lock costs at most another one to
    /// watch the two nearest contenders ahead, and then none: the event that frees the lock is the
    /// hand-over. The queue is listed again when one of the two goes and others are ahead of them,
    /// and once in a session timeout. After a wait of most of a session timeout, one write renews
    /// the proof of the lease first.
    ///
    /// While the session lives, a connection that breaks costs neither the place nor the lock: the
    /// client finds a node again if the reply to its create was lost. Only if one connection after
    /// another breaks over our requests, more than five in a row, does the acquire fail.
    ///
    /// # Errors
    ///
    /// The server refuses ([`ErrorKind::Client`](crate::ErrorKind::Client)), for instance without
    /// permission; connections break over the requests, more than five in a row; the session is
    /// over; somebody deleted our node while it waited; the folder's sequence numbers are nearly
    /// used up. Nothing is left behind in any case.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue: the node is deleted as soon as it can be, also if its
    /// create is still in flight.
    ///
    /// # Futures that are not polled
    ///
    /// A future that was polled and is then neither polled nor dropped, such as that of another
    /// branch of `select!`, keeps its place in the queue. When its turn comes, all contenders
    /// behind it wait until it is polled or dropped. So drop a future that will not be polled soon,
    /// or spawn it as a task.
    pub async fn acquire(&self) -> Result<Guard, Error> {
        Hold::acquire(self.queue(), Role::Exclusive).await.map(Guard::new)
    }

    /// Takes the lock if it is free, and returns `None` if it is not.
    ///
    /// This costs one round trip if the folder exists. With `None`, the delete of our node is on
    /// its way.
    ///
    /// While the client is cut off, this waits for the next connection, until the session is over.
    /// A caller that cannot wait that long uses [`acquire_within`](Self::acquire_within).
    ///
    /// # Errors and cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        Ok(Hold::try_acquire(self.queue(), Role::Exclusive).await?.map(Guard::new))
    }

    /// Waits for the lock for no longer than `time`: [`within`](LockFolder::within) of an acquire.
    ///
    /// When the time is over it leaves the queue: our node, if there is one, is deleted as soon as
    /// a server is reached.
    ///
    /// ```
    /// # async fn f(lock: &zk_recipes::Lock) -> Result<(), zk_recipes::Error> {
    /// use std::time::Duration;
    ///
    /// use zk_recipes::Timeout;
    ///
    /// match lock.acquire_within(Duration::from_secs(5)).await {
    ///     Ok(guard) => println!("mine: {}", guard.token()),
    ///     Err(error) => match error.timeout() {
    ///         Some(Timeout::Contended) => println!("others have it"),
    ///         Some(_) => println!("no server was reached"),
    ///         None => return Err(error),
    ///     },
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors and cancel safety
    ///
    /// As [`acquire`](Self::acquire), and [`TimedOut`](crate::ErrorKind::TimedOut), with its
    /// [reason](Error::timeout).
    ///
    /// # Panics
    ///
    /// When it is awaited outside of a tokio runtime with time enabled.
    pub async fn acquire_within(&self, time: Duration) -> Result<Guard, Error> {
        self.0.within(time, self.acquire()).await
    }
}

impl Deref for Lock {
    type Target = LockFolder;

    fn deref(&self) -> &LockFolder {
        &self.0
    }
}

/// Proof of holding a [`Lock`], until it is dropped or released.
///
/// It is not `Clone`, because there is one holder. It keeps the session alive, unless somebody
/// [closes](Client::close) the client. Dropping it queues the release at once, on any thread and
/// without a runtime, behind every request made before. If the connection breaks before the reply,
/// the release is sent again on the next connection, ahead of all other requests.
/// `std::mem::forget` keeps the lock until the session ends.
///
/// Tasks may share it in an [`Arc`]: each of them can ask what a [`Hold`] can, and any of them can
/// [release](Self::release) the lock. The others then see it as lost, by
/// [`Loss::Released`](crate::Loss::Released).
///
/// The client's task sends what is queued. If the runtime ends first, as at the end of `main`,
/// nothing is sent, and the lock is taken until the session has expired. So end a program with
/// [`release`](Self::release) or [`Client::close`], and await it.
///
/// [`Hold`] describes what it reports about the lock, and what can be done under the lock.
///
/// `K` is the kind of the guard: this one, a [`ReadGuard`](crate::ReadGuard) or a
/// [`WriteGuard`](crate::WriteGuard).
#[derive(Debug)]
#[must_use = "dropping it releases the lock: bind it to a name (`_` is none)"]
pub struct Guard<K = Exclusive> {
    pub(crate) hold: Hold,
    kind: PhantomData<K>,
}

/// The kind of a [`Guard`] of a [`Lock`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Exclusive;

impl<K> Guard<K> {
    pub(crate) fn new(hold: Hold) -> Self {
        Self { hold, kind: PhantomData }
    }

    /// Releases the lock and waits until the server has confirmed it.
    ///
    /// From the call on, all tasks that share this guard see the lock as
    /// [released](crate::Loss::Released).
    ///
    /// While the client is cut off, this waits for the next connection, or for the end of the
    /// session.
    ///
    /// `release().await?` does not distinguish a lock that was ours until then from one that was
    /// [lost before](crate::Release::AlreadyLost). Where that matters, look at the result.
    ///
    /// # Errors
    ///
    /// [`Unconfirmed`](crate::ErrorKind::Unconfirmed): the connection broke first. The lock is no
    /// longer ours in any case, and the client goes on releasing it. Other errors mean that the
    /// server refuses to delete the node. The client goes on deleting it until that is done or the
    /// session ends.
    ///
    /// All that was done under the lock is done. So where it must not be done again, do not return
    /// `Unconfirmed` to a [`retry`](crate::retry), or to the caller of a handler: drop the guard.
    ///
    /// # Cancel safety
    ///
    /// The release is on its way when this returns, whether or not the future is awaited.
    pub fn release(&self) -> Releasing {
        self.hold.let_go()
    }

    /// Carries out `ops` and releases the lock, in one transaction.
    ///
    /// The results of `ops` are there exactly if the lock was ours until then.
    ///
    /// # Errors
    ///
    /// If nothing has happened and the lock is still ours, the error contains the guard.
    ///
    /// # Cancel safety
    ///
    /// The transaction is on its way once the future has been polled. If the future is dropped
    /// after that, the lock is released in any case.
    pub async fn release_with<O: Operations>(
        self,
        ops: O,
    ) -> Result<O::Results, NotReleased<Self>> {
        match self.hold.let_go_with(ops).await {
            Ok(results) => Ok(results),
            Err(error) => Err(self.not_released(error)),
        }
    }

    /// The error of a transaction that was to end the hold, with this guard if that goes on.
    pub(crate) fn not_released(self, error: Error) -> NotReleased<Self> {
        NotReleased { guard: self.hold.has_node().then_some(self), error }
    }
}

impl Guard {
    /// Releases the lock and queues up for it again, behind all contenders that wait.
    ///
    /// Both are one transaction, so no client sees the queue without us.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Lock::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Lock::acquire); the release is on its way once the future has been polled.
    pub async fn requeue(self) -> Result<Self, Error> {
        let queue = Arc::clone(self.hold.queue());
        let join = queue.client().batch(|| {
            let old = self.hold.node().to_owned();
            drop(self);
            Join::send_in_place_of(&queue, Role::Exclusive, &old)
        });
        Hold::when_first(join).await.map(Self::new)
    }
}

impl<K> Deref for Guard<K> {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}
