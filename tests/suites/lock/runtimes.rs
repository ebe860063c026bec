//! Futures that are polled on several runtimes, one of which ends, or outside of any. Timers belong
//! to a runtime: that of the session, or where that one has ended, that of the waiter.

use std::pin::Pin;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use zk_client::{Client, Limits};
use zk_recipes::{Error, Guard, Lock, Loss, Options, Owner, ReentrantGuard, ReentrantLock};
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::locks::{LOCK, TIMEOUT, World};
use zk_test_support::peer::Clock;

/// Longer than anybody waits. The clocks of the runtimes differ, since one of them is paused.
const SOON: Duration = Duration::from_secs(60);

pub(crate) type Acquire<G> = Pin<Box<dyn Future<Output = Result<G, Error>> + Send>>;

pub(crate) fn acquire(lock: &ReentrantLock) -> Acquire<ReentrantGuard> {
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
fn on<F: Future>(runtime: &Runtime) -> impl Fn(Pin<&mut F>) -> bool {
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
    settle().await;
    // It was its turn, and it is not polled any more.
    drop(first);
    let guard = timeout(SOON, next).await.expect("it is the next").unwrap().unwrap();
    world.is_owner(&guard);
    drop((guard, lock));
    world.is_empty().await;
}

/// A client whose session has been served by a runtime that has ended, and is served by this one.
async fn client_that_moved(world: &World) -> Client {
    let (client, driver) = world.builder().split("zk").unwrap();
    assert!(client.runtime().is_none(), "its driver was not polled");
    let mut driver = Box::pin(driver);
    let other = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    for _ in 0..10 {
        let polls = async { timeout(Duration::from_millis(1), &mut driver).await.is_err() };
        std::thread::scope(|scope| assert!(scope.spawn(|| other.block_on(polls)).join().unwrap()));
        settle().await;
    }
    assert!(client.state().is_connected());
    let ended = client.runtime().unwrap().id();
    other.shutdown_background();
    tokio::spawn(driver);
    // The connection of that runtime is gone.
    sleep(TIMEOUT / 2).await;
    client.get_children("/").await.unwrap();
    assert_eq!(client.runtime().unwrap().id(), ended);
    client
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_waited_for_before_its_session_has_a_runtime_is_got() {
    let world = World::new();
    let (client, driver) = world.builder().split("zk").unwrap();
    let lock = ReentrantLock::with_options(&client, LOCK, Options::new().linger(SOON)).unwrap();
    let mut waiting = acquire(&lock);
    assert!(poll_once(waiting.as_mut()).is_pending());
    assert!(client.runtime().is_none(), "its driver was not polled");
    tokio::spawn(driver);
    let guard = waiting.await.unwrap();
    world.is_owner(&guard);
    drop(guard);
    settle().await;
    assert_eq!(world.queue().len(), 1, "it lingers on the runtime that the session has now");
    drop(lock);
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn where_the_runtime_of_a_session_has_ended_nothing_lingers() {
    let world = World::new();
    let client = client_that_moved(&world).await;
    let lock = ReentrantLock::with_options(&client, LOCK, Options::new().linger(SOON)).unwrap();
    for _ in 0..2 {
        let guard = acquire(&lock).await.unwrap();
        world.is_owner(&guard);
        drop(guard);
        settle().await;
        assert_eq!(world.queue(), [""; 0], "the node is released");
    }
    drop(lock);
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn where_the_runtime_of_a_session_has_ended_a_waiter_lists_the_queue_again_by_itself() {
    let world = World::new();
    let client = client_that_moved(&world).await;
    let lock = ReentrantLock::new(&client, LOCK).unwrap();
    let held = world.lock().await.acquire().await.unwrap();
    let waiting = tokio::spawn(acquire(&lock));
    settle().await;
    // The access list of the holder's node is replaced unseen, so no event reports its deletion.
    world.hide(held.node()).await;
    let clock = Clock::start();
    held.release().await.unwrap();
    let guard = timeout(2 * TIMEOUT, waiting).await.expect("it is the next").unwrap();
    world.is_owner(&guard.unwrap());
    assert!(clock.elapsed() <= TIMEOUT + Duration::from_secs(1), "{:?}", clock.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_lists_the_queue_again_although_its_runtime_stands_still() {
    let world = World::new();
    let (lock, (_, _, held)) = (world.lock().await, world.holder().await);
    let other = another_runtime();
    let mut waiting = plain(&lock);
    wait_in(&mut waiting, on(&other)).await;
    world.hide(held.node()).await;
    held.release().await.unwrap();
    sleep(TIMEOUT + Duration::from_secs(1)).await;
    // The timer has woken the waiter, and it has listed the queue when it is polled again.
    let guard = timeout(TIMEOUT / 2, waiting).await.expect("the time is over").unwrap();
    world.is_owner(&guard);
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

/// Polls a future on a thread that has no runtime, several times, while the client goes on in the
/// runtime. True if it panics.
async fn panics_nowhere<T: Send>(future: impl Future<Output = T> + Send) -> bool {
    let mut future = std::pin::pin!(future);
    for _ in 0..5 {
        let poll = || poll_once(future.as_mut()).is_ready();
        match std::thread::scope(|scope| scope.spawn(poll).join()) {
            Err(_) => return true,
            Ok(true) => return false,
            Ok(false) => settle().await,
        }
    }
    false
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_needs_a_runtime_and_nothing_else_of_a_lock_does() {
    let world = World::new();
    let lock = world.lock().await;
    assert!(panics_nowhere(lock.acquire_within(SOON)).await);
    assert!(panics_nowhere(lock.within(SOON, lock.acquire())).await);
    assert!(!panics_nowhere(lock.acquire()).await);
    let guard = lock.acquire().await.unwrap();
    let behind = world.lock().await;
    assert!(!panics_nowhere(behind.acquire()).await);
    assert!(!panics_nowhere(guard.run(std::future::pending::<()>())).await);
    assert!(!panics_nowhere(guard.running_out(SOON / 60)).await);
    assert!(!panics_nowhere(guard.verify()).await);
    assert!(!panics_nowhere(guard.release()).await);
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
