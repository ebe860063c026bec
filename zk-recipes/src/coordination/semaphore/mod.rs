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
//!
//! kazoo creates a lease without a look behind it, so in its layout nobody may create one but the
//! first contender of the queue. A try takes its turn there, too.

mod leases;
mod permit;

use std::sync::Arc;
use std::time::Duration;

use zk_client::Client;

use crate::error::{Cause, Error};
use crate::node::{Folder, Layout, NodeNaming, Role};
use crate::options::Options;
use crate::queue::{Join, Patience, Place, Queue};
use leases::{Leases, vanished_or};
pub use permit::Permit;

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
/// In kazoo's layout the number is written in the folder, and other numbers are refused.
///
/// # Who shares it
///
/// Curator's `InterProcessSemaphoreV2` does, with the default [`Layout`]. Its `acquire(n)` takes
/// the leases one by one, and holds some while it waits for others. Two of them, or one of them and
/// one of ours, can wait for each other for ever. Each child of the folder `leases` counts as a
/// permit, whatever its name, as it does for Curator.
///
/// kazoo's `Semaphore` does, with [`Layout::KAZOO`], and all processes must have that layout then:
///
/// * A permit is a child of the folder itself, whatever its name, and has its holder's data, which
///   kazoo's `lease_holders` shows. The queue is kazoo's `Lock` at `<path>-__lock__`. Folders that
///   are missing are created as persistent nodes, since kazoo takes them for granted after its
///   first look.
/// * The folder is created with the number of permits in its data. If there is another number, an
///   acquire fails ([`OtherPermits`](crate::ErrorKind::OtherPermits)). kazoo compares it at
///   the first acquire of a process. It creates the folder first and writes its number then, so two
///   processes that begin at the same moment with different numbers may both go on until ours
///   acquires next. To change the number, delete the folder while nobody holds a permit.
///   A folder that somebody has made without a number is taken as it is.
/// * A process of kazoo that is stopped while it acquires, until its session has ended and kazoo
///   has begun another one, creates its permit without looking again. So it may hold one too many.
/// * kazoo takes one permit at a time. Ours may take several, which count as so many of kazoo's.
///
/// # What it does not promise
///
/// As with a [lock](crate::Lock#what-it-does-not-promise), a holder that is stopped for longer than
/// its session timeout, or cut off, loses its permits, and others get them.
#[derive(Clone, Debug)]
pub struct Semaphore {
    path: String,
    /// The queue of those who want permits.
    locks: Arc<Queue>,
    leases: Leases,
}

impl Semaphore {
    /// Makes a semaphore of so many permits on the folder `path`, which should hold nothing else.
    ///
    /// If folders are missing, an acquire creates them and their ancestors as containers.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper, or there is no permit
    /// ([`InvalidArgument`](crate::ErrorKind::InvalidArgument)).
    pub fn new(client: &Client, path: &str, permits: u32) -> Result<Self, Error> {
        Self::with_options(client, path, permits, Options::new())
    }

    /// Makes a semaphore with other settings than the defaults.
    ///
    /// [`Options::data`] is the data of a permit's nodes, and [`Options::max_hold`] limits the time
    /// for which it is held. The [layout](Options::layout) applies to the queue alone, except
    /// [`Layout::KAZOO`], which is that of kazoo's semaphore. If the sequence numbers of the folder
    /// of the permits are nearly used up, that is an error: this folder is not
    /// [rotated](Options::rotate).
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new). In kazoo's layout the path must not be the root
    /// ([`InvalidArgument`](crate::ErrorKind::InvalidArgument)): the folder of the queue would
    /// count as a permit.
    pub fn with_options(
        client: &Client,
        path: &str,
        permits: u32,
        options: Options,
    ) -> Result<Self, Error> {
        zk_client::check_path(path)?;
        let options = options.settings;
        let (naming, has_count) = (options.layout.mutex(), options.layout == Layout::KAZOO);
        let folders = match has_count {
            true if path == "/" => {
                let why = "/: kazoo's semaphore has a folder beside its own, and the root has none";
                return Err(Cause::Argument(why.to_owned()).into());
            }
            true => [format!("{path}-__lock__"), path.to_owned()],
            false => ["locks", "leases"].map(|name| Folder::new(path).child(name)),
        };
        let [locks, leases] = folders;
        let locks = Queue::new(client, &locks, naming, options.clone())?;
        let mut leases = Queue::new(client, &leases, NodeNaming::leases(), options)?;
        if has_count {
            leases = leases.with_folder_data(permits.to_string());
        }
        let leases = Leases { queue: Arc::new(leases), permits, has_count };
        let semaphore = Self { path: path.to_owned(), locks: Arc::new(locks), leases };
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
    /// or three more round trips if the folders are missing: servers remove empty folders, unless
    /// they are [persistent](Options::persistent_folder). In kazoo's layout it costs three round
    /// trips with eight requests. While no permit is free, the first in the queue lists the folder
    /// of the permits after each change there, and once in each session timeout. All others wait as
    /// for a [`Lock`](crate::Lock).
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
    /// As [`acquire`](Self::acquire), and [`InvalidArgument`](crate::ErrorKind::InvalidArgument)
    /// for no permit or more than there are.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, permits: u32) -> Result<Permit, Error> {
        self.check(permits)?;
        let join = Join::send(&self.locks, Role::Exclusive, Patience::Waits);
        let (mut turn, standing) = join.finish().await?;
        turn.wait(standing).await?;
        let folder = &self.leases;
        if folder.has_count {
            folder.wait_for_room(&mut turn, &mut [], permits, folder.list().await).await?;
        }
        let checked = folder.has_count.then_some(&turn);
        // A dropped future gives these up ahead of its turn.
        let (mut leases, list) = folder.create(permits, checked).await?;
        folder.wait_for_room(&mut turn, &mut leases, 0, list).await?;
        Permit::new(leases, Some(turn)).await
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
    /// In kazoo's layout a try that finds a free permit takes its turn in the queue, so it returns
    /// `None` while another process has its turn, and costs two round trips more.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Permit>, Error> {
        self.try_acquire_many(1).await
    }

    /// Takes so many permits if all of them are free, and returns `None` if not.
    ///
    /// See [`try_acquire`](Self::try_acquire), also for what it costs. Like that, it does not
    /// queue up, so where others take fewer permits, enough may never be free at one moment. Of
    /// several that try at one moment, it may be that none gets its permits, although there are
    /// enough for one of them.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Permit>, Error> {
        self.check(permits)?;
        if !self.leases.has_room_for(permits).await? {
            return Ok(None);
        }
        let mut turn = None;
        if self.leases.has_count {
            turn = self.try_turn().await?;
            // Others may have come ahead of our turn.
            if turn.is_none() || !self.leases.has_room_for(permits).await? {
                return Ok(None);
            }
        }
        let (leases, mut list) = self.leases.create(permits, turn.as_ref()).await?;
        if list.as_ref().is_err_and(Error::is_transient) {
            list = self.leases.list().await;
        }
        let list = list.map_err(|error| vanished_or(&leases, error))?;
        match self.leases.has_room(&leases, 0, &list)? {
            true => Permit::new(leases, turn).await.map(Some),
            false => Ok(None),
        }
    }

    /// Takes a turn if nobody else has one.
    async fn try_turn(&self) -> Result<Option<Place>, Error> {
        let join = Join::send(&self.locks, Role::Exclusive, Patience::Tries);
        let (turn, standing) = join.finish().await?;
        Ok(turn.is_first(standing.as_ref()).await?.then_some(turn))
    }

    /// Waits for a permit for no longer than `time`.
    ///
    /// See [`Lock::acquire_within`](crate::Lock::acquire_within).
    ///
    /// # Errors and cancel safety
    ///
    /// As [`acquire`](Self::acquire), and [`TimedOut`](crate::ErrorKind::TimedOut), with its
    /// [reason](Error::timeout).
    pub async fn acquire_within(&self, time: Duration) -> Result<Permit, Error> {
        self.acquire_many_within(1, time).await
    }

    /// Waits for so many permits, all at once, for no longer than `time`.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many), and [`TimedOut`](crate::ErrorKind::TimedOut), with
    /// its [reason](Error::timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many_within(&self, permits: u32, time: Duration) -> Result<Permit, Error> {
        self.leases.queue.within(time, self.acquire_many(permits)).await
    }

    /// Fails if so many permits can never be given.
    fn check(&self, asked: u32) -> Result<(), Error> {
        let permits = self.leases.permits;
        if (1..=permits).contains(&asked) {
            return Ok(());
        }
        let why = match (asked, permits) {
            (_, 0) => "a semaphore has at least one permit, and 0 were named".to_owned(),
            (0, _) => "0 permits asked for; an acquire takes at least one".to_owned(),
            _ => format!("{asked} permits of a semaphore that has {permits}"),
        };
        Err(Cause::Argument(format!("{}: {why}", self.path)).into())
    }
}
