//! The recipes on servers that are not Apache's, as far as zk-embedded imitates them.
//!
//! A session that ends with its connection is the hardest of what they do: the next holder may be
//! in at once. What a server does not know must be said, and not tried for ever.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::oneshot;
use zk_client::{
    Client, ClientBuilder, CreateOptions, Dialect, ErrorCode, Op, OpCode, Outcome, SessionKeeper,
};
use zk_embedded::{Config, Deviation, Manner, Server};
use zk_recipes::{
    Barrier, Cached, Counter, DoubleBarrier, Election, Freshness, Group, Lock, MultiLock, Owner,
    Partitioner, ReentrantLock, ReentrantRwLock, RwLock, Semaphore, TreeCache, TreeLimits,
};
use zk_test_support::explore::settle;
use zk_test_support::like::dialect_for;
use zk_test_support::locks::{TIMEOUT, World};

const PLAIN: CreateOptions<'_> = CreateOptions::persistent();

/// The manners in which a session ends with its connection, each with the dialect for it.
fn keepers() -> [(Manner, Dialect); 2] {
    let both = [Manner::ALL[1], Manner::ALL[2]];
    both.map(|(name, manner)| (manner, dialect_for(name)))
}

fn world(manner: Manner) -> World {
    World::with(Config::new().manner(manner))
}

fn builder(world: &World, dialect: Dialect) -> ClientBuilder {
    world.builder().dialect(dialect)
}

async fn connect(world: &World, dialect: Dialect) -> Client {
    builder(world, dialect).connect("keeper").await.unwrap()
}

/// A trial of a recipe between two clients, which panics where it does not work.
type Trial = fn(SessionKeeper, Client) -> Pin<Box<dyn Future<Output = ()> + Send>>;

const RECIPES: [(&str, Trial); 13] = [
    ("`Lock`", |one, other| Box::pin(lock(one, other))),
    ("`RwLock`", |one, other| Box::pin(shared(one, other))),
    ("`ReentrantLock`, `ReentrantRwLock`", |one, _| Box::pin(two_level(one))),
    ("`MultiLock`", |one, other| Box::pin(several(one, other))),
    ("`LockTicket`", |one, other| Box::pin(ticket(one, other))),
    ("`Semaphore`", |one, other| Box::pin(semaphore(one, other))),
    ("`Election`", |one, other| Box::pin(election(one, other))),
    ("`Counter`", |one, other| Box::pin(counter(one, other))),
    ("`Barrier`, `DoubleBarrier`", |one, other| Box::pin(barriers(one, other))),
    ("`Group`", |one, other| Box::pin(group(one, other))),
    ("`Partitioner`", |one, _| Box::pin(partitioner(one))),
    ("`Cached`", |one, other| Box::pin(cached(one, other))),
    ("`TreeCache`", |one, other| Box::pin(tree(one, other))),
];

/// The recipes that need what no Keeper has.
const NOT_ON_KEEPERS: [&str; 2] = ["`LockTicket`", "`TreeCache`"];

/// Tries a recipe on a new server. Returns whether it works, and whether all connections lasted.
async fn works(manner: Manner, dialect: Dialect, recipe: Trial) -> (bool, bool) {
    let world = world(manner);
    let keeper = builder(&world, dialect).keep("keeper").await.unwrap();
    let other = connect(&world, dialect).await;
    let trial = tokio::spawn(recipe(keeper.clone(), other.clone()));
    // What waits for ever does not work either.
    let works = matches!(tokio::time::timeout(10 * TIMEOUT, trial).await, Ok(Ok(())));
    let attempts = keeper.stats().totals.attempts + other.stats().totals.attempts;
    (works, attempts == 2)
}

#[tokio::test(start_paused = true)]
async fn every_recipe_works_on_a_keeper_and_costs_it_no_connection() {
    for (manner, dialect) in keepers() {
        for (name, recipe) in RECIPES {
            let expected = !NOT_ON_KEEPERS.contains(&name);
            assert_eq!(works(manner, dialect, recipe).await, (expected, true), "{name} {manner:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_table_in_the_readme_says_what_works_where() {
    let names = Manner::ALL.map(|(name, _)| name);
    let mut table = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for (name, recipe) in RECIPES {
        table.push_str(&format!("| {name} |"));
        for (like, manner) in Manner::ALL {
            let (works, _) = works(manner, dialect_for(like), recipe).await;
            table.push_str(if works { " yes |" } else { " no |" });
        }
        table.push('\n');
    }
    println!("{table}");
    let readme = include_str!("../../../README.md");
    assert!(readme.contains(&table), "README.md has another table than this:\n{table}");
}

/// What one has of a lock, the other gets once that is given back.
async fn lock(one: SessionKeeper, other: Client) {
    let one = one.client().await.unwrap();
    let lock = |client: &Client| Lock::new(client, "/locks/one").unwrap();
    let (first, behind) = (lock(&one).acquire().await.unwrap(), lock(&other));
    let waiting = tokio::spawn(async move { behind.acquire().await });
    settle().await;
    assert!(!waiting.is_finished());
    first.release().await.unwrap();
    let second = waiting.await.unwrap().unwrap();
    assert!(second.token() > first.token());
    let stat = other.exists(second.node()).await.unwrap().unwrap();
    assert_eq!(second.token().czxid(), stat.czxid.0, "the token is the node's czxid");
    other.create("/balance", b"100", &PLAIN).await.unwrap();
    second.fenced(Op::set_data("/balance", b"70", None)).await.unwrap();
    second.release().await.unwrap();
}

async fn shared(one: SessionKeeper, other: Client) {
    let one = one.client().await.unwrap();
    let lock = |client: &Client| RwLock::new(client, "/locks/shared").unwrap();
    let read = (lock(&one).read().await.unwrap(), lock(&other).read().await.unwrap());
    assert!(lock(&one).try_write().await.unwrap().is_none());
    read.0.release().await.unwrap();
    read.1.release().await.unwrap();
    lock(&other).write().await.unwrap().release().await.unwrap();
}

async fn two_level(one: SessionKeeper) {
    let (one, owner) = (one.client().await.unwrap(), Owner::new());
    let reentrant = ReentrantLock::new(&one, "/locks/reentrant").unwrap();
    let outer = reentrant.acquire(&owner).await.unwrap();
    assert_eq!(reentrant.acquire(&owner).await.unwrap().depth(), 2);
    outer.release().await.unwrap();
    let reentrant = ReentrantRwLock::new(&one, "/locks/reentrant-rw").unwrap();
    reentrant.write(&owner).await.unwrap().release().await.unwrap();
}

async fn several(one: SessionKeeper, other: Client) {
    let one = one.client().await.unwrap();
    let both = MultiLock::new(&one, ["/locks/a", "/locks/b"]).unwrap();
    let multi = both.acquire().await.unwrap();
    assert!(Lock::new(&other, "/locks/b").unwrap().try_acquire().await.unwrap().is_none());
    multi.release().await.unwrap();
}

/// A lock that another process takes over, with its session.
async fn ticket(one: SessionKeeper, other: Client) {
    let one = one.client().await.unwrap();
    let guard = Lock::new(&one, "/locks/ticket").unwrap().acquire().await.unwrap();
    let node = guard.into_ticket().unwrap().node().to_owned();
    assert!(one.detach().await.is_some());
    assert!(other.exists(&node).await.unwrap().is_some());
}

async fn semaphore(one: SessionKeeper, other: Client) {
    let one = one.client().await.unwrap();
    let semaphore = |client: &Client| Semaphore::new(client, "/semaphore", 1).unwrap();
    let permit = semaphore(&one).acquire().await.unwrap();
    assert!(semaphore(&other).try_acquire().await.unwrap().is_none());
    permit.release().await.unwrap();
    semaphore(&other).acquire().await.unwrap().release().await.unwrap();
}

async fn election(one: SessionKeeper, other: Client) {
    let one = one.client().await.unwrap();
    let leader = Election::new(&one, "/election").unwrap().campaign().await.unwrap();
    let election = Election::new(&other, "/election").unwrap();
    assert_eq!(election.candidates().await.unwrap().len(), 1);
    leader.release().await.unwrap();
    election.campaign().await.unwrap().release().await.unwrap();
}

async fn counter(one: SessionKeeper, other: Client) {
    let one = one.client().await.unwrap();
    let counter = |client: &Client| Counter::new(client, "/counters/one").unwrap();
    counter(&one).add(3).await.unwrap();
    assert_eq!(counter(&other).add(4).await.unwrap(), 7);
}

async fn barriers(one: SessionKeeper, other: Client) {
    let one = one.client().await.unwrap();
    let barrier = |client: &Client| Barrier::new(client, "/barriers/one").unwrap();
    barrier(&one).close().await.unwrap();
    let (closed, opener) = (barrier(&other), barrier(&one));
    let (passed, opened) = tokio::join!(closed.wait(), async { opener.open().await });
    passed.unwrap();
    opened.unwrap();
    let party = async |client: &Client| {
        let barrier = DoubleBarrier::new(client, "/rounds", 2).unwrap();
        barrier.enter().await.unwrap().leave().await.unwrap();
    };
    tokio::join!(party(&one), party(&other));
}

async fn group(one: SessionKeeper, other: Client) {
    let one = one.client().await.unwrap();
    let membership = Group::new(&one, "/group").unwrap().join("a", "here").await.unwrap();
    let group = Group::new(&other, "/group").unwrap();
    assert_eq!(group.members().await.unwrap().members.len(), 1);
    membership.leave().await.unwrap();
}

async fn partitioner(one: SessionKeeper) {
    let one = one.client().await.unwrap();
    let (started, begun) = oneshot::channel();
    let started = Mutex::new(Some(started));
    let stop = async { begun.await.unwrap() };
    let shards = Partitioner::new(&one, "/work", ["only"]).unwrap();
    let work = async |_| {
        started.lock().unwrap().take().into_iter().for_each(|it| it.send(()).unwrap());
    };
    shards.run_until("worker", stop, work).await.unwrap();
}

async fn cached(one: SessionKeeper, other: Client) {
    let (mut value, following) = Cached::follow(&one, "/value").unwrap();
    let following = tokio::spawn(following);
    other.create("/value", b"7", &PLAIN).await.unwrap();
    let is_there = |it: &Cached| it.freshness == Freshness::Current && it.node.is_some();
    assert_eq!(value.wait_for(is_there).await.unwrap().node.as_ref().unwrap().data, "7");
    drop(value);
    following.await.unwrap().unwrap();
}

async fn tree(one: SessionKeeper, other: Client) {
    let (tree, following) = TreeCache::follow(&one, "/", TreeLimits::default()).unwrap();
    let following = tokio::spawn(following);
    let mut status = tree.status();
    status.wait_for(|status| status.freshness == Freshness::Current).await.unwrap();
    other.create("/leaf", b"", &PLAIN).await.unwrap();
    status.wait_for(|_| tree.get("/leaf").is_some()).await.unwrap();
    following.abort();
}

/// The events of its recursive watches name no node, and an old one has none.
#[tokio::test(start_paused = true)]
async fn a_tree_says_at_once_that_the_server_has_no_watch_for_it() {
    for (manner, dialect) in keepers() {
        let world = world(manner);
        let keeper = builder(&world, dialect).keep("keeper").await.unwrap();
        let (tree, following) = TreeCache::follow(&keeper, "/", TreeLimits::default()).unwrap();
        let following = tokio::spawn(following);
        let mut status = tree.status();
        let error = status.wait_for(|status| status.error.is_some()).await.unwrap().error.clone();
        let error = error.unwrap().to_string();
        assert!(error.contains("addWatch /") && error.contains("dialect"), "{error}");
        assert_eq!(tree.status().borrow().freshness, Freshness::Unknown);
        assert_eq!(keeper.client().await.unwrap().stats().totals.connections, 1);
        following.abort();
    }
}

/// A lost connection says nothing about an operation that was answered before.
#[tokio::test(start_paused = true)]
async fn a_session_that_ends_again_and_again_is_no_reason_to_give_up_a_known_request() {
    let manner = Manner::apache().with(Deviation::SessionEndsWithConnection);
    let dialect = Dialect::apache().session_ends_with_connection(true);
    let world = world(manner);
    let keeper = builder(&world, dialect).keep("keeper").await.unwrap();
    keeper.client().await.unwrap().create("/there", b"", &PLAIN).await.unwrap();
    let times = Cell::new(0);
    let work = async |client: Client| {
        if times.replace(times.get() + 1) < 5 {
            world.server.inject(zk_embedded::Fault::lose_request().op(OpCode::CREATE2));
        }
        Lock::new(&client, "/lock")?.acquire().await?.release().await
    };
    keeper.run_each(work).await.unwrap();
    assert_eq!(times.get(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_leader_is_called_that() {
    let world = world(Manner::clickhouse_keeper());
    world.server.set_serving(false);
    let builder = builder(&world, Dialect::clickhouse_keeper());
    let error = builder.connect_timeout(Duration::from_secs(1)).connect("keeper").await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("has no leader"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_flags_of_a_keeper_tell_what_it_understands() {
    for (manner, expected) in keepers() {
        let server = Server::in_memory(Config::new().manner(manner));
        let asking = Client::builder().connector(server.connector());
        let asking = asking.dialect(Dialect::clickhouse_keeper()).connect("keeper").await.unwrap();
        let told = asking.keeper_dialect().await.unwrap();
        let ops = [OpCode::CREATE2, OpCode::ADD_WATCH, OpCode::MULTI_READ, OpCode::WHO_AM_I];
        let known = |dialect: Dialect| ops.map(|op| dialect.understands(op));
        assert_eq!(known(told), known(expected.with(OpCode::MULTI_READ)), "{manner:?}");
    }
}

/// A session that it could hand on ends with its connection.
#[tokio::test(start_paused = true)]
async fn a_ticket_is_refused_and_its_lock_released() {
    for (manner, dialect) in keepers() {
        let world = world(manner);
        let client = connect(&world, dialect).await;
        let guard = Lock::new(&client, "/lock").unwrap().acquire().await.unwrap();
        let error = guard.into_ticket().unwrap_err();
        assert_eq!(error.kind(), zk_recipes::ErrorKind::InvalidArgument, "{error}");
        settle().await;
        assert_eq!(world.server.children("/lock"), [""; 0]);
    }
}

/// The server would end the connection, and the session with it.
#[tokio::test(start_paused = true)]
async fn a_transaction_with_what_the_server_lacks_is_refused_unsent() {
    let (manner, dialect) = keepers()[0];
    let world = world(manner);
    let client = connect(&world, dialect).await;
    let container = Op::create("/b", b"", &CreateOptions::container());
    let ops = [Op::create("/a", b"", &PLAIN), container];
    let error = client.multi(ops).await.unwrap_err();
    assert_eq!((error.code(), error.failed_op()), (Some(ErrorCode::UNIMPLEMENTED), Some(1)));
    assert_eq!(error.outcome(), Outcome::NotApplied);
    let owned = Op::create_owned("/x-0000000000", b"", &CreateOptions::ephemeral());
    let replies = client.multi_owned((owned, container));
    for reply in replies {
        assert_eq!(reply.await.unwrap_err().code(), Some(ErrorCode::UNIMPLEMENTED));
    }
    assert_eq!(client.stats().totals.connections, 1);
    assert_eq!(client.exists("/a").await.unwrap(), None);
}
