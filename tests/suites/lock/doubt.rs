//! Contenders that become first while it is unknown whether their session still exists: they check
//! their node before they get the lock.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::task::yield_now;
use zk_client::Client;
use zk_recipes::{Error, Guard, Lock, Options};
use zk_test_support::explore::poll_once;
use zk_test_support::locks::{LOCK, TIMEOUT, World, settle};

type Acquiring = Pin<Box<dyn Future<Output = Result<Guard, Error>>>>;

/// A contender that waits with watches for this time, and becomes first just as its connection
/// breaks. Returns its acquire, and the path of its node.
async fn in_doubt(world: &World, client: &Client, waited: Duration) -> (Acquiring, String) {
    let first = world.lock().await.acquire().await.unwrap();
    let lock = Lock::with_options(client, LOCK, Options::new()).unwrap();
    let mut acquiring: Acquiring = Box::pin(async move { lock.acquire().await });
    for _ in 0..300 {
        assert!(poll_once(acquiring.as_mut()).is_pending());
        settle().await;
    }
    let node = format!("{LOCK}/{}", world.queue()[1]);
    tokio::time::sleep(waited).await;
    first.release().await.unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;
    world.server.disconnect(client.session().unwrap().id);
    while client.state().is_connected() {
        yield_now().await;
    }
    assert!(poll_once(acquiring.as_mut()).is_pending(), "first, and in doubt");
    (acquiring, node)
}

#[tokio::test(start_paused = true)]
async fn whose_node_went_while_in_doubt_is_told() {
    // Whether the node of the disconnected client is written, and whether it is deleted.
    let fates = [(false, true), (true, true), (true, false)];
    // Of a contender that has waited for longer than the session timeout nothing is known that is
    // young enough for a lease.
    let waits = [Duration::ZERO, 2 * TIMEOUT];
    for (fate, waited) in fates.iter().flat_map(|fate| waits.map(|waited| (fate, waited))) {
        let &(is_written, is_deleted) = fate;
        let world = World::new();
        let (admin, client) = (world.client().await, world.client().await);
        let (acquiring, node) = in_doubt(&world, &client, waited).await;
        if is_written {
            admin.set_data(&node, b"x", None).await.unwrap();
        }
        if is_written && is_deleted {
            // The client gets the event of the write on its next connection.
            client.states().wait_for(|state| state.is_connected()).await.unwrap();
            client.sync("/").await.unwrap();
        }
        if is_deleted {
            admin.delete(&node, None).await.unwrap();
            settle().await;
        }
        let acquired = acquiring.await;
        assert_eq!(acquired.is_ok(), !is_deleted, "{fate:?}, {waited:?}: {acquired:?}");
    }
}
