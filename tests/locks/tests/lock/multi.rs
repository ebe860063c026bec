//! Several locks taken together: all or none, in one transaction, and never in a circle.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zk_client::{Client, ErrorCode, OpCode, Outcome};
use zk_embedded::{Change, Config, Fault, Server};
use zk_recipes::{ErrorKind, Lock, LockState, Loss, MultiLock, Release};

async fn connect(server: &Server) -> Client {
    let builder = Client::builder().connector(server.connector());
    builder.session_timeout(Duration::from_secs(4)).connect("zk").await.unwrap()
}

fn server() -> Server {
    Server::in_memory(Config::new().keep_history(true))
}

#[tokio::test(start_paused = true)]
async fn all_nodes_are_of_one_transaction() {
    let server = server();
    let client = connect(&server).await;
    let lock = MultiLock::new(&client, ["/locks/b", "/locks/a", "/c"]).unwrap();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(guard.state(), LockState::Held);
    let folders = guard.locks().iter().map(|lock| lock.node().rsplit_once('/').unwrap().0);
    assert_eq!(folders.collect::<Vec<_>>(), ["/locks/b", "/locks/a", "/c"]);
    for lock in guard.locks() {
        assert_eq!(lock.token(), guard.token());
    }
    let history = server.history();
    let of_one = |change| {
        let nodes = history.iter().filter(|commit| commit.path.contains("-lock-"));
        nodes.filter(|commit| commit.change == change).map(|commit| commit.zxid.0).collect()
    };
    let created: Vec<i64> = of_one(Change::Created);
    assert_eq!(created, [guard.token().czxid(); 3]);
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    for folder in ["/locks/a", "/locks/b", "/c"] {
        assert_eq!(server.children(folder), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn who_names_them_in_another_order_waits_and_gets_in() {
    const CLIENTS: usize = 4;
    const TURNS: usize = 20;
    let server = server();
    let inside = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0)]);
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let (client, inside) = (connect(&server).await, Arc::clone(&inside));
        tasks.push(tokio::spawn(async move {
            for turn in 0..TURNS {
                // Two of three, in each of the six ways.
                let (first, step) = ((number + turn) % 3, 1 + (number + turn / 3) % 2);
                let both = [first, (first + step) % 3];
                let paths = both.map(|index| format!("/locks/{index}"));
                let guard = MultiLock::new(&client, paths).unwrap().acquire().await.unwrap();
                for index in both {
                    assert_eq!(inside[index].fetch_add(1, Ordering::SeqCst), 0);
                }
                tokio::time::sleep(Duration::from_millis(turn as u64 % 5)).await;
                for index in both {
                    inside[index].fetch_sub(1, Ordering::SeqCst);
                }
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(60), task).await.expect("a circle").unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn none_is_taken_if_one_is_not_free() {
    let server = server();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let held = Lock::new(&other, "/locks/b").unwrap().acquire().await.unwrap();
    let lock = MultiLock::new(&client, ["/locks/a", "/locks/b"]).unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    client.sync("/").await.unwrap();
    assert_eq!(server.children("/locks/a").len() + server.children("/locks/b").len(), 1);

    assert!(lock.acquire_within(Duration::from_secs(1)).await.unwrap().is_none());
    client.sync("/").await.unwrap();
    assert_eq!(server.children("/locks/a").len() + server.children("/locks/b").len(), 1);

    held.release().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_lost_transaction_is_found_again_or_made_again() {
    for applied in [true, false] {
        let server = server();
        let client = connect(&server).await;
        let lock = MultiLock::new(&client, ["/locks/a", "/locks/b"]).unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
        let fault = if applied { Fault::lose_reply() } else { Fault::lose_request() };
        server.inject(fault.op(OpCode::MULTI));
        let guard = lock.acquire().await.unwrap();
        assert_eq!(server.pending_faults(), 0);
        for folder in ["/locks/a", "/locks/b"] {
            assert_eq!(server.children(folder).len(), 1, "applied: {applied}");
        }
        drop(guard);
        client.sync("/").await.unwrap();
        for folder in ["/locks/a", "/locks/b"] {
            assert_eq!(server.children(folder).len(), 0, "applied: {applied}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_is_the_loss_of_all() {
    let server = server();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = MultiLock::new(&client, ["/locks/a", "/locks/b"]).unwrap();
    let guard = lock.acquire().await.unwrap();
    guard.fenced(()).await.unwrap();
    let node = guard.locks()[1].node().to_owned();
    other.delete(&node, None).await.unwrap();

    let error = guard.fenced(()).await.unwrap_err();
    assert_eq!((error.kind(), error.loss()), (ErrorKind::Lost, Some(Loss::NodeDeleted)));
    assert!(error.to_string().contains("/locks/b"), "{error}");
    assert_eq!(guard.lost().await, Loss::NodeDeleted);
    assert_eq!(guard.state(), LockState::Lost(Loss::NodeDeleted));
    let never = std::future::pending::<()>();
    assert_eq!(guard.run(never).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(guard.release().await.unwrap(), Release::AlreadyLost);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_makes_no_sense_is_refused() {
    let server = server();
    let client = connect(&server).await;
    let refused = MultiLock::new(&client, ["/a", "/b", "/a"]).unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::InvalidSet, Outcome::NotApplied));
    let none = MultiLock::new(&client, Vec::<String>::new()).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::InvalidSet);
    assert_eq!(MultiLock::new(&client, ["a"]).unwrap_err().kind(), ErrorKind::Client);

    client.create("/leaf", b"", &zk_client::CreateOptions::ephemeral()).await.unwrap();
    let lock = MultiLock::new(&client, ["/locks/a", "/leaf"]).unwrap();
    let error = lock.acquire().await.unwrap_err();
    let code = error.client().and_then(zk_client::Error::code);
    assert_eq!(code, Some(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS));
    assert_eq!(server.children("/locks/a"), Vec::<String>::new());
}
