//! A lock that is released and requested again in one transaction. That it leaves no node behind,
//! whatever its result, is shown by the family `Requeue` of the simulation.

use zk_recipes::Lock;
use zk_test_support::locks::{LOCK, World, settle};

/// The result is the same on whichever thread the driver runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requeue_is_one_transaction_and_a_list_on_any_runtime() {
    let world = World::new();
    let client = world.client().await;
    let mut guard = Lock::new(&client, LOCK).unwrap().acquire().await.unwrap();
    let before = client.stats().totals.frames_sent;
    for _ in 0..100 {
        let (token, node) = (guard.token(), guard.node().to_owned());
        guard = guard.requeue().await.unwrap();
        assert!(token < guard.token());
        let stem = |node: &str| node[..node.len() - 10].to_owned();
        assert_ne!(stem(guard.node()), stem(&node), "the name has a new unique part");
    }
    assert_eq!(client.stats().totals.frames_sent - before, 200);
    assert_eq!(world.queue().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_go_first() {
    let world = World::new();
    let (lock, other) = (world.lock().await, world.lock().await);
    let guard = lock.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { other.acquire().await.unwrap() });
    settle().await;
    let again = tokio::spawn(guard.requeue());
    settle().await;
    assert!(waiting.is_finished() && !again.is_finished());
    let first = waiting.await.unwrap();
    world.is_owner(&first);
    drop(first);
    world.is_owner(&again.await.unwrap().unwrap());
}
