//! Several locks taken together, without a deadlock, in whatever order they are named.
//!
//! One transaction creates all nodes. If all locks are free, that is enough. If not, the locks are
//! taken in the order of their paths: those up to the first one that is not free are kept, that one
//! is waited for, and the nodes behind it are deleted at once. So a contender that waits holds only
//! locks with smaller paths, like a task that takes them one by one, and no contenders wait for
//! each other in a circle.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use zk_client::{Client, Error as ClientError, Op, Operations};

use crate::error::{Cause, Error, Loss};
use crate::hold::{Hold, LockState, Release, Releasing};
use crate::node::{Role, Standing};
use crate::options::Options;
use crate::queue::join::Attempt;
use crate::queue::{Place, Queue};
use crate::steady::retries::with_retries;
use crate::steady::work::while_held;

/// Several [`Lock`](crate::Lock)s that are acquired together: all of them or none.
///
/// ```
/// # async fn f(client: &zk_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_recipes::MultiLock;
///
/// let both = MultiLock::new(client, ["/locks/from", "/locks/to"])?;
/// let guard = both.acquire().await?; // whoever names them the other way round waits, or we do
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// Each is a lock like any other, and is shared with contenders that take it alone.
///
/// # Deadlocks
///
/// If all are free, one transaction takes them all. Otherwise they are taken in the order of their
/// paths, which are compared byte by byte. While a `MultiLock` waits for one lock, it holds no lock
/// with a greater path. In whatever order the locks are named, there is no deadlock with
///
/// - any other `MultiLock`;
/// - a task that holds one lock at a time;
/// - a task that takes several locks one by one in the order of their paths, be they of this crate
///   or others such as Curator's `InterProcessMutex` and `InterProcessMultiLock`.
///
/// There can be a deadlock, as with any two locks, with
///
/// - a task that waits for a lock while it holds one with a greater path: locks that are taken one
///   by one in another order, such as an `InterProcessMultiLock` whose list is not sorted;
/// - a holder of a `MultiLock` that waits for one more lock whose path is not greater than all
///   that it holds;
/// - a task that waits for something else that a holder has to do first.
///
/// If the locks are on several ensembles, one client is not enough. Then take
/// [`Lock`](crate::Lock)s one by one, in one order that all processes keep to, and release all if
/// one fails.
#[derive(Clone, Debug)]
pub struct MultiLock {
    /// Sorted by their paths.
    queues: Vec<Arc<Queue>>,
    /// The position of each of them in the order in which the caller named them.
    named: Vec<usize>,
}

impl MultiLock {
    /// Makes a lock on these folders, each as [`Lock::new`](crate::Lock::new) does.
    ///
    /// # Errors
    ///
    /// A path is not valid in ZooKeeper, is named twice, or there is none.
    pub fn new<P: AsRef<str>>(
        client: &Client,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Self, Error> {
        Self::with_options(client, paths, Options::new())
    }

    /// As [`new`](Self::new), with other settings than the defaults.
    ///
    /// Sequence numbers that are nearly used up are an error here: no folder is
    /// [rotated](Options::rotate).
    pub fn with_options<P: AsRef<str>>(
        client: &Client,
        paths: impl IntoIterator<Item = P>,
        options: Options,
    ) -> Result<Self, Error> {
        let (settings, mut queues) = (options.settings, BTreeMap::new());
        for (at, path) in paths.into_iter().enumerate() {
            let path = path.as_ref();
            let queue = Queue::new(client, path, settings.layout.mutex(), settings.clone())?;
            if queues.insert(path.to_owned(), (at, Arc::new(queue))).is_some() {
                return Err(Cause::Argument(format!("{path} is named twice")).into());
            }
        }
        if queues.is_empty() {
            return Err(Cause::Argument("no lock is named".to_owned()).into());
        }
        let (named, queues) = queues.into_values().unzip();
        Ok(Self { queues, named })
    }

    /// Waits until all locks are ours.
    ///
    /// This costs one round trip if they are free and their folders exist. Otherwise each lock that
    /// has to be waited for costs another one for watches and one for the locks behind it, and a
    /// check of all nodes comes last.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire), for any of them. Nothing is left behind. If
    /// somebody deletes a node of ours, the error may come only when the last lock would be ours.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves all queues. A future that is not polled keeps its places: see
    /// [`Lock::acquire`](crate::Lock::acquire).
    pub async fn acquire(&self) -> Result<MultiGuard, Error> {
        let mut taken = Vec::<Place>::new();
        let mut waited = false;
        while let Some(queues) = self.queues.get(taken.len()..).filter(|left| !left.is_empty()) {
            let mut places = Self::join(queues).await?.into_iter();
            while let Some((mut place, standing)) = places.next() {
                if !place.is_first(standing.as_ref()).await? {
                    waited = true;
                    // The places behind this one are given up, so that nobody waits for us there.
                    place.queue.client().batch(|| places.by_ref().for_each(drop));
                    place.wait(standing).await?;
                }
                taken.push(place);
            }
        }
        // The locks count as held from now on, and not from an earlier moment.
        taken.iter_mut().for_each(|place| place.has_waited |= waited);
        if waited {
            check(&taken).await?;
        }
        self.hold(taken).await
    }

    /// Takes all locks if they are free, in one round trip if their folders exist; else leaves the
    /// queues.
    ///
    /// Returns `None` if one lock is not free. While the client is cut off this waits: see
    /// [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// # Errors and cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>, Error> {
        let mut places = Vec::new();
        for (place, standing) in Self::join(&self.queues).await? {
            if !place.is_first(standing.as_ref()).await? {
                return Ok(None);
            }
            places.push(place);
        }
        self.hold(places).await.map(Some)
    }

    /// Waits for all locks for no longer than `time`: see
    /// [`Lock::acquire_within`](crate::Lock::acquire_within).
    ///
    /// # Errors and cancel safety
    ///
    /// As there; the error of a timeout names the first of the paths in their order.
    pub async fn acquire_within(&self, time: Duration) -> Result<MultiGuard, Error> {
        match self.queues.first() {
            Some(first) => first.within(time, self.acquire()).await,
            None => self.acquire().await,
        }
    }

    /// Turns places that are first into holds, in the order in which the locks were named.
    async fn hold(&self, places: Vec<Place>) -> Result<MultiGuard, Error> {
        let MultiGuard(holds) = MultiGuard::hold(places).await?;
        let holds = self.named.iter().zip(holds).collect::<BTreeMap<_, _>>();
        Ok(MultiGuard(holds.into_values().collect()))
    }

    /// Gets a place in each queue, by one transaction, with the listing behind it.
    async fn join(queues: &[Arc<Queue>]) -> Result<Vec<(Place, Option<Standing>)>, Error> {
        let Some(first) = queues.first() else { return Ok(Vec::new()) };
        let (client, options) = (first.client(), first.options());
        let node = options.node();
        let ask = || {
            let stems: Vec<_> = queues.iter().map(|queue| queue.stem(Role::Exclusive)).collect();
            let ops = stems.iter().map(|stem| Op::create_owned(stem, &options.data, &node));
            let created = client.multi_owned(ops.collect::<Vec<_>>());
            (created, queues.iter().map(|queue| queue.list()).collect::<Vec<_>>())
        };
        let (nodes, lists) = Attempt::send(client, ask).finish(queues, ask, |_| None).await?;
        let mut seats = Vec::new();
        for ((queue, node), list) in queues.iter().zip(nodes).zip(lists) {
            let mut place = Place::new(queue, node)?;
            let standing = place.listed(list).await?;
            seats.push((place, standing));
        }
        Ok(seats)
    }
}

/// Checks that all nodes exist: one lock may have been lost while we waited for another.
async fn check(places: &[Place]) -> Result<(), Error> {
    let Some(first) = places.first() else { return Ok(()) };
    let paths = || places.iter().map(|place| place.node.path());
    let checks = || paths().map(|path| Op::check(path, None)).collect::<Vec<_>>();
    let checked = with_retries(|| first.queue.client().multi(checks())).await;
    checked.map(drop).map_err(|error| {
        let gone = error.failed_op().and_then(|at| places.get(at)).unwrap_or(first);
        gone.vanished_or(error)
    })
}

/// Proof of holding all locks of a [`MultiLock`], until it is dropped or released.
///
/// What [`Guard`](crate::Guard) says about dropping applies to all of them.
#[derive(Debug)]
#[must_use = "dropping it releases the locks: bind it to a name (`_` is none)"]
pub struct MultiGuard(Vec<Hold>);

impl MultiGuard {
    /// Turns places that are first into holds, all or none.
    pub(crate) async fn hold(places: Vec<Place>) -> Result<Self, Error> {
        let holds = places.into_iter().map(Hold::unconfirmed).collect::<Vec<_>>();
        for hold in &holds {
            hold.confirm().await.map_err(Error::while_waiting)?;
        }
        Ok(Self(holds))
    }

    /// The hold of each lock, in the order in which the locks were named.
    ///
    /// Each has a fencing token of its own, which orders it after all earlier holders of that lock.
    /// There is none for all together: others may have taken one of the locks alone, and a resource
    /// that had seen the greatest of several tokens would refuse theirs.
    pub fn locks(&self) -> &[Hold] {
        &self.0
    }

    /// The current state of the locks, which is that of the worst of them.
    pub fn state(&self) -> LockState {
        let from_the_worst = |state: &LockState| match *state {
            LockState::Lost(_) => (0, None),
            LockState::Suspended { until } => (1, Some(until)),
            LockState::Held => (2, None),
        };
        self.0.iter().map(Hold::state).min_by_key(from_the_worst).unwrap_or(LockState::Held)
    }

    /// For how long from now all of the locks are surely still ours: see [`Hold::remaining`].
    pub fn remaining(&self) -> Duration {
        self.0.iter().map(Hold::remaining).min().unwrap_or_default()
    }

    /// Waits until one of the locks is lost, and returns how.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. Any number of tasks may wait.
    pub async fn lost(&self) -> Loss {
        self.first(Hold::lost).await
    }

    /// Waits until one of the locks is surely ours for no longer than `margin`, and returns for how
    /// long all of them still are: see [`Hold::running_out`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. Any number of tasks may wait.
    pub async fn running_out(&self, margin: Duration) -> Duration {
        let remaining = self.first(|hold| hold.running_out(margin)).await;
        remaining.min(self.remaining())
    }

    /// Waits for the first of the locks for which `wait` is over.
    async fn first<'a, F: Future>(&'a self, wait: impl Fn(&'a Hold) -> F) -> F::Output {
        let mut waits = self.0.iter().map(|hold| Box::pin(wait(hold))).collect::<Vec<_>>();
        poll_fn(|cx| {
            let mut polled = waits.iter_mut().map(|wait| wait.as_mut().poll(cx));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }

    /// Runs `work` until it is done or one of the locks is lost: see [`Hold::run`].
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost): one lock was lost before `work` was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`, and nothing else.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Error> {
        let done = while_held(|| self.state().loss(), self.lost(), work).await;
        done.map_err(|loss| {
            let lost = self.0.iter().find(|hold| hold.known_loss().is_some());
            let path = lost.map(|hold| hold.node().to_owned()).unwrap_or_default();
            Cause::Lost { path, loss }.into()
        })
    }

    /// Asks the ensemble whether all locks are still ours: see [`Hold::verify`].
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if one of them is not. Other errors leave that open.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn verify(&self) -> Result<(), Error> {
        self.fenced(()).await
    }

    /// Carries out `ops` in one transaction, only if all locks are still ours at that moment.
    ///
    /// See [`Hold::fenced`].
    ///
    /// # Errors
    ///
    /// As there, if any of the locks is lost. The checks of all locks come before `ops`.
    ///
    /// # Cancel safety
    ///
    /// The transaction is on its way once the future has been polled.
    pub async fn fenced<O: Operations>(&self, ops: O) -> Result<O::Results, Error> {
        let Some((first, others)) = self.0.split_first() else {
            return Err(Cause::Argument("no lock is held".to_owned()).into());
        };
        self.0.iter().try_for_each(Hold::ensure_held)?;
        let checks = others.iter().map(|hold| Op::check(hold.node(), None));
        let done = first.fenced((checks.collect::<Vec<_>>(), ops)).await;
        done.map(|(_, results)| results).map_err(|error| {
            let missing = error.client().filter(|error| error.is_no_node());
            let failed = missing.and_then(ClientError::failed_op);
            let gone = failed.and_then(|failed| self.0.get(failed));
            gone.map_or(error, |hold| hold.status().mark_deleted())
        })
    }

    /// Releases all locks and waits until the server has confirmed it.
    ///
    /// See [`Guard::release`](crate::Guard::release).
    ///
    /// # Errors
    ///
    /// As there, for the first of the locks that has an error. The others are released all the
    /// same.
    ///
    /// # Cancel safety
    ///
    /// The releases are on their way when this returns, whether or not the future is awaited.
    pub fn release(&self) -> Releasing {
        let let_go = || self.0.iter().map(Hold::let_go).collect::<Vec<_>>();
        let released = match self.0.first() {
            Some(hold) => hold.queue().client().batch(let_go),
            None => Vec::new(),
        };
        Releasing::new(async move {
            let mut all = Ok(Release::Released);
            for released in released {
                all = match (all, released.await) {
                    (Err(error), _) | (Ok(_), Err(error)) => Err(error),
                    (Ok(Release::Released), Ok(release)) => Ok(release),
                    (lost, Ok(_)) => lost,
                };
            }
            all
        })
    }
}
