//! Who of a group works on which shards.
//!
//! Each shard has a lock, and a member works on a shard only while it holds that lock. The view of
//! the group decides nothing but which locks a member tries to have. So members that see different
//! views cost time, and never let two of them work on one shard.

mod assign;
mod shard;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use tracing::debug;
use zk_client::Client;

use crate::coordination::group::{Group, Membership};
use crate::error::Error;
#[cfg(doc)]
use crate::hold::Hold;
use crate::locks::{Guard, Lock};
use crate::node::Folder;
use crate::options::Options;
use crate::steady::wakeups::{all_of, first_of};
use crate::trace::COORDINATION;

use assign::shards_of;

pub use shard::Shard;

/// For how long work may go on by default after it was told to stop.
const GRACE: Duration = Duration::from_secs(10);

/// How long a member waits after a broken connection, a lost node or a refusal under load, before
/// it tries again.
const PAUSE: Duration = Duration::from_millis(100);

/// Shards of work that are divided among the members of a group, across all processes.
///
/// ```
/// # async fn consume(_: &str) {}
/// # async fn f(keeper: zk_client::SessionKeeper) -> Result<(), zk_recipes::Error> {
/// use zk_recipes::Partitioner;
///
/// // A member in each session, which works on its part of the shards.
/// keeper
///     .run_each(|client| async move {
///         let shards = (0..32).map(|number| format!("queue-{number}"));
///         let queues = Partitioner::new(&client, "/service/queues", shards)?;
///         queues
///             .run("worker-7", async |queue| {
///                 println!("{}: mine, with token {}", queue.name(), queue.token());
///                 while !queue.is_stopping() {
///                     consume(queue.name()).await; // dropped when the shard is lost
///                 }
///             })
///             .await
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
///
/// A shard is a name, such as that of a queue, a table or a range of keys. Each has a
/// [`Lock`], which its member holds while it works on it. The ids of the members and
/// the names of the shards decide which member should have which shard. When a member comes, goes,
/// crashes or loses its session, some shards move: the member that had one stops its work and then
/// releases the lock, and the next one waits in the queue of that lock.
///
/// # What it promises
///
/// A shard is worked on by one member at a time, as [surely](Lock#what-it-does-not-promise) as a
/// lock has one holder. This does not depend on what the members know of each other. The work on a
/// shard has a [token](Hold::token), which is greater than those of all earlier work on it, and
/// writes by [`fenced`](Hold::fenced) only while the shard is its own.
///
/// Once the members no longer change, each shard is with exactly one of them, and no member has two
/// shards more than another. Shards that need not move stay where they are and work on. Those that
/// move do so one by one, and not in rounds that stop everything. To keep the loads that equal, a
/// few more move than those of a member that has gone, or those for one that has come: with 100
/// shards and 10 members, 4 or 5 more.
///
/// # What it does not promise
///
/// A shard that moves is worked on by nobody between its old member's last step and the reply that
/// makes it the next one's. After a crash, that lasts until the session has expired. A member that
/// has more to do than others has no fewer shards.
///
/// # All must agree
///
/// All members give the same shards: one that only some of them name may be with nobody, although
/// never with two. So give a changed set another path. Only a partitioner may join its
/// [group](Self::group): another member would be given shards, and never work on them.
///
/// # Cost
///
/// When a member comes or goes, each member lists and reads as an observer of a
/// [`Group`](crate::Members::next) does: a list, and a read if one has come. Each shard that moves
/// costs one write where it was, and where it goes two requests for its place in the queue of the
/// lock, and watches. The hand-over itself costs none. All shards of a member are kept alive
/// together, at the cost of one lock.
///
/// # Compared with others
///
/// kazoo's `SetPartitioner` releases all shards of all members at each change, waits for half a
/// minute by default until the members seem to be stable, and lets everybody begin anew. Kafka's
/// assignors are run by one member for all, and a coordinator carries the plan through in rounds.
/// Nobody else's partitioner shares its folders with this one.
#[derive(Clone, Debug)]
pub struct Partitioner {
    group: Group,
    /// The name of each shard, with its lock.
    shards: Arc<BTreeMap<Arc<str>, Lock>>,
    path: String,
    data: Vec<u8>,
    grace: Duration,
    delay: Duration,
}

impl Partitioner {
    /// Makes a partitioner of these shards on the folder `path`, which should hold nothing else.
    ///
    /// A shard that is named twice counts once. If folders are missing, they are created as
    /// containers.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper, or no node can have a shard's name
    /// ([`InvalidArgument`](crate::ErrorKind::InvalidArgument)).
    pub fn new<S: Into<String>>(
        client: &Client,
        path: &str,
        shards: impl IntoIterator<Item = S>,
    ) -> Result<Self, Error> {
        Self::with_options(client, path, shards, Options::new())
    }

    /// Makes a partitioner with other settings than the defaults.
    ///
    /// They are those of the locks. [`Options::data`] is the data of the member, too, for
    /// [observers](Self::group). [`Options::acl`] and [`Options::persistent_folder`] apply to all
    /// nodes.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_options<S: Into<String>>(
        client: &Client,
        path: &str,
        shards: impl IntoIterator<Item = S>,
        options: Options,
    ) -> Result<Self, Error> {
        zk_client::check_path(path)?;
        let folder = Folder::new(path);
        let locks = Folder::new(&folder.child("shards"));
        let lock = |shard: S| {
            let shard = shard.into();
            let path = locks.valid_child("the shard", &shard)?;
            let lock = Lock::with_options(client, &path, options.clone())?;
            Ok::<_, Error>((shard.into(), lock))
        };
        let shards = shards.into_iter().map(lock).collect::<Result<_, _>>()?;
        let members = folder.child("members");
        let group = Group::with_options(client, &members, options.of_members())?;
        Ok(Self {
            group,
            shards: Arc::new(shards),
            path: path.to_owned(),
            data: options.settings.data,
            grace: GRACE,
            delay: Duration::ZERO,
        })
    }

    /// Sets for how long work may go on after it was [told to stop](Shard::stopping).
    ///
    /// Work that is not done by then is dropped where it stands. The next member of the shard waits
    /// until then. The default is ten seconds; with zero, work that is to stop is dropped at once.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Sets how long after a change of the members shards begin to move.
    ///
    /// All changes within that time count as one, and a member that goes and comes again within it
    /// with the same id moves nothing, as in a restart. A shard whose member has crashed waits as
    /// much longer. The default is zero. Changes within 5 ms count as one in any case.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// The path of the folder.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The names of all shards, in their order.
    pub fn shards(&self) -> impl Iterator<Item = &str> {
        self.shards.keys().map(|shard| &**shard)
    }

    /// The group of the members, for observers.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Works as the member `id`, until an error ends it.
    ///
    /// `work` is called with each [`Shard`] that becomes this member's, and what it returns is run,
    /// all of it by the task that polls this future. While the work on one shard blocks, that on
    /// the others waits.
    ///
    /// Work is [told to stop](Shard::stopping) when its shard is to move, and dropped where it
    /// stands when it goes on for [longer than it may](Self::grace) or when the shard is lost, by
    /// the same rules as in [`Hold::run`]. Work that is done is not begun again: the shard stays
    /// with this member, without work, until it is to move. `work` is called anew each time that
    /// the shard becomes this member's.
    ///
    /// If another member has the id, this waits until that one has left or its session has expired,
    /// as [`Group::join`] does.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument), what a server refuses to
    /// [join](Group::join) a group, to [observe](crate::Members::next) it or to
    /// [acquire](Lock::acquire) or [release](crate::Guard::release) a lock, and the end of the
    /// session. All work has been dropped then, and all shards are released, except those whose
    /// release was refused: nobody works on them until the client, which goes on, has deleted their
    /// nodes. A lost connection is no error, nor is a shard that is lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all work, and then releases the shards and leaves the group, all
    /// of it at once. Tasks that the work has spawned with a clone of its shard see the shard as
    /// [released](crate::Loss::Released).
    pub async fn run<W: Future<Output = ()>>(
        &self,
        id: &str,
        work: impl Fn(Shard) -> W,
    ) -> Result<Infallible, Error> {
        self.run_until(id, pending(), work).await?;
        pending().await
    }

    /// Works as the member `id` until `stop` is done, and then hands everything over.
    ///
    /// When `stop` is done, this leaves the group, and tells all work to stop. It returns when the
    /// work has stopped and all shards are released, so after at most the [`grace`](Self::grace)
    /// time while the client is connected.
    ///
    /// ```
    /// # async fn f(queues: zk_recipes::Partitioner) -> Result<(), zk_recipes::Error> {
    /// let ctrl_c = async { drop(tokio::signal::ctrl_c().await) };
    /// queues
    ///     .run_until("worker-7", ctrl_c, async |queue| {
    ///         queue.stopping().await;
    ///         println!("{}: not mine any more", queue.name());
    ///     })
    ///     .await
    /// # }
    /// ```
    ///
    /// # Errors and cancel safety
    ///
    /// As [`run`](Self::run).
    pub async fn run_until<W: Future<Output = ()>>(
        &self,
        id: &str,
        stop: impl Future<Output = ()>,
        work: impl Fn(Shard) -> W,
    ) -> Result<(), Error> {
        let (plan, planned) = watch::channel(Plan::new());
        let (has_left, left) = oneshot::channel();
        let serve = |(shard, lock)| self.serve(shard, lock, planned.clone(), &work);
        let serving = async {
            all_of(self.shards.iter().map(serve)).await?;
            left.await.unwrap_or(Ok(()))
        };
        let planning = async move {
            let last = Box::pin(self.plan(id, stop, &plan)).await?;
            // The work stops while this leaves.
            drop(plan);
            let leaving = match last {
                Some(membership) => membership.leave().unless_refused(id).await,
                None => Ok(()),
            };
            has_left.send(leaving).ok();
            pending().await
        };
        first_of(planning, serving).await
    }

    /// Keeps being a member, and says which shards should be ours, until `stop` is done. Returns
    /// the membership that is left then.
    async fn plan(
        &self,
        id: &str,
        stop: impl Future<Output = ()>,
        plan: &watch::Sender<Plan>,
    ) -> Result<Option<Membership>, Error> {
        let mut stop = pin!(stop);
        loop {
            let term = async {
                // Each combinator has its futures inside itself several times: it gets small ones.
                let joining = Box::pin(self.group.join(id, self.data.as_slice()));
                let Some(joined) = unless(stop.as_mut(), joining).await else { return Ok(None) };
                let own = joined?;
                let following = Box::pin(own.run(Box::pin(self.follow(&own, plan))));
                match unless(stop.as_mut(), following).await {
                    None => Ok(Some(own)),
                    Some(Ok(Err(error)) | Err(error)) => Err(error),
                    Some(Ok(Ok(never))) => match never {},
                }
            };
            let ended = term.await;
            plan.send_replace(Plan::new());
            match ended {
                Ok(last) => return Ok(last),
                Err(error) => may_pass(id, error).await?,
            }
        }
    }

    /// Plans for each view of the group.
    async fn follow(
        &self,
        own: &Membership,
        plan: &watch::Sender<Plan>,
    ) -> Result<Infallible, Error> {
        let all = self.shards().collect::<Vec<_>>();
        let mut members = self.group.watch();
        loop {
            let mut view = members.next().await;
            let mut moving = pin!(sleep(self.delay));
            while view.is_ok()
                && !self.delay.is_zero()
                && let Some(next) = unless(moving.as_mut(), members.next()).await
            {
                view = next;
            }
            match view {
                Ok(view) if !view.members.iter().any(|member| member.node == own.node()) => {
                    plan.send_replace(Plan::new());
                    // This finds the loss although its event may not have come.
                    own.verify().await?;
                }
                Ok(view) => {
                    let (id, epoch) = (own.id(), view.epoch);
                    let ids = view.members.iter().map(|member| member.id.as_str());
                    let shards = shards_of(id, &ids.collect::<Vec<_>>(), &all);
                    let shards = shards.into_iter().map(Arc::from).collect::<Plan>();
                    debug!(target: COORDINATION, id, %epoch, ?shards, "the shards to have");
                    plan.send_replace(shards);
                }
                // The plan stays as it is while the group cannot be seen.
                Err(error) => {
                    may_pass(own.id(), error).await?;
                    // A view that was seen ahead of the error, and not planned for, is told anew.
                    members = self.group.watch();
                }
            }
        }
    }

    /// Holds a shard and works on it, whenever it should be ours, until that is over.
    async fn serve<W: Future<Output = ()>>(
        &self,
        shard: &Arc<str>,
        lock: &Lock,
        mut plan: watch::Receiver<Plan>,
        work: &impl Fn(Shard) -> W,
    ) -> Result<(), Error> {
        loop {
            if plan.wait_for(|plan| plan.contains(shard)).await.is_err() {
                // Nothing more is planned.
                return Ok(());
            }
            match unless(unplanned(&mut plan, shard), lock.acquire()).await {
                None => {}
                Some(Ok(guard)) => self.hold(shard, guard, &mut plan, work).await?,
                Some(Err(error)) => may_pass(shard, error).await?,
            }
        }
    }

    /// Works on a shard until it is lost or should no longer be ours, and releases it when the work
    /// has ended. Fails if the server refuses that.
    async fn hold<W: Future<Output = ()>>(
        &self,
        name: &Arc<str>,
        guard: Guard,
        plan: &mut watch::Receiver<Plan>,
        work: &impl Fn(Shard) -> W,
    ) -> Result<(), Error> {
        let term = Term(Arc::new(guard));
        let (stop, stopping) = watch::channel(false);
        let shard = Shard { name: Arc::clone(name), guard: Arc::clone(&term.0), stopping };
        {
            let mut working = pin!(term.0.run(work(shard)));
            match unless(unplanned(plan, name), working.as_mut()).await {
                Some(Ok(())) => drop(unless(unplanned(plan, name), term.0.lost()).await),
                Some(Err(error)) => {
                    debug!(target: COORDINATION, shard = &**name, %error, "the work was dropped");
                }
                None => {
                    stop.send_replace(true);
                    if timeout(self.grace, working).await.is_err() {
                        let shard = &**name;
                        debug!(target: COORDINATION, shard, "the work has not stopped in time");
                    }
                }
            }
        }
        // The work has been dropped, and the next member may begin.
        term.0.release().unless_refused(name).await
    }
}

/// Waits until a shard should not be ours.
async fn unplanned(plan: &mut watch::Receiver<Plan>, shard: &Arc<str>) {
    drop(plan.wait_for(|plan| !plan.contains(shard)).await);
}

/// Waits a little after an error that may not come again. Fails with any other.
async fn may_pass(of: &str, error: Error) -> Result<(), Error> {
    if !error.is_transient() {
        return Err(error);
    }
    debug!(target: COORDINATION, of, %error, "the member tries again");
    sleep(PAUSE).await;
    Ok(())
}

/// Runs `work` until it is done, or `stop` is.
async fn unless<T>(stop: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    let stopped = async {
        stop.await;
        None
    };
    first_of(stopped, async { Some(work.await) }).await
}

/// The shards that should be with a member.
type Plan = BTreeSet<Arc<str>>;

/// A shard that is held. It is released when this is dropped, although clones of the guard exist.
struct Term(Arc<Guard>);

impl Drop for Term {
    fn drop(&mut self) {
        // The delete is on its way when this returns.
        drop(self.0.release());
    }
}
