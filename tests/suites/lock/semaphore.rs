//! The semaphore: never too many permits, nobody forgotten, and nothing left behind.

use std::future::pending;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zk_client::{Client, CreateOptions, Op};
use zk_recipes::{Error, ErrorKind, Layout, LockState, Loss, Options, Permit, Release, Semaphore};
use zk_test_support::explore::settle;
use zk_test_support::locks::{TIMEOUT, World};

const PATH: &str = "/limits/one";
const LEASES: &str = "/limits/one/leases";
const LOCKS: &str = "/limits/one/locks";

fn of(client: &Client, permits: u32) -> Semaphore {
    Semaphore::new(client, PATH, permits).unwrap()
}

/// A world with the folders of a semaphore.
async fn world() -> World {
    let world = World::new();
    let client = world.client().await;
    for path in ["/limits", PATH, LEASES, LOCKS] {
        client.create(path, b"", &CreateOptions::persistent()).await.unwrap();
    }
    client.close().await;
    world
}

async fn semaphore(world: &World, permits: u32) -> Semaphore {
    of(&world.client().await, permits)
}

/// The same, with a semaphore of so many permits.
async fn with_permits(permits: u32) -> (World, Semaphore) {
    let world = world().await;
    let semaphore = semaphore(&world, permits).await;
    (world, semaphore)
}

/// The numbers of nodes in `locks` and in `leases`.
fn counts(world: &World) -> (usize, usize) {
    (world.server.children(LOCKS).len(), world.server.children(LEASES).len())
}

/// Checks that no node and no watch is left.
async fn is_idle(world: &World) {
    settle().await;
    assert_eq!(counts(world), (0, 0));
    assert_eq!(world.server.watch_count(), 0, "watches are left");
}

/// A task that acquires so many permits. It has queued up when this returns.
pub(crate) async fn waits(
    semaphore: &Semaphore,
    permits: u32,
) -> JoinHandle<Result<Permit, Error>> {
    let semaphore = semaphore.clone();
    let task = tokio::spawn(async move { semaphore.acquire_many(permits).await });
    settle().await;
    task
}

/// What the task has acquired by now.
async fn got(task: JoinHandle<Result<Permit, Error>>) -> Permit {
    timeout(Duration::from_secs(1), task).await.expect("it has a permit").unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn whichever_holder_leaves_first_lets_the_waiter_in() {
    for leaves in 0..3 {
        let (world, semaphore) = with_permits(3).await;
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(semaphore.acquire().await.unwrap());
        }
        let waiting = waits(&semaphore, 1).await;
        assert!(!waiting.is_finished());
        assert_eq!(held.remove(leaves).release().await.unwrap(), Release::Released);
        let permit = got(waiting).await;
        assert_eq!(permit.state(), LockState::Held);
        permit.verify().await.unwrap();
        drop((permit, held));
        is_idle(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn missing_folders_are_made_also_after_the_server_has_removed_them() {
    let world = World::new();
    let semaphore = semaphore(&world, 2).await;
    for _ in 0..2 {
        let permit = semaphore.try_acquire().await.unwrap().unwrap();
        drop((semaphore.acquire().await.unwrap(), permit));
        settle().await;
        for _ in 0..3 {
            world.server.reap();
        }
        assert!(!world.server.has_node("/limits"));
    }
    drop(semaphore.acquire_many(2).await.unwrap());
    is_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_lost_with_any_of_its_nodes() {
    for lost in 0..2 {
        let (world, semaphore) = with_permits(2).await;
        let admin = world.client().await;
        admin.create("/data", b"0", &CreateOptions::persistent()).await.unwrap();
        let permit = semaphore.acquire_many(2).await.unwrap();
        permit.fenced(Op::set_data("/data", b"1", None)).await.unwrap();
        assert_eq!(permit.state(), LockState::Held);
        assert!(permit.remaining() > Duration::ZERO);
        settle().await;
        admin.delete(permit.leases()[lost].node(), None).await.unwrap();
        let error = timeout(TIMEOUT, permit.run(pending::<()>())).await.unwrap().unwrap_err();
        assert_eq!(error.loss(), Some(Loss::NodeDeleted));
        assert_eq!(permit.lost().await, Loss::NodeDeleted);
        assert_eq!(permit.state(), LockState::Lost(Loss::NodeDeleted));
        assert_eq!(permit.verify().await.unwrap_err().kind(), ErrorKind::Lost);
        let refused = permit.fenced(Op::set_data("/data", b"2", None)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Lost);
        assert_eq!(admin.get_data("/data").await.unwrap().data, b"1"[..]);
        assert_eq!(permit.release().await.unwrap(), Release::AlreadyLost);
        is_idle(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_was_waited_for_is_held_for_the_whole_time() {
    const TERM: Duration = Duration::from_secs(2);
    let world = world().await;
    let options = Options::new().max_hold(TERM).data("ana");
    let client = world.client().await;
    let limited = Semaphore::with_options(&client, PATH, 1, options).unwrap();
    let held = semaphore(&world, 1).await.acquire().await.unwrap();
    let waiting = waits(&limited, 1).await;
    sleep(2 * TERM).await;
    drop(held);
    let permit = got(waiting).await;
    assert_eq!(client.get_data(permit.leases()[0].node()).await.unwrap().data, b"ana"[..]);
    assert!(permit.remaining() > TERM - Duration::from_millis(100), "{:?}", permit.remaining());
    assert_eq!(timeout(2 * TERM, permit.lost()).await.unwrap(), Loss::TermOver);
    is_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn numbers_that_can_never_be_given_are_refused_without_a_request() {
    let world = world().await;
    let client = world.client().await;
    let kind = |refused: Result<Permit, Error>| refused.unwrap_err().kind();
    let none = Semaphore::new(&client, PATH, 0).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::InvalidArgument);
    Semaphore::new(&client, "limits", 1).unwrap_err();
    let semaphore = of(&client, 2);
    assert_eq!(semaphore.path(), PATH);
    let act = async {
        assert_eq!(kind(semaphore.acquire_many(0).await), ErrorKind::InvalidArgument);
        assert_eq!(kind(semaphore.acquire_many(3).await), ErrorKind::InvalidArgument);
    };
    let (requests, ()) = world.requests(act).await;
    assert_eq!(requests, 0);
}

#[tokio::test(start_paused = true)]
async fn processes_with_different_numbers_never_exceed_the_greater_one() {
    let world = world().await;
    let (small, great) = (semaphore(&world, 1).await, semaphore(&world, 2).await);
    let one = small.acquire().await.unwrap();
    let two = great.acquire().await.unwrap();
    assert!(great.try_acquire().await.unwrap().is_none());
    let waiting = waits(&small, 1).await;
    drop(one);
    sleep(TIMEOUT).await;
    assert!(!waiting.is_finished(), "another one is held");
    drop(two);
    drop(got(waiting).await);
    is_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn every_child_of_the_folder_counts_as_for_curator() {
    let (world, semaphore) = with_permits(2).await;
    let other = world.client().await;
    let lease = format!("{LEASES}/_c_00000000-0000-0000-0000-000000000000-lease-");
    let node = CreateOptions::ephemeral().sequential();
    let theirs = other.create(&lease, b"", &node).await.unwrap().path;
    let odd = format!("{LEASES}/odd");
    other.create(&odd, b"", &CreateOptions::ephemeral()).await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    let waiting = waits(&semaphore, 2).await;
    other.delete(&theirs, None).await.unwrap();
    settle().await;
    assert!(!waiting.is_finished());
    other.delete(&odd, None).await.unwrap();
    let permit = got(waiting).await;
    let names = permit.leases().iter().map(|lease| lease.node().strip_prefix(LEASES).unwrap());
    for name in names {
        let uuid = name.strip_prefix("/_c_").and_then(|name| name.split_once("-lease-")).unwrap();
        assert_eq!((uuid.0.len(), uuid.1.len()), (36, 10), "{name}");
    }
    drop(permit);
    is_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn several_permits_are_tried_or_waited_for_all_at_once() {
    let world = world().await;
    let kazoo = Options::new().layout(Layout::KAZOO);
    for (path, options) in [(PATH, Options::new()), ("/limits/kazoo", kazoo)] {
        let client = world.client().await;
        let semaphore = Semaphore::with_options(&client, path, 3, options).unwrap();
        let one = semaphore.acquire().await.unwrap();
        assert!(semaphore.try_acquire_many(3).await.unwrap().is_none());
        let late = semaphore.acquire_many_within(3, TIMEOUT).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        let two = semaphore.try_acquire_many(2).await.unwrap().expect("two are free");
        assert_eq!(two.leases().len(), 2);
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        drop((one, two));
        let all = semaphore.acquire_many_within(3, TIMEOUT).await.unwrap();
        assert_eq!(all.leases().len(), 3);
        for wrong in [0, 4] {
            let refused = semaphore.try_acquire_many(wrong).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_that_finds_no_permit_only_reads() {
    let world = world().await;
    let (one, two) = (semaphore(&world, 1).await, semaphore(&world, 1).await);
    let (requests, permit) = world.requests(one.try_acquire()).await;
    let permit = permit.unwrap().expect("it is free");
    assert_eq!(requests, 3, "a list, a create and a list");
    let before = world.server.history().len();
    let (requests, refused) = world.requests(two.try_acquire()).await;
    assert!(refused.unwrap().is_none());
    assert_eq!((requests, world.server.history().len()), (1, before));
    drop(permit);
    is_idle(&world).await;
}
