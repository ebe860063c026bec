//! Two-level locks that stay with their process while no other process wants them.

use std::time::Duration;

use zk_embedded::Fault;
use zk_recipes::{Lock, Options, Owner, ReentrantLock};
use zk_tests::explore::settle;
use zk_tests::locks::{LOCK, TIMEOUT, World};
use zk_tests::peer::Clock;

const LINGER: Duration = Duration::from_secs(60);

async fn lingering(world: &World) -> ReentrantLock {
    let options = Options::new().linger(LINGER);
    ReentrantLock::with_options(&world.client().await, LOCK, options).unwrap()
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
    let world = World::new();
    let (lock, owner) = (lingering(&world).await, Owner::new());
    let node = used(&world, &lock).await;
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
    let world = World::new();
    let lock = lingering(&world).await;
    used(&world, &lock).await;
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
    let world = World::new();
    let lock = lingering(&world).await;
    let node = used(&world, &lock).await;
    tokio::time::sleep(LINGER / 2).await;
    assert_eq!(used(&world, &lock).await, node);
    tokio::time::sleep(LINGER - Duration::from_secs(1)).await;
    assert_eq!(world.queue(), [node]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_for_it_back_gets_it() {
    let world = World::new();
    let lock = lingering(&world).await;
    used(&world, &lock).await;
    assert_eq!(lock.revoke().await.unwrap(), 1);
    settle().await;
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_deleted_is_not_taken_again() {
    let world = World::new();
    let lock = lingering(&world).await;
    let node = used(&world, &lock).await;
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
    let options = Options::new().linger(LINGER);
    let lock = ReentrantLock::with_options(&client, LOCK, options).unwrap();
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
async fn a_short_cut_may_end_it_and_makes_no_second_owner() {
    let world = World::new();
    let client = world.client().await;
    let options = Options::new().linger(LINGER);
    let lock = ReentrantLock::with_options(&client, LOCK, options).unwrap();
    used(&world, &lock).await;
    world.server.inject(Fault::lose_reply().session(client.session().unwrap().id));
    drop(client.exists("/").await);
    let guard = lock.acquire(&Owner::new()).await.unwrap();
    world.is_owner(&guard);
    assert_eq!(world.queue().len(), 1);
}

#[tokio::test]
async fn without_a_runtime_it_is_released() {
    let world = World::new();
    let lock = lingering(&world).await;
    let guard = lock.acquire(&Owner::new()).await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    let other = Lock::new(&world.client().await, LOCK).unwrap();
    let guard = other.acquire().await.unwrap();
    assert_eq!(world.queue().len(), 1);
    world.is_owner(&guard);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_runtime_of_its_last_user_releases_it() {
    let world = World::new();
    let lock = lingering(&world).await;
    // The second runtime has ended before it could run anything.
    for runs in [true, false] {
        let guard = lock.acquire(&Owner::new()).await.unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let handle = runtime.handle().clone();
        let mut runtime = Some(runtime);
        if !runs {
            runtime.take().unwrap().shutdown_background();
        }
        let entered = handle.enter();
        drop(guard);
        drop(entered);
        settle().await;
        assert_eq!(world.queue().len(), usize::from(runs), "it lingers while its runtime lives");
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
        settle().await;
        assert_eq!(world.queue(), [""; 0], "nobody watches over it any more");
    }
    used(&world, &lock).await;
    drop(lock);
    world.is_empty().await;
}
