//! What a guard reports, and when: that its lock is requested by others, in doubt, or lost.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::task::coop::poll_proceed;
use zk_client::{Client, Limits};
use zk_recipes::{Lock, LockState, Loss, Options, Owner, ReentrantLock, Release};
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::locks::{LOCK, TIMEOUT, World};
use zk_test_support::peer::Clock;

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_asked_for_the_lock_hears_it_and_keeps_it() {
    let world = World::new();
    let (other, (_, _, guard)) = (world.lock().await, world.holder().await);
    let asked = tokio::time::timeout(Duration::from_secs(1), guard.revoke_requested()).await;
    assert!(asked.is_err(), "nobody has asked");
    // Other data is not a request to revoke.
    world.client().await.set_data(guard.node(), b"hello", None).await.unwrap();
    let asked = tokio::time::timeout(Duration::from_secs(1), guard.revoke_requested()).await;
    assert!(asked.is_err(), "nobody has asked");
    assert_eq!(other.revoke().await.unwrap(), 1);
    guard.revoke_requested().await.unwrap();
    guard.revoke_requested().await.unwrap();
    assert_eq!(guard.state(), LockState::Held);
    world.is_owner(&guard);
    // The watch is set again or continues.
    world.client().await.delete(guard.node(), None).await.unwrap();
    assert_eq!(guard.lost().await, Loss::NodeDeleted);
}

#[tokio::test(start_paused = true)]
async fn a_term_counts_from_the_send_and_frees_the_lock_under_a_busy_holder() {
    let world = World::new();
    let client = world.client().await;
    let term = Duration::from_secs(1);
    let lock = Lock::with_options(&client, LOCK, Options::new().max_hold(term)).unwrap();
    let clock = Clock::start();
    let guard = lock.acquire().await.unwrap();
    let waiting = World::queued(&world.lock().await).await;
    let error = guard.run(std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::TermOver));
    assert!(clock.elapsed() <= term + Duration::from_millis(5), "{:?}", clock.elapsed());
    world.is_owner(&waiting.await.unwrap().unwrap());
    assert_eq!(guard.state(), LockState::Lost(Loss::TermOver));
}

#[tokio::test(start_paused = true)]
async fn a_holder_behind_a_server_without_its_ensemble_knows_before_another_gets_in() {
    let world = World::new();
    let (client, _, guard) = world.holder().await;
    tokio::time::sleep(2 * TIMEOUT).await;
    assert_eq!(guard.state(), LockState::Held);
    let clock = Clock::start();
    world.server.partition(client.session().unwrap().id);
    // The server still answers pings.
    let loss = guard.lost().await;
    assert!(clock.elapsed() <= TIMEOUT, "{:?}", clock.elapsed());
    assert!(world.server.children(LOCK).len() == 1, "the ensemble has not ended the session yet");
    assert_eq!(loss, Loss::Deadline);
    tokio::time::sleep(2 * TIMEOUT).await;
    assert_eq!(world.queue(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_short_cut_suspends_and_changes_nothing() {
    let world = World::new();
    let (client, _, guard) = world.holder().await;
    let token = guard.token();
    world.server.set_serving(false);
    client.states().wait_for(|state| !state.is_connected()).await.unwrap();
    settle().await;
    let state = guard.state();
    let now = client.clock().now();
    assert!(matches!(state, LockState::Suspended { until } if until - now == guard.remaining()));
    let remaining = guard.remaining();
    assert!(!remaining.is_zero() && remaining <= TIMEOUT, "{remaining:?}");
    tokio::time::advance(remaining / 2).await;
    assert_eq!(guard.remaining(), remaining - remaining / 2, "time passes");
    world.server.set_serving(true);
    guard.verify().await.ok();
    guard.verify().await.unwrap();
    assert_eq!((guard.state(), guard.token()), (LockState::Held, token));
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_stays_lost_although_the_session_lives() {
    let world = World::new();
    let (client, _, guard) = world.holder().await;
    world.server.set_serving(false);
    assert_eq!(guard.lost().await, Loss::Deadline);
    // The server has not ended the session while it was down.
    world.server.set_serving(true);
    let lock = Lock::new(&client, LOCK).unwrap();
    let again = tokio::time::timeout(TIMEOUT, lock.acquire()).await.unwrap();
    assert_eq!(guard.state(), LockState::Lost(Loss::Deadline));
    match again {
        Ok(again) => {
            world.is_owner(&again);
            assert_eq!(world.queue().len(), 1, "the old node was deleted");
        }
        Err(error) => assert!(error.client().is_some_and(zk_client::Error::is_session_over)),
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_look_after_a_jump_of_the_clock_says_that_it_is_lost() {
    let world = World::new();
    let suspended = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&suspended);
    let builder =
        world.builder().suspend_time(move || Duration::from_secs(told.load(Ordering::Relaxed)));
    let client: Client = builder.connect("zk").await.unwrap();
    let guard = Lock::new(&client, LOCK).unwrap().acquire().await.unwrap();
    assert_eq!(guard.state(), LockState::Held);
    assert!(guard.remaining() > TIMEOUT / 2);
    suspended.store(2 * TIMEOUT.as_secs(), Ordering::Relaxed);
    assert!(guard.remaining().is_zero(), "nothing else has run");
    assert_eq!(guard.state(), LockState::Lost(Loss::Deadline));
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_tasks_share_is_released_by_any_of_them_and_lost_to_all() {
    let world = World::new();
    let lock = world.lock().await;
    let guard = Arc::new(lock.acquire().await.unwrap());
    let shared = Arc::clone(&guard);
    let working = tokio::spawn(async move { shared.run(pending::<()>()).await });
    settle().await;
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    let error = working.await.unwrap().unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Released));

    assert_eq!(guard.state(), LockState::Lost(Loss::Released));
    assert_eq!((guard.remaining(), guard.lost().await), (Duration::ZERO, Loss::Released));
    assert_eq!(guard.fenced(()).await.unwrap_err().loss(), Some(Loss::Released));
    assert_eq!(guard.verify().await.unwrap_err().loss(), Some(Loss::Released));
    assert_eq!(guard.release().await.unwrap(), Release::AlreadyLost);
    // The remaining clones of the guard do not keep the lock.
    world.is_owner(&world.lock().await.acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_shared_guard_that_was_released_says_so_while_its_process_has_the_lock() {
    let world = World::new();
    let lock = ReentrantLock::new(&world.client().await, LOCK).unwrap();
    let (me, other) = (Owner::new(), Owner::new());
    let [outer, inner] = [lock.acquire(&me).await.unwrap(), lock.acquire(&me).await.unwrap()];
    assert_eq!(inner.release().await.unwrap(), Release::Released);
    assert_eq!(inner.state(), LockState::Lost(Loss::Released));
    assert_eq!(outer.state(), LockState::Held);
    // The guard has released its own level of the re-entrant lock, and cannot release another one.
    assert_eq!(inner.release().await.unwrap(), Release::AlreadyLost);
    assert!(lock.try_acquire(&other).await.unwrap().is_none());

    let waiting = lock.clone();
    let next = tokio::spawn(async move { waiting.acquire(&other).await.unwrap() });
    settle().await;
    outer.release().await.unwrap();
    let next = next.await.unwrap();
    assert_eq!((next.node(), next.state()), (outer.node(), LockState::Held));
    assert_eq!(outer.lost().await, Loss::Released);
    assert_eq!(outer.fenced(()).await.unwrap_err().loss(), Some(Loss::Released));
    drop((inner, outer));
    assert_eq!(next.state(), LockState::Held);
    world.is_owner(&next);
}

/// A client whose clock is suspended for a day once it was read very often: a wait that runs busy
/// ends as a lock that is lost by its deadline.
async fn impatient(world: &World, limits: Limits) -> Client {
    let reads = AtomicU64::new(0);
    let suspended = move || match reads.fetch_add(1, Ordering::Relaxed) {
        ..100_000 => Duration::ZERO,
        _ => Duration::from_secs(24 * 60 * 60),
    };
    world.builder().limits(limits).suspend_time(suspended).connect("zk").await.unwrap()
}

/// The future of `block_on`, which is also the body of `#[tokio::main]`, is woken at once when it
/// has used up tokio's budget.
#[test]
fn a_wait_for_the_loss_lets_others_run_when_its_budget_is_used_up() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::new();
        let client = impatient(&world, Limits::default()).await;
        let guard = Lock::new(&client, LOCK).unwrap().acquire().await.unwrap();
        let mut lost = pin!(guard.lost());
        let polled = poll_fn(|cx| {
            while let Poll::Ready(coop) = poll_proceed(cx) {
                coop.made_progress();
            }
            Poll::Ready(lost.as_mut().poll(cx))
        });
        assert_eq!(polled.await, Poll::Pending);
        world.client().await.delete(guard.node(), None).await.unwrap();
        assert_eq!(lost.await, Loss::NodeDeleted);
    });
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_told_although_the_client_was_at_its_limit_when_it_was_asked() {
    let world = World::new();
    world.make_folder().await;
    let mut limits = Limits::default();
    limits.max_requests = 2;
    let client = impatient(&world, limits).await;
    let guard = Lock::new(&client, LOCK).unwrap().acquire().await.unwrap();
    let reads = client.batch(|| [client.get_data("/"), client.get_data("/")]);
    let mut lost = pin!(guard.lost());
    assert!(poll_once(lost.as_mut()).is_pending());
    for read in reads {
        read.await.unwrap();
    }
    world.client().await.delete(guard.node(), None).await.unwrap();
    assert_eq!(lost.await, Loss::NodeDeleted);
}
