//! Limits on how the owners of one process hand a lock on to each other.

use std::time::Duration;

use tokio::task::yield_now;
use zk_client::{Acl, Client, Id, Perms};
use zk_embedded::{Config, Fault, OpCode, Server};
use zk_recipes::{Lock, Options, Owner, ReentrantLock};
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::locks::{LOCK, World};

const FOLDER: &str = "/locks/a";

async fn connect(server: &Server) -> Client {
    let builder = Client::builder().connector(server.connector());
    builder.session_timeout(Duration::from_secs(4)).connect("zk").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn who_comes_by_another_lock_of_their_client_gets_its_turn() {
    let server = Server::in_memory(Config::new());
    let client = connect(&server).await;
    let busy =
        ReentrantLock::with_options(&client, FOLDER, Options::new().local_handoffs(2)).unwrap();
    for _ in 0..2 {
        let lock = busy.clone();
        tokio::spawn(async move {
            let owner = Owner::new();
            loop {
                let guard = lock.acquire(&owner).await.unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
                guard.release().await.unwrap();
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let other = Lock::new(&client, FOLDER).unwrap();
    drop(other.acquire_within(Duration::from_secs(60)).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_deleted_is_not_handed_on() {
    let server = Server::in_memory(Config::new());
    let (client, operator) = (connect(&server).await, connect(&server).await);
    let options = Options::new();
    let lock = ReentrantLock::with_options(&client, FOLDER, options).unwrap();
    let (one, other) = (Owner::new(), Owner::new());
    for _ in 0..2 {
        lock.acquire(&one).await.unwrap().release().await.unwrap();
    }
    let guard = lock.acquire(&one).await.unwrap();
    let node = guard.node().to_owned();
    let waiting = tokio::spawn(async move { lock.acquire(&other).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(10)).await;
    operator.delete(&node, None).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    drop(guard);
    assert_ne!(waiting.await.unwrap().node(), node);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_while_the_answer_to_a_look_at_it_is_lost_is_not_handed_on() {
    let server = Server::in_memory(Config::new());
    let (client, other) = (connect(&server).await, connect(&server).await);
    let session = client.session().unwrap().id;
    let options = Options::new().local_handoffs(100).local_handoff_time(Duration::MAX);
    let lock = ReentrantLock::with_options(&client, FOLDER, options).unwrap();
    let theirs = Lock::new(&other, FOLDER).unwrap();
    let (one, two) = (Owner::new(), Owner::new());
    let held = lock.acquire(&one).await.unwrap();
    let node = held.node().to_owned();
    // While a task of this process waits, the client reads the holder's node.
    server.inject(Fault::lose_reply().op(OpCode::GET_DATA).session(session));
    let mut next = Box::pin(lock.acquire(&two));
    assert!(poll_once(next.as_mut()).is_pending());
    while client.state().is_connected() {
        yield_now().await;
    }
    other.delete(&node, None).await.unwrap();
    client.states().wait_for(|state| state.is_connected()).await.unwrap();
    client.sync("/").await.unwrap();
    let stranger = theirs.try_acquire().await.unwrap().expect("nobody is there");
    drop(held);
    settle().await;
    assert!(poll_once(next.as_mut()).is_pending(), "{stranger:?} holds it, too");
    stranger.release().await.unwrap();
    assert_ne!(next.await.unwrap().node(), node);
}

/// The watch that the wait has set on its own node reports the deletion without another request.
#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_deleted_after_a_wait_is_not_handed_on() {
    let world = World::new();
    let lock = ReentrantLock::new(&world.client().await, LOCK).unwrap();
    let (one, two) = (Owner::new(), Owner::new());
    let theirs = world.lock().await.acquire().await.unwrap();
    let acquiring = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire(&one).await.unwrap() }
    });
    settle().await;
    drop(theirs);
    let held = acquiring.await.unwrap();
    let mut next = Box::pin(lock.acquire(&two));
    let (requests, pending) = world.requests(async { poll_once(next.as_mut()).is_pending() }).await;
    assert_eq!((requests, pending), (0, true));
    let node = held.node().to_owned();
    world.client().await.delete(&node, None).await.unwrap();
    settle().await;
    drop(held);
    assert_ne!(next.await.unwrap().node(), node);
}

/// Each of `tasks` tasks takes the lock `turns` times.
async fn take_turns(lock: &ReentrantLock, tasks: usize, turns: usize) {
    let tasks = (0..tasks).map(|_| {
        let (lock, owner) = (lock.clone(), Owner::new());
        tokio::spawn(async move {
            for _ in 0..turns {
                let guard = lock.acquire(&owner).await.unwrap();
                yield_now().await;
                drop(guard);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn while_nobody_else_comes_they_need_no_request() {
    let world = World::new();
    let lock = ReentrantLock::new(&world.client().await, LOCK).unwrap();
    take_turns(&lock, 3, 10).await;
    let (requests, ()) = world.requests(take_turns(&lock, 3, 500)).await;
    // A create, a listing, a read of the node for the waiting tasks, and a delete.
    assert!(requests <= 4, "{requests}");
}

#[tokio::test(start_paused = true)]
async fn the_watch_on_the_folder_tells_of_another_process() {
    let world = World::new();
    let options = Options::new().local_handoffs(3).local_handoff_time(Duration::MAX);
    let lock = ReentrantLock::with_options(&world.client().await, LOCK, options).unwrap();
    let owner = Owner::new();
    let first = lock.acquire(&owner).await.unwrap();
    let node = first.node().to_owned();
    let other = world.lock().await;
    let waiting = tokio::spawn(async move { other.acquire().await.unwrap() });
    settle().await;
    let turns = tokio::spawn({
        let lock = lock.clone();
        async move { take_turns(&lock, 2, 50).await }
    });
    settle().await;
    drop(first);
    let theirs = waiting.await.unwrap();
    assert!(!turns.is_finished(), "the other process had its turn between them");
    world.is_owner(&theirs);
    assert_ne!(theirs.node(), node);
    drop(theirs);
    turns.await.unwrap();
}

/// Servers do not tell a client of the end of a node that it may not read.
#[tokio::test(start_paused = true)]
async fn a_node_whose_end_cannot_be_seen_is_not_handed_on() {
    let world = World::new();
    let hidden = [Acl::new(Perms::ALL.without(Perms::READ), Id::ANYONE)];
    let (client, remote) = (world.client().await, world.lock().await);
    let options = Options::new().acl(&hidden);
    let lock = ReentrantLock::with_options(&client, LOCK, options).unwrap();
    let (one, other) = (Owner::new(), Owner::new());
    let guard = lock.acquire(&one).await.unwrap();
    let node = guard.node().to_owned();
    let waiting = tokio::spawn(async move { lock.acquire(&other).await.unwrap() });
    settle().await;
    world.client().await.delete(&node, None).await.unwrap();
    let held = remote.acquire().await.unwrap();
    drop(guard);
    settle().await;
    assert!(!waiting.is_finished(), "another process has it");
    drop(held);
    let guard = waiting.await.unwrap();
    assert_ne!(guard.node(), node);
    world.is_owner(&guard);
}
