//! Limits on how the owners of one process hand a lock on to each other.

use tokio::task::yield_now;
use zk_client::{Acl, Id, Perms};
use zk_recipes::{Options, Owner, ReentrantLock};
use zk_test_support::explore::settle;
use zk_test_support::locks::{LOCK, World};

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
