//! The exclusive lock.
//!
//! Contenders queue in the order in which the ensemble created their nodes. The first one owns the
//! lock for as long as its node exists; its end wakes the next one, however many there are behind.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use zk_client::{Client, Operations};

use crate::error::Error;
use crate::hold::{Hold, NotReleased, Release};
use crate::node::Role;
use crate::options::Options;
use crate::queue::Queue;
use crate::queue::inspect::QueueEntry;
use crate::queue::join::Join;

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
/// A free lock costs three requests in two writes: a create and a list that leave together, and the
/// delete. A contended one takes one more, for watches, and the hand-over itself takes none.
/// [`requeue`](Guard::requeue) replaces a delete and a create by one transaction.
///
/// # Who shares it
///
/// Everybody who uses the same path on the same ensemble, below the same chroot: this crate, and
/// whom its [`Layout`](crate::Layout) names. It is fair: first come, first served. It is not
/// reentrant: a second acquire queues like anybody's. For many tasks of one process
/// [`ReentrantLock`](crate::ReentrantLock) is cheaper.
///
/// # What it does not promise
///
/// A holder that is stopped for longer than its session timeout, or cut off, loses the lock, and
/// another gets it. The guard tells ([`state`](Hold::state), [`lost`](Hold::lost),
/// [`run`](Hold::run)), but not to a process that is stopped. Where that would harm, let the
/// resource refuse tokens that are older than the newest it has seen ([`token`](Hold::token)), or
/// write to ZooKeeper by [`fenced`](Hold::fenced).
#[derive(Clone, Debug)]
pub struct Lock(Arc<Queue>);

impl Lock {
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
        let queue = Queue::new(client, path, options.layout.mutex(), options)?;
        Ok(Self(Arc::new(queue)))
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.0
    }

    /// The folder.
    pub fn path(&self) -> &str {
        self.0.folder()
    }

    /// Waits in the queue until the lock is ours.
    ///
    /// A free lock takes one round trip, and another one if the folder is missing: servers remove
    /// empty ones, unless they are [persistent](Options::persistent_folder). A contended one takes
    /// at most another one to watch those ahead, and then none: the event that frees it is the
    /// hand-over.
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
    /// create was still on its way.
    ///
    /// # Futures that are not polled
    ///
    /// A future that was polled and is neither polled any more nor dropped, such as that of another
    /// branch of `select!`, keeps its place in the queue. When its turn comes, everybody behind it
    /// waits until it is polled or dropped. So drop a future that will not be polled soon, or spawn
    /// it as a task.
    pub async fn acquire(&self) -> Result<Guard, Error> {
        Hold::acquire(&self.0, Role::Exclusive).await.map(Guard::new)
    }

    /// Takes the lock if it is free, in one round trip if its folder is there. `None` if it is not;
    /// then the delete of our node is on its way.
    ///
    /// While the client is cut off this waits for the next connection, until the session is over.
    /// Who cannot wait that long takes [`acquire_within`](Self::acquire_within).
    ///
    /// # Errors and cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        Ok(Hold::try_acquire(&self.0, Role::Exclusive).await?.map(Guard::new))
    }

    /// Waits for the lock for no longer than `time`.
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
    pub async fn acquire_within(&self, time: Duration) -> Result<Guard, Error> {
        self.0.within(time, self.acquire()).await
    }

    /// Everybody who holds the lock or waits for it, first come first.
    ///
    /// # Errors
    ///
    /// As any read, for instance without permission.
    pub async fn contenders(&self) -> Result<Vec<QueueEntry>, Error> {
        self.0.contenders().await
    }

    /// Asks whoever holds the lock to give it back, as Curator's `Revoker` does: its node's data is
    /// replaced by `__REVOKE__`. Returns how many were asked. It is up to them
    /// ([`revoke_requested`](Hold::revoke_requested)).
    ///
    /// # Errors
    ///
    /// As any read and write, for instance without permission.
    pub async fn revoke(&self) -> Result<usize, Error> {
        self.0.revoke().await
    }
}

/// Proof of holding a [`Lock`], until it is dropped or released.
///
/// Not `Clone`: there is one holder. It keeps the session alive, unless somebody
/// [closes](Client::close) that. Dropping it queues the release at once, on any thread and without
/// a runtime, behind every request made before. If the connection breaks before the answer, the
/// release is sent again ahead of all other requests of the next one. `std::mem::forget` keeps the
/// lock until the session ends.
///
/// Tasks may share it in an [`Arc`]: each of them can ask what a [`Hold`] can, and any of them can
/// [release](Self::release) the lock. The others then see it as lost, by
/// [`Loss::Released`](crate::Loss::Released).
///
/// What is queued is sent by the client's task. If the runtime ends first, as at the end of `main`,
/// nothing is sent, and the lock is taken until the session has expired. So end a program with
/// [`release`](Self::release) or [`Client::close`], and await it.
///
/// What it knows of the lock, and what can be done under it, stands at [`Hold`].
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct Guard {
    hold: Hold,
    /// How often its lock was taken up by a ticket.
    resumes: i32,
}

impl Guard {
    fn new(hold: Hold) -> Self {
        Self::resumed(hold, 0)
    }

    pub(crate) fn resumed(hold: Hold, resumes: i32) -> Self {
        Self { hold, resumes }
    }

    pub(crate) fn resumes(&self) -> i32 {
        self.resumes
    }

    /// Releases the lock and waits until the server has said so. While the client is cut off, it
    /// waits for the next connection, or for the end of the session.
    ///
    /// From the call on, all tasks that share this guard see the lock as
    /// [released](crate::Loss::Released).
    ///
    /// `release().await?` does not tell a lock that was ours until then from one that was
    /// [lost before](Release::AlreadyLost). Where that matters, look at the result.
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
    pub fn release(&self) -> impl Future<Output = Result<Release, Error>> + Send + use<> {
        self.hold.let_go()
    }

    /// Carries out `ops` and releases the lock, in one transaction: the result is there exactly if
    /// the lock was ours until then.
    ///
    /// # Errors
    ///
    /// If nothing has happened and the lock is still ours, the error brings the guard back.
    ///
    /// # Cancel safety
    ///
    /// The transaction is on its way once the future has been polled. If it is dropped then, the
    /// lock is released in any case.
    pub async fn release_with<O: Operations>(
        self,
        ops: O,
    ) -> Result<O::Results, NotReleased<Self>> {
        match self.hold.let_go_with(ops).await {
            Ok(results) => Ok(results),
            Err(error) => Err(NotReleased { guard: self.hold.has_node().then_some(self), error }),
        }
    }

    /// Releases the lock and queues up for it again, behind everybody who waits: one transaction
    /// for both, so that nobody sees the queue without us.
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

impl Deref for Guard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}
