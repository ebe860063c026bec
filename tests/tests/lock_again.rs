//! A lock that is let go and taken again at once: one transaction, which leaves nothing behind
//! whatever becomes of it, and keeps nobody waiting.

use std::time::Duration;

use zk_client::ErrorCode;
use zk_embedded::{Config, Fault, OpCode, Release};
use zk_recipes::{ErrorKind, Lock, Options, RwLock};
use zk_tests::explore::poll_once;
use zk_tests::locks::{LOCK, TIMEOUT, World, mirror, settle};

#[tokio::test(start_paused = true)]
async fn it_is_one_request() {
    for release in [Release::V3_8, Release::V3_9] {
        let world = World::with(Config::new().release(release));
        let lock = world.mirrored().await;
        let mut guard = lock.acquire().await.unwrap();
        for _ in 0..3 {
            let (before, token) = (guard.node().to_owned(), guard.token());
            let (requests, again) = world
                .requests(async {
                    drop(guard);
                    lock.acquire().await.unwrap()
                })
                .await;
            guard = again;
            assert_eq!(requests, 1);
            assert!(guard.node() != before && token < guard.token());
            world.is_owner(&guard);
        }
        let (requests, guard) = world.requests(guard.requeue()).await;
        assert_eq!(requests, 1);
        guard.unwrap().release().await.unwrap();
        // Nobody is left, but the watch of the mirror is.
        settle().await;
        assert_eq!(world.queue(), [""; 0]);
    }
}

/// Without a mirror the list behind it shows the new node alone.
#[tokio::test(start_paused = true)]
async fn without_a_mirror_it_saves_a_request_too() {
    let world = World::new();
    let lock = world.plain().await;
    let guard = lock.acquire().await.unwrap();
    let (requests, guard) = world
        .requests(async {
            drop(guard);
            lock.acquire().await.unwrap()
        })
        .await;
    assert_eq!(requests, 2, "the transaction and the list");
    world.is_owner(&guard);
    guard.release().await.unwrap();
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_goes_first() {
    for mirrors in [false, true] {
        let world = World::new();
        let client = world.client().await;
        let lock = Lock::with_options(&client, LOCK, Options::new().mirror(mirrors)).unwrap();
        mirror(&lock).await;
        let other = world.lock().await;
        let guard = lock.acquire().await.unwrap();
        let waiting = tokio::spawn(async move { other.acquire().await.unwrap() });
        settle().await;
        drop(guard);
        let again = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.unwrap() }
        });
        settle().await;
        assert!(waiting.is_finished() && !again.is_finished());
        let first = waiting.await.unwrap();
        world.is_owner(&first);
        drop(first);
        world.is_owner(&again.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_else_deleted_is_no_obstacle() {
    for mirrors in [false, true] {
        let world = World::new();
        let (client, admin) = (world.client().await, world.client().await);
        let lock = Lock::with_options(&client, LOCK, Options::new().mirror(mirrors)).unwrap();
        mirror(&lock).await;
        let guard = lock.acquire().await.unwrap();
        let node = guard.node().to_owned();
        admin.delete(&node, None).await.unwrap();
        drop(guard);
        let guard = lock.acquire().await.unwrap();
        assert_ne!(guard.node(), node);
        world.is_owner(&guard);
        guard.release().await.unwrap();
        settle().await;
        assert_eq!(world.queue(), [""; 0]);
    }
}

/// With the folder, too, which is made again.
#[tokio::test(start_paused = true)]
async fn a_folder_that_was_removed_meanwhile_is_made_again() {
    let world = World::new();
    let (lock, admin) = (world.mirrored().await, world.client().await);
    let guard = lock.acquire().await.unwrap();
    let gone = (admin.delete(guard.node(), None), admin.delete(LOCK, None));
    gone.0.await.unwrap();
    gone.1.await.unwrap();
    drop(guard);
    let guard = lock.acquire().await.unwrap();
    world.is_owner(&guard);
    assert!(guard.node().ends_with("0000000000"), "{}", guard.node());
}

#[tokio::test(start_paused = true)]
async fn a_create_that_is_refused_releases_the_lock_all_the_same() {
    let world = World::new();
    let lock = world.mirrored().await;
    let guard = lock.acquire().await.unwrap();
    // The whole of it is refused, and then the create alone.
    world.server.inject(Fault::refuse(ErrorCode::NO_AUTH).op(OpCode::MULTI));
    drop(guard);
    let refused = lock.acquire().await.unwrap_err();
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
        let lock = world.mirrored().await;
        let guard = lock.acquire().await.unwrap();
        let fault = if carried_out { Fault::lose_reply() } else { Fault::lose_request() };
        world.server.inject(fault.op(OpCode::MULTI));
        drop(guard);
        let guard = lock.acquire().await.unwrap();
        assert_eq!(world.server.pending_faults(), 0);
        world.is_owner(&guard);
        assert_eq!(world.queue().len(), 1);
        guard.release().await.unwrap();
        settle().await;
        assert_eq!(world.queue(), [""; 0]);
    }
}

/// The release is the client's duty, and not that of a future that nobody looks at any more.
#[tokio::test(start_paused = true)]
async fn an_acquire_that_nobody_polls_does_not_keep_the_old_lock() {
    for carried_out in [false, true] {
        let world = World::new();
        let (lock, other) = (world.mirrored().await, world.plain().await);
        let guard = lock.acquire().await.unwrap();
        let node = guard.node().rsplit('/').next().unwrap().to_owned();
        let fault = if carried_out { Fault::lose_reply() } else { Fault::lose_request() };
        world.server.inject(fault.op(OpCode::MULTI));
        drop(guard);
        let mut stuck = Box::pin(lock.acquire());
        assert!(poll_once(stuck.as_mut()).is_pending());
        tokio::time::sleep(TIMEOUT / 2).await;
        assert_eq!(world.server.pending_faults(), 0);
        assert!(!world.queue().contains(&node), "{carried_out}");
        drop(stuck);
        let guard = other.acquire_within(Duration::from_secs(1)).await.unwrap();
        world.is_owner(&guard.expect("nobody has it"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_is_dropped_leaves_neither_node() {
    for sent in [false, true] {
        let world = World::new();
        let lock = world.mirrored().await;
        let guard = lock.acquire().await.unwrap();
        drop(guard);
        let mut acquiring = Box::pin(lock.acquire());
        assert!(poll_once(acquiring.as_mut()).is_pending());
        if sent {
            settle().await;
            assert_eq!(world.queue().len(), 1);
        }
        drop(acquiring);
        settle().await;
        assert_eq!(world.queue(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_waited_for_is_told_of_too() {
    let world = World::new();
    let lock = world.mirrored().await;
    let guard = lock.acquire().await.unwrap();
    let (requests, (released, again)) =
        world.requests(async { tokio::join!(guard.release(), lock.acquire()) }).await;
    assert_eq!(requests, 1);
    assert_eq!(released.unwrap(), zk_recipes::Release::Released);
    world.is_owner(&again.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_comes_again_as_a_reader_is_one_request() {
    let world = World::new();
    let lock = RwLock::new(&world.client().await, LOCK).unwrap();
    for _ in 0..3 {
        lock.write().await.unwrap().release().await.unwrap();
    }
    let writer = lock.write().await.unwrap();
    let (requests, reader) = world
        .requests(async {
            drop(writer);
            lock.read().await.unwrap()
        })
        .await;
    assert_eq!(requests, 1);
    world.is_owner(&reader);
}

/// Whatever thread drives the client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requeue_is_one_request_on_any_runtime() {
    let world = World::new();
    let client = world.client().await;
    let lock = Lock::new(&client, LOCK).unwrap();
    mirror(&lock).await;
    let mut guard = lock.acquire().await.unwrap();
    for _ in 0..100 {
        let (token, before) = (guard.token(), client.stats().frames_sent);
        guard = guard.requeue().await.unwrap();
        assert!(token < guard.token());
        assert_eq!(client.stats().frames_sent - before, 1);
    }
}
