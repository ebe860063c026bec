//! The semaphore in kazoo's layout, beside an acquire that takes kazoo's steps: there are never
//! more nodes than permits, the number is written in the folder, and nothing is left behind.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_client::{Client, CreateOptions};
use zk_embedded::Change;
use zk_recipes::{Error, ErrorKind, Layout, Lock, LockState, Options, Permit, Release, Semaphore};
use zk_test_support::explore::{Script, explore, poll_once, settle, turns};
use zk_test_support::locks::{TIMEOUT, World};

use crate::semaphore::waits;

const PATH: &str = "/limits/one";
const QUEUE: &str = "/limits/one-__lock__";
const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

fn options() -> Options {
    Options::new().layout(Layout::KAZOO)
}

fn of(client: &Client, permits: u32) -> Semaphore {
    Semaphore::with_options(client, PATH, permits, options()).unwrap()
}

async fn semaphore(world: &World, permits: u32) -> Semaphore {
    of(&world.client().await, permits)
}

/// A world with the folders of a semaphore.
async fn world(permits: u32) -> World {
    let world = World::new();
    drop(semaphore(&world, permits).await.acquire().await.unwrap());
    settle().await;
    world
}

/// Takes a permit as kazoo does: under the lock, and without a look behind the create.
async fn as_kazoo(client: Client, permits: usize, id: u32) -> Result<String, Error> {
    let lock = Lock::with_options(&client, QUEUE, options())?;
    let turn = lock.acquire().await?;
    let lease = format!("{PATH}/{id:032x}");
    loop {
        let (list, mut watch) = client.get_children_and_watch(PATH).await?;
        if list.names.len() < permits {
            client.create(&lease, b"kazoo", &CreateOptions::ephemeral()).await?;
            break;
        }
        watch.changed().await?;
    }
    turn.release().await?;
    Ok(lease)
}

/// The numbers of nodes in the queue and in the folder.
fn counts(world: &World) -> (usize, usize) {
    (world.server.children(QUEUE).len(), world.server.children(PATH).len())
}

/// The most permits that there were at one moment, by the server's history.
fn most(world: &World) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for commit in world.server.history() {
        match (commit.path.rsplit_once('/'), commit.change) {
            (Some((PATH, _)), Change::Created) => now += 1,
            (Some((PATH, _)), Change::Deleted) => now -= 1,
            _ => {}
        }
        most = most.max(now);
    }
    most
}

/// Checks that no node and no watch is left.
async fn is_idle(world: &World) {
    settle().await;
    assert_eq!(counts(world), (0, 0));
    assert_eq!(world.server.watch_count(), 0, "watches are left");
}

#[tokio::test(start_paused = true)]
async fn there_are_never_more_nodes_than_permits_beside_kazoo_and_all_are_used() {
    const PERMITS: u32 = 4;
    let world = world(PERMITS).await;
    let mut tasks = Vec::new();
    for number in 0..6_u32 {
        let client = world.client().await;
        let semaphore = of(&client, PERMITS);
        tasks.push(tokio::spawn(async move {
            for turn in 0..30 {
                let pause = Duration::from_millis(u64::from((number * turn) % 7));
                if number % 2 == 0 {
                    let lease = as_kazoo(client.clone(), PERMITS as usize, number).await.unwrap();
                    sleep(pause).await;
                    client.delete(&lease, None).await.unwrap();
                } else if let Some(permit) = semaphore.try_acquire().await.unwrap() {
                    sleep(pause).await;
                    permit.release().await.unwrap();
                } else {
                    let permit = semaphore.acquire_many(1 + turn % PERMITS).await.unwrap();
                    sleep(pause).await;
                    permit.release().await.unwrap();
                }
            }
        }));
    }
    for task in tasks {
        timeout(Duration::from_secs(60), task).await.expect("a circle").unwrap();
    }
    assert_eq!(most(&world), PERMITS as usize);
    is_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn ours_and_kazoo_wait_for_each_other_in_turn() {
    let world = world(2).await;
    let (ours, admin) = (semaphore(&world, 2).await, world.client().await);
    let both = ours.acquire_many(2).await.unwrap();
    let theirs = world.client().await;
    let first = tokio::spawn(as_kazoo(theirs.clone(), 2, 1));
    settle().await;
    let second = waits(&ours, 2).await;
    assert_eq!(counts(&world), (2, 2));
    assert!(ours.try_acquire().await.unwrap().is_none());
    assert!(!first.is_finished());
    both.release().await.unwrap();
    let lease = timeout(TIMEOUT, first).await.unwrap().unwrap().unwrap();
    settle().await;
    assert_eq!(counts(&world), (1, 1), "the next one waits, and has no permit");
    assert!(!second.is_finished());
    admin.delete(&lease, None).await.unwrap();
    let permit = timeout(TIMEOUT, second).await.unwrap().unwrap().unwrap();
    assert_eq!((permit.leases().len(), permit.state()), (2, LockState::Held));
    permit.verify().await.unwrap();
    assert_eq!(permit.release().await.unwrap(), Release::Released);
    is_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn the_folders_are_as_kazoo_makes_them_and_stay() {
    let world = World::new();
    let client = world.client().await;
    let options = options().data("ana");
    let semaphore = Semaphore::with_options(&client, PATH, 12, options).unwrap();
    assert_eq!(semaphore.path(), PATH);
    let permit = semaphore.try_acquire().await.unwrap().unwrap();
    let [lease] = permit.leases() else { panic!("{permit:?}") };
    assert_eq!(lease.node().rsplit_once('/').unwrap().0, PATH);
    let lease = client.get_data(lease.node()).await.unwrap();
    let session = client.session().unwrap().id;
    assert_eq!((&*lease.data, lease.stat.ephemeral_owner), (&b"ana"[..], session));
    drop(permit);
    settle().await;
    for _ in 0..3 {
        world.server.reap();
    }
    for (path, data) in [("/limits", ""), (PATH, "12"), (QUEUE, "")] {
        let node = client.get_data(path).await.unwrap();
        assert_eq!((&*node.data, node.stat.version), (data.as_bytes(), 0), "{path}");
    }
    // Somebody deletes them all the same.
    client.delete_all("/limits").await.unwrap();
    drop(semaphore.acquire().await.unwrap());
    assert_eq!(client.get_data(PATH).await.unwrap().data, b"12"[..]);
    is_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn another_number_of_permits_is_refused_whenever_it_is_there() {
    let world = world(3).await;
    let client = world.client().await;
    let semaphore = of(&client, 3);
    for (data, is_refused) in [
        ("3", false),
        (" +03\n", false),
        ("", false),
        ("three", false),
        ("3.0", false),
        ("+", false),
        ("4", true),
        ("-3", true),
        ("99999999999999999999", true),
    ] {
        client.set_data(PATH, data.as_bytes(), None).await.unwrap();
        for tries in [true, false] {
            let acquired = match tries {
                true => semaphore.try_acquire().await.map(Option::unwrap),
                false => semaphore.acquire().await,
            };
            let kind = acquired.map(drop).map_err(|error| error.kind());
            let expected = if is_refused { Err(ErrorKind::OtherPermits) } else { Ok(()) };
            assert_eq!(kind, expected, "{data:?}");
            is_idle(&world).await;
        }
    }
    // Also while somebody waits, and when the folder is made anew.
    client.set_data(PATH, b"3", None).await.unwrap();
    let all = semaphore.acquire_many(3).await.unwrap();
    let waiting = waits(&semaphore, 2).await;
    client.set_data(PATH, b"1", None).await.unwrap();
    all.release().await.unwrap();
    let refused = timeout(TIMEOUT, waiting).await.unwrap().unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OtherPermits);
    let said = "/limits/one: a semaphore of 3 permits, whose folder says that it has 1";
    assert_eq!(refused.to_string(), said);
    is_idle(&world).await;
    client.delete(PATH, None).await.unwrap();
    of(&client, 1).acquire().await.unwrap().release().await.unwrap();
    assert_eq!(semaphore.acquire().await.unwrap_err().kind(), ErrorKind::OtherPermits);
}

#[tokio::test(start_paused = true)]
async fn what_kazoos_layout_cannot_have_is_refused_without_a_request() {
    let world = world(2).await;
    let client = world.client().await;
    let (requests, ()) = world
        .requests(async {
            let root = Semaphore::with_options(&client, "/", 1, options()).unwrap_err();
            assert_eq!(root.kind(), ErrorKind::InvalidArgument, "{root}");
            let none = Semaphore::with_options(&client, PATH, 0, options()).unwrap_err();
            assert_eq!(none.kind(), ErrorKind::InvalidArgument);
            let many = of(&client, 2).acquire_many(3).await.unwrap_err();
            assert_eq!(many.kind(), ErrorKind::InvalidArgument);
        })
        .await;
    assert_eq!(requests, 0);
}

#[tokio::test(start_paused = true)]
async fn a_free_permit_costs_eight_requests_and_a_try_that_finds_none_only_reads() {
    let world = world(1).await;
    let (one, two) = (semaphore(&world, 1).await, semaphore(&world, 1).await);
    let (requests, permit) = world.requests(one.acquire()).await;
    assert_eq!(requests, 8, "the turn and a list; a list and the number, twice, a create; the end");
    let before = world.server.history().len();
    let (requests, refused) = world.requests(two.try_acquire()).await;
    assert!(refused.unwrap().is_none());
    assert_eq!((requests, world.server.history().len()), (2, before));
    drop(permit.unwrap());
    is_idle(&world).await;
}

type Acquiring = Pin<Box<dyn Future<Output = Result<Option<Permit>, Error>> + Send>>;

/// An acquire for both permits, or a try for one.
fn acquires(semaphore: Semaphore, tries: bool) -> Acquiring {
    Box::pin(async move {
        match tries {
            true => semaphore.try_acquire().await,
            false => semaphore.acquire_many(2).await.map(Some),
        }
    })
}

/// One of ours and kazoo are polled in every order, and somebody may delete our turn, but not
/// kazoo's, which would let others in.
#[test]
fn whoever_deletes_our_turn_lets_nobody_in_beside_kazoo() {
    for tries in [false, true] {
        let runs = explore(|script: Script| async move {
            let world = world(2).await;
            let (ours, theirs) = (world.client().await, world.client().await);
            let admin = world.client().await;
            let session = ours.session().unwrap().id;
            let mut acquiring = Some(acquires(of(&ours, 2), tries));
            let mut kazoo = Some(Box::pin(as_kazoo(theirs.clone(), 2, 1)));
            let (mut permit, mut lease, mut deleted) = (None, None, false);
            let chosen_before = 6 + turns(6);
            for turn in 0..60 {
                // At first kazoo queues up behind us, and we are about to create our permits.
                let chosen = match turn {
                    0..6 => [1, 2, 0, 1, 2, 0][turn],
                    _ if turn < chosen_before => script.choose(if deleted { 3 } else { 4 }),
                    _ => turn % 3,
                };
                match chosen {
                    0 => settle().await,
                    1 => {
                        let polled = acquiring.as_mut().map(|it| poll_once(it.as_mut()));
                        if let Some(Poll::Ready(done)) = polled {
                            acquiring = None;
                            match done {
                                Ok(done) => permit = done,
                                Err(error) => {
                                    assert_eq!(error.kind(), ErrorKind::NodeVanished);
                                    assert!(deleted, "{error}");
                                }
                            }
                        }
                    }
                    2 => {
                        let polled = kazoo.as_mut().map(|it| poll_once(it.as_mut()));
                        if let Some(Poll::Ready(done)) = polled {
                            (lease, kazoo) = (Some(done.unwrap()), None);
                        }
                    }
                    _ => {
                        for name in world.server.children(QUEUE) {
                            let path = format!("{QUEUE}/{name}");
                            let node = admin.get_data(&path).await;
                            if node.is_ok_and(|node| node.stat.ephemeral_owner == session) {
                                deleted |= admin.delete(&path, None).await.is_ok();
                            }
                        }
                    }
                }
                if turn > 40 {
                    permit = None;
                    if let Some(lease) = lease.take() {
                        theirs.delete(&lease, None).await.unwrap();
                    }
                }
            }
            assert!(acquiring.is_none() && kazoo.is_none(), "they block each other");
            drop(permit);
            assert!(most(&world) <= 2, "{} of two permits", most(&world));
            is_idle(&world).await;
        });
        assert!(runs > 1000, "{runs} runs");
    }
}

#[tokio::test(start_paused = true)]
async fn every_child_of_the_folder_is_a_permit_as_for_kazoo() {
    let world = world(1).await;
    let (semaphore, other) = (semaphore(&world, 1).await, world.client().await);
    let odd = format!("{PATH}/odd");
    other.create(&odd, b"", &PERSISTENT).await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    let waiting = waits(&semaphore, 1).await;
    sleep(2 * TIMEOUT).await;
    assert!(!waiting.is_finished());
    other.delete(&odd, None).await.unwrap();
    drop(timeout(TIMEOUT, waiting).await.unwrap().unwrap().unwrap());
    is_idle(&world).await;
}
