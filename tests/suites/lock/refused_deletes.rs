//! The permission to delete is taken from the folders for a while and given back: whoever releases
//! is told, and then the next holder gets in, whatever the recipe.

use std::time::Duration;

use tokio::time::timeout;
use zk_client::{Acl, Client, CreateOptions, ErrorCode, Id, Perms};
use zk_recipes::{
    DoubleBarrier, Election, Error, Group, Lock, MultiLock, Owner, Partitioner, ReentrantLock,
    RwLock, Semaphore,
};
use zk_test_support::locks::{TIMEOUT, World};

/// Every way to queue up in a folder.
pub(crate) const WAITS: [&str; 8] =
    ["lock", "read", "write", "multi", "reentrant", "semaphore", "election", "double barrier"];

/// All folders, so that no recipe makes one that everybody may change.
const FOLDERS: [&str; 8] = [
    "/r",
    "/r/one",
    "/r/two",
    "/r/one/locks",
    "/r/one/leases",
    "/r/one/members",
    "/r/one/shards",
    "/r/one/shards/a",
];

/// Sets what everybody may do with these folders.
pub(crate) async fn permit(client: &Client, folders: &[&str], perms: Perms) {
    for path in folders {
        client.set_acl(path, &[Acl::new(perms, Id::ANYONE)], None).await.unwrap();
    }
}

/// Takes a turn with what the recipe gives in this folder, and gives it back.
pub(crate) async fn turn(recipe: &str, client: &Client, one: &str, id: &str) -> Result<(), Error> {
    match recipe {
        "lock" => Lock::new(client, one)?.acquire().await?.release().await.map(drop),
        "requeue" => {
            let guard = Lock::new(client, one)?.acquire().await?.requeue().await?;
            guard.release().await.map(drop)
        }
        "read" => RwLock::new(client, one)?.read().await?.release().await.map(drop),
        "write" => RwLock::new(client, one)?.write().await?.release().await.map(drop),
        "reentrant" => {
            let owner = Owner::new();
            ReentrantLock::new(client, one)?.acquire(&owner).await?.release().await.map(drop)
        }
        "multi" => {
            MultiLock::new(client, [one, "/r/two"])?.acquire().await?.release().await.map(drop)
        }
        "semaphore" => Semaphore::new(client, one, 1)?.acquire().await?.release().await.map(drop),
        "election" => Election::new(client, one)?.lead(|_| async {}).await,
        "double barrier" => DoubleBarrier::new(client, one, 1)?.enter().await?.leave().await,
        "group" => Group::new(client, one)?.join("me", id).await?.leave().await.map(drop),
        "partitioner" => {
            let shards = Partitioner::new(client, one, ["a"])?;
            let stop = tokio::time::sleep(Duration::from_secs(1));
            shards.run_until(id, stop, |_| async {}).await
        }
        _ => panic!("there is no recipe {recipe}"),
    }
}

#[tokio::test(start_paused = true)]
async fn who_releases_without_the_permission_is_told_and_the_next_one_gets_in_when_it_is_back() {
    // Every recipe that deletes a node of its own.
    for recipe in WAITS.into_iter().chain(["requeue", "group", "partitioner"]) {
        let world = World::new();
        let (client, other) = (world.client().await, world.client().await);
        for path in FOLDERS {
            client.create(path, b"", &CreateOptions::persistent()).await.unwrap();
        }
        permit(&client, &FOLDERS, Perms::ALL.without(Perms::DELETE)).await;
        let told = timeout(4 * TIMEOUT, turn(recipe, &client, "/r/one", "one"));
        let error = told.await.expect(recipe).expect_err(recipe);
        let code = error.client().and_then(zk_client::Error::code);
        assert_eq!(code, Some(ErrorCode::NO_AUTH), "{recipe}: {error}");
        assert!(!client.undeleted().is_empty(), "{recipe}");
        // Longer than a session timeout, so that it is refused again.
        tokio::time::sleep(2 * TIMEOUT).await;
        permit(&client, &FOLDERS, Perms::ALL).await;
        let next = timeout(4 * TIMEOUT, turn(recipe, &other, "/r/one", "two"));
        next.await.expect(recipe).expect(recipe);
        // A reader does not wait for another one's node.
        tokio::time::sleep(2 * TIMEOUT).await;
        assert_eq!(client.undeleted(), [""; 0], "{recipe}");
        assert!(client.state().is_connected(), "{recipe}: its session has not ended for it");
    }
}

/// The permits come back, and the turn that led to them stays.
#[tokio::test(start_paused = true)]
async fn whose_turn_at_a_semaphore_cannot_end_is_told_when_the_permit_is_given_back() {
    let world = World::new();
    let client = world.client().await;
    for path in FOLDERS {
        client.create(path, b"", &CreateOptions::persistent()).await.unwrap();
    }
    permit(&client, &["/r/one/locks"], Perms::ALL.without(Perms::DELETE)).await;
    let semaphore = Semaphore::new(&client, "/r/one", 1).unwrap();
    let permit = semaphore.acquire().await.unwrap();
    let error = permit.release().await.unwrap_err();
    assert_eq!(error.client().and_then(zk_client::Error::code), Some(ErrorCode::NO_AUTH));
    let turns = client.undeleted();
    assert!(turns.len() == 1 && turns[0].starts_with("/r/one/locks/"), "{turns:?}");
}
