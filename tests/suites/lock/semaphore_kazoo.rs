//! The semaphore in kazoo's layout, beside an acquire that takes kazoo's steps: there are never
//! more nodes than permits, the number is written in the folder, and nothing is left behind.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_client::{Client, CreateOptions};
use zk_embedded::Change;
use zk_recipes::{Error, ErrorKind, Layout, Lock, Options, Semaphore};
use zk_test_support::explore::settle;
use zk_test_support::locks::{TIMEOUT, World};

use crate::semaphore::waits;

const PATH: &str = "/limits/one";
const QUEUE: &str = "/limits/one-__lock__";

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
    assert_eq!([QUEUE, PATH].map(|path| world.server.children(path).len()), [0; 2]);
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
    let act = async {
        let root = Semaphore::with_options(&client, "/", 1, options()).unwrap_err();
        assert_eq!(root.kind(), ErrorKind::InvalidArgument, "{root}");
        let none = Semaphore::with_options(&client, PATH, 0, options()).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::InvalidArgument);
        let many = of(&client, 2).acquire_many(3).await.unwrap_err();
        assert_eq!(many.kind(), ErrorKind::InvalidArgument);
    };
    let (requests, ()) = world.requests(act).await;
    assert_eq!(requests, 0);
}
