//! Leaving the queue: an acquire that times out or only tries, and a guard that ends in any way. No
//! node may be left, and other contenders must not be affected.

use std::time::Duration;

use zk_client::{Op, Outcome};
use zk_recipes::{ErrorKind, Lock, LockState, Loss, Release, Timeout};
use zk_test_support::explore::{in_virtual_time, settle};
use zk_test_support::locks::{LOCK, TIMEOUT, World};

#[tokio::test(start_paused = true)]
async fn a_time_that_is_over_leaves_the_queue() {
    let world = World::new();
    let (one, two) = (world.lock().await, world.lock().await);
    let held = one.acquire().await.unwrap();
    let time = Duration::from_millis(700);
    let error = two.acquire_within(time).await.unwrap_err();
    assert_eq!((error.kind(), error.timeout()), (ErrorKind::TimedOut, Some(Timeout::Contended)));
    assert_eq!(error.outcome(), Outcome::NotApplied);
    settle().await;
    assert_eq!(world.queue().len(), 1);
    held.release().await.unwrap();
    drop(two.acquire_within(Duration::from_secs(1)).await.unwrap());
    drop((one, two));
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_time_that_is_over_without_a_connection_says_so() {
    let world = World::new();
    let client = world.client().await;
    let lock = Lock::new(&client, LOCK).unwrap();
    world.server.set_serving(false);
    let error = lock.acquire_within(TIMEOUT / 4).await.unwrap_err();
    assert_eq!((error.kind(), error.timeout()), (ErrorKind::TimedOut, Some(Timeout::Disconnected)));
    world.server.set_serving(true);
    drop(lock.acquire_within(TIMEOUT).await.unwrap());
    drop((client, lock));
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_try_costs_one_round_trip_and_is_not_waited_for() {
    let world = World::new();
    let (two, (_, _, held)) = (world.lock().await, world.holder().await);
    let (requests, tried) = world.requests(two.try_acquire()).await;
    assert!(tried.unwrap().is_none());
    assert_eq!(requests, 3, "create, list, delete");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_goes_while_cut_off_is_released_first_of_all() {
    let world = World::new();
    let (client, _, guard) = world.holder().await;
    let waiting = World::queued(&world.lock().await).await;
    world.server.set_serving(false);
    client.states().wait_for(|state| !state.is_connected()).await.unwrap();
    drop(guard);
    let read = client.get_data(&format!("{LOCK}/{}", world.queue()[0]));
    world.server.set_serving(true);
    assert!(read.await.unwrap_err().is_no_node(), "what was asked later finds it gone");
    world.is_owner(&waiting.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_is_released_whoever_has_asked_under_it() {
    let world = World::new();
    let (other, (_, _, guard)) = (world.lock().await, world.holder().await);
    let fenced = guard.fenced(Op::set_data("/locks", b"x", None));
    drop(guard);
    settle().await;
    let next = other.try_acquire().await.unwrap().expect("nobody holds it");
    world.is_owner(&next);
    assert_eq!(fenced.await.unwrap().version, 1, "it was asked while the lock was held");
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_taken_again_after_its_session_has_ended_only_by_another_client() {
    let world = World::new();
    let (client, lock, guard) = world.holder().await;
    let waiting = World::queued(&lock).await;
    // A release is pending when the session ends. The next session does not send it.
    world.server.expire(client.session().unwrap().id);
    assert!(matches!(guard.lost().await, Loss::SessionOver(_)));
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.client().is_some_and(zk_client::Error::is_session_over), "{error}");
    assert_eq!(error.kind(), ErrorKind::Client);
    assert!(matches!(guard.state(), LockState::Lost(Loss::SessionOver(_))));
    assert_eq!(guard.release().await.unwrap(), Release::AlreadyLost);
    let (requests, other) = world.requests(world.client()).await;
    assert_eq!(requests, 1, "the handshake, and nothing else");
    let lock = Lock::new(&other, LOCK).unwrap();
    world.is_owner(&lock.acquire().await.unwrap());
}

#[test]
fn a_time_that_is_over_at_the_instant_of_the_grant_has_one_outcome() {
    let (mut got, mut late) = (0, 0);
    for step in 95..=105 {
        let in_time = in_virtual_time(async {
            let world = World::new();
            let (one, two) = (world.lock().await, world.lock().await);
            let held = two.acquire().await.unwrap();
            let releasing = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(step)).await;
                held.release().await.unwrap();
            });
            let got = one.acquire_within(Duration::from_millis(100)).await.ok();
            if let Some(guard) = &got {
                world.is_owner(guard);
            }
            releasing.await.unwrap();
            settle().await;
            assert_eq!(world.queue().len(), usize::from(got.is_some()));
            let in_time = got.is_some();
            drop((got, one, two));
            world.is_empty().await;
            in_time
        });
        if in_time { got += 1 } else { late += 1 }
    }
    assert!(got >= 4 && late >= 4, "{got} in time and {late} late");
}
