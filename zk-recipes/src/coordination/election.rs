//! Leader election: a lock that its holder keeps for long, with data for all to see.
//!
//! A candidate is a contender in a lock's queue, and a term is the time for which it holds the
//! lock. Every term has a node of its own, so the fencing token numbers the terms. An observer
//! watches the node of the leader alone, so a candidate that joins wakes no observer.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use zk_client::{Children, Client, Error as ClientError, Watcher, Zxid};

use crate::error::Error;
use crate::hold::LockState;
use crate::locks::inspect::QueueEntry;
use crate::locks::{Guard, Lock};
use crate::node::Contender;
use crate::options::Options;
use crate::queue::Queue;
use crate::steady::quorum::by_quorum;
use crate::steady::retries::Retries;
use crate::steady::watch::Awaited;
use crate::steady::work::while_held;

/// When a leader that can no longer prove its leadership stops to lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepDown {
    /// As soon as the connection is in doubt, before another candidate can lead.
    ///
    /// This leaves the most time for work that cannot be stopped at once. A short break of the
    /// connection costs the leadership.
    #[default]
    Suspended,
    /// At the last moment at which the leadership is sure.
    ///
    /// A break of the connection that ends in time costs nothing. The work must stop at once.
    Deadline,
}

/// An election: of all candidates, across all processes, one leads at a time.
///
/// ```
/// # async fn serve() {}
/// # async fn f(client: &zk_client::Client) -> Result<(), zk_recipes::Error> {
/// use zk_recipes::{Election, Options};
///
/// let options = Options::new().data("10.0.0.7:80"); // for observers
/// let election = Election::with_options(client, "/service/leader", options)?;
/// election
///     .lead(async |term| {
///         println!("leading, in term {}", term.token());
///         serve().await; // dropped when the leadership is in doubt
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
///
/// The candidates queue up like the contenders of a [`Lock`] on the same path, and the election
/// promises what the lock does: see [there](Lock#what-it-does-not-promise). The next leader is the
/// candidate that has waited for longest.
///
/// # Who shares it
///
/// With the default [`Layout`](crate::Layout), Curator's `LeaderSelector` takes part. Curator's
/// `LeaderLatch` does with [`Layout::LEADER_LATCH`](crate::Layout::LEADER_LATCH), and kazoo's
/// `Election` with [`Layout::KAZOO`](crate::Layout::KAZOO). All of them find the data of
/// [`Options::data`] where they keep the id of a participant.
#[derive(Clone, Debug)]
pub struct Election {
    lock: Lock,
    step_down: StepDown,
}

impl Election {
    /// Makes an election on the folder `path`, which should hold nothing else.
    ///
    /// If the folder is missing, the first candidate creates it and its ancestors as containers.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper.
    pub fn new(client: &Client, path: &str) -> Result<Self, Error> {
        Self::with_options(client, path, Options::new())
    }

    /// Makes an election on the folder `path` with other settings than the defaults.
    ///
    /// [`Options::data`] is what observers see of this candidate, such as its address.
    /// [`Options::max_hold`] limits a term.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper.
    pub fn with_options(client: &Client, path: &str, options: Options) -> Result<Self, Error> {
        let lock = Lock::with_options(client, path, options)?;
        Ok(Self { lock, step_down: StepDown::default() })
    }

    /// Sets when [`lead`](Self::lead) stops its work.
    #[must_use]
    pub fn step_down(self, step_down: StepDown) -> Self {
        Self { step_down, ..self }
    }

    /// The path of the folder.
    pub fn path(&self) -> &str {
        self.lock.path()
    }

    /// Runs `work` while this candidate leads, and resigns when `work` is done.
    ///
    /// The closure is called with the [`Guard`] of the term. When the leadership is lost or, by
    /// [`StepDown::Suspended`], in doubt, the future that the closure returned is dropped where it
    /// stands. Then the candidate resigns, waits for the reply, and queues up again, and the
    /// closure is called again in its next term. Its [token](crate::Hold::token) is greater than
    /// those of all earlier terms of all candidates.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`]. So the end of the session is one, also when it ends a term: see
    /// [`Error::is_session_over`]. A [`SessionKeeper`](zk_client::SessionKeeper::run_each) runs an
    /// election in each session.
    ///
    /// If a resignation is lost with its connection, this is no error: the result of the work
    /// counts, and the client goes on resigning. If the server refuses it, for instance for want of
    /// the permission `DELETE`, that is the error, also when the work is done: nobody can lead
    /// until the client, which [goes on](zk_client::OwnedNode), has deleted its node.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and resigns, or leaves the queue.
    pub async fn lead<T, W>(&self, mut work: impl FnMut(Arc<Guard>) -> W) -> Result<T, Error>
    where
        W: Future<Output = T>,
    {
        loop {
            let term = Arc::new(self.campaign().await?);
            let done = self.work_on(&term, work(Arc::clone(&term))).await;
            // Behind a node of our own that stays we would wait for ever.
            term.release().unless_refused(term.node()).await?;
            if let Some(done) = done {
                return Ok(done);
            }
        }
    }

    /// Waits until this candidate leads. Dropping or releasing the guard resigns.
    ///
    /// [`Guard::requeue`] resigns and becomes a candidate again in one transaction.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Lock::acquire`].
    pub async fn campaign(&self) -> Result<Guard, Error> {
        self.lock.acquire().await
    }

    /// All candidates in the order in which they will lead. The first one leads.
    ///
    /// # Errors
    ///
    /// As any read, for instance without permission.
    pub async fn candidates(&self) -> Result<Vec<QueueEntry>, Error> {
        self.lock.contenders().await
    }

    /// Observes who leads. This makes no candidate.
    ///
    /// ```
    /// # async fn f(election: zk_recipes::Election) -> Result<(), zk_recipes::Error> {
    /// let mut leaders = election.observe();
    /// loop {
    ///     match leaders.next().await? {
    ///         Some(leader) => println!("{} leads", String::from_utf8_lossy(&leader.data)),
    ///         None => println!("there is no leader"),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn observe(&self) -> Leaders {
        Leaders { queue: Arc::clone(self.lock.queue()), seen: None, awaited: None }
    }

    /// Works until the work is done, or until the leader must step down. `None` in that case.
    async fn work_on<T>(&self, term: &Guard, work: impl Future<Output = T>) -> Option<T> {
        let must_step_down = || match term.state() {
            LockState::Lost(_) => Some(()),
            LockState::Suspended { .. } if self.step_down == StepDown::Suspended => Some(()),
            _ => None,
        };
        let stepping_down = term.status().wait_until(must_step_down);
        while_held(must_step_down, stepping_down, work).await.ok()
    }
}

/// The leaders of an election, one after another: see [`Election::observe`].
///
/// What it returns may be outdated when the caller acts on it. Where that would do harm, let the
/// leader prove its term, by its [token](crate::Hold::token) or by a transaction.
pub struct Leaders {
    queue: Arc<Queue>,
    /// The node that was returned last, and the last change of its data.
    seen: Option<Option<(Zxid, Zxid)>>,
    /// Fires when the leader may have changed. It is waited for over all calls from one look to the
    /// next.
    awaited: Option<Awaited>,
}

impl Leaders {
    /// Returns the leader at first, and then waits until another candidate leads or the leader's
    /// data changes. `None` while there is no candidate.
    ///
    /// Leaders that follow one another quickly may be left out. This survives reconnects, and waits
    /// while the client is cut off or connected to a server without a quorum.
    ///
    /// # Errors
    ///
    /// As any read, for instance without the permission to read the leader's node, and the end of
    /// the session.
    ///
    /// # Cost
    ///
    /// A list and a read for each leader, and one of both in each session timeout without a change:
    /// a server does not report the end of a node that the observer may no longer read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<QueueEntry>, Error> {
        let mut retries = Retries::default();
        loop {
            if let Some(awaited) = &mut self.awaited {
                let changed = awaited.changed(self.queue.client()).await;
                self.awaited = None;
                changed?;
            }
            match by_quorum(self.queue.client(), || self.look()).await {
                Ok((leader, watcher)) => {
                    retries.reset();
                    self.awaited = Some(watcher.into());
                    let version = leader.as_ref().map(|(entry, mzxid)| (entry.czxid, *mzxid));
                    if self.seen.replace(version) != Some(version) {
                        return Ok(leader.map(|(entry, _)| entry));
                    }
                }
                // It has changed meanwhile.
                Err(error) if error.is_no_node() => {}
                Err(error) => retries.count(error)?,
            }
        }
    }

    /// Looks who leads, with the last change of its data, and sets a watch that fires when that may
    /// change. Fails with `NoNode` if it has changed meanwhile.
    async fn look(&self) -> Result<(Option<(QueueEntry, Zxid)>, Watcher), ClientError> {
        let (queue, client) = (&self.queue, self.queue.client());
        let list = match client.get_children(queue.folder()).await {
            Ok(list) => list,
            Err(error) if error.is_no_node() => {
                let (folder, watcher) = client.exists_and_watch(queue.folder()).await?;
                return if folder.is_none() { Ok((None, watcher)) } else { Err(error) };
            }
            Err(error) => return Err(error),
        };
        let parse = |name: &str| Contender::parse(queue.naming(), name);
        let first = |list: &Children| list.names.iter().filter_map(parse).min();
        let first = match first(&list) {
            Some(first) => first,
            None => {
                let (list, watcher) = client.get_children_and_watch(queue.folder()).await?;
                match first(&list) {
                    Some(first) => first,
                    None => return Ok((None, watcher)),
                }
            }
        };
        let path = queue.child(&first.name);
        let (node, watcher) = client.get_data_and_watch(&path).await?;
        let entry = QueueEntry::new(path, &first, &node, true);
        Ok((Some((entry, node.stat.mzxid)), watcher))
    }
}

impl fmt::Debug for Leaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaders").field("folder", &self.queue.folder()).finish_non_exhaustive()
    }
}
