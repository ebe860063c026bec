//! A lock that nobody else has wanted for so long that its mirror was put away: whoever relies on
//! the mirror then, or comes to rely on it, is told all the same.

use std::sync::Arc;

use zk_client::Client;
use zk_recipes::{Guard, Lock, LockState, Loss, Owner, ReadGuard, ReentrantLock, RwLock};
use zk_tests::explore::poll_once;
use zk_tests::locks::{LOCK, World, mirror, settle};

/// More turns than it takes.
const MANY: u32 = 20;

/// Lets the lock go and takes it at once, so often.
async fn turns(lock: &Lock, mut guard: Guard, turns: u32) -> Guard {
    for _ in 0..turns {
        drop(guard);
        guard = lock.acquire().await.unwrap();
    }
    guard
}

/// The mirror is put away just when somebody relies on it.
#[tokio::test(start_paused = true)]
async fn whoever_waits_behind_it_when_the_mirror_is_put_away_is_told() {
    for (so_many, is_early) in (10..MANY).flat_map(|turns| [(turns, false), (turns, true)]) {
        let world = World::new();
        let lock = world.mirrored().await;
        drop(turns(&lock, lock.acquire().await.unwrap(), so_many).await);
        let other = lock.clone();
        let mut first = Box::pin(lock.acquire());
        let mut second = Box::pin(async move { other.acquire().await.unwrap() });
        assert!(poll_once(first.as_mut()).is_pending());
        assert!(poll_once(second.as_mut()).is_pending());
        if is_early {
            // It waits by the mirror while that is there.
            settle().await;
            assert!(poll_once(second.as_mut()).is_pending());
        }
        let second = tokio::spawn(second);
        let first = first.await.unwrap();
        settle().await;
        assert!(!second.is_finished(), "{so_many}");
        world.is_owner(&first);
        first.release().await.unwrap();
        settle().await;
        assert!(second.is_finished(), "{so_many}, {is_early}");
        world.is_owner(&second.await.unwrap());
    }
}

/// A reader's place, and that of another of the same lock, which has come again until the mirror was
/// put away.
async fn beside(client: &Client) -> (RwLock, ReadGuard, ReadGuard) {
    let lock = RwLock::new(client, LOCK).unwrap();
    for _ in 0..3 {
        lock.read().await.unwrap().release().await.unwrap();
    }
    let (stays, mut turns) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    for _ in 0..MANY {
        drop(turns);
        turns = lock.read().await.unwrap();
    }
    (lock, stays, turns)
}

#[tokio::test(start_paused = true)]
async fn who_holds_when_the_mirror_is_put_away_learns_of_its_end() {
    for waits in [false, true] {
        let world = World::new();
        let (client, admin) = (world.client().await, world.client().await);
        let (_lock, stays, _turns) = beside(&client).await;
        settle().await;
        assert_eq!(world.server.watch_count(), 0);
        let stays = Arc::new(stays);
        let lost = tokio::spawn({
            let stays = Arc::clone(&stays);
            async move { if waits { Some(stays.lost().await) } else { None } }
        });
        settle().await;
        admin.delete(stays.node(), None).await.unwrap();
        settle().await;
        if waits {
            assert_eq!(lost.await.unwrap(), Some(Loss::NodeDeleted));
        } else {
            // The first look asks.
            assert_eq!(stays.state(), LockState::Held);
            settle().await;
        }
        assert_eq!(stays.state(), LockState::Lost(Loss::NodeDeleted));
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_its_end_keeps_the_mirror() {
    let world = World::new();
    let (client, admin) = (world.client().await, world.client().await);
    let lock = RwLock::new(&client, LOCK).unwrap();
    for _ in 0..3 {
        lock.read().await.unwrap().release().await.unwrap();
    }
    let (stays, mut turns) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    let node = stays.node().to_owned();
    let lost = tokio::spawn(async move { stays.lost().await });
    settle().await;
    let (requests, turns) = world
        .requests(async {
            for _ in 0..2 * MANY {
                drop(turns);
                turns = lock.read().await.unwrap();
            }
            turns
        })
        .await;
    assert_eq!((requests, world.server.watch_count()), (2 * u64::from(MANY), 1));
    admin.delete(&node, None).await.unwrap();
    settle().await;
    assert!(lost.is_finished());
    world.is_owner(&turns);
}

#[tokio::test(start_paused = true)]
async fn it_can_be_asked_back() {
    let world = World::new();
    let lock = world.mirrored().await;
    let guard = Arc::new(turns(&lock, lock.acquire().await.unwrap(), MANY).await);
    let asked = tokio::spawn({
        let guard = Arc::clone(&guard);
        async move { guard.revoke_requested().await }
    });
    settle().await;
    assert_eq!(world.lock().await.revoke().await.unwrap(), 1);
    settle().await;
    assert!(asked.is_finished());
    asked.await.unwrap().unwrap();
}

/// Without a mirror nobody knows whether others wait.
#[tokio::test(start_paused = true)]
async fn tasks_that_hand_on_get_it_back() {
    let world = World::new();
    let lock = ReentrantLock::new(&world.client().await, LOCK).unwrap();
    let owner = Owner::new();
    for _ in 0..2 * MANY {
        drop(lock.acquire(&owner).await.unwrap());
    }
    settle().await;
    assert_eq!(world.server.watch_count(), 0);
    let hand_on = async || {
        let tasks = [(); 3].map(|()| {
            let (lock, owner) = (lock.clone(), Owner::new());
            tokio::spawn(async move {
                for _ in 0..500 {
                    let guard = lock.acquire(&owner).await.unwrap();
                    tokio::task::yield_now().await;
                    drop(guard);
                }
            })
        });
        for task in tasks {
            task.await.unwrap();
        }
    };
    let (requests, ()) = world.requests(hand_on()).await;
    assert!(requests < 20, "{requests}");
    assert_eq!(world.server.watch_count(), 1);
    let (requests, ()) = world.requests(hand_on()).await;
    assert_eq!(requests, 2);
}

/// What it costs to put the mirror away and to make it again: a few requests for each time.
#[tokio::test(start_paused = true)]
async fn two_that_take_turns_pay_little_for_it() {
    const ROUNDS: u64 = 10;
    for (so_many, extra) in [(1, 0), (10, 0), (16, 0), (17, 5), (40, 5)] {
        let world = World::new();
        let locks = [world.mirrored().await, world.lock().await];
        mirror(&locks[1]).await;
        let (requests, ()) = world
            .requests(async {
                for _ in 0..ROUNDS {
                    for lock in &locks {
                        let guard = lock.acquire().await.unwrap();
                        turns(lock, guard, so_many - 1).await.release().await.unwrap();
                    }
                }
            })
            .await;
        let least = 2 * ROUNDS * (u64::from(so_many) + 1);
        assert!((least..=least + 2 * ROUNDS * extra).contains(&requests), "{so_many}: {requests}");
    }
}
