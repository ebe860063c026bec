//! A trial of each recipe between two clients, on any server, and with any request lost.
//!
//! A trial says what the recipe has to do there. It does not know which server that is, nor what
//! happens to the connection of its first client.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::sync::oneshot;
use tokio::time::timeout;
use zk_client::{Client, CreateOptions, Ended, Op, SessionKeeper};
use zk_recipes::{
    Barrier, Cached, Counter, DoubleBarrier, Election, Error, ErrorKind, Freshness, Group, Lock,
    LockTicket, MultiLock, Owner, Partitioner, ReentrantLock, ReentrantRwLock, Release, RwLock,
    Semaphore, TreeCache, TreeLimits, retry,
};

use crate::claims::queued_at;
use crate::claims::target::Target;
use crate::fault::{Fault, Faults};

const PLAIN: CreateOptions<'_> = CreateOptions::persistent();

/// For how long something may fail to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// The two clients of a trial. Requests and replies of the first one may be lost.
#[derive(Debug)]
pub struct Clients {
    /// What keeps the session of the first client.
    pub keeper: SessionKeeper,
    /// The first client.
    pub one: Client,
    /// The second client.
    pub other: Client,
    /// Whether something of the first client's may be lost.
    pub loses: bool,
}

/// A trial.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// The recipes, as pages name them.
    pub recipes: &'static str,
    /// Fails where they do not work.
    pub run: fn(Clients) -> Running,
}

/// The future of a trial.
pub type Running = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// All trials.
pub const TRIALS: [Trial; 13] = [
    Trial { recipes: "`Lock`", run: |it| Box::pin(lock(it)) },
    Trial { recipes: "`RwLock`", run: |it| Box::pin(shared(it)) },
    Trial { recipes: "`ReentrantLock`, `ReentrantRwLock`", run: |it| Box::pin(two_level(it)) },
    Trial { recipes: "`MultiLock`", run: |it| Box::pin(several(it)) },
    Trial { recipes: "`LockTicket`", run: |it| Box::pin(ticket(it)) },
    Trial { recipes: "`Semaphore`", run: |it| Box::pin(semaphore(it)) },
    Trial { recipes: "`Election`", run: |it| Box::pin(election(it)) },
    Trial { recipes: "`Counter`", run: |it| Box::pin(counter(it)) },
    Trial { recipes: "`Barrier`, `DoubleBarrier`", run: |it| Box::pin(barriers(it)) },
    Trial { recipes: "`Group`", run: |it| Box::pin(group(it)) },
    Trial { recipes: "`Partitioner`", run: |it| Box::pin(partitioner(it)) },
    Trial { recipes: "`Cached`", run: |it| Box::pin(cached(it)) },
    Trial { recipes: "`TreeCache`", run: |it| Box::pin(tree(it)) },
];

/// How many trials run at once.
const AT_ONCE: usize = 50;

/// Runs each of these trials alone, and then many at once with each request of its first client
/// lost, and with each reply to one.
pub async fn sweep(target: &Target, trials: impl IntoIterator<Item = Trial>) -> Result<()> {
    let turns = Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    let mut runs = Vec::new();
    for (number, trial) in trials.into_iter().enumerate() {
        let (places, _) = trial.try_with(target, &format!("{number}"), None).await?;
        ensure!(places > 1, "{} sends {places} requests", trial.recipes);
        for place in 0..places {
            for fault in [Fault::LoseRequestAt(place), Fault::LoseReplyAt(place)] {
                let (target, node) = (target.clone(), format!("{number}-{fault:?}"));
                let turns = Arc::clone(&turns);
                runs.push(tokio::spawn(async move {
                    let _turn = turns.acquire().await?;
                    trial.try_with(&target, &node, Some(fault)).await
                }));
            }
        }
    }
    let (mut happened, mut broken) = (0, Vec::new());
    for run in &mut runs {
        match run.await? {
            Ok((_, has_happened)) => happened += usize::from(has_happened),
            Err(error) => broken.push(format!("{error:#}")),
        }
    }
    println!("{happened} requests and replies of {} were lost", runs.len());
    ensure!(broken.is_empty(), "{broken:#?}");
    // What is sent behind the wait for another one may differ from run to run.
    ensure!(happened > runs.len() / 2, "{happened} faults of {}", runs.len());
    Ok(())
}

impl Trial {
    /// Tries the recipe below a new node, and with one fault. Returns how many requests the first
    /// client has sent, and whether the fault has happened.
    async fn try_with(
        self,
        target: &Target,
        node: &str,
        fault: Option<Fault>,
    ) -> Result<(usize, bool)> {
        let part = target.divided(&[node]).await?.remove(0);
        let faults = Faults::over(part.way());
        fault.into_iter().for_each(|fault| faults.arm(fault));
        let keeper = part.builder().connector(faults.clone()).keep(&part.servers()).await?;
        let (client, other) = (keeper.client().await?, part.connect().await?);
        let (one, loses) = (client.clone(), fault.is_some());
        let clients = Clients { keeper: keeper.clone(), one, other, loses };
        let trying = tokio::spawn((self.run)(clients));
        let ended = timeout(PATIENCE, trying).await.context("it waits for ever");
        let what = || format!("{} with {fault:?}", self.recipes);
        ended.and_then(|it| it?).with_context(what)?;
        let (sent, happened) = (faults.take_sent().1.len(), faults.happened());
        let left = async {
            leaves_nothing(&client).await;
            keeper.close().await;
        };
        timeout(PATIENCE, left).await.context("it leaves a node").with_context(what)?;
        Ok((sent, happened))
    }
}

/// Waits until the session owns no node any more. A client that was closed has handed it on.
async fn leaves_nothing(client: &Client) {
    let has_left = async || {
        client.sync("/").await.is_ok()
            && client.get_ephemerals("/").await.is_ok_and(|left| left.is_empty())
    };
    while client.state().ended() != Some(Ended::Closed) && !has_left().await {}
}

/// Gives something back. Where the reply may be lost, nobody may know yet that it is.
async fn gives_back(
    loses: bool,
    released: impl Future<Output = Result<Release, Error>>,
) -> Result<()> {
    match released.await {
        Ok(Release::Released) => Ok(()),
        Err(error) if loses && error.kind() == ErrorKind::Unconfirmed => Ok(()),
        ended => anyhow::bail!("{ended:?}"),
    }
}

/// The lock goes to and fro between the clients, with tokens that grow.
async fn lock(Clients { one, other, loses, .. }: Clients) -> Result<()> {
    let (lock, others) = (Lock::new(&one, "/lock")?, Lock::new(&other, "/lock")?);
    let mut held = lock.acquire().await?;
    for (next, is_ours) in [(&others, true), (&lock, false), (&others, true)] {
        let next = next.clone();
        let waiting = tokio::spawn(async move { next.acquire().await });
        queued_at(&other, "/lock", 2).await?;
        ensure!(!waiting.is_finished(), "two hold it");
        let token = held.token();
        gives_back(loses && is_ours, held.release()).await?;
        held = waiting.await??;
        ensure!(held.token() > token);
        retry(|| held.verify()).await?;
    }
    other.create("/balance", b"100", &PLAIN).await?;
    held.fenced(Op::set_data("/balance", b"70", None)).await?;
    gives_back(false, held.release()).await
}

async fn shared(Clients { one, other, loses, .. }: Clients) -> Result<()> {
    let (lock, others) = (RwLock::new(&one, "/lock")?, RwLock::new(&other, "/lock")?);
    let reads = (lock.read().await?, others.read().await?);
    ensure!(others.try_write().await?.is_none());
    gives_back(loses, reads.0.release()).await?;
    gives_back(false, reads.1.release()).await?;
    let written = others.write().await?;
    let waiting = tokio::spawn(async move { lock.write().await });
    queued_at(&other, "/lock", 2).await?;
    gives_back(false, written.downgrade().await?.release()).await?;
    gives_back(loses, waiting.await??.release()).await
}

async fn two_level(Clients { one, loses, .. }: Clients) -> Result<()> {
    let owner = Owner::new();
    let reentrant = ReentrantLock::new(&one, "/lock")?;
    let outer = reentrant.acquire(&owner).await?;
    ensure!(reentrant.acquire(&owner).await?.depth() == 2);
    gives_back(loses, outer.release()).await?;
    let reentrant = ReentrantRwLock::new(&one, "/shared")?;
    gives_back(loses, reentrant.write(&owner).await?.release()).await
}

async fn several(Clients { one, other, loses, .. }: Clients) -> Result<()> {
    let both = MultiLock::new(&one, ["/a", "/b"])?.acquire().await?;
    let second = Lock::new(&other, "/b")?;
    ensure!(second.try_acquire().await?.is_none());
    gives_back(loses, both.release()).await?;
    gives_back(false, second.acquire().await?.release()).await
}

/// A lock that another process takes over, with its session.
async fn ticket(Clients { keeper, one, other, .. }: Clients) -> Result<()> {
    let guard = Lock::new(&one, "/lock")?.acquire().await?;
    let ticket = guard.into_ticket()?.to_secret().parse::<LockTicket>()?;
    keeper.client().await?.detach().await.context("a session")?;
    ensure!(other.exists(ticket.node()).await?.is_some());
    Ok(())
}

async fn semaphore(Clients { one, other, loses, .. }: Clients) -> Result<()> {
    let (semaphore, others) =
        (Semaphore::new(&one, "/limit", 2)?, Semaphore::new(&other, "/limit", 2)?);
    let permit = semaphore.acquire_many(2).await?;
    ensure!(others.try_acquire().await?.is_none());
    gives_back(loses, permit.release()).await?;
    let permit = others.acquire_many(2).await?;
    let waiting = tokio::spawn(async move { semaphore.acquire().await });
    queued_at(&other, "/limit/leases", 3).await?;
    gives_back(false, permit.release()).await?;
    gives_back(loses, waiting.await??.release()).await
}

async fn election(Clients { one, other, loses, .. }: Clients) -> Result<()> {
    let (election, others) = (Election::new(&one, "/leader")?, Election::new(&other, "/leader")?);
    let mut leaders = others.observe();
    ensure!(leaders.next().await?.is_none());
    let leader = election.campaign().await?;
    let first = leader.token();
    let seen = leaders.next().await?.context("a leader")?;
    ensure!(seen.czxid.0 == first.czxid(), "{seen:?}");
    let waiting = tokio::spawn(async move { others.campaign().await });
    queued_at(&other, "/leader", 2).await?;
    gives_back(loses, leader.release()).await?;
    let next = waiting.await??;
    let seen = leaders.next().await?.context("another leader")?;
    ensure!(seen.czxid.0 == next.token().czxid() && next.token() > first, "{seen:?}");
    gives_back(false, next.release()).await?;
    ensure!(leaders.next().await?.is_none());
    Ok(())
}

async fn counter(Clients { one, other, .. }: Clients) -> Result<()> {
    let (counter, others) = (Counter::new(&one, "/counter")?, Counter::new(&other, "/counter")?);
    ensure!(counter.add(3).await? == 3);
    ensure!(others.add(4).await? == 7);
    // It is refused at first, since the other one has written.
    ensure!(counter.add(1).await? == 8);
    ensure!(others.get_latest().await? == 8);
    Ok(())
}

async fn barriers(Clients { one, other, .. }: Clients) -> Result<()> {
    let (barrier, others) = (Barrier::new(&one, "/barrier")?, Barrier::new(&other, "/barrier")?);
    barrier.close().await?;
    ensure!(!others.is_open().await?);
    let (passed, opened) = tokio::join!(others.wait(), async { barrier.open().await });
    passed.and(opened)?;
    let rounds = async |client: &Client| {
        let barrier = DoubleBarrier::new(client, "/rounds", 2)?;
        let mut numbers = Vec::new();
        for _ in 0..2 {
            let mut round = barrier.enter().await?;
            numbers.push(round.number());
            round.leave().await?;
        }
        anyhow::Ok(numbers)
    };
    let (numbers, same) = tokio::try_join!(rounds(&one), rounds(&other))?;
    ensure!(numbers == same && numbers[0] < numbers[1], "{numbers:?} and {same:?}");
    Ok(())
}

async fn group(Clients { one, other, .. }: Clients) -> Result<()> {
    let (group, others) = (Group::new(&one, "/group")?, Group::new(&other, "/group")?);
    let membership = group.join("a", "here").await?;
    let members = others.members().await?.members;
    ensure!(members.len() == 1 && members[0].data == b"here");
    ensure!(others.try_join("a", "there").await?.is_none());
    let takes = others.take_over("a", "there").await?;
    ensure!(takes.token() > membership.token());
    let members = group.members().await?.members;
    ensure!(members.len() == 1 && members[0].data == b"there");
    gives_back(false, takes.leave()).await
}

async fn partitioner(Clients { one, .. }: Clients) -> Result<()> {
    let (started, begun) = oneshot::channel();
    let started = Mutex::new(Some(started));
    let stop = async { begun.await.expect("it has begun") };
    let work = async |_| {
        let started = started.lock().expect("no panic").take();
        started.into_iter().for_each(|it| it.send(()).expect("somebody waits"));
    };
    Ok(Partitioner::new(&one, "/work", ["only"])?.run_until("worker", stop, work).await?)
}

async fn cached(Clients { keeper, other, .. }: Clients) -> Result<()> {
    let (mut value, following) = Cached::follow(&keeper, "/value")?;
    let following = tokio::spawn(following);
    other.create("/value", b"", &PLAIN).await?;
    for data in ["7", "8", "9"] {
        other.set_data("/value", data.as_bytes(), None).await?;
        let shows = |it: &Cached| {
            it.freshness == Freshness::Current && it.node.as_ref().is_some_and(|it| it.data == data)
        };
        value.wait_for(shows).await?;
    }
    other.delete("/value", None).await?;
    value.wait_for(|it| it.freshness == Freshness::Current && it.node.is_none()).await?;
    drop(value);
    Ok(following.await??)
}

async fn tree(Clients { keeper, other, .. }: Clients) -> Result<()> {
    let (tree, following) = TreeCache::follow(&keeper, "/", TreeLimits::default())?;
    let following = tokio::spawn(following);
    let mut status = tree.status();
    status.wait_for(|status| status.freshness == Freshness::Current).await?;
    for leaf in ["/a", "/b", "/c"] {
        status.mark_unchanged();
        other.create(leaf, b"", &PLAIN).await?;
        // The change is told, also if it is there already.
        status.changed().await?;
        status.wait_for(|_| tree.get(leaf).is_some()).await?;
    }
    following.abort();
    Ok(())
}
