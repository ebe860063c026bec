//! Futures that wait for a two-level lock and are neither polled any more nor dropped, like those
//! of another branch of `select!`. They keep their place, as with tokio's `Mutex`, and whoever is
//! polled drives the acquire on.

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_client::ErrorCode;
use zk_embedded::{Fault, OpCode};
use zk_recipes::{Error, ErrorKind, Owner, ReentrantGuard, ReentrantLock, ReentrantRwLock};
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::locks::{LOCK, TIMEOUT, World};

/// Longer than a future needs that has nobody ahead.
const SOON: Duration = Duration::from_millis(10);

const HOUR: Duration = Duration::from_secs(60 * 60);

type Acquire = Pin<Box<dyn Future<Output = Result<ReentrantGuard, Error>> + Send>>;

async fn stock(world: &World) -> ReentrantLock {
    ReentrantLock::new(&world.client().await, LOCK).unwrap()
}

fn acquire(lock: &ReentrantLock) -> Acquire {
    let lock = lock.clone();
    Box::pin(async move { lock.acquire(&Owner::new()).await })
}

/// A future that has queued up and is not polled from then on.
fn away(lock: &ReentrantLock) -> Acquire {
    let mut acquire = acquire(lock);
    assert!(poll_once(acquire.as_mut()).is_pending());
    acquire
}

/// Checks that the queue is empty.
async fn nobody_is_left(world: &World) {
    settle().await;
    assert_eq!(world.queue(), [""; 0]);
}

async fn soon<T>(future: impl Future<Output = Result<T, Error>>) -> T {
    timeout(SOON, future).await.expect("nobody else comes").unwrap()
}

/// The pattern of which the documentation of `acquire` warns, and its remedy.
#[tokio::test(start_paused = true)]
async fn another_branch_of_select_waits_until_the_first_acquire_is_dropped() {
    let world = World::new();
    let (lock, remote) = (stock(&world).await, world.lock().await);
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
    nobody_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn the_acquire_goes_on_with_whoever_is_polled() {
    let world = World::new();
    let (lock, remote) = (stock(&world).await, world.lock().await);
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
    nobody_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_handed_to_a_future_that_is_not_polled_stays_with_it() {
    let world = World::new();
    let lock = stock(&world).await;
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
        nobody_is_left(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn readers_do_not_wait_for_a_reader_that_is_not_polled() {
    let world = World::new();
    let lock = ReentrantRwLock::new(&world.client().await, LOCK).unwrap();
    let owners = [Owner::new(), Owner::new(), Owner::new()];
    let [one, two, three] = &owners;
    let mut away = Box::pin(lock.read(one));
    assert!(poll_once(away.as_mut()).is_pending());
    drop(soon(lock.read(two)).await);
    let mut writing = pin!(lock.write(three));
    timeout(HOUR, writing.as_mut()).await.expect_err("a reader is ahead");
    drop(away);
    let guard = soon(writing).await;
    world.is_owner(&guard);
    drop(guard);
    nobody_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_try_that_is_not_polled_stops_nobody_if_the_lock_is_not_free() {
    let world = World::new();
    let (lock, remote) = (stock(&world).await, world.lock().await);
    let (me, other) = (Owner::new(), Owner::new());
    let held = remote.acquire().await.unwrap();
    let mut trying = pin!(lock.try_acquire(&me));
    assert!(poll_once(trying.as_mut()).is_pending());
    let leaves = async {
        settle().await;
        drop(held);
    };
    let (guard, ()) = tokio::join!(soon(lock.acquire(&other)), leaves);
    world.is_owner(&guard);
    assert!(trying.await.unwrap().is_none(), "it was not free");
    drop(guard);
    nobody_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn an_error_reaches_a_waiter_that_is_polled() {
    let world = World::new();
    let client = world.client().await;
    let lock = ReentrantLock::new(&client, LOCK).unwrap();
    drop(soon(acquire(&lock)).await);
    settle().await;
    world.server.inject(Fault::refuse(ErrorCode::NO_AUTH).op(OpCode::CREATE2));
    let first = away(&lock);
    let refused = timeout(SOON, acquire(&lock)).await.expect("it is told").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Client);
    drop(soon(first).await);
    nobody_is_left(&world).await;
    let held = world.lock().await.acquire().await.unwrap();
    let first = away(&lock);
    let waiting = [(); 2].map(|()| tokio::spawn(acquire(&lock)));
    settle().await;
    world.server.expire(client.session().unwrap().id);
    for waiting in waiting {
        let told = timeout(TIMEOUT, waiting).await.expect("it is told").unwrap();
        assert_eq!(told.unwrap_err().kind(), ErrorKind::Client);
    }
    first.await.expect_err("the session is over");
    drop(held);
}

/// This is what the documentation of `acquire` promises.
#[tokio::test(start_paused = true)]
async fn where_nobody_is_there_the_lock_is_kept_until_somebody_comes_or_is_dropped() {
    let world = World::new();
    let (lock, remote) = (stock(&world).await, world.lock().await);
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
    nobody_is_left(&world).await;
}

/// Takes the lock many times, and stops polling some of the futures for a while.
async fn takes_turns(
    world: Rc<World>,
    lock: ReentrantLock,
    inside: Rc<Cell<bool>>,
    mut chance: fastrand::Rng,
) {
    let me = Owner::new();
    for _ in 0..10 {
        match chance.u32(0..8) {
            0 | 1 => {
                let mut acquire = acquire(&lock);
                let polls = chance.usize(1..4);
                if (0..polls).all(|_| poll_once(acquire.as_mut()).is_pending()) {
                    sleep(Duration::from_millis(chance.u64(0..50))).await;
                }
            }
            2 => drop(timeout(Duration::from_millis(chance.u64(0..5)), acquire(&lock)).await),
            3 => drop(lock.try_acquire(&me).await.unwrap()),
            _ => {
                let guard = lock.acquire(&me).await.unwrap();
                assert!(!inside.replace(true), "two are inside");
                world.is_owner(&guard);
                sleep(Duration::from_millis(chance.u64(0..5))).await;
                inside.set(false);
                drop(guard);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_polled_gets_in_once_those_that_are_not_are_dropped() {
    for seed in 0..20 {
        let world = Rc::new(World::new());
        let inside = Rc::new(Cell::new(false));
        let mut chance = fastrand::Rng::with_seed(seed);
        let tasks = tokio::task::LocalSet::new();
        for _ in 0..2 {
            let lock = stock(&world).await;
            for _ in 0..10 {
                let (world, inside) = (Rc::clone(&world), Rc::clone(&inside));
                tasks.spawn_local(takes_turns(world, lock.clone(), inside, chance.fork()));
            }
        }
        timeout(Duration::from_secs(600), tasks).await.expect("a waiter waits for ever");
        nobody_is_left(&world).await;
    }
}
