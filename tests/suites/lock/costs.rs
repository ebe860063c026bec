//! The requests and events of each operation of the relatives of locks: those of the table on the
//! performance page, and no others.

use std::future::Future;

use zk_client::{Client, CreateOptions};
use zk_recipes::{
    Barrier, Cached, Counter, DoubleBarrier, Election, Group, Options, Semaphore, TreeCache,
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
    async fn row<T>(&mut self, name: &str, act: impl AsyncFnOnce() -> T) -> T {
        // A request is sent when it is called, and not when it is awaited.
        let (costs, result) = self.world.costs(async { act().await }).await;
        self.rows.push((name.to_owned(), costs));
        result
    }

    async fn clients(&self) -> (Client, Client) {
        (self.world.client().await, self.world.client().await)
    }
}

/// Runs something as a task of its own until it waits.
async fn begins<T: Send + 'static>(
    act: impl Future<Output = Result<T, zk_recipes::Error>> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    let task = tokio::spawn(async { act.await.unwrap() });
    settle().await;
    task
}

async fn election(table: &mut Table) {
    let (one, other) = table.clients().await;
    let options = Options::new().persistent_folder(true);
    let make = |client| Election::with_options(client, "/election", options.clone()).unwrap();
    let (one, other) = (make(&one), make(&other));
    one.campaign().await.unwrap().release().await.unwrap();
    let behind = |election: &Election| {
        let election = election.clone();
        begins(async move { election.campaign().await })
    };
    let first = table.row("Election: to lead, alone", async || one.campaign().await).await.unwrap();
    let second = table.row("to become a candidate behind one", async || behind(&other).await).await;
    table
        .row("the leader resigns, and the next one leads", async || first.release().await)
        .await
        .unwrap();
    let (_, handed_over) = table.rows.last().unwrap().clone();

    let second = second.await.unwrap();
    let mut leaders = one.observe();
    leaders.next().await.unwrap();
    let observing = begins(async move {
        loop {
            leaders.next().await?;
        }
        #[expect(unreachable_code, reason = "it tells the type of the error")]
        Ok(())
    });
    let observing = observing.await;
    let third = behind(&one).await;
    table.row("an observer of that, besides", async || second.release().await).await.unwrap();
    observing.abort();
    observing.await.unwrap_err();
    let (_, observed) = table.rows.last_mut().unwrap();
    observed.requests -= handed_over.requests;
    observed.events -= handed_over.events;
    let third = third.await.unwrap();
    table
        .row("the last one resigns, which had waited", async || third.release().await)
        .await
        .unwrap();
}

async fn semaphore(table: &mut Table) {
    let (one, other) = table.clients().await;
    let options = Options::new().persistent_folder(true);
    let make = |client| Semaphore::with_options(client, "/semaphore", 1, options.clone()).unwrap();
    let (one, other) = (make(&one), make(&other));
    one.acquire().await.unwrap().release().await.unwrap();
    let permit = table.row("Semaphore: a free permit", async || one.acquire().await).await.unwrap();
    table.row("its release, while nobody waits", async || permit.release().await).await.unwrap();
    let permit = one.acquire().await.unwrap();
    let tried = table.row("a try that finds none", async || other.try_acquire().await).await;
    assert!(tried.unwrap().is_none());
    let waits = async || begins(async move { other.acquire().await }).await;
    let waits = table.row("to wait for a permit", waits).await;
    table
        .row("its release, and the next one gets it", async || permit.release().await)
        .await
        .unwrap();
    waits.await.unwrap().release().await.unwrap();
}

async fn barrier(table: &mut Table) {
    let (one, other) = table.clients().await;
    one.create("/barriers", b"", &PERSISTENT).await.unwrap();
    let make = |client| Barrier::new(client, "/barriers/one").unwrap();
    let (one, other) = (make(&one), make(&other));
    table.row("Barrier: to close it", async || one.close().await).await.unwrap();
    let waiting = other.clone();
    let waiting = async || begins(async move { waiting.wait().await }).await;
    let waiting = table.row("to wait at a closed one", waiting).await;
    table.row("to open it, and one passes", async || one.open().await).await.unwrap();
    waiting.await.unwrap();
    table.row("to wait at an open one", async || other.wait().await).await.unwrap();
}

async fn double_barrier(table: &mut Table) {
    let (one, other) = table.clients().await;
    let options = Options::new().persistent_folder(true);
    let make = |client| DoubleBarrier::with_options(client, "/rounds", 2, options.clone()).unwrap();
    let (one, other) = (make(&one), make(&other));
    one_round(&one, &other).await;
    let name = "DoubleBarrier of two: the first one enters";
    let enters = |barrier: &DoubleBarrier| {
        let barrier = barrier.clone();
        begins(async move { barrier.enter().await })
    };
    let first = table.row(name, async || enters(&one).await).await;
    let second = table.row("the second one enters, and both go on", async || enters(&other).await);
    let second = second.await;
    let (mut first, mut second) = (first.await.unwrap(), second.await.unwrap());
    let first = async || begins(async move { first.leave().await }).await;
    let first = table.row("the first one leaves", first).await;
    table
        .row("the second one leaves, and both go on", async || second.leave().await)
        .await
        .unwrap();
    first.await.unwrap();
}

/// A round that makes the folder.
async fn one_round(one: &DoubleBarrier, other: &DoubleBarrier) {
    let (first, second) = tokio::join!(one.enter(), other.enter());
    let (mut first, mut second) = (first.unwrap(), second.unwrap());
    let (first, second) = tokio::join!(first.leave(), second.leave());
    first.and(second).unwrap();
}

async fn counter(table: &mut Table) {
    let (one, other) = table.clients().await;
    let make = |client| Counter::new(client, "/counter").unwrap();
    let (zero, one, other) = (make(&one), make(&one), make(&other));
    zero.add(1).await.unwrap();
    table.row("Counter: the first add of a process", async || other.add(1).await).await.unwrap();
    table.row("an add", async || other.add(1).await).await.unwrap();
    one.add(1).await.unwrap();
    table.row("an add after another process's", async || other.add(1).await).await.unwrap();
}

async fn group(table: &mut Table) {
    let (one, other) = table.clients().await;
    let options = Options::new().persistent_folder(true);
    let make = |client| Group::with_options(client, "/group", options.clone()).unwrap();
    let (one, other) = (make(&one), make(&other));
    let _first = one.join("one", "").await.unwrap();
    let mut members = one.watch();
    members.next().await.unwrap();
    let both = async || {
        let second = other.join("other", "").await.unwrap();
        let mut others = other.watch();
        assert_eq!(others.next().await.unwrap().members.len(), 2);
        assert_eq!(members.next().await.unwrap().members.len(), 2);
        (second, others)
    };
    let (second, others) = table.row("Group: a second one joins, and both see it", both).await;
    drop(others);
    settle().await;
    let leaves = async || {
        second.leave().await.unwrap();
        assert_eq!(members.next().await.unwrap().members.len(), 1);
    };
    table.row("it leaves, and the first one sees it", leaves).await;
}

async fn caches(table: &mut Table) {
    let (admin, _) = table.clients().await;
    for path in ["/value", "/tree", "/tree/a", "/tree/b", "/tree/c"] {
        admin.create(path, b"1", &PERSISTENT).await.unwrap();
    }
    let keeper = table.world.builder().keep("zk").await.unwrap();
    let (value, following) = Cached::follow(&keeper, "/value").unwrap();
    table.row("Cached: the first read", async || begins(following).await).await;
    let change = async || admin.set_data("/value", b"2", None).await;
    table.row("a change, the write included", change).await.unwrap();
    assert_eq!(value.borrow().node.as_ref().unwrap().data, b"2"[..]);

    let (tree, following) = TreeCache::follow(&keeper, "/tree", TreeLimits::default()).unwrap();
    table.row("TreeCache of four nodes: the first read", async || begins(following).await).await;
    let change = async || admin.set_data("/tree/b", b"2", None).await;
    table.row("a change in it, the write included", change).await.unwrap();
    let create = async || admin.create("/tree/d", b"1", &PERSISTENT).await;
    table.row("a new node in it, the create included", create).await.unwrap();
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
    for (measured, documented) in table.rows.iter().zip(&documented) {
        if measured != documented {
            println!("{} {} {}", measured.0, measured.1.requests, measured.1.events);
        }
    }
    assert_eq!(table.rows, documented);
}
