//! What a meter counts, in virtual time: every contender and hold once, whichever way it ends.

use std::time::Duration;

use tokio::time::sleep;
use zk_client::{Client, Ended};
use zk_recipes::{
    Lock, LockMeter, Loss, LossCounts, MultiLock, Options, Owner, ReentrantLock, RwLock, Semaphore,
};
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::locks::{LOCK, TIMEOUT, World};

/// A lock of a client of its own.
async fn lock(world: &World, meter: &LockMeter) -> (Client, Lock) {
    let client = world.client().await;
    let lock = Lock::with_options(&client, LOCK, Options::new().meter(meter)).unwrap();
    (client, lock)
}

#[tokio::test(start_paused = true)]
async fn waits_holds_and_hand_overs_are_counted_with_their_times() {
    let world = World::new();
    let (meter, others) = (LockMeter::new(), LockMeter::new());
    let (_, first) = lock(&world, &others).await;
    let (_, second) = lock(&world, &meter).await;
    let (_, third) = lock(&world, &meter).await;

    let held = first.acquire().await.unwrap();
    assert_eq!((others.stats().held(), others.stats().released), (1, 0));
    let turns = async {
        let guard = second.acquire().await.unwrap();
        assert_eq!(meter.stats().held(), 1);
        sleep(Duration::from_millis(700)).await;
        drop(guard);
    };
    let last = async {
        settle().await;
        third.acquire().await.unwrap().release().await.unwrap();
    };
    let release = async {
        sleep(Duration::from_secs(2)).await;
        held.release().await.unwrap();
    };
    tokio::join!(turns, last, release);

    let stats = others.stats();
    assert_eq!((stats.joined, stats.waited, stats.acquired, stats.handed_over), (1, 0, 1, 0));
    assert_eq!((stats.released, stats.held(), stats.holds.sum()), (1, 0, Duration::from_secs(2)));

    let stats = meter.stats();
    assert_eq!((stats.joined, stats.waited, stats.acquired, stats.handed_over), (2, 2, 2, 2));
    assert_eq!((stats.ahead, stats.max_ahead), (3, 2));
    assert_eq!((stats.released, stats.lost.total(), stats.held()), (2, 0, 0));
    assert_eq!(stats.waits.count(), 2);
    assert_eq!(stats.holds.sum(), Duration::from_millis(700));
    let waited = Duration::from_secs(2) + Duration::from_millis(2_700);
    assert!(waited - stats.waits.sum() < Duration::from_millis(10), "{:?}", stats.waits);
}

#[tokio::test(start_paused = true)]
async fn each_loss_counts_once_by_its_reason_although_nobody_asked() {
    for asks in [true, false] {
        let world = World::new();
        let meter = LockMeter::new();
        let admin = world.client().await;
        let options = Options::new().meter(&meter);
        let (client, plain) = lock(&world, &meter).await;
        let brief = options.clone().max_hold(Duration::from_secs(1));
        let brief = Lock::with_options(&client, "/locks/brief", brief).unwrap();

        let lost = async |guard: zk_recipes::Guard| {
            let loss = if asks { Some(guard.lost().await) } else { None };
            drop(guard);
            settle().await;
            loss
        };
        let guard = brief.acquire().await.unwrap();
        sleep(Duration::from_secs(2)).await;
        assert!([None, Some(Loss::TermOver)].contains(&lost(guard).await));
        let mut expected = LossCounts::default();
        expected.term_over = 1;
        assert_eq!(meter.stats().lost, expected);

        // A plain drop learns of a deletion only if a watch has told of it.
        let guard = plain.acquire().await.unwrap();
        assert!(matches!(guard.state(), zk_recipes::LockState::Held));
        settle().await;
        admin.delete(guard.node(), None).await.unwrap();
        settle().await;
        assert_eq!(guard.lost().await, Loss::NodeDeleted);
        expected.node_deleted = 1;
        assert_eq!(meter.stats().lost, expected, "it counts before the guard is dropped");
        drop(guard);

        let guard = plain.acquire().await.unwrap();
        world.server.set_serving(false);
        sleep(2 * TIMEOUT).await;
        let deadline = lost(guard).await;
        // The client gives the session up a little later than the lock.
        let over = Loss::SessionOver(Ended::Expired);
        assert!([None, Some(Loss::Deadline), Some(over)].contains(&deadline));
        let stats = meter.stats();
        assert_eq!(stats.lost.total(), 3, "{stats:?}");
        assert_eq!(stats.lost.deadline + stats.lost.session_over, 1);
        assert_eq!((stats.acquired, stats.released, stats.held()), (3, 0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn owners_of_one_process_hand_over_under_one_hold() {
    let world = World::new();
    let meter = LockMeter::new();
    let options = Options::new().meter(&meter);
    let lock = ReentrantLock::with_options(&world.client().await, LOCK, options).unwrap();
    let turn = || async {
        let me = Owner::new();
        let outer = lock.acquire(&me).await.unwrap();
        let inner = lock.acquire(&me).await.unwrap();
        sleep(Duration::from_millis(100)).await;
        drop((outer, inner));
    };
    tokio::join!(turn(), turn(), turn());
    settle().await;
    let stats = meter.stats();
    assert_eq!((stats.joined, stats.acquired, stats.handed_over_locally), (1, 1, 2));
    assert_eq!((stats.released, stats.waits.count(), stats.holds.count()), (1, 3, 1));
    assert_eq!(stats.holds.sum(), Duration::from_millis(300));
    assert!(stats.waits.sum() >= Duration::from_millis(300), "{:?}", stats.waits);
}

#[tokio::test(start_paused = true)]
async fn acquires_that_end_otherwise_hold_nothing() {
    let world = World::new();
    let (meter, others) = (LockMeter::new(), LockMeter::new());
    let (_, holder) = lock(&world, &others).await;
    let (_, lock) = lock(&world, &meter).await;
    let held = holder.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    lock.acquire_within(Duration::from_secs(1)).await.unwrap_err();
    let mut cancelled = Box::pin(lock.acquire());
    assert!(poll_once(cancelled.as_mut()).is_pending());
    settle().await;
    assert!(poll_once(cancelled.as_mut()).is_pending());
    drop(cancelled);
    let stats = meter.stats();
    assert_eq!((stats.joined, stats.waited, stats.timed_out), (3, 3, 1));
    assert_eq!((stats.acquired, stats.waits.count(), stats.holds.count()), (0, 0, 0));
    held.release().await.unwrap();
    let resumed = lock.acquire().await.unwrap().requeue().await.unwrap();
    let stats = meter.stats();
    assert_eq!((stats.acquired, stats.released, stats.held()), (2, 1, 1));
    drop(resumed);
}

#[tokio::test(start_paused = true)]
async fn all_kinds_of_locks_count_and_none_is_held_in_the_end() {
    let world = World::new();
    let meter = LockMeter::new();
    let client = world.client().await;
    let options = || Options::new().meter(&meter);
    let rw = RwLock::with_options(&client, "/locks/rw", options()).unwrap();
    let read = rw.write().await.unwrap().downgrade().await.unwrap();
    assert_eq!((meter.stats().acquired, meter.stats().held()), (2, 1));
    let many = MultiLock::with_options(&client, ["/locks/a", "/locks/b"], options()).unwrap();
    let both = many.acquire().await.unwrap();
    assert_eq!((meter.stats().acquired, meter.stats().held()), (4, 3));
    let permits = Semaphore::with_options(&client, "/locks/permits", 3, options()).unwrap();
    let permit = permits.acquire_many(2).await.unwrap();
    assert_eq!((meter.stats().acquired, meter.stats().held()), (6, 5));
    drop((read, both, permit));
    let stats = meter.stats();
    assert_eq!((stats.released, stats.held(), stats.lost.total()), (6, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_meter_changes_no_request() {
    async fn requests(world: &World, options: Options) -> u64 {
        let client = world.client().await;
        let lock = Lock::with_options(&client, LOCK, options).unwrap();
        let turns = async {
            let guard = lock.acquire().await.unwrap();
            let waiting = World::queued(&lock).await;
            guard.release().await.unwrap();
            drop(waiting.await.unwrap().unwrap());
        };
        let (requests, ()) = world.requests(turns).await;
        client.close().await;
        requests
    }
    let world = World::new();
    world.make_folder().await;
    let plain = requests(&world, Options::new()).await;
    assert_eq!(requests(&world, Options::new().meter(&LockMeter::new())).await, plain);
}
