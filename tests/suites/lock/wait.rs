//! Waiting in the queue, in every order: contenders ahead leave, the lock is handed over, and other
//! clients delete nodes.

use std::time::Duration;

use zk_client::Op;
use zk_recipes::{ErrorKind, Lock, LockState, Loss, Release};
use zk_test_support::explore::{Script, actor, explore, poll_once, settle};
use zk_test_support::locks::{LOCK, TIMEOUT, World};
use zk_test_support::peer::Clock;

#[test]
fn nobody_owns_whose_node_went_with_the_holders() {
    let runs = explore(|script: Script| async move {
        let world = World::new();
        let (one, two) = (world.lock().await, world.lock().await);
        let _held = one.acquire().await.unwrap();
        let client = world.client().await;
        let mut waits = Box::pin(two.acquire());
        for _ in 0..4 {
            assert!(poll_once(waits.as_mut()).is_pending());
            match script.choose(2) {
                0 => settle().await,
                _ => tokio::task::yield_now().await,
            }
        }
        settle().await;
        let mut nodes = world.queue();
        assert_eq!(nodes.len(), 2, "{nodes:?}");
        if script.choose(2) == 1 {
            nodes.reverse();
        }
        let paths = nodes.iter().map(|name| format!("{LOCK}/{name}")).collect::<Vec<_>>();
        let ops = paths.iter().map(|path| Op::delete(path, None)).collect::<Vec<_>>();
        client.multi(ops).await.unwrap();
        // The result depends on which of the two deletions is reported first. The next event at
        // the latest reports the loss.
        match waits.await {
            Err(error) => assert_eq!(error.kind(), ErrorKind::NodeVanished),
            Ok(guard) => {
                let lost = tokio::time::timeout(TIMEOUT, guard.lost()).await;
                assert_eq!(lost.ok(), Some(Loss::NodeDeleted), "it was never told");
                assert!(guard.verify().await.is_err());
            }
        }
    });
    assert!(runs >= 32, "{runs} runs");
}

#[test]
fn nobody_owns_whose_session_ends_with_a_holder_of_its_own() {
    let runs = explore(|script: Script| async move {
        let world = World::new();
        let client = world.client().await;
        let lock = Lock::new(&client, LOCK).unwrap();
        for _ in 0..3 {
            drop(lock.acquire().await.unwrap());
        }
        let held = lock.acquire().await.unwrap();
        let waits = actor(async move {
            let error = lock.acquire().await.unwrap_err();
            assert!(error.client().is_none_or(zk_client::Error::is_session_over));
        });
        let ends = actor(async move {
            client.close().await;
            assert!(matches!(held.state(), LockState::Lost(_)));
        });
        // The waiter comes first, because an acquire after the end of the session is refused at
        // once.
        script.interleave(6, vec![waits, ends]).await;
        assert_eq!(world.queue(), [""; 0]);
    });
    assert!(runs > 200, "{runs} runs");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_node_is_deleted_is_told_and_may_queue_up_again() {
    let world = World::new();
    let (one, two) = (world.lock().await, world.lock().await);
    let held = one.acquire().await.unwrap();
    let waiting = World::queued(&two).await;
    let clock = Clock::start();
    let admin = world.client().await;
    admin.delete(&format!("{LOCK}/{}", world.queue()[1]), None).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::NodeVanished);
    assert!(clock.elapsed() < TIMEOUT / 6);
    let waiting = World::queued(&two).await;
    held.release().await.unwrap();
    world.is_owner(&waiting.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_node_is_deleted_has_lost_and_the_next_one_owns() {
    let world = World::new();
    let (one, two) = (world.lock().await, world.lock().await);
    let held = one.acquire().await.unwrap();
    assert_eq!(held.state(), LockState::Held);
    let waiting = World::queued(&two).await;
    world.client().await.delete(held.node(), None).await.unwrap();
    assert_eq!(held.lost().await, Loss::NodeDeleted);
    assert_eq!(held.state(), LockState::Lost(Loss::NodeDeleted));
    let error = held.verify().await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::NodeDeleted));
    world.is_owner(&waiting.await.unwrap().unwrap());
    assert_eq!(held.release().await.unwrap(), Release::AlreadyLost);
    drop(one);
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_turns_leave_no_watch() {
    let world = World::new();
    let (one, two) = (world.lock().await, world.lock().await);
    let base = world.server.watch_count();
    for _ in 0..500 {
        let held = one.acquire().await.unwrap();
        let waiting = World::queued(&two).await;
        held.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
    settle().await;
    assert_eq!(world.server.watch_count(), base);
}

#[tokio::test(start_paused = true)]
async fn a_long_queue_is_served_in_order_and_without_a_herd() {
    let world = World::new();
    let (mut locks, mut waiting) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        locks.push(world.lock().await);
        waiting.push(World::queued(&locks[locks.len() - 1]).await);
    }
    let order = world.queue();
    let (requests, ()) = world
        .requests(async {
            for (waiting, name) in waiting.into_iter().zip(order) {
                let guard = waiting.await.unwrap().unwrap();
                assert!(guard.node().ends_with(&name));
                world.is_owner(&guard);
                guard.release().await.unwrap();
                settle().await;
            }
        })
        .await;
    // Five deletes. The contender that is two behind also lists the folder and reads a node in
    // advance.
    assert!(requests <= 5 + 3 * 2, "{requests} requests");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_with_many_locks_hands_over_all() {
    let world = World::new();
    let (holder, waiter) = (world.client().await, world.client().await);
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for n in 0..100 {
        let path = format!("/locks/{n}");
        held.push(Lock::new(&holder, &path).unwrap().acquire().await.unwrap());
        let lock = Lock::new(&waiter, &path).unwrap();
        waiting.push(tokio::spawn(async move { lock.acquire().await }));
    }
    settle().await;
    let clock = Clock::start();
    let mut got = Vec::new();
    let (requests, ()) = world
        .requests(async {
            world.server.expire(holder.session().unwrap().id);
            for waiting in waiting {
                got.push(waiting.await.unwrap().unwrap());
            }
        })
        .await;
    assert!(requests <= 5, "{requests} requests for a hundred locks");
    assert!(clock.elapsed() < Duration::from_secs(1));
    drop((held, got));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_hides_while_it_is_waited_for_is_found_gone_after_a_while() {
    let world = World::new();
    let held = world.lock().await.acquire().await.unwrap();
    let waiting = World::queued(&world.lock().await).await;
    // The access list of the holder's node is replaced unseen, so no event reports its deletion.
    world.hide(held.node()).await;
    let clock = Clock::start();
    held.release().await.unwrap();
    world.is_owner(&waiting.await.unwrap().unwrap());
    assert!(clock.elapsed() <= TIMEOUT + Duration::from_secs(1), "{:?}", clock.elapsed());
}
