//! What the owners of one process may not do while they hand a lock on among themselves.

use std::time::Duration;

use zk_client::Client;
use zk_embedded::{Config, Server};
use zk_recipes::{Lock, Options, Owner, ReentrantLock};

const FOLDER: &str = "/locks/a";

async fn connect(server: &Server) -> Client {
    let builder = Client::builder().connector(server.connector());
    builder.session_timeout(Duration::from_secs(4)).connect("zk").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn who_comes_by_another_lock_of_their_client_gets_its_turn() {
    let server = Server::in_memory(Config::new());
    let client = connect(&server).await;
    let busy = ReentrantLock::with_options(&client, FOLDER, Options::new().passes(2)).unwrap();
    for _ in 0..2 {
        let lock = busy.clone();
        tokio::spawn(async move {
            let owner = Owner::new();
            loop {
                let guard = lock.acquire(&owner).await.unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
                guard.release().await.unwrap();
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let other = Lock::new(&client, FOLDER).unwrap();
    assert!(other.acquire_within(Duration::from_secs(60)).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_deleted_is_not_handed_on() {
    for mirror in [false, true] {
        let server = Server::in_memory(Config::new());
        let (client, operator) = (connect(&server).await, connect(&server).await);
        let options = Options::new().mirror(mirror);
        let lock = ReentrantLock::with_options(&client, FOLDER, options).unwrap();
        let (one, other) = (Owner::new(), Owner::new());
        for _ in 0..2 {
            lock.acquire(&one).await.unwrap().release().await.unwrap();
        }
        let guard = lock.acquire(&one).await.unwrap();
        let node = guard.node().to_owned();
        let waiting = tokio::spawn(async move { lock.acquire(&other).await.unwrap() });
        tokio::time::sleep(Duration::from_millis(10)).await;
        operator.delete(&node, None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        drop(guard);
        assert_ne!(waiting.await.unwrap().node(), node, "mirror: {mirror}");
    }
}
