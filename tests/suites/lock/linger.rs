//! Two-level locks that stay with their process while no other process wants them.

use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::time::timeout;
use zk_client::Client;
use zk_recipes::{Options, Owner, ReentrantLock};
use zk_test_support::explore::settle;
use zk_test_support::locks::{LOCK, TIMEOUT, World};
use zk_test_support::peer::Clock;

const LINGER: Duration = Duration::from_secs(60);

fn lingering(client: &Client) -> ReentrantLock {
    ReentrantLock::with_options(client, LOCK, Options::new().linger(LINGER)).unwrap()
}

/// A lock that was used, and the node that lingers.
async fn left_lingering() -> (World, ReentrantLock, String) {
    let world = World::new();
    let lock = lingering(&world.client().await);
    let node = used(&world, &lock).await;
    (world, lock, node)
}

/// Takes and releases the lock once. Returns the node that lingers.
async fn used(world: &World, lock: &ReentrantLock) -> String {
    lock.acquire(&Owner::new()).await.unwrap().release().await.unwrap();
    settle().await;
    let [node] = &world.queue()[..] else {
        panic!("one node is left: {:?}", world.queue());
    };
    node.clone()
}

#[tokio::test(start_paused = true)]
async fn taking_it_again_costs_no_request() {
    let (world, lock, node) = left_lingering().await;
    let owner = Owner::new();
    let (requests, tokens) = world
        .requests(async {
            let mut tokens = Vec::new();
            for _ in 0..1000 {
                let guard = lock.acquire(&owner).await.unwrap();
                tokens.push(guard.token());
                guard.release().await.unwrap();
            }
            tokens
        })
        .await;
    assert_eq!(requests, 0);
    assert!(tokens.is_sorted_by(|one, next| one < next), "tokens grow");
    assert_eq!(world.queue(), [node]);
    drop(lock);
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn another_process_gets_it_at_once() {
    let (world, lock, _) = left_lingering().await;
    let clock = Clock::start();
    let guard = world.lock().await.acquire().await.unwrap();
    world.is_owner(&guard);
    assert!(clock.elapsed() < Duration::from_millis(10), "{:?}", clock.elapsed());
    let waiting = tokio::spawn(async move { lock.acquire(&Owner::new()).await.map(drop) });
    settle().await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn it_goes_when_its_time_is_over_counted_from_the_last_use() {
    let (world, lock, node) = left_lingering().await;
    tokio::time::sleep(LINGER / 2).await;
    assert_eq!(used(&world, &lock).await, node);
    tokio::time::sleep(LINGER - Duration::from_secs(1)).await;
    assert_eq!(world.queue(), [node]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_for_it_back_gets_it() {
    let (world, lock, _) = left_lingering().await;
    assert_eq!(lock.revoke().await.unwrap(), 1);
    settle().await;
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_deleted_is_not_taken_again() {
    let (world, lock, node) = left_lingering().await;
    world.client().await.delete(&format!("{LOCK}/{node}"), None).await.unwrap();
    settle().await;
    let guard = lock.acquire(&Owner::new()).await.unwrap();
    assert!(!guard.node().ends_with(&node));
    world.is_owner(&guard);
}

#[tokio::test(start_paused = true)]
async fn while_the_session_is_in_doubt_it_is_not_taken_again() {
    let world = World::new();
    let client = world.client().await;
    let lock = lingering(&client);
    let node = used(&world, &lock).await;
    world.server.partition(client.session().unwrap().id);
    tokio::time::sleep(TIMEOUT).await;
    let owner = Owner::new();
    let mut acquiring = Box::pin(lock.acquire(&owner));
    tokio::time::timeout(TIMEOUT, acquiring.as_mut()).await.expect_err("nobody answers");
    // Meanwhile the server has given the lock to another client.
    let guard = world.lock().await.acquire().await.unwrap();
    assert!(!guard.node().ends_with(&node));
    world.is_owner(&guard);
    world.server.heal();
    acquiring.await.expect_err("the session is over");
}

#[tokio::test(start_paused = true)]
async fn it_lingers_where_the_session_runs_wherever_its_last_user_was() {
    let world = World::new();
    let (lock, other) = (lingering(&world.client().await), world.lock().await);
    let runtime = || Builder::new_current_thread().enable_time().build().unwrap();
    let (unpolled, ended) = (runtime(), runtime());
    let unpolled_handle = Some(unpolled.handle().clone());
    let ended_handle = Some(ended.handle().clone());
    ended.shutdown_background();
    for handle in [unpolled_handle, ended_handle, None] {
        for is_wanted in [true, false] {
            let guard = lock.acquire(&Owner::new()).await.unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let _entered = handle.as_ref().map(Handle::enter);
                    drop(guard);
                });
            });
            settle().await;
            assert_eq!(world.queue().len(), 1, "it lingers");
            if is_wanted {
                let clock = Clock::start();
                let guard = timeout(LINGER, other.acquire()).await.expect("nobody uses it");
                world.is_owner(&guard.unwrap());
                assert!(clock.elapsed() < Duration::from_millis(10), "{:?}", clock.elapsed());
            } else {
                tokio::time::sleep(LINGER + Duration::from_secs(1)).await;
            }
            settle().await;
            assert_eq!(world.queue(), [""; 0]);
        }
    }
    unpolled.shutdown_background();
    drop((lock, other));
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_runtime_of_its_session_releases_it() {
    let world = World::new();
    let (builder, other) = (world.builder(), world.lock().await);
    let used = async {
        let client = builder.connect("zk").await.unwrap();
        assert_eq!(client.runtime().unwrap().id(), Handle::current().id());
        let lock = lingering(&client);
        drop(lock.acquire(&Owner::new()).await.unwrap());
        lock
    };
    let elsewhere = tokio::task::spawn_blocking(|| {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        (runtime.block_on(used), runtime)
    });
    let (lock, runtime) = elsewhere.await.unwrap();
    assert_eq!(world.queue().len(), 1, "it lingers while its runtime lives");
    runtime.shutdown_background();
    lock.acquire(&Owner::new()).await.expect_err("the session is over");
    drop(timeout(10 * TIMEOUT, other.acquire()).await.expect("the session expires").unwrap());
}
