//! A lock that is let go and taken again at once: one transaction, which leaves nothing behind
//! whatever becomes of it, and keeps nobody waiting.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use zk_client::{CreateOptions, ErrorCode};
use zk_embedded::{Config, Fault, OpCode, Release};
use zk_recipes::{ErrorKind, Guard, Lock, LockState, Options, RwLock};
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

/// The number tells what a list would tell.
#[tokio::test(start_paused = true)]
async fn it_is_one_request_without_a_mirror_too() {
    let world = World::new();
    let lock = world.plain().await;
    let mut guard = lock.acquire().await.unwrap();
    for expected in [2, 1, 1] {
        let (requests, next) = world.requests(again(&lock, guard)).await;
        guard = next;
        assert_eq!(requests, expected, "the list goes along where others may have come");
        world.is_owner(&guard);
    }
    guard.release().await.unwrap();
    world.is_empty().await;
}

/// Lets the lock go and takes it at once.
async fn again(lock: &Lock, guard: Guard) -> Guard {
    drop(guard);
    lock.acquire().await.unwrap()
}

/// Whatever it asks is answered, and it waits all the same.
async fn still_waits<F: Future>(mut acquiring: Pin<&mut F>) {
    for _ in 0..6 {
        assert!(poll_once(acquiring.as_mut()).is_pending());
        settle().await;
    }
}

/// A lock that has been taken so often that its mirror was put away, and its holder.
async fn alone(world: &World) -> (Lock, Guard) {
    let lock = world.mirrored().await;
    let mut guard = lock.acquire().await.unwrap();
    assert_eq!(world.server.watch_count(), 1);
    for _ in 0..20 {
        guard = again(&lock, guard).await;
    }
    settle().await;
    assert_eq!(world.server.watch_count(), 0, "nobody is there to be told of");
    (lock, guard)
}

#[tokio::test(start_paused = true)]
async fn who_is_alone_is_told_of_nothing() {
    let world = World::new();
    let (lock, mut guard) = alone(&world).await;
    for _ in 0..50 {
        let (requests, next) = world.requests(again(&lock, guard)).await;
        guard = next;
        assert_eq!(requests, 1);
        world.is_owner(&guard);
    }
    assert_eq!(world.server.watch_count(), 0);
    // From here on it is not taken at once, and so followed again.
    guard.release().await.unwrap();
    mirror(&lock).await;
    assert_eq!(world.server.watch_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_the_state_is_told_by_the_mirror() {
    let world = World::new();
    let lock = world.mirrored().await;
    let mut guard = lock.acquire().await.unwrap();
    let (requests, _guard) = world
        .requests(async {
            for _ in 0..50 {
                assert_eq!(guard.state(), LockState::Held);
                guard = again(&lock, guard).await;
            }
            guard
        })
        .await;
    assert_eq!((requests, world.server.watch_count()), (50, 1));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_came_in_between_is_looked_at() {
    let world = World::new();
    let (lock, guard) = alone(&world).await;
    let admin = world.client().await;
    let path = format!("{LOCK}/config");
    admin.create(&path, b"", &CreateOptions::persistent()).await.unwrap();
    let (requests, guard) = world.requests(again(&lock, guard)).await;
    assert_eq!(requests, 3, "the transaction, and a list with a watch");
    let (requests, guard) = world.requests(again(&lock, guard)).await;
    assert_eq!(requests, 4, "a watch, behind the delete, and create and list");
    admin.delete(&path, None).await.unwrap();
    world.is_owner(&guard);
}

/// Its number would be right, but those ahead of it are still there.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_and_comes_again_is_not_first() {
    let world = World::new();
    let (lock, other) = (world.plain().await, world.plain().await);
    let held = other.acquire().await.unwrap();
    let mut waiting = Box::pin(lock.acquire());
    still_waits(waiting.as_mut()).await;
    assert_eq!(world.queue().len(), 2);
    drop(waiting);
    let mut waiting = Box::pin(lock.acquire());
    still_waits(waiting.as_mut()).await;
    world.is_owner(&held);
    held.release().await.unwrap();
    world.is_owner(&waiting.await.unwrap());
}

/// Its number would be right, but a reader is no measure for it.
#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_again_as_a_writer_waits_for_the_others() {
    for mirrors in [false, true] {
        let world = World::new();
        let lock = async || {
            let options = Options::new().mirror(mirrors);
            RwLock::with_options(&world.client().await, LOCK, options).unwrap()
        };
        let (lock, other) = (lock().await, lock().await);
        for lock in [&lock, &other, &lock, &other] {
            lock.read().await.unwrap().release().await.unwrap();
        }
        let (first, own) = (other.read().await.unwrap(), lock.read().await.unwrap());
        drop(own);
        assert!(lock.try_write().await.unwrap().is_none(), "{mirrors}");
        // Among readers it is.
        let mut own = lock.read().await.unwrap();
        for expected in [if mirrors { 1 } else { 2 }, 1] {
            let (requests, next) = world
                .requests(async {
                    drop(own);
                    lock.read().await.unwrap()
                })
                .await;
            own = next;
            assert_eq!(requests, expected, "{mirrors}");
        }
        drop(own);
        let mut writing = Box::pin(lock.write());
        still_waits(writing.as_mut()).await;
        world.is_owner(&first);
        first.release().await.unwrap();
        world.is_owner(&writing.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_goes_first() {
    for followed in [false, true] {
        let world = World::new();
        let (lock, guard) = match followed {
            false => alone(&world).await,
            true => {
                let lock = world.mirrored().await;
                let guard = lock.acquire().await.unwrap();
                (lock, guard)
            }
        };
        let other = world.lock().await;
        let waiting = tokio::spawn(async move { other.acquire().await.unwrap() });
        settle().await;
        drop(guard);
        // Before the delete can be sent alone.
        let mut again = Box::pin(async move { lock.acquire().await.unwrap() });
        assert!(poll_once(again.as_mut()).is_pending());
        let again = tokio::spawn(again);
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

/// With one transaction for both, of several who try again and again none would ever find the queue
/// without the others.
#[tokio::test(start_paused = true)]
async fn whoever_tries_leaves_the_queue_in_between() {
    let world = World::new();
    let lock = world.mirrored().await;
    let guard = lock.acquire().await.unwrap();
    let (requests, tried) = world
        .requests(async {
            drop(guard);
            lock.try_acquire().await.unwrap()
        })
        .await;
    assert_eq!(requests, 2);
    world.is_owner(&tried.expect("it is free"));
}

/// Whatever thread drives the client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requeue_is_one_request_on_any_runtime() {
    let world = World::new();
    let client = world.client().await;
    let lock = Lock::new(&client, LOCK).unwrap();
    mirror(&lock).await;
    let mut guard = lock.acquire().await.unwrap();
    let before = client.stats().frames_sent;
    for _ in 0..100 {
        let token = guard.token();
        guard = guard.requeue().await.unwrap();
        assert!(token < guard.token());
    }
    assert_eq!(client.stats().frames_sent - before, 101, "and the watch is removed once");
}

/// Whoever made its name itself may have a number that is still to come. It was there before, so the
/// count does not tell of it.
#[tokio::test(start_paused = true)]
async fn a_number_that_was_taken_ahead_of_time_is_waited_for() {
    for (mirrors, resumes) in [(false, false), (true, false), (false, true)] {
        for (name, turns) in [("0-lock-", 0), ("z-lock-", 1)] {
            let world = World::new();
            let client = world.client().await;
            let lock = Lock::with_options(&client, LOCK, Options::new().mirror(mirrors)).unwrap();
            mirror(&lock).await;
            let (mut guard, admin) = (lock.acquire().await.unwrap(), world.client().await);
            let number = guard.node()[guard.node().len() - 10..].parse::<i32>().unwrap();
            let early = format!("{LOCK}/{name}{:010}", number + 5);
            admin.create(&early, b"", &CreateOptions::ephemeral()).await.unwrap();
            for _ in 0..3 + turns {
                guard = again(&lock, guard).await;
                world.is_owner(&guard);
            }
            if resumes {
                guard = lock.resume(&guard.into_ticket().unwrap()).await.unwrap();
            }
            drop(guard);
            let mut waiting = Box::pin(lock.acquire());
            still_waits(waiting.as_mut()).await;
            admin.delete(&early, None).await.unwrap();
            world.is_owner(&waiting.await.unwrap());
        }
    }
}

/// What the connection missed is read again.
#[tokio::test(start_paused = true)]
async fn a_mirror_that_is_relied_on_is_completed_again() {
    let world = World::new();
    let client = world.client().await;
    let lock = Lock::new(&client, LOCK).unwrap();
    mirror(&lock).await;
    let mut guard = lock.acquire().await.unwrap();
    world.server.disconnect(client.session().unwrap().id);
    client.sync("/").await.ok();
    client.sync("/").await.unwrap();
    let (requests, guard) = world
        .requests(async {
            for _ in 0..50 {
                assert_eq!(guard.state(), LockState::Held);
                guard = again(&lock, guard).await;
            }
            guard
        })
        .await;
    assert!(requests < 50 + 5, "{requests}");
    world.is_owner(&guard);
}

/// Whoever is first here is no measure for who takes the place of somebody elsewhere.
#[tokio::test(start_paused = true)]
async fn the_place_of_another_lock_tells_nothing() {
    for mirrors in [false, true] {
        let world = World::new();
        let client = world.client().await;
        let options = || Options::new().mirror(mirrors);
        let lock = Lock::with_options(&client, LOCK, options()).unwrap();
        let same = Lock::with_options(&client, LOCK, options()).unwrap();
        let below = client.chroot("/locks").unwrap();
        let elsewhere = [
            Lock::with_options(&client, "/locks/other", options()).unwrap(),
            Lock::with_options(&below, "/third", options()).unwrap(),
        ];
        mirror(&lock).await;
        for other in elsewhere {
            let guard = other.acquire().await.unwrap();
            let held = lock.acquire().await.unwrap();
            drop(guard);
            assert!(lock.try_acquire().await.unwrap().is_none(), "{mirrors}");
            world.is_owner(&held);
            held.release().await.unwrap();
        }
        // One folder, seen by two locks of one client.
        let guard = lock.acquire().await.unwrap();
        drop(guard);
        let held = same.acquire().await.unwrap();
        world.is_owner(&held);
        assert!(lock.try_acquire().await.unwrap().is_none(), "{mirrors}");
        drop(held);
        world.is_owner(&lock.acquire().await.unwrap());
    }
}
