//! Futures that wait for a two-level lock and are neither polled any more nor dropped, like those
//! of another branch of `select!`. They must not block the futures that are polled.

use std::cell::{Cell, RefCell};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_client::ErrorCode;
use zk_embedded::{Fault, OpCode};
use zk_recipes::{
    Error, ErrorKind, Options, Owner, ReentrantGuard, ReentrantLock, ReentrantRwLock,
};
use zk_tests::explore::{Script, actor, explore, poll_once, settle};
use zk_tests::locks::{LOCK, World};

/// Longer than a future that is not polled may delay the others.
const SOON: Duration = Duration::from_millis(300);

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

#[tokio::test(start_paused = true)]
async fn another_branch_of_select_gets_in() {
    let world = World::new();
    let (lock, remote) = (stock(&world).await, world.lock().await);
    let held = remote.acquire().await.unwrap();
    let (me, other) = (Owner::new(), Owner::new());
    let mut waiting = pin!(lock.acquire(&me));
    let guard = tokio::select! {
        guard = &mut waiting => panic!("{guard:?}"),
        () = settle() => {
            drop(held);
            soon(lock.acquire(&other)).await
        }
    };
    world.is_owner(&guard);
    drop(guard);
    drop(soon(waiting).await);
    drop(soon(remote.acquire()).await);
    nobody_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn the_acquire_goes_on_with_whoever_is_polled() {
    let world = World::new();
    let (lock, remote) = (stock(&world).await, world.lock().await);
    // The future waits for a reply only, or for another process as well.
    for waits in [false, true] {
        let held = if waits { Some(remote.acquire().await.unwrap()) } else { None };
        let away = away(&lock);
        let next = tokio::spawn(acquire(&lock));
        // From here on the spawned task is woken when there is work.
        sleep(SOON).await;
        drop(held);
        let guard = soon(async { next.await.unwrap() }).await;
        world.is_owner(&guard);
        drop((guard, away));
        nobody_is_left(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_handed_to_one_who_is_away_goes_to_the_next() {
    let world = World::new();
    let lock = stock(&world).await;
    let held = soon(acquire(&lock)).await;
    let away = away(&lock);
    let next = tokio::spawn(acquire(&lock));
    settle().await;
    drop(held);
    let guard = soon(async { next.await.unwrap() }).await;
    world.is_owner(&guard);
    // The lock does not wait for that future again, and the future has kept its place.
    let order = RefCell::new(Vec::new());
    let enters = async |name: &'static str, acquire: Acquire| {
        let guard = acquire.await.unwrap();
        order.borrow_mut().push(name);
        world.is_owner(&guard);
    };
    let comes = async {
        settle().await;
        enters("the first", away).await;
    };
    let leaves = async {
        sleep(SOON).await;
        drop(guard);
    };
    tokio::join!(enters("the second", acquire(&lock)), comes, leaves);
    assert_eq!(*order.borrow(), ["the first", "the second"]);
    nobody_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn readers_and_writers_do_not_wait_for_a_reader_who_is_away() {
    let world = World::new();
    let lock = ReentrantRwLock::new(&world.client().await, LOCK).unwrap();
    let owners = [Owner::new(), Owner::new(), Owner::new()];
    let [one, two, three] = &owners;
    let mut away = pin!(lock.read(one));
    assert!(poll_once(away.as_mut()).is_pending());
    drop(soon(lock.read(two)).await);
    let guard = soon(lock.write(three)).await;
    world.is_owner(&guard);
    drop(guard);
    drop(soon(away).await);
    nobody_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_try_that_is_away_stops_nobody() {
    let world = World::new();
    let (lock, remote) = (stock(&world).await, world.lock().await);
    let (me, other) = (Owner::new(), Owner::new());
    for is_free in [true, false] {
        let held = if is_free { None } else { Some(remote.acquire().await.unwrap()) };
        let mut trying = pin!(lock.try_acquire(&me));
        assert!(poll_once(trying.as_mut()).is_pending());
        let leaves = async {
            settle().await;
            drop(held);
        };
        let (guard, ()) = tokio::join!(soon(lock.acquire(&other)), leaves);
        world.is_owner(&guard);
        assert!(trying.await.unwrap().is_none(), "the other one has it");
        drop(guard);
        nobody_is_left(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_is_told_to_one_who_is_there() {
    let world = World::new();
    let lock = stock(&world).await;
    drop(soon(acquire(&lock)).await);
    settle().await;
    world.server.inject(Fault::refuse(ErrorCode::NO_AUTH).op(OpCode::CREATE2));
    let away = away(&lock);
    let refused = timeout(SOON, acquire(&lock)).await.expect("it is told").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Client);
    drop(soon(acquire(&lock)).await);
    drop(soon(away).await);
    nobody_is_left(&world).await;
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
        let day = Duration::from_secs(24 * 60 * 60);
        assert!(remote.acquire_within(day).await.unwrap_err().timeout().is_some());
        if comes {
            drop(soon(away).await);
        } else {
            drop(away);
        }
        drop(soon(remote.acquire()).await);
    }
    nobody_is_left(&world).await;
}

#[test]
fn who_stays_away_at_any_moment_stops_nobody() {
    let runs = explore(|script: Script| async move {
        let world = Rc::new(World::new());
        let client = world.client().await;
        let lock = ReentrantRwLock::with_options(&client, LOCK, Options::new());
        let lock = lock.unwrap();
        let outside = zk_recipes::RwLock::new(&world.client().await, LOCK).unwrap();
        let outer = outside.write().await.unwrap();
        let mut actors = vec![actor(async move { drop(outer) })];
        let kept = Rc::new(RefCell::new(Vec::new()));
        let polls = script.choose(4);
        for (writes, stays_away) in [(script.choose(2) == 0, true), (true, false), (false, false)] {
            let (lock, kept, world) = (lock.clone(), Rc::clone(&kept), Rc::clone(&world));
            actors.push(actor(async move {
                let mut enter: Acquire = Box::pin(async move {
                    let me = Owner::new();
                    match writes {
                        true => lock.write(&me).await,
                        false => lock.read(&me).await,
                    }
                });
                if !stays_away {
                    let guard = enter.await.unwrap();
                    world.is_owner(&guard);
                    return;
                }
                for _ in 0..=polls {
                    if poll_once(enter.as_mut()).is_ready() {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
                kept.borrow_mut().push(enter);
            }));
        }
        script.interleave(3, actors).await;
        kept.borrow_mut().clear();
        drop((lock, outside, client));
        world.is_empty().await;
    });
    assert!(runs > 500, "{runs} runs");
}

/// Takes the lock many times, and stops polling some of the futures halfway.
async fn takes_turns(
    world: Rc<World>,
    lock: ReentrantLock,
    inside: Rc<Cell<bool>>,
    mut chance: fastrand::Rng,
) {
    let me = Owner::new();
    let mut kept = Vec::new();
    for _ in 0..10 {
        match chance.u32(0..8) {
            0 => {
                let mut acquire = acquire(&lock);
                let polls = chance.usize(1..4);
                if (0..polls).all(|_| poll_once(acquire.as_mut()).is_pending()) {
                    kept.push(acquire);
                }
            }
            1 => drop(timeout(Duration::from_millis(chance.u64(0..5)), acquire(&lock)).await),
            2 => kept.truncate(chance.usize(0..2)),
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
async fn everybody_who_is_there_gets_in_whoever_is_away() {
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
        timeout(Duration::from_secs(600), tasks).await.expect("somebody waits for ever");
        nobody_is_left(&world).await;
    }
}
