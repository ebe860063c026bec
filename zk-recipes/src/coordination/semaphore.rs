//! A counting semaphore: at most so many permits are held at a time, across all processes.
//!
//! Every permit is a node in the folder `leases`. An acquire creates its nodes and lists the folder
//! behind that. It succeeds only if the listing contains its nodes, and no more nodes than there
//! are permits. This alone limits the number: of all permits that are held at one moment, those
//! that were created last were listed together with all the others. It needs no lock, and a server
//! that lags does no harm, because the deletions that it does not know yet only raise the count.
//!
//! The queue in the folder `locks` is for order and progress. Only its first contender creates
//! nodes in `leases` before there is room for them, so acquires neither overtake each other nor
//! keep each other waiting, and one client alone watches the folder.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tracing::debug;
use zk_client::{Children, Client, Error as ClientError, EventType, Op, Operations};

use crate::error::{Error, Fault, Loss};
use crate::hold::{Hold, LockState, Release};
use crate::locks::MultiGuard;
use crate::node::{Folder, NodeNaming, Role};
use crate::options::Options;
use crate::queue::attempts::{MAX_LOSSES, Made, Retry, all_created, is_transient};
use crate::queue::wakeups::{QuietWatch, RecheckTimer};
use crate::queue::{Join, Patience, Place, Queue};
use crate::trace::COORDINATION;

/// A semaphore: a fixed number of permits, across all processes.
///
/// ```
/// # async fn call_the_supplier() {}
/// # async fn f(client: &zk_client::Client) -> Result<(), zk_recipes::Error> {
/// use zk_recipes::Semaphore;
///
/// let calls = Semaphore::new(client, "/limits/supplier", 10)?;
/// let permit = calls.acquire().await?; // at most ten processes are here at a time
/// permit.run(call_the_supplier()).await?;
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// Acquires are served in the order in which they came. One that wants several permits is not
/// overtaken by others that want fewer, so those behind it wait, too.
///
/// # Deadlocks
///
/// [`acquire_many`](Self::acquire_many) takes all of its permits or none, and acquires that wait
/// hold nothing, so they never block each other. A task that holds a permit and waits for another
/// one can wait for ever, if others do the same. So take all at once.
///
/// # How many permits there are
///
/// Every process names the number in its constructor, and all should name the same one. If they do
/// not, an acquire succeeds only if all permits together, its own and others', are no more than the
/// number of its process. So no more are held than the greatest number allows. A process with a
/// smaller number waits for longer, and those behind it in the queue wait with it.
///
/// # Who shares it
///
/// Curator's `InterProcessSemaphoreV2` does, with the default [`Layout`](crate::Layout). Its
/// `acquire(n)` takes the leases one by one, and holds some while it waits for others. Two of them,
/// or one of them and one of ours, can wait for each other for ever. Nobody else's semaphore has
/// this layout, kazoo's in particular.
///
/// Each child of the folder `leases` counts as a permit, whatever its name, as it does for Curator.
///
/// # What it does not promise
///
/// As with a [lock](crate::Lock#what-it-does-not-promise), a holder that is stopped for longer than
/// its session timeout, or cut off, loses its permits, and others get them.
#[derive(Clone, Debug)]
pub struct Semaphore {
    path: String,
    permits: u32,
    /// The queue of those who want permits.
    locks: Arc<Queue>,
    /// The folder of the permits that are held.
    leases: Arc<Queue>,
}

impl Semaphore {
    /// Makes a semaphore of so many permits on the folder `path`, which should hold nothing else.
    ///
    /// If folders are missing, an acquire creates them and their ancestors as containers.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper, or there is no permit
    /// ([`InvalidPermits`](crate::ErrorKind::InvalidPermits)).
    pub fn new(client: &Client, path: &str, permits: u32) -> Result<Self, Error> {
        Self::with_options(client, path, permits, Options::new())
    }

    /// Makes a semaphore with other settings than the defaults.
    ///
    /// [`Options::data`] is the data of a permit's nodes, and [`Options::max_hold`] limits the time
    /// for which it is held. The [layout](Options::layout) applies to the queue alone. If the
    /// sequence numbers of `leases` are nearly used up, that is an error: this folder is not
    /// [rotated](Options::rotate).
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_options(
        client: &Client,
        path: &str,
        permits: u32,
        options: Options,
    ) -> Result<Self, Error> {
        zk_client::check_path(path)?;
        let folder = Folder::new(path);
        let naming = options.layout.mutex();
        let locks = Queue::new(client, &folder.child("locks"), naming, options.clone())?;
        let leases = Queue::new(client, &folder.child("leases"), NodeNaming::leases(), options)?;
        let (locks, leases) = (Arc::new(locks), Arc::new(leases));
        let semaphore = Self { path: path.to_owned(), permits, locks, leases };
        semaphore.check(permits)?;
        Ok(semaphore)
    }

    /// The path of the folder.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Waits until a permit is ours.
    ///
    /// If one is free, this costs two round trips with five requests, three of them writes, and two
    /// more round trips if the folders are missing: servers remove empty folders, unless they are
    /// [persistent](Options::persistent_folder). While no permit is free, the first in the queue
    /// lists the folder `leases` after each change there, and once in each session timeout. All
    /// others wait as for a [`Lock`](crate::Lock).
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire). Nothing is left behind.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue and holds nothing. A future that is not polled keeps
    /// others waiting: see [`Lock::acquire`](crate::Lock::acquire).
    pub async fn acquire(&self) -> Result<Permit, Error> {
        self.acquire_many(1).await
    }

    /// Waits until so many permits are ours, all at once.
    ///
    /// One transaction creates the nodes of all of them.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`InvalidPermits`](crate::ErrorKind::InvalidPermits) for
    /// no permit or more than there are.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, permits: u32) -> Result<Permit, Error> {
        self.check(permits)?;
        let join = Join::send(&self.locks, Role::Exclusive, Patience::Waits);
        let (mut turn, standing) = join.finish().await?;
        turn.wait(standing).await?;
        // A dropped future gives these up ahead of its turn.
        let (mut leases, list) = self.create_leases(permits).await?;
        self.wait_for_room(&mut turn, &mut leases, list).await?;
        drop(turn);
        Permit::new(leases).await
    }

    /// Takes a permit if one is free, and returns `None` if not.
    ///
    /// This does not queue up. It may overtake acquires that do not know yet that a permit is free,
    /// but not the one that waits first. Of several that try for the last permit at one moment, it
    /// may be that none gets it.
    ///
    /// This costs a list, and another round trip with one write if a permit is free. While the
    /// client is cut off, it waits for the next connection, until the session is over.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Permit>, Error> {
        let held = match self.list_leases().await {
            Ok(list) => list.names.len(),
            Err(error) if error.is_no_node() => 0,
            Err(error) => return Err(error.into()),
        };
        if held >= self.permits as usize {
            return Ok(None);
        }
        let (leases, mut list) = self.create_leases(1).await?;
        if list.as_ref().is_err_and(is_transient) {
            list = self.list_leases().await;
        }
        let list = list.map_err(|error| vanished_or(&leases, error))?;
        match self.has_room(&leases, &list)? {
            true => Permit::new(leases).await.map(Some),
            false => Ok(None),
        }
    }

    /// Waits for a permit for no longer than `time`.
    ///
    /// See [`Lock::acquire_within`](crate::Lock::acquire_within). Any other acquire can be limited
    /// by a timer that drops it.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`acquire`](Self::acquire), and [`TimedOut`](crate::ErrorKind::TimedOut), with its
    /// [reason](Error::timeout).
    pub async fn acquire_within(&self, time: Duration) -> Result<Permit, Error> {
        self.leases.within(time, self.acquire()).await
    }

    /// Fails if so many permits can never be given.
    fn check(&self, asked: u32) -> Result<(), Error> {
        if (1..=self.permits).contains(&asked) {
            return Ok(());
        }
        Err(Fault::Permits { path: self.path.clone(), asked, permits: self.permits }.into())
    }

    /// Creates the nodes of so many permits, and lists the folder behind that.
    async fn create_leases(&self, permits: u32) -> Result<(Vec<Place>, Listed), Error> {
        let (queue, client) = (&self.leases, self.leases.client());
        let options = queue.options();
        let mut retry = Retry::default();
        loop {
            let stems = (0..permits).map(|_| queue.stem(Role::Exclusive)).collect::<Vec<_>>();
            let node = options.node();
            let ops = stems.iter().map(|stem| Op::create_owned(stem, &options.data, &node));
            let ops = ops.collect::<Vec<_>>();
            let (folders, created, list) = client.batch(|| {
                let folders = queue.make_folders(retry.folders.as_ref());
                (folders, client.multi_owned(&ops), client.get_children(queue.folder()))
            });
            let made = Made::of(folders).await;
            match all_created(created).await {
                Ok(nodes) => {
                    let places = nodes.into_iter().map(|node| Place::new(queue, node));
                    return Ok((places.collect::<Result<_, _>>()?, list.await));
                }
                Err(error) => retry.after(queue.folder(), queue.options(), error, made)?,
            }
        }
    }

    /// Lists the folder of the permits, although a connection may break.
    async fn list_leases(&self) -> Listed {
        let mut losses = 0;
        loop {
            match self.leases.client().get_children(self.leases.folder()).await {
                Err(error) if is_transient(&error) && losses < MAX_LOSSES => losses += 1,
                listed => return listed,
            }
        }
    }

    /// True if a listing shows that our leases are not too many. Fails if one of them is gone.
    fn has_room(&self, leases: &[Place], list: &Children) -> Result<bool, Error> {
        match leases.iter().find(|lease| !list.names.contains(&lease.own.name)) {
            Some(gone) => Err(gone.vanished()),
            None => Ok(list.names.len() <= self.permits as usize),
        }
    }

    /// Waits until there are no more leases than permits, ours included. `listed` is the listing
    /// behind their create.
    ///
    /// If somebody deletes the node of our turn, another contender is first, too. Then our leases
    /// would keep it waiting, and its leases us, so this fails.
    async fn wait_for_room(
        &self,
        turn: &mut Place,
        leases: &mut [Place],
        listed: Listed,
    ) -> Result<(), Error> {
        let client = self.leases.client();
        let mut listed = listed.map(|list| (list, QuietWatch::default()));
        let mut losses = 0;
        loop {
            match listed {
                Ok((list, mut watch)) => {
                    losses = 0;
                    if self.has_room(leases, &list)? {
                        return Ok(());
                    }
                    let folder = self.leases.folder();
                    debug!(target: COORDINATION, folder, "no permit is free");
                    leases.iter_mut().for_each(|lease| lease.has_waited = true);
                    if watch.is_set() && turn.own_watch.is_set() {
                        changed(turn, &mut watch).await?;
                    }
                }
                Err(error) if is_transient(&error) && losses < MAX_LOSSES => losses += 1,
                Err(error) => return Err(vanished_or(leases, error)),
            }
            let (own, list) = client.batch(|| {
                let own =
                    (!turn.own_watch.is_set()).then(|| client.watch_nodes(&[turn.node.path()]));
                (own, client.get_children_and_watch(self.leases.folder()))
            });
            let watched = match own {
                None => Ok(()),
                Some(own) => own.await.map(|mut watchers| {
                    turn.own_watch = watchers.pop().map(QuietWatch::from).unwrap_or_default();
                }),
            };
            listed = match watched {
                Ok(()) => list.await.map(|(list, watcher)| (list, watcher.into())),
                Err(error) => Err(error),
            };
        }
    }
}

/// The reply to a request for the children of `leases`.
type Listed = Result<Children, ClientError>;

/// Waits until the leases have changed, or for one session timeout: servers send no events about
/// nodes that we may not read. Fails if our turn is lost.
async fn changed(turn: &mut Place, leases: &mut QuietWatch) -> Result<(), Error> {
    let queue = Arc::clone(&turn.queue);
    let mut recheck = RecheckTimer::default();
    let is_lost = poll_fn(|cx| {
        if let Poll::Ready(event) = turn.own_watch.poll_changed(cx) {
            return Poll::Ready(event.map(|event| event.kind == EventType::NODE_DELETED));
        }
        if let Poll::Ready(event) = leases.poll_changed(cx) {
            return Poll::Ready(event.map(|_| false));
        }
        recheck.poll(queue.client(), cx).map(|()| {
            turn.own_watch = QuietWatch::default();
            Ok(false)
        })
    })
    .await?;
    if is_lost { Err(turn.vanished()) } else { Ok(()) }
}

/// The error of a listing. Without the folder, our leases in it are gone.
fn vanished_or(leases: &[Place], error: ClientError) -> Error {
    match leases.first() {
        Some(lease) => lease.vanished_or(error),
        None => error.into(),
    }
}

/// Proof of holding permits of a [`Semaphore`], until it is dropped or released.
///
/// Each permit is a node, and all of them count together: if one is lost, so is the whole. What
/// [`Guard`](crate::Guard) says about dropping and sharing applies here, too.
///
/// There is no fencing token, because several holders work at a time. A resource that refuses all
/// tokens but the newest would refuse them. What needs protection from a holder that has lost its
/// permit is written by [`fenced`](Self::fenced).
#[must_use = "dropping it gives the permits back"]
pub struct Permit(MultiGuard);

impl Permit {
    async fn new(leases: Vec<Place>) -> Result<Self, Error> {
        MultiGuard::hold(leases).await.map(Self).map_err(Error::while_waiting)
    }

    /// Each of the permits.
    pub fn leases(&self) -> &[Hold] {
        self.0.locks()
    }

    /// The current state of the permits, which is that of the worst of them: see [`Hold::state`].
    pub fn state(&self) -> LockState {
        self.0.state()
    }

    /// For how long from now the permits are surely still ours: see [`Hold::remaining`].
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Waits until one of the permits is lost, and returns how.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. Any number of tasks may wait.
    pub async fn lost(&self) -> Loss {
        self.0.lost().await
    }

    /// Runs `work` until it is done or one of the permits is lost: see [`Hold::run`].
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost): a permit was lost before `work` was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`, and nothing else.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Error> {
        self.0.run(work).await
    }

    /// Asks the ensemble whether the permits are ours: see [`Hold::verify`].
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

    /// Carries out `ops` in one transaction, only if all permits are still ours at that moment.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`MultiGuard::fenced`].
    pub async fn fenced<O: Operations>(&self, ops: O) -> Result<O::Results, Error> {
        self.0.fenced(ops).await
    }

    /// Gives the permits back and waits until the server has confirmed it.
    ///
    /// This costs one write for each permit. They are sent together.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`MultiGuard::release`].
    pub fn release(&self) -> impl Future<Output = Result<Release, Error>> + Send + use<> {
        self.0.release()
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Permit").field(&self.leases()).finish()
    }
}
