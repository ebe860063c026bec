//! Elections: terms and their ends, what observers see, and that nothing is left behind.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use zk_client::{Client, ErrorCode};
use zk_embedded::{Fault, OpCode};
use zk_recipes::{Election, Guard, Leaders, Options, StepDown};
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::locks::{LOCK, TIMEOUT, World};

fn election(client: &Client, name: &str) -> Election {
    Election::with_options(client, LOCK, Options::new().data(name)).unwrap()
}

/// The data of the next leader, or `None` if nothing changes.
async fn next(leaders: &mut Leaders) -> Option<Option<String>> {
    let leader = timeout(TIMEOUT / 2, leaders.next()).await.ok()?.unwrap();
    Some(leader.map(|leader| String::from_utf8(leader.data).unwrap()))
}

fn named(name: &str) -> Option<Option<String>> {
    Some(Some(name.to_owned()))
}

/// A server with a leader, and an observer with a client of its own that has seen it.
async fn observed_ana() -> (World, Guard, Client, Leaders) {
    let world = World::new();
    let term = election(&world.client().await, "ana").campaign().await.unwrap();
    let client = world.client().await;
    let mut leaders = election(&client, "").observe();
    assert_eq!(next(&mut leaders).await, named("ana"));
    (world, term, client, leaders)
}

/// Polls an observer with a short tick until it sees something.
pub(crate) async fn tick<T>(mut next: impl AsyncFnMut() -> T) -> T {
    let ticking = async {
        loop {
            if let Ok(seen) = timeout(TIMEOUT / 8, next()).await {
                return seen;
            }
        }
    };
    timeout(2 * TIMEOUT, ticking).await.expect("it looks again")
}

/// Loses the replies of ten looks of an observer, one in a session timeout.
pub(crate) async fn lose_looks<T>(
    (world, client): (&World, &Client),
    look: OpCode,
    next: impl Future<Output = T>,
) {
    let mut waiting = pin!(next);
    for _ in 0..10 {
        world.inject_for(client, Fault::lose_reply().op(look));
        assert!(timeout(2 * TIMEOUT, waiting.as_mut()).await.is_err(), "nothing has changed");
        assert_eq!(world.server.pending_faults(), 0, "it has looked");
    }
}

#[tokio::test(start_paused = true)]
async fn work_does_not_go_on_after_the_process_was_stopped_for_too_long() {
    for step_down in [StepDown::Suspended, StepDown::Deadline] {
        let world = World::new();
        let (slept, told) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let clock = Arc::clone(&slept);
        let clock = move || Duration::from_secs(clock.load(Ordering::Relaxed));
        let client: Client = world.builder().suspend_time(clock).connect("zk").await.unwrap();
        let candidate = election(&client, "ana").step_down(step_down);
        let wakes = Notify::new();
        let mut leading = Box::pin(candidate.lead(async |_| {
            while told.fetch_add(1, Ordering::Relaxed) < 100 {
                wakes.notified().await;
            }
        }));
        for _ in 0..3 {
            assert!(poll_once(leading.as_mut()).is_pending());
            settle().await;
        }
        wakes.notify_one();
        assert!(poll_once(leading.as_mut()).is_pending());
        assert_eq!(told.load(Ordering::Relaxed), 2, "it works");
        // Nothing else has run when the work is polled again.
        slept.store(2 * TIMEOUT.as_secs(), Ordering::Relaxed);
        wakes.notify_one();
        drop(poll_once(leading.as_mut()));
        assert_eq!(told.load(Ordering::Relaxed), 2, "it works on");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_each_leader_its_data_and_that_there_is_none() {
    let world = World::new();
    let observed = election(&world.client().await, "not a candidate");
    let mut leaders = observed.observe();
    assert_eq!(next(&mut leaders).await, Some(None), "there is no folder yet");
    assert_eq!(next(&mut leaders).await, None, "nothing changes");

    let (ana, ben) = (world.client().await, world.client().await);
    let term = election(&ana, "ana").campaign().await.unwrap();
    assert_eq!(next(&mut leaders).await, named("ana"));
    let candidate = election(&ben, "ben");
    let waiting = tokio::spawn(async move { candidate.campaign().await.unwrap() });
    settle().await;
    assert_eq!(next(&mut leaders).await, None, "another candidate leads nobody");
    let all = observed.candidates().await.unwrap();
    assert_eq!(all.iter().map(|one| &one.data[..]).collect::<Vec<_>>(), [b"ana", b"ben"]);

    ana.set_data(term.node(), b"ana, moved", None).await.unwrap();
    assert_eq!(next(&mut leaders).await, named("ana, moved"));
    term.release().await.unwrap();
    assert_eq!(next(&mut leaders).await, named("ben"));
    drop(waiting.await.unwrap());
    assert_eq!(next(&mut leaders).await, Some(None), "the folder is empty");
    drop(leaders);
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_may_no_longer_read_the_leader_is_told_so() {
    let (world, term, _client, mut leaders) = observed_ana().await;
    world.hide(term.node()).await;
    // Changing the access list sends no event.
    let refused = timeout(2 * TIMEOUT, leaders.next()).await.expect("it looks again");
    assert_eq!(refused.unwrap_err().client().unwrap().code(), Some(ErrorCode::NO_AUTH));
    drop(term);
    assert_eq!(next(&mut leaders).await, Some(None));
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_is_polled_with_a_short_tick_looks_again_all_the_same() {
    let (world, term, _client, mut leaders) = observed_ana().await;
    world.hide(term.node()).await;
    let refused = tick(async || leaders.next().await).await;
    assert_eq!(refused.unwrap_err().client().unwrap().code(), Some(ErrorCode::NO_AUTH));
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_is_reaped_between_two_listings_does_not_end_an_observer() {
    let world = World::new();
    drop(election(&world.client().await, "ana").campaign().await.unwrap());
    settle().await;
    assert!(world.server.has_node(LOCK));
    let client = world.client().await;
    let mut leaders = election(&client, "").observe();
    world.inject_for(&client, Fault::delay(Duration::from_millis(100)).path(LOCK));
    let looking = tokio::spawn(async move { (next(&mut leaders).await, leaders) });
    settle().await;
    assert_eq!(world.server.pending_faults(), 0, "the first listing was served");
    assert!(!looking.is_finished());
    world.server.reap();
    assert!(!world.server.has_node(LOCK));
    let (seen, mut leaders) = looking.await.unwrap();
    assert_eq!(seen, Some(None));
    let _term = election(&world.client().await, "ben").campaign().await.unwrap();
    assert_eq!(next(&mut leaders).await, named("ben"));
}

#[tokio::test(start_paused = true)]
async fn connections_that_break_now_and_then_do_not_end_an_observer() {
    let (world, term, client, mut leaders) = observed_ana().await;
    lose_looks((&world, &client), OpCode::GET_DATA, leaders.next()).await;
    drop(term);
    assert_eq!(next(&mut leaders).await, Some(None));
}
