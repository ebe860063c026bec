//! The requests and events of each operation of the relatives of locks: those of the table on the
//! performance page, and no others.

use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;

use tokio::task::JoinHandle;
use zk_client::{Client, CreateOptions};
use zk_recipes::{
    Barrier, Cached, Counter, DoubleBarrier, Election, Error, Group, Options, Semaphore, TreeCache,
    TreeLimits,
};
use zk_test_support::explore::settle;
use zk_test_support::locks::{Costs, World};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

/// The rows of the table, as they are measured.
struct Table {
    world: World,
    rows: Vec<(String, Costs)>,
}

impl Table {
    /// Does something, until nothing happens any more, and adds a row.
    async fn row<T, E: Debug>(&mut self, name: &str, act: impl AsyncFnOnce() -> Result<T, E>) -> T {
        // A request is sent when it is called, and not when it is awaited.
        let (costs, result) = self.world.costs(async { act().await }).await;
        self.rows.push((name.to_owned(), costs));
        result.unwrap()
    }

    /// Runs something as a task of its own until it waits, and adds a row.
    async fn begins<T: Send + 'static>(
        &mut self,
        name: &str,
        act: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> JoinHandle<T> {
        self.row(name, async || Ok::<_, Infallible>(begins(act).await)).await
    }

    /// The same recipe in two processes.
    async fn two<T>(&self, make: impl Fn(&Client) -> Result<T, Error>) -> (T, T) {
        let (one, other) = (self.world.client().await, self.world.client().await);
        (make(&one).unwrap(), make(&other).unwrap())
    }
}

/// Runs something as a task of its own until it waits.
async fn begins<T: Send + 'static>(
    act: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> JoinHandle<T> {
    let task = tokio::spawn(async { act.await.unwrap() });
    settle().await;
    task
}

/// Options of a folder that no server removes between two rows.
fn persistent<K>() -> Options<K> {
    Options::new().persistent_folder(true)
}

async fn election(table: &mut Table) {
    let make = |client: &_| Election::with_options(client, "/election", persistent());
    let (one, other) = table.two(make).await;
    one.campaign().await.unwrap().release().await.unwrap();
    let campaign = |election: &Election| {
        let election = election.clone();
        async move { election.campaign().await }
    };
    let first = table.row("Election: to lead, alone", async || one.campaign().await).await;
    let second = table.begins("to become a candidate behind one", campaign(&other)).await;
    let name = "the leader resigns, and the next one leads";
    table.row(name, async || first.release().await).await;
    let (_, handed_over) = table.rows.last().unwrap().clone();

    let second = second.await.unwrap();
    let mut leaders = one.observe();
    leaders.next().await.unwrap();
    let observing = tokio::spawn(async move { while leaders.next().await.is_ok() {} });
    let third = begins(campaign(&one)).await;
    table.row("an observer of that, besides", async || second.release().await).await;
    observing.abort();
    observing.await.unwrap_err();
    let (_, observed) = table.rows.last_mut().unwrap();
    observed.requests -= handed_over.requests;
    observed.events -= handed_over.events;
    let third = third.await.unwrap();
    table.row("the last one resigns, which had waited", async || third.release().await).await;
}

async fn semaphore(table: &mut Table) {
    let make = |client: &_| Semaphore::with_options(client, "/semaphore", 1, persistent());
    let (one, other) = table.two(make).await;
    one.acquire().await.unwrap().release().await.unwrap();
    let permit = table.row("Semaphore: a free permit", async || one.acquire().await).await;
    table.row("its release, while nobody waits", async || permit.release().await).await;
    let permit = one.acquire().await.unwrap();
    let tried = table.row("a try that finds none", async || other.try_acquire().await).await;
    assert!(tried.is_none());
    let waiting = async move { other.acquire().await };
    let waiting = table.begins("to wait for a permit", waiting).await;
    table.row("its release, and the next one gets it", async || permit.release().await).await;
    waiting.await.unwrap().release().await.unwrap();
}

async fn barrier(table: &mut Table) {
    let admin = table.world.client().await;
    admin.create("/barriers", b"", &PERSISTENT).await.unwrap();
    let (one, other) = table.two(|client| Barrier::new(client, "/barriers/one")).await;
    table.row("Barrier: to close it", async || one.close().await).await;
    let waiting = other.clone();
    let waiting = async move { waiting.wait().await };
    let waiting = table.begins("to wait at a closed one", waiting).await;
    table.row("to open it, and one passes", async || one.open().await).await;
    waiting.await.unwrap();
    table.row("to wait at an open one", async || other.wait().await).await;
}

async fn double_barrier(table: &mut Table) {
    let make = |client: &_| DoubleBarrier::with_options(client, "/rounds", 2, persistent());
    let (one, other) = table.two(make).await;
    // A round that makes the folder.
    let (first, second) = tokio::join!(one.enter(), other.enter());
    let (mut first, mut second) = (first.unwrap(), second.unwrap());
    let (first, second) = tokio::join!(first.leave(), second.leave());
    first.and(second).unwrap();

    let name = "DoubleBarrier of two: the first one enters";
    let first = table.begins(name, async move { one.enter().await }).await;
    let name = "the second one enters, and both go on";
    let mut second = table.row(name, async || other.enter().await).await;
    let mut first = first.await.unwrap();
    let first = table.begins("the first one leaves", async move { first.leave().await }).await;
    table.row("the second one leaves, and both go on", async || second.leave().await).await;
    first.await.unwrap();
}

async fn counter(table: &mut Table) {
    let make = |client: &_| Counter::new(client, "/counter");
    let (one, other) = table.two(make).await;
    one.add(1).await.unwrap();
    table.row("Counter: the first add of a process", async || other.add(1).await).await;
    table.row("an add", async || other.add(1).await).await;
    one.add(1).await.unwrap();
    table.row("an add after another process's", async || other.add(1).await).await;
}

async fn group(table: &mut Table) {
    let make = |client: &_| Group::with_options(client, "/group", persistent());
    let (one, other) = table.two(make).await;
    let _first = one.join("one", "").await.unwrap();
    let mut members = one.watch();
    members.next().await.unwrap();
    let both = async || {
        let second = other.join("other", "").await?;
        let mut others = other.watch();
        assert_eq!(others.next().await?.members.len(), 2);
        assert_eq!(members.next().await?.members.len(), 2);
        Ok::<_, Error>((second, others))
    };
    let (second, others) = table.row("Group: a second one joins, and both see it", both).await;
    drop(others);
    settle().await;
    let leaves = async || {
        second.leave().await?;
        members.next().await
    };
    let left = table.row("it leaves, and the first one sees it", leaves).await;
    assert_eq!(left.members.len(), 1);
}

async fn caches(table: &mut Table) {
    let admin = table.world.client().await;
    for path in ["/value", "/tree", "/tree/a", "/tree/b", "/tree/c"] {
        admin.create(path, b"1", &PERSISTENT).await.unwrap();
    }
    let keeper = table.world.builder().keep("zk").await.unwrap();
    let (value, following) = Cached::follow(&keeper, "/value").unwrap();
    table.begins("Cached: the first read", following).await;
    let change = async || admin.set_data("/value", b"2", None).await;
    table.row("a change, the write included", change).await;
    assert_eq!(value.borrow().node.as_ref().unwrap().data, b"2"[..]);

    let (tree, following) = TreeCache::follow(&keeper, "/tree", TreeLimits::default()).unwrap();
    table.begins("TreeCache of four nodes: the first read", following).await;
    let change = async || admin.set_data("/tree/b", b"2", None).await;
    table.row("a change in it, the write included", change).await;
    let create = async || admin.create("/tree/d", b"1", &PERSISTENT).await;
    table.row("a new node in it, the create included", create).await;
    assert_eq!(*tree.get("/tree/b").unwrap().data, b"2"[..]);
    assert_eq!(tree.children("/tree").unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_relatives_cost_what_the_performance_page_says() {
    let mut table = Table { world: World::new(), rows: Vec::new() };
    election(&mut table).await;
    semaphore(&mut table).await;
    barrier(&mut table).await;
    double_barrier(&mut table).await;
    counter(&mut table).await;
    group(&mut table).await;
    caches(&mut table).await;
    let documented = Costs::documented();
    let differ = table.rows.iter().zip(&documented).find(|(measured, row)| measured != row);
    assert_eq!(differ, None);
    assert_eq!(table.rows.len(), documented.len());
}
