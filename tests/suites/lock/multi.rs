//! Several locks taken together: all or none, in one transaction if all are free, and never in a
//! deadlock.

use std::time::Duration;

use tokio::time::timeout;
use zk_client::{Client, ErrorCode, OpCode, Outcome};
use zk_embedded::{Change, Fault};
use zk_recipes::{ErrorKind, Guard, Lock, LockState, Loss, MultiLock, Options, Release, Timeout};
use zk_test_support::explore::settle;
use zk_test_support::locks::World;
use zk_test_support::peer::Clock;

#[tokio::test(start_paused = true)]
async fn all_nodes_are_of_one_transaction() {
    let world = World::new();
    let client = world.client().await;
    let lock = MultiLock::new(&client, ["/locks/b", "/locks/a", "/c"]).unwrap();
    // The first acquire makes the folders.
    drop(lock.acquire().await.unwrap());
    settle().await;
    let before = world.server.history().len();
    let (requests, guard) = world.requests(lock.acquire()).await;
    assert_eq!(requests, 4, "one transaction, and a list each");
    let guard = guard.unwrap();
    assert_eq!(guard.state(), LockState::Held);
    let folders = guard.locks().iter().map(|lock| lock.node().rsplit_once('/').unwrap().0);
    assert_eq!(folders.collect::<Vec<_>>(), ["/locks/b", "/locks/a", "/c"]);
    let token = guard.locks()[0].token();
    assert!(guard.locks().iter().all(|lock| lock.token() == token));
    let mut created = world.server.history().split_off(before);
    created.retain(|it| it.change == Change::Created && it.path.contains("-lock-"));
    let zxids = created.iter().map(|commit| commit.zxid.0).collect::<Vec<_>>();
    assert_eq!(zxids, [token.czxid(); 3]);
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    for folder in ["/locks/a", "/locks/b", "/c"] {
        assert_eq!(world.server.children(folder), [""; 0]);
    }
}

const THREE: [&str; 3] = ["/locks/1", "/locks/2", "/locks/3"];

/// The number of contenders in each of the three queues.
fn queues(world: &World) -> [usize; 3] {
    THREE.map(|folder| world.server.children(folder).len())
}

async fn held(client: &Client, folder: &str) -> Guard {
    Lock::new(client, folder).unwrap().acquire().await.unwrap()
}

/// A task that takes all three locks, named in reverse order.
fn takes_all(client: Client) -> tokio::task::JoinHandle<zk_recipes::MultiGuard> {
    tokio::spawn(async move {
        let all = MultiLock::new(&client, THREE.into_iter().rev()).unwrap();
        all.acquire().await.unwrap()
    })
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_in_no_later_queue() {
    let world = World::new();
    let (client, other) = (world.client().await, world.client().await);
    let [one, two, three] =
        [held(&other, THREE[0]).await, held(&other, THREE[1]).await, held(&other, THREE[2]).await];
    let all = takes_all(client);
    settle().await;
    assert_eq!(queues(&world), [2, 1, 1]);
    drop(two);
    settle().await;
    assert_eq!(queues(&world), [2, 0, 1]);
    // The second lock is free by then, and the acquire takes and keeps it.
    drop(one);
    settle().await;
    assert_eq!(queues(&world), [1, 1, 2]);
    drop(three);
    let guard = all.await.unwrap();
    assert_eq!((queues(&world), guard.state()), ([1, 1, 1], LockState::Held));
    guard.fenced(()).await.unwrap();
    assert_eq!(guard.locks().len(), 3);
    assert!(guard.locks()[0].node().starts_with(THREE[2]), "in the order of their names");
    guard.release().await.unwrap();
    assert_eq!(queues(&world), [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn the_last_check_survives_lost_connections() {
    for fault in [Fault::lose_reply(), Fault::lose_request()] {
        let world = World::new();
        let (client, other) = (world.client().await, world.client().await);
        let second = held(&other, THREE[1]).await;
        let all = takes_all(client.clone());
        settle().await;
        world.server.inject(fault.op(OpCode::MULTI).after(1));
        drop(second);
        let guard = all.await.unwrap();
        assert_eq!(world.server.pending_faults(), 0);
        guard.fenced(()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn who_takes_them_one_by_one_in_the_order_of_their_paths_gets_in() {
    let world = World::new();
    let (client, other) = (world.client().await, world.client().await);
    for first in 0..2 {
        let held_first = held(&other, THREE[first]).await;
        let all = takes_all(client.clone());
        settle().await;
        for later in &THREE[first + 1..] {
            let later = timeout(Duration::from_secs(60), held(&other, later)).await.unwrap();
            later.release().await.unwrap();
        }
        drop(held_first);
        all.await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_term_of_all_begins_when_the_last_one_is_had() {
    let world = World::new();
    let (client, other) = (world.client().await, world.client().await);
    let (term, late) = (Duration::from_secs(10), Duration::from_secs(60));
    let in_the_way = held(&other, THREE[2]).await;
    let all = MultiLock::with_options(&client, THREE, Options::new().max_hold(term)).unwrap();
    let waiting = tokio::spawn(async move { all.acquire().await.unwrap() });
    tokio::time::sleep(late).await;
    in_the_way.release().await.unwrap();
    let (guard, clock) = (waiting.await.unwrap(), Clock::start());
    assert_eq!(guard.lost().await, Loss::TermOver);
    assert!(clock.elapsed() >= term - Duration::from_millis(10), "{:?}", clock.elapsed());
}

#[tokio::test(start_paused = true)]
async fn none_is_taken_if_one_is_not_free() {
    let world = World::new();
    let (client, other) = (world.client().await, world.client().await);
    let held = held(&other, THREE[1]).await;
    let lock = MultiLock::new(&client, THREE).unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    client.sync("/").await.unwrap();
    assert_eq!(queues(&world), [0, 1, 0]);

    let error = lock.acquire_within(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.timeout(), Some(Timeout::Contended));
    client.sync("/").await.unwrap();
    assert_eq!(queues(&world), [0, 1, 0]);

    held.release().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_set_that_makes_no_sense_is_refused() {
    let world = World::new();
    let client = world.client().await;
    let refused = MultiLock::new(&client, ["/a", "/b", "/a"]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(refused.outcome(), Outcome::NotApplied);
    let none = MultiLock::new(&client, Vec::<String>::new()).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::InvalidArgument);
    assert_eq!(MultiLock::new(&client, ["a"]).unwrap_err().kind(), ErrorKind::Client);

    client.create("/leaf", b"", &zk_client::CreateOptions::ephemeral()).await.unwrap();
    let lock = MultiLock::new(&client, ["/locks/a", "/leaf"]).unwrap();
    let error = lock.acquire().await.unwrap_err();
    let code = error.client().and_then(zk_client::Error::code);
    assert_eq!(code, Some(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS));
    assert_eq!(world.server.children("/locks/a"), Vec::<String>::new());
}
