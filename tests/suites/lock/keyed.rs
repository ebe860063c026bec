//! A lock for each key: what it costs, how many are kept, and that it excludes as any lock.

use std::time::Duration;

use zk_client::{Client, CreateOptions};
use zk_recipes::{ErrorKind, KeyedLocks, LockState, Options, Owner};
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::locks::World;

const FOLDER: &str = "/locks/users";
const LINGER: Duration = Duration::from_secs(60);

fn lingering(client: &Client, capacity: usize) -> KeyedLocks {
    let options = Options::new().linger(LINGER);
    KeyedLocks::with_options(client, FOLDER, capacity, options).unwrap()
}

/// Takes and releases the lock of a key.
async fn used(locks: &KeyedLocks, key: &str) {
    let guard = locks.lock(key).unwrap().acquire(&Owner::new()).await.unwrap();
    guard.release().await.unwrap();
    settle().await;
}

/// The nodes of a key.
fn nodes(world: &World, key: &str) -> usize {
    world.server.children(&format!("{FOLDER}/{key}")).len()
}

#[tokio::test(start_paused = true)]
async fn a_key_costs_what_its_page_says() {
    let world = World::new();
    let client = world.client().await;
    let locks = KeyedLocks::new(&client, FOLDER).unwrap();
    let owner = Owner::new();
    let acquire = async |key: &str| locks.lock(key).unwrap().acquire(&owner).await.unwrap();

    let (all_missing, guard) = world.requests(acquire("4710")).await;
    assert_eq!(all_missing, 10);
    let (cold, other) = world.requests(acquire("4711")).await;
    assert_eq!(cold, 5);
    let (released, _) = world.costs(async { guard.release().await.unwrap() }).await;
    assert_eq!(released.requests, 1);
    for _ in 0..100 {
        let (again, guard) = world.requests(acquire("4710")).await;
        assert_eq!(again, 0);
        guard.release().await.unwrap();
    }
    drop(other);
    let created = client.create(&format!("{FOLDER}/4712"), b"", &CreateOptions::container());
    created.await.unwrap();
    let (there, guard) = world.requests(acquire("4712")).await;
    assert_eq!(there, 2);
    drop(guard);
    tokio::time::sleep(Duration::from_secs(3)).await;
    for key in ["4710", "4711", "4712"] {
        assert_eq!(nodes(&world, key), 0, "{key} lingers for two seconds");
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_are_kept_than_the_capacity_and_those_in_use() {
    let world = World::new();
    let client = world.client().await;
    let locks = lingering(&client, 3);
    for key in ["a", "b", "c"] {
        used(&locks, key).await;
    }
    used(&locks, "a").await;
    used(&locks, "d").await;
    assert_eq!(locks.kept(), 3);
    let left = ["a", "b", "c", "d"].map(|key| nodes(&world, key));
    assert_eq!(left, [1, 0, 1, 1], "the node of the one that was used first has gone");

    let (held, owner) = (locks.lock("a").unwrap(), Owner::new());
    let guard = held.acquire(&owner).await.unwrap();
    let other = Owner::new();
    let mut waiting = std::pin::pin!(held.acquire(&other));
    assert!(poll_once(waiting.as_mut()).is_pending());
    let mut guards = Vec::new();
    for number in 0..20 {
        let key = format!("e{number}");
        let lock = locks.lock(&key).unwrap();
        guards.push((key, lock.acquire(&Owner::new()).await.unwrap()));
    }
    assert_eq!(locks.kept(), 21, "all others have gone");
    // The owner gets in again, so this is still its lock.
    let again = locks.lock("a").unwrap().acquire(&owner).await.unwrap();
    assert_eq!((again.depth(), again.node()), (2, guard.node()));
    for (key, guard) in &guards {
        assert_eq!(nodes(&world, key), 1);
        assert_eq!(guard.state(), LockState::Held);
    }
    drop((again, guard, guards));
    let waited = waiting.await.unwrap();
    assert_eq!(waited.state(), LockState::Held);
    used(&locks, "f").await;
    assert_eq!(locks.kept(), 3);
    assert_eq!(nodes(&world, "a"), 1, "it is held");
    drop((waited, locks));
    settle().await;
    for key in ["a", "e0", "e18", "e19", "f"] {
        let kept = usize::from(key == "a");
        assert_eq!(nodes(&world, key), kept, "only a handle of it is left");
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_capacity_of_zero_nothing_is_kept_that_is_not_in_use() {
    let world = World::new();
    let locks = lingering(&world.client().await, 0);
    for key in ["a", "b", "a"] {
        used(&locks, key).await;
        assert_eq!(locks.kept(), 1, "until the next key is asked for");
    }
    assert_eq!((nodes(&world, "a"), nodes(&world, "b")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_one_name() {
    let world = World::new();
    let client = world.client().await;
    let locks = KeyedLocks::new(&client, FOLDER).unwrap();
    for key in ["", "/", "a/b", "a/", "/a", ".", "..", "\0"] {
        assert_eq!(locks.lock(key).unwrap_err().kind(), ErrorKind::InvalidArgument, "{key:?}");
    }
    assert_eq!(locks.lock("ä b").unwrap().path(), "/locks/users/ä b");
    let root = KeyedLocks::new(&client, "/").unwrap();
    assert_eq!(root.lock("a").unwrap().path(), "/a");
    assert!(KeyedLocks::new(&client, "locks").is_err());
}
