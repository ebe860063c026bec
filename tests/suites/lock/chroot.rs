//! Recipes below a chroot that does not exist any more: no recipe makes it again, since only who
//! made it knows its access list.

use std::future::Future;
use std::pin::Pin;

use zk_client::{Client, CreateOptions};
use zk_recipes::{
    Barrier, Counter, DoubleBarrier, Election, Error, Group, Layout, Lock, MultiLock, Options,
    Owner, ReentrantLock, RwLock, Semaphore,
};
use zk_test_support::locks::{LOCK, World, settle};

type Attempt = fn(Client) -> Pin<Box<dyn Future<Output = Result<(), Error>>>>;

/// Each takes something, and gives it back at once.
macro_rules! tries {
    ($($name:literal: |$client:ident| $taken:expr;)+) => {
        [$(($name, (|$client| Box::pin(async move {
            let $client = &$client;
            let _taken = $taken;
            Ok(())
        })) as Attempt)),+]
    };
}

#[tokio::test(start_paused = true)]
async fn the_root_is_a_folder_of_a_lock() {
    let world = World::new();
    let locks = [world.client().await, world.client().await].map(|it| Lock::new(&it, "/").unwrap());
    let guard = locks[0].acquire().await.unwrap();
    assert!(locks[1].try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(locks[1].try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_chroot_that_a_server_has_removed_is_named() {
    let world = World::new();
    let client = world.client().await;
    client.create("/shop", b"", &CreateOptions::container()).await.unwrap();
    let shop = client.chroot("/shop").unwrap();
    let attempts = tries! {
        "lock": |client| Lock::new(client, LOCK)?.acquire().await?;
        "reader": |client| RwLock::new(client, LOCK)?.read().await?;
        "several": |client| MultiLock::new(client, [LOCK, "/two"])?.acquire().await?;
        "reentrant": |client| ReentrantLock::new(client, LOCK)?.acquire(&Owner::new()).await?;
        "semaphore": |client| Semaphore::new(client, LOCK, 2)?.acquire().await?;
        "semaphore of kazoo": |client| {
            let options = Options::new().layout(Layout::KAZOO);
            Semaphore::with_options(client, LOCK, 2, options)?.acquire().await?
        };
        "election": |client| Election::new(client, LOCK)?.campaign().await?;
        "group": |client| Group::new(client, LOCK)?.join("ana", "").await?;
        "double barrier": |client| DoubleBarrier::new(client, LOCK, 1)?.enter().await?;
        "barrier": |client| Barrier::new(client, LOCK)?.close().await?;
        "counter": |client| Counter::new(client, LOCK)?.add(1).await?;
        "the root as its folder": |client| Lock::new(client, "/")?.acquire().await?;
    };
    for (name, attempt) in attempts {
        attempt(shop.clone()).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    settle().await;
    for _ in 0..4 {
        world.server.reap();
    }
    client.delete_all("/shop").await.ok();
    for (name, attempt) in attempts {
        let error = attempt(shop.clone()).await.expect_err(name).to_string();
        assert!(error.contains("the chroot /shop does not exist: create it"), "{name}: {error}");
    }
    assert!(!world.server.has_node("/shop"), "nobody has made it again");
}
