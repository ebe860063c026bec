//! The lock that follows its queue by a recursive watch: what it costs, and that it knows when the
//! watch tells too little.

use std::time::Duration;

use zk_client::CreateOptions;
use zk_embedded::{Config, ErrorCode, Fault, OpCode, Release};
use zk_recipes::{ErrorKind, Guard, Lock, LockState, Loss, Options};
use zk_tests::explore::poll_once;
use zk_tests::locks::{LOCK, TIMEOUT, World, mirror, nobody, settle};
use zk_tests::peer::Clock;

/// More than are followed.
const CROWD: usize = 17;

fn start(lock: &Lock) -> tokio::task::JoinHandle<Guard> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.acquire().await.unwrap() })
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_costs_two_requests_and_a_contended_one_too() {
    let world = World::new();
    let lock = world.mirrored().await;
    let (requests, ()) = world
        .requests(async {
            for _ in 0..50 {
                lock.acquire().await.unwrap().release().await.unwrap();
            }
        })
        .await;
    assert_eq!(requests, 100);
    let other = world.mirrored().await;
    let guard = lock.acquire().await.unwrap();
    let (requests, ()) = world
        .requests(async {
            let waiting = start(&other);
            settle().await;
            guard.release().await.unwrap();
            waiting.await.unwrap().release().await.unwrap();
        })
        .await;
    assert_eq!(requests, 3, "create, and two deletes");
}

/// Each takes the lock so often, all at once.
async fn fight(locks: &[Lock], turns: u64) {
    let turns = |lock: &Lock| {
        let lock = lock.clone();
        tokio::spawn(async move {
            for _ in 0..turns {
                drop(lock.acquire().await.unwrap());
            }
        })
    };
    let tasks = locks.iter().map(turns).collect::<Vec<_>>();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_fight_of_two_comes_down_to_a_request_each() {
    let world = World::new();
    let locks = [world.lock().await, world.lock().await];
    // Whoever waits for others by watches at first must not take their events for missed ones.
    fight(&locks, 5).await;
    let (requests, ()) = world.requests(fight(&locks, 50)).await;
    assert_eq!(requests, 2 * (50 + 1), "the release of one turn is the create of the next");
}

#[tokio::test(start_paused = true)]
async fn a_list_from_before_the_watch_does_not_complete_the_mirror() {
    let world = World::new();
    let (client, admin) = (world.client().await, world.client().await);
    let (lock, holder) = (Lock::new(&client, LOCK).unwrap(), world.lock().await);
    // The first acquire reads an empty folder: while it is cut off, everybody is removed.
    let held = holder.acquire().await.unwrap();
    let mut waiting = Box::pin(lock.acquire());
    for _ in 0..4 {
        assert!(poll_once(waiting.as_mut()).is_pending());
        settle().await;
    }
    world.server.disconnect(client.session().unwrap().id);
    for name in world.queue() {
        admin.delete(&format!("{LOCK}/{name}"), None).await.unwrap();
    }
    client.sync("/").await.ok();
    client.sync("/").await.unwrap();
    assert_eq!(waiting.await.unwrap_err().kind(), ErrorKind::NodeVanished);
    drop(held);
    let held = holder.acquire().await.unwrap();
    // The next one sets the watch, and is given up before it has heard its list.
    world.server.inject(Fault::delay(Duration::from_secs(1)).op(OpCode::GET_CHILDREN2));
    let mut given_up = Box::pin(lock.acquire());
    for _ in 0..3 {
        assert!(poll_once(given_up.as_mut()).is_pending());
        settle().await;
    }
    drop(given_up);
    let mut next = Box::pin(lock.acquire());
    for _ in 0..4 {
        assert!(poll_once(next.as_mut()).is_pending(), "{held:?} holds");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    held.release().await.unwrap();
    world.is_owner(&next.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_contender_that_the_watch_does_not_tell_of_is_waited_for() {
    let world = World::new();
    let lock = world.mirrored().await;
    let secret =
        Lock::with_options(&world.client().await, LOCK, Options::new().acl(&[nobody()])).unwrap();
    for _ in 0..3 {
        let held = secret.acquire().await.unwrap();
        let waiting = start(&lock);
        tokio::time::sleep(3 * TIMEOUT).await;
        assert!(!waiting.is_finished(), "{held:?} holds");
        held.release().await.unwrap();
        let guard = waiting.await.unwrap();
        world.is_owner(&guard);
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_hides_later_is_found_gone_after_a_while() {
    let world = World::new();
    for lock in [world.plain().await, world.mirrored().await] {
        let holder = world.lock().await;
        let held = holder.acquire().await.unwrap();
        let waiting = start(&lock);
        settle().await;
        // Its list of who may read it is replaced behind the waiter's back.
        world.hide(held.node()).await;
        let clock = Clock::start();
        held.release().await.unwrap();
        world.is_owner(&waiting.await.unwrap());
        assert!(clock.elapsed() <= TIMEOUT + Duration::from_secs(1), "{:?}", clock.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn who_never_waits_for_long_finds_a_holder_gone_that_hid_later_too() {
    let world = World::new();
    let lock = world.mirrored().await;
    for waits in [false, true] {
        let held = world.lock().await.acquire().await.unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        world.hide(held.node()).await;
        held.release().await.unwrap();
        let clock = Clock::start();
        let short = Duration::from_secs(1);
        let guard = loop {
            let guard = match waits {
                true => lock.acquire_within(short).await.unwrap(),
                false => {
                    tokio::time::sleep(short).await;
                    lock.try_acquire().await.unwrap()
                }
            };
            assert!(clock.elapsed() <= TIMEOUT + 2 * short, "it is free");
            if let Some(guard) = guard {
                break guard;
            }
        };
        world.is_owner(&guard);
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_watch_at_the_folder_takes_nothing_from_the_mirror() {
    for release in [Release::V3_8, Release::V3_9] {
        let world = World::with(Config::new().release(release));
        let client = world.client().await;
        let lock = Lock::new(&client, LOCK).unwrap();
        mirror(&lock).await;
        let holder = world.lock().await;
        for round in 0..3 {
            let held = holder.acquire().await.unwrap();
            let (_, mut watcher) = client.get_children_and_watch(LOCK).await.unwrap();
            let waiting = start(&lock);
            watcher.changed().await.unwrap();
            drop(client.exists_and_watch(LOCK).await.unwrap());
            settle().await;
            assert!(!waiting.is_finished());
            let clock = Clock::start();
            held.release().await.unwrap();
            let guard = waiting.await.unwrap();
            world.is_owner(&guard);
            assert!(clock.elapsed() < Duration::from_secs(1), "{release:?}, round {round}");
            guard.release().await.unwrap();
        }
    }
}

/// That the folder is there is told to whoever expects it, and is no news of what is in it.
#[tokio::test(start_paused = true)]
async fn a_folder_that_is_found_takes_nothing_from_a_holder() {
    let world = World::new();
    let client = world.client().await;
    let lock = Lock::new(&client, LOCK).unwrap();
    mirror(&lock).await;
    let held = lock.acquire().await.unwrap();
    assert_eq!(held.state(), LockState::Held);
    let mut expected = client.watch_expected(&[], &[LOCK]).await.unwrap();
    assert!(expected.pop().unwrap().changed().await.unwrap().missed);
    settle().await;
    assert_eq!(held.state(), LockState::Held);
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_while_cut_off_is_read_again() {
    let world = World::new();
    let client = world.client().await;
    let lock = Lock::new(&client, LOCK).unwrap();
    mirror(&lock).await;
    let session = client.session().unwrap().id;
    // Somebody comes while the client is away, so the next number is no surprise of the list's.
    let holder = world.lock().await;
    world.server.disconnect(session);
    let held = holder.acquire().await.unwrap();
    let waiting = start(&lock);
    settle().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!waiting.is_finished());
    // And leaves while it is away again.
    world.server.disconnect(session);
    held.release().await.unwrap();
    let clock = Clock::start();
    let guard = waiting.await.unwrap();
    assert!(clock.elapsed() < TIMEOUT / 2, "the connection is back, and that is enough");
    world.is_owner(&guard);
}

#[tokio::test(start_paused = true)]
async fn a_wish_that_was_written_while_cut_off_is_read_whoever_listed_first() {
    let world = World::new();
    let (client, admin) = (world.client().await, world.client().await);
    let lock = Lock::new(&client, LOCK).unwrap();
    mirror(&lock).await;
    let held = lock.acquire().await.unwrap();
    assert_eq!(held.state(), LockState::Held);
    world.server.disconnect(client.session().unwrap().id);
    admin.set_data(held.node(), b"unlock", None).await.unwrap();
    client.sync("/").await.ok();
    client.sync("/").await.unwrap();
    // This one has the mirror complete again.
    assert!(lock.try_acquire().await.unwrap().is_none());
    tokio::time::timeout(TIMEOUT, held.revoke_requested()).await.expect("it is there").unwrap();
}

/// Contenders with one client each, so that their coming is told to `lock` alone.
async fn crowd(world: &World, n: usize) -> Vec<tokio::task::JoinHandle<Guard>> {
    let mut crowd = Vec::new();
    for _ in 0..n {
        crowd.push(start(&world.plain().await));
        settle().await;
    }
    crowd
}

#[tokio::test(start_paused = true)]
async fn a_crowd_is_not_followed_and_few_are_again() {
    let world = World::new();
    let lock = world.mirrored().await;
    let held = lock.acquire().await.unwrap();
    let crowd = crowd(&world, CROWD).await;
    held.release().await.unwrap();
    for waiting in crowd {
        // Each of them has the queue of our lock grow and shrink by one.
        let guard = waiting.await.unwrap();
        let tried = lock.try_acquire().await.unwrap();
        assert!(tried.is_none());
        guard.release().await.unwrap();
    }
    mirror(&lock).await;
    let (requests, guard) = world.requests(lock.acquire()).await;
    assert_eq!(requests, 1, "it is followed again");
    guard.unwrap().release().await.unwrap();
}

/// Its new place is told of ahead of the end of the old one.
#[tokio::test(start_paused = true)]
async fn whoever_goes_to_the_end_is_not_counted_twice() {
    let world = World::new();
    let lock = world.mirrored().await;
    let held = lock.acquire().await.unwrap();
    let mut crowd = crowd(&world, CROWD - 2).await.into_iter();
    held.release().await.unwrap();
    let waiting = start(&lock);
    settle().await;
    let again = tokio::spawn(crowd.next().unwrap().await.unwrap().requeue());
    for leaving in crowd {
        leaving.await.unwrap().release().await.unwrap();
    }
    waiting.await.unwrap().release().await.unwrap();
    again.await.unwrap().unwrap().release().await.unwrap();
    let (requests, guard) = world.requests(lock.acquire()).await;
    assert_eq!(requests, 1, "it is followed");
    guard.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_crowd_that_came_and_went_behind_a_list_is_forgotten() {
    let world = World::new();
    let (client, admin) = (world.client().await, world.client().await);
    let lock = Lock::new(&client, LOCK).unwrap();
    mirror(&lock).await;
    // Whoever was cut off asks for a list, and sees what came meanwhile when that is answered.
    world.server.disconnect(client.session().unwrap().id);
    client.sync("/").await.ok();
    client.sync("/").await.unwrap();
    world.server.inject(Fault::delay(Duration::from_secs(1)).op(OpCode::GET_CHILDREN2));
    let acquiring = start(&lock);
    settle().await;
    let stem = format!("{LOCK}/x-lock-");
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let options = CreateOptions::persistent().sequential();
        crowd.push(admin.create(&stem, b"", &options).await.unwrap().path);
    }
    for path in crowd {
        admin.delete(&path, None).await.unwrap();
    }
    acquiring.await.unwrap().release().await.unwrap();
    for _ in 0..3 {
        lock.try_acquire().await.unwrap().unwrap().release().await.unwrap();
    }
    let (requests, guard) = world.requests(lock.try_acquire()).await;
    assert_eq!(requests, 1, "it is followed again");
    guard.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiters_and_holders_notice_that_nobody_follows_any_more() {
    let world = World::new();
    let lock = world.mirrored().await;
    let held = lock.acquire().await.unwrap();
    let waiting = start(&lock);
    settle().await;
    let told = std::sync::Arc::new(held);
    let hearing = {
        let held = std::sync::Arc::clone(&told);
        tokio::spawn(async move { held.lost().await })
    };
    settle().await;
    let crowd = crowd(&world, CROWD).await;
    // This one finds the queue too long, and puts the mirror away.
    assert!(lock.try_acquire().await.unwrap().is_none());
    settle().await;
    let clock = Clock::start();
    world.client().await.delete(told.node(), None).await.unwrap();
    assert_eq!(hearing.await.unwrap(), Loss::NodeDeleted);
    world.is_owner(&waiting.await.unwrap());
    assert!(clock.elapsed() < Duration::from_secs(1), "after {:?}", clock.elapsed());
    for waiting in crowd {
        drop(waiting.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_recursive_watches_is_asked_once_for_one() {
    let world = World::new();
    let client = world.client().await;
    let lock = Lock::new(&client, LOCK).unwrap();
    world.server.inject(Fault::refuse(ErrorCode::UNIMPLEMENTED).op(OpCode::ADD_WATCH));
    mirror(&lock).await;
    assert_eq!(world.server.pending_faults(), 0, "it was asked for");
    let (requests, ()) = world.requests(mirror(&lock)).await;
    assert_eq!(requests, 9, "create, list and delete, and no other watch is asked for");
}

/// Real servers of that age hang up besides.
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_up_on_recursive_watches_is_not_driven_mad() {
    let world = World::new();
    let client = world.client().await;
    let lock = Lock::new(&client, LOCK).unwrap();
    let hangups = 40;
    for _ in 0..hangups {
        world.server.inject(Fault::lose_request().op(OpCode::ADD_WATCH));
    }
    for _ in 0..hangups {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let asked = hangups - world.server.pending_faults();
    assert!((1..=10).contains(&asked), "{asked} times");
}

#[tokio::test(start_paused = true)]
async fn strangers_of_another_layout_are_noticed_by_the_mirror_too() {
    let world = World::new();
    let client = world.client().await;
    let strict = Options::new().strict_foreign(true);
    let lock = Lock::with_options(&client, LOCK, strict).unwrap();
    mirror(&lock).await;
    let foreign = format!("{LOCK}/0123456789abcdef0123456789abcdef__lock__");
    let created = client.create(&foreign, b"", &CreateOptions::persistent().sequential()).await;
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ForeignContender);
    assert!(lock.try_acquire().await.is_err());
    client.delete(&created.unwrap().path, None).await.unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_watch_goes_with_the_last_clone_of_the_lock() {
    let world = World::new();
    let lock = world.mirrored().await;
    let other = lock.clone();
    drop(lock);
    settle().await;
    assert_eq!(world.server.watch_count(), 1);
    let guard = other.acquire().await.unwrap();
    drop(other);
    settle().await;
    assert_eq!(world.server.watch_count(), 1, "the guard is told by it");
    drop(guard);
    world.is_empty().await;
}
