//! What the owners of one process may not do while they hand a lock on among themselves.

use std::time::Duration;

use tokio::task::yield_now;
use zk_client::Client;
use zk_embedded::{Config, Fault, OpCode, Server};
use zk_recipes::{Lock, Options, Owner, ReentrantLock};
use zk_tests::explore::{poll_once, settle};

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

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_while_the_answer_to_a_look_at_it_is_lost_is_not_handed_on() {
    for waits in [true, false] {
        let server = Server::in_memory(Config::new());
        let (client, other) = (connect(&server).await, connect(&server).await);
        let session = client.session().unwrap().id;
        let options = Options::new().mirror(false).passes(100).pass_time(Duration::MAX);
        let lock = ReentrantLock::with_options(&client, FOLDER, options).unwrap();
        let theirs = Lock::new(&other, FOLDER).unwrap();
        let ahead = if waits { Some(theirs.acquire().await.unwrap()) } else { None };
        let (one, two) = (Owner::new(), Owner::new());
        let first = lock.clone();
        let acquiring = tokio::spawn(async move { first.acquire(&one).await.unwrap() });
        settle().await;
        drop(ahead);
        let held = acquiring.await.unwrap();
        let node = held.node().to_owned();
        // Whoever waits here has the node looked at.
        server.inject(Fault::lose_reply().op(OpCode::GET_DATA).session(session));
        let mut next = Box::pin(lock.acquire(&two));
        assert!(poll_once(next.as_mut()).is_pending());
        while client.state().is_connected() {
            yield_now().await;
        }
        other.delete(&node, None).await.unwrap();
        client.states().wait_for(|state| state.is_connected()).await.unwrap();
        client.sync("/").await.unwrap();
        let stranger = theirs.try_acquire().await.unwrap().expect("nobody is there");
        drop(held);
        settle().await;
        assert!(poll_once(next.as_mut()).is_pending(), "{stranger:?} holds it, too");
        stranger.release().await.unwrap();
        assert_ne!(next.await.unwrap().node(), node);
    }
}
