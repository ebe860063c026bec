//! The wait until little is left of a hold: it follows the end, which moves on and comes nearer,
//! and it wakes no more often than that.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use zk_client::{Client, CreateOptions};
use zk_recipes::{Guard, Lock, LockState, Loss, MultiLock, Options, Semaphore};
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::locks::{LOCK, TIMEOUT, World};
use zk_test_support::peer::Clock;

/// A timer may fire that much late.
const TICK: Duration = Duration::from_millis(2);

/// The largest margin that a session which is well never reaches.
const MARGIN: Duration = TIMEOUT.checked_div(4).unwrap();

async fn held(client: &Client, options: Options) -> Guard {
    Lock::with_options(client, LOCK, options).unwrap().acquire().await.unwrap()
}

/// The result of `future` within `time`, and how often it was polled.
async fn polls<F: Future>(time: Duration, future: F) -> (Option<F::Output>, u32) {
    let (mut future, mut polls) = (pin!(future), 0);
    let counted = poll_fn(|cx| {
        polls += 1;
        future.as_mut().poll(cx)
    });
    let done = timeout(time, counted).await.ok();
    (done, polls)
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_hold_moves_on_and_is_followed_without_haste() {
    const TIMES: u32 = 20;
    let world = World::new();
    let client = world.client().await;
    let guard = held(&client, Options::new()).await;
    for percent in 0..=100 {
        let margin = TIMEOUT * percent / 100;
        sleep(TIMEOUT / 7).await;
        let (left, polls) = polls(TIMES * TIMEOUT, guard.running_out(margin)).await;
        assert!(polls <= 5 * TIMES, "{polls} polls for {percent} %");
        assert!(left.is_none() || margin > MARGIN, "{left:?} for {percent} %");
        assert!(left.is_none_or(|left| left <= margin && left > Duration::ZERO), "{left:?}");
        assert!(left.is_some() || percent < 100, "so much is never left");
    }
    assert_eq!(guard.state(), LockState::Held);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_cut_off_is_told_as_long_before_the_end_as_it_asked_for() {
    for percent in [1, 5, 10, 25] {
        let margin = TIMEOUT * percent / 100;
        let world = World::new();
        let client = world.client().await;
        let guard = held(&client, Options::new()).await;
        let mut running_out = pin!(guard.running_out(margin));
        assert!(timeout(3 * TIMEOUT, running_out.as_mut()).await.is_err(), "all is well");
        world.server.partition(client.session().unwrap().id);
        let left = timeout(TIMEOUT, running_out).await.unwrap();
        assert!(left <= margin && margin - left <= TICK, "{left:?} of {margin:?}");
        assert_eq!(left, guard.remaining());
        // The server answers pings, so the state alone would not tell.
        assert_eq!(guard.state().loss(), None);
        let clock = Clock::start();
        assert_eq!(guard.running_out(Duration::ZERO).await, Duration::ZERO);
        assert!(clock.elapsed().abs_diff(left) <= TICK, "{:?} and {left:?}", clock.elapsed());
        assert_eq!(guard.state(), LockState::Lost(Loss::Deadline));
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_term_counts_as_well_as_that_of_the_session() {
    let world = World::new();
    let client = world.client().await;
    let term = 5 * TIMEOUT;
    let clock = Clock::start();
    let guard = held(&client, Options::new().max_hold(term)).await;
    let left = guard.running_out(MARGIN).await;
    assert!(left <= MARGIN && MARGIN - left <= TICK, "{left:?}");
    assert!(clock.elapsed().abs_diff(term - MARGIN) <= TICK, "{:?}", clock.elapsed());
    assert_eq!(guard.state(), LockState::Held);
    assert_eq!(guard.running_out(Duration::ZERO).await, Duration::ZERO);
    assert_eq!(guard.state(), LockState::Lost(Loss::TermOver));
}

/// The time of the session comes nearer at once when the machine was suspended, and no timer fires
/// for that.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_state_has_it_look_again_before_its_time() {
    let world = World::new();
    let suspended = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&suspended);
    let builder =
        world.builder().suspend_time(move || Duration::from_millis(told.load(Ordering::Relaxed)));
    let client = builder.connect("zk").await.unwrap();
    let guard = held(&client, Options::new()).await;
    let mut running_out = pin!(guard.running_out(MARGIN));
    assert!(poll_once(running_out.as_mut()).is_pending());
    settle().await;
    let jump = guard.remaining() - MARGIN / 2;
    suspended.store(jump.as_millis() as u64, Ordering::Relaxed);
    let clock = Clock::start();
    world.server.set_serving(false);
    let left = running_out.await;
    assert!(left > Duration::ZERO && left <= MARGIN / 2 + TICK, "{left:?}");
    assert!(clock.elapsed() <= MARGIN / 2, "{:?}", clock.elapsed());

    suspended.store(10 * TIMEOUT.as_millis() as u64, Ordering::Relaxed);
    assert_eq!(poll_once(pin!(guard.running_out(MARGIN))), Poll::Ready(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_dropped_leaves_no_task_and_no_request() {
    let world = World::new();
    let client = world.client().await;
    let guard = held(&client, Options::new()).await;
    assert_eq!(guard.state(), LockState::Held);
    settle().await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    for _ in 0..3 {
        let mut running_out = Box::pin(guard.running_out(MARGIN));
        assert_eq!(world.requests(async { poll_once(running_out.as_mut()) }).await.0, 0);
        assert_eq!(Handle::current().metrics().num_alive_tasks(), tasks + 1, "its timer");
        drop(running_out);
        settle().await;
        assert_eq!(Handle::current().metrics().num_alive_tasks(), tasks);
    }
}

#[tokio::test(start_paused = true)]
async fn of_several_locks_the_first_that_runs_out_ends_the_wait() {
    let world = World::new();
    let (client, admin) = (world.client().await, world.client().await);
    for at in 0..2 {
        let both = MultiLock::new(&client, ["/locks/a", "/locks/b"]).unwrap();
        let guard = both.acquire().await.unwrap();
        let mut running_out = pin!(guard.running_out(MARGIN));
        assert!(timeout(3 * TIMEOUT, running_out.as_mut()).await.is_err(), "all is well");
        admin.delete(guard.locks()[at].node(), None).await.unwrap();
        assert_eq!(timeout(TICK, running_out).await.unwrap(), Duration::ZERO);
        // The other one alone would say that there is more.
        assert_eq!(guard.running_out(TIMEOUT).await, Duration::ZERO);
        assert!(guard.locks()[1 - at].running_out(TIMEOUT).await > Duration::ZERO);
    }
    admin.create("/permits", b"", &CreateOptions::persistent()).await.unwrap();
    let options = Options::new().max_hold(3 * TIMEOUT);
    let semaphore = Semaphore::with_options(&client, "/permits", 2, options).unwrap();
    let permit = semaphore.acquire_many(2).await.unwrap();
    let left = permit.running_out(MARGIN).await;
    assert!(left <= MARGIN && MARGIN - left <= TICK, "{left:?}");
    assert_eq!(permit.state(), LockState::Held);
}
