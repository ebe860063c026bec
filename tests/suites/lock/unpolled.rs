//! Futures that wait for a two-level lock and are neither polled any more nor dropped, like those
//! of another branch of `select!`. They keep their place, as with tokio's `Mutex`, and whoever is
//! polled drives the acquire on.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;
use zk_recipes::{Error, Lock, Owner, ReentrantGuard, ReentrantLock};
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::locks::{LOCK, World};

use crate::runtimes::{Acquire, acquire};

/// Longer than a future needs that has nobody ahead.
const SOON: Duration = Duration::from_millis(10);

const HOUR: Duration = Duration::from_secs(60 * 60);

/// A two-level lock of one process, and the lock of another process.
async fn stock() -> (World, ReentrantLock, Lock) {
    let world = World::new();
    let lock = ReentrantLock::new(&world.client().await, LOCK).unwrap();
    let remote = world.lock().await;
    (world, lock, remote)
}

/// A future that has queued up and is not polled from then on.
fn away(lock: &ReentrantLock) -> Acquire<ReentrantGuard> {
    let mut acquire = acquire(lock);
    assert!(poll_once(acquire.as_mut()).is_pending());
    acquire
}

async fn soon<T>(future: impl Future<Output = Result<T, Error>>) -> T {
    timeout(SOON, future).await.expect("nobody else comes").unwrap()
}

/// The pattern of which the documentation of `acquire` warns, and its remedy.
#[tokio::test(start_paused = true)]
async fn another_branch_of_select_waits_until_the_first_acquire_is_dropped() {
    let (world, lock, remote) = stock().await;
    let held = remote.acquire().await.unwrap();
    let (me, other) = (Owner::new(), Owner::new());
    let mut waiting = Box::pin(lock.acquire(&me));
    tokio::select! {
        guard = &mut waiting => panic!("{guard:?}"),
        () = settle() => {}
    }
    drop(held);
    let mut branch = pin!(lock.acquire(&other));
    timeout(HOUR, branch.as_mut()).await.expect_err("it is the turn of the first acquire");
    drop(waiting);
    let guard = soon(branch).await;
    world.is_owner(&guard);
    drop(guard);
    drop(soon(remote.acquire()).await);
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn the_acquire_goes_on_with_whoever_is_polled() {
    let (world, lock, remote) = stock().await;
    let held = remote.acquire().await.unwrap();
    let away = away(&lock);
    let next = tokio::spawn(acquire(&lock));
    settle().await;
    // The replies to the first requests have come, and the spawned task has sent the next ones.
    assert!(world.server.watch_count() > 0, "the queue is watched");
    drop(held);
    settle().await;
    // The node is first, so the waiter behind needs no request.
    let (requests, guard) = world
        .requests(async {
            drop(away);
            soon(async { next.await.unwrap() }).await
        })
        .await;
    assert_eq!(requests, 0);
    world.is_owner(&guard);
    drop(guard);
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_handed_to_a_future_that_is_not_polled_stays_with_it() {
    let (world, lock, _) = stock().await;
    for is_polled in [true, false] {
        let held = soon(acquire(&lock)).await;
        let away = away(&lock);
        let mut next = acquire(&lock);
        assert!(poll_once(next.as_mut()).is_pending());
        drop(held);
        timeout(HOUR, next.as_mut()).await.expect_err("it is not its turn");
        if is_polled {
            let guard = soon(away).await;
            world.is_owner(&guard);
        } else {
            drop(away);
        }
        let guard = soon(next).await;
        world.is_owner(&guard);
        drop(guard);
        world.is_empty().await;
    }
}

/// This is what the documentation of `acquire` promises.
#[tokio::test(start_paused = true)]
async fn where_nobody_is_there_the_lock_is_kept_until_somebody_comes_or_is_dropped() {
    let (world, lock, remote) = stock().await;
    drop(soon(acquire(&lock)).await);
    for comes in [true, false] {
        settle().await;
        let away = away(&lock);
        settle().await;
        assert!(remote.acquire_within(HOUR).await.unwrap_err().timeout().is_some());
        if comes {
            drop(soon(away).await);
        } else {
            drop(away);
        }
        drop(soon(remote.acquire()).await);
    }
    world.is_empty().await;
}
