//! Futures that are polled on several runtimes, one of which ends, or outside of any. Timers belong
//! to a runtime, and must not take the futures of other runtimes with them.

use std::pin::Pin;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use zk_client::Limits;
use zk_recipes::{Error, Guard, Lock, Loss, Owner, ReentrantGuard, ReentrantLock};
use zk_tests::explore::{poll_once, settle};
use zk_tests::locks::{LOCK, World};

/// Longer than anybody waits. The clocks of the runtimes differ, since one of them is paused.
const SOON: Duration = Duration::from_secs(60);

type Acquire<G> = Pin<Box<dyn Future<Output = Result<G, Error>> + Send>>;

fn acquire(lock: &ReentrantLock) -> Acquire<ReentrantGuard> {
    let lock = lock.clone();
    Box::pin(async move { lock.acquire(&Owner::new()).await })
}

fn plain(lock: &Lock) -> Acquire<Guard> {
    let lock = lock.clone();
    Box::pin(async move { lock.acquire().await })
}

/// Polls a future in another context, until it waits for others.
async fn wait_in<G>(acquire: &mut Acquire<G>, poll: impl Fn(Pin<&mut Acquire<G>>) -> bool) {
    for _ in 0..4 {
        assert!(poll(Pin::new(&mut *acquire)), "the lock is not free");
        settle().await;
    }
}

/// Polls a future on this runtime. True if it is pending.
fn on<G>(runtime: &Runtime) -> impl Fn(Pin<&mut Acquire<G>>) -> bool {
    move |future| {
        let _entered = runtime.enter();
        poll_once(future).is_pending()
    }
}

/// Polls a future on a thread that has no runtime. True if it is pending.
fn nowhere<G: Send>(future: Pin<&mut Acquire<G>>) -> bool {
    std::thread::scope(|scope| scope.spawn(|| poll_once(future).is_pending()).join().unwrap())
}

fn another_runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_runtime_stops_no_waiter_of_another_one() {
    let world = World::new();
    let lock = ReentrantLock::new(&world.client().await, LOCK).unwrap();
    let held = world.lock().await.acquire().await.unwrap();
    let other = another_runtime();
    let mut first = acquire(&lock);
    wait_in(&mut first, on(&other)).await;
    other.shutdown_background();

    let next = tokio::spawn(acquire(&lock));
    settle().await;
    drop(held);
    let guard = timeout(SOON, next).await.expect("nobody else comes").unwrap().unwrap();
    world.is_owner(&guard);
    drop((guard, first, lock));
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_passed_over_although_the_runtime_with_the_alarm_has_ended() {
    let world = World::new();
    let lock = ReentrantLock::new(&world.client().await, LOCK).unwrap();
    let held = acquire(&lock).await.unwrap();
    let other = another_runtime();
    let [mut one, mut two] = [acquire(&lock), acquire(&lock)];
    wait_in(&mut one, on(&other)).await;
    wait_in(&mut two, on(&other)).await;
    let next = tokio::spawn(acquire(&lock));
    // The others are called, and do not come.
    drop(held);
    assert!(on(&other)(Pin::new(&mut two)), "the first one is called");
    settle().await;
    other.shutdown_background();

    let guard = timeout(SOON, next).await.expect("the others do not come").unwrap().unwrap();
    world.is_owner(&guard);
    drop((guard, one, two, lock));
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_is_due_when_it_moves_to_another_runtime_wakes_all() {
    let world = World::new();
    let lock = ReentrantLock::new(&world.client().await, LOCK).unwrap();
    let held = acquire(&lock).await.unwrap();
    // The timers of this runtime never fire, since it runs nothing.
    let other = another_runtime();
    let [mut one, mut two] = [acquire(&lock), acquire(&lock)];
    wait_in(&mut one, on(&other)).await;
    wait_in(&mut two, on(&other)).await;
    tokio::time::sleep(SOON).await;
    drop(held);
    let guard = timeout(SOON, acquire(&lock)).await.expect("the others do not come").unwrap();
    world.is_owner(&guard);
    drop((guard, one, two, lock));
    world.is_empty().await;
    other.shutdown_background();
}

#[tokio::test(start_paused = true)]
async fn a_wait_outside_of_any_runtime_goes_on_with_the_events() {
    let world = World::new();
    let held = world.lock().await.acquire().await.unwrap();
    let mut waiting = plain(&world.lock().await);
    wait_in(&mut waiting, nowhere).await;
    let lock = ReentrantLock::new(&world.client().await, LOCK).unwrap();
    let mut local = acquire(&lock);
    wait_in(&mut local, nowhere).await;
    drop(held);
    settle().await;
    let guard = waiting.await.unwrap();
    world.is_owner(&guard);
    drop(guard);
    settle().await;
    world.is_owner(&local.await.unwrap());
}

/// Polls a future on a thread that has no runtime. True if it panics.
fn panics_nowhere<T>(future: impl Future<Output = T> + Send) -> bool {
    let mut future = std::pin::pin!(future);
    let poll = || drop(poll_once(future.as_mut()));
    std::thread::scope(|scope| scope.spawn(poll).join().is_err())
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_needs_a_runtime_and_nothing_else_of_a_lock_does() {
    let world = World::new();
    let lock = world.lock().await;
    assert!(panics_nowhere(lock.acquire_within(SOON)));
    assert!(panics_nowhere(lock.within(SOON, lock.acquire())));
    assert!(!panics_nowhere(lock.acquire()));
    let guard = lock.acquire().await.unwrap();
    assert!(!panics_nowhere(guard.run(std::future::pending::<()>())));
    assert!(!panics_nowhere(guard.verify()));
    assert!(!panics_nowhere(guard.release()));
    settle().await;
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_told_outside_of_any_runtime_although_a_look_was_refused() {
    let world = World::new();
    world.make_folder().await;
    let mut limits = Limits::default();
    limits.max_requests = 2;
    let client = world.builder().limits(limits).connect("zk").await.unwrap();
    let guard = Lock::new(&client, LOCK).unwrap().acquire().await.unwrap();
    let node = guard.node().to_owned();
    let reads = client.batch(|| [client.get_data("/"), client.get_data("/")]);
    let mut lost: Acquire<Loss> = Box::pin(async move { Ok(guard.lost().await) });
    assert!(nowhere(Pin::new(&mut lost)), "it is held");
    for read in reads {
        read.await.unwrap();
    }
    assert!(nowhere(Pin::new(&mut lost)), "it is held");
    // On a runtime the node is read again in time.
    world.client().await.delete(&node, None).await.unwrap();
    assert_eq!(lost.await.unwrap(), Loss::NodeDeleted);
}
