//! A lock that is released and requested again in one transaction: whatever its result, it leaves
//! no node behind and does not delay other contenders.

use std::time::Duration;

use zk_client::CreateOptions;
use zk_embedded::{ErrorCode, Fault, OpCode};
use zk_recipes::{ErrorKind, Lock};
use zk_test_support::explore::poll_once;
use zk_test_support::locks::{LOCK, TIMEOUT, World, settle};

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

/// Another client creates a node with a made-up name and a future sequence number.
#[tokio::test(start_paused = true)]
async fn a_number_that_was_taken_ahead_of_time_is_waited_for() {
    for (name, turns) in [("0-lock-", 0), ("z-lock-", 1)] {
        let world = World::new();
        let (lock, admin) = (world.lock().await, world.client().await);
        let mut guard = lock.acquire().await.unwrap();
        let number = guard.node()[guard.node().len() - 10..].parse::<i32>().unwrap();
        let early = format!("{LOCK}/{name}{:010}", number + 5);
        admin.create(&early, b"", &CreateOptions::ephemeral()).await.unwrap();
        for _ in 0..3 + turns {
            guard = guard.requeue().await.unwrap();
            world.is_owner(&guard);
        }
        let mut waiting = Box::pin(guard.requeue());
        for _ in 0..3 {
            assert!(poll_once(waiting.as_mut()).is_pending());
            settle().await;
        }
        admin.delete(&early, None).await.unwrap();
        world.is_owner(&waiting.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_else_deleted_is_no_obstacle() {
    let world = World::new();
    let (lock, admin) = (world.lock().await, world.client().await);
    let guard = lock.acquire().await.unwrap();
    let node = guard.node().to_owned();
    admin.delete(&node, None).await.unwrap();
    let guard = guard.requeue().await.unwrap();
    assert_ne!(guard.node(), node);
    world.is_owner(&guard);
    guard.release().await.unwrap();
    settle().await;
    assert_eq!(world.queue(), [""; 0]);
}

/// The node's folder was removed as well and is created again.
#[tokio::test(start_paused = true)]
async fn a_folder_that_was_removed_meanwhile_is_made_again() {
    let world = World::new();
    let (lock, admin) = (world.lock().await, world.client().await);
    let guard = lock.acquire().await.unwrap();
    let gone = (admin.delete(guard.node(), None), admin.delete(LOCK, None));
    gone.0.await.unwrap();
    gone.1.await.unwrap();
    let guard = guard.requeue().await.unwrap();
    world.is_owner(&guard);
    assert!(guard.node().ends_with("0000000000"), "{}", guard.node());
}

#[tokio::test(start_paused = true)]
async fn a_create_that_is_refused_releases_the_lock_all_the_same() {
    let world = World::new();
    let guard = world.lock().await.acquire().await.unwrap();
    world.server.inject(Fault::refuse(ErrorCode::NO_AUTH).op(OpCode::MULTI));
    let refused = guard.requeue().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Client);
    settle().await;
    assert_eq!(world.queue(), [""; 0]);
    let guard = world.lock().await.acquire().await.unwrap();
    world.is_owner(&guard);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_lost_leaves_one_node_at_most() {
    for carried_out in [false, true] {
        let world = World::new();
        let guard = world.lock().await.acquire().await.unwrap();
        let fault = if carried_out { Fault::lose_reply() } else { Fault::lose_request() };
        world.server.inject(fault.op(OpCode::MULTI));
        let guard = guard.requeue().await.unwrap();
        assert_eq!(world.server.pending_faults(), 0);
        world.is_owner(&guard);
        assert_eq!(world.queue().len(), 1);
        guard.release().await.unwrap();
        settle().await;
        assert_eq!(world.queue(), [""; 0]);
    }
}

/// The client performs the release, even if the future is no longer polled.
#[tokio::test(start_paused = true)]
async fn a_requeue_that_nobody_polls_does_not_keep_the_old_lock() {
    for carried_out in [false, true] {
        let world = World::new();
        let (lock, other) = (world.lock().await, world.lock().await);
        let guard = lock.acquire().await.unwrap();
        let node = guard.node().rsplit('/').next().unwrap().to_owned();
        let fault = if carried_out { Fault::lose_reply() } else { Fault::lose_request() };
        world.server.inject(fault.op(OpCode::MULTI));
        let mut stuck = Box::pin(guard.requeue());
        assert!(poll_once(stuck.as_mut()).is_pending());
        tokio::time::sleep(TIMEOUT / 2).await;
        assert_eq!(world.server.pending_faults(), 0);
        assert!(!world.queue().contains(&node), "{carried_out}");
        drop(stuck);
        let guard = other.acquire_within(Duration::from_secs(1)).await.unwrap();
        world.is_owner(&guard);
    }
}

#[tokio::test(start_paused = true)]
async fn a_requeue_that_is_dropped_leaves_neither_node() {
    for sent in [false, true] {
        let world = World::new();
        let guard = world.lock().await.acquire().await.unwrap();
        let mut again = Box::pin(guard.requeue());
        assert!(poll_once(again.as_mut()).is_pending());
        if sent {
            settle().await;
            assert_eq!(world.queue().len(), 1);
        }
        drop(again);
        settle().await;
        assert_eq!(world.queue(), [""; 0]);
    }
}
