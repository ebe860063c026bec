//! A whole client against a server that the test plays: calls, watches, owned nodes, closing and
//! giving up, on a paused clock.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Builder;
use tokio::task::coop::poll_proceed;
use zk_client::Host;
use zk_client::{
    Client, ClientBuilder, Connecting, Connector, CreateOptions, Deletion, ErrorKind, EventType,
    Op, Outcome, PathRule, SessionState, Transport, WatchMode,
};
use zk_proto::{
    Create2Response, CreateResponse, ErrorCode, ExistsResponse, GetChildren2Response, List,
    MultiResponse, MultiResult, OpCode, SetDataResponse,
};
use zk_test_support::peer::{
    Clock, Dialer, Network, Peer, SESSION, TIMEOUT, created, data, stat_of, there,
};

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();

fn builder(network: &Network) -> ClientBuilder {
    Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1)
}

/// A connected client.
async fn connected(network: &mut Network) -> (Client, Peer) {
    let connecting = builder(network).connect("zk1:1");
    let (client, peer) = tokio::join!(connecting, network.attach());
    (client.unwrap(), peer)
}

/// A connected client that sees `/shop` as its root.
async fn in_the_shop(network: &mut Network) -> (Client, Peer) {
    let connecting = tokio::spawn(builder(network).connect("zk1:1/shop"));
    let mut peer = network.attach().await;
    peer.expect("exists#1 /shop").await;
    peer.answer(&there()).await;
    (connecting.await.unwrap().unwrap(), peer)
}

/// Lets every task run until it waits.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Polls `future` up to `polls` times and drops it. Returns its output if it was ready before.
async fn drop_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_call_is_on_its_way_although_nobody_awaits_it() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    drop(client.delete("/a", None));
    let later = client.delete("/b", Some(3));
    peer.expect("delete#1 /a").await;
    peer.expect("delete#2 /b").await;
    peer.refuse(ErrorCode::NO_NODE).await;
    peer.refuse(ErrorCode::BAD_VERSION).await;
    let error = later.await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Refused, Outcome::NotApplied));
    assert_eq!(error.to_string(), "delete /b: BadVersion");
}

#[tokio::test(start_paused = true)]
async fn every_call_decodes_its_answer() {
    let mut network = Network::new();
    let (client, peer) = connected(&mut network).await;
    let served = peer.serve();
    let persistent = CreateOptions::persistent();
    assert_eq!(client.create("/a", b"", &persistent).await.unwrap().path, "/a");
    let job = client.create("/jobs/", b"", &persistent.sequential()).await.unwrap();
    assert_eq!(job.path, "/jobs/0000000007");
    assert_eq!(client.exists("/a").await.unwrap(), Some(stat_of(SESSION)));
    assert_eq!(client.get_data("/a").await.unwrap().data, "data");
    assert_eq!(client.set_data("/a", b"x", Some(1)).await.unwrap(), stat_of(SESSION));
    assert_eq!(client.get_children("/a").await.unwrap().names, ["a", "b"]);
    client.sync("/a").await.unwrap();
    client.delete("/a", None).await.unwrap();
    client.close().await;
    assert_eq!(
        served.await.unwrap(),
        [
            "create2#1 /a",
            "create2#2 /jobs/",
            "exists#3 /a",
            "getData#4 /a",
            "setData#5 /a",
            "getChildren2#6 /a",
            "sync#7 /a",
            "delete#8 /a",
            "closeSession#9"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_decode_fails_its_own_call_alone() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let (bad, good) = (client.get_data("/a"), client.get_data("/b"));
    peer.expect("getData#1 /a").await;
    peer.expect("getData#2 /b").await;
    peer.answer(&()).await;
    peer.answer(&data(b"fine")).await;
    let error = bad.await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Protocol, Outcome::Unknown));
    assert_eq!(good.await.unwrap().data, "fine");
}

#[tokio::test(start_paused = true)]
async fn an_illegal_path_is_refused_here() {
    let mut network = Network::new();
    let (client, peer) = connected(&mut network).await;
    let options = CreateOptions::persistent();
    let error = client.create("/a/", b"", &options).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::InvalidPath, Outcome::NotApplied));
    assert!(error.to_string().contains(&PathRule::TrailingSlash.to_string()), "{error}");
    for path in ["", "a", "//a", "/a/../b", "/a\0"] {
        for error in [
            client.create(path, b"", &options).await.unwrap_err(),
            client.create_owned(path, b"", &OWNED).await.unwrap_err(),
            client.replace_owned("/a", path, b"", &OWNED).unwrap().await.unwrap_err(),
            client.watch_nodes(&["/a", path]).await.unwrap_err(),
            client.delete(path, None).await.unwrap_err(),
            client.exists(path).await.unwrap_err(),
            client.exists_and_watch(path).await.unwrap_err(),
            client.get_data(path).await.unwrap_err(),
            client.get_data_and_watch(path).await.unwrap_err(),
            client.set_data(path, b"", None).await.unwrap_err(),
            client.get_children(path).await.unwrap_err(),
            client.get_children_and_watch(path).await.unwrap_err(),
            client.sync(path).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}");
        }
    }
    settle().await;
    assert_eq!(peer.writes(), 1, "the handshake alone");
}

#[tokio::test(start_paused = true)]
async fn a_stem_may_end_in_one_slash_and_not_in_two() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let options = CreateOptions::persistent().sequential();
    for stem in ["//", "/a//"] {
        let creating = client.create(stem, b"", &options);
        let error = tokio::time::timeout(TIMEOUT / 4, creating).await.expect("refused here");
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidPath, "{stem:?}");
    }
    for (n, stem) in ["/", "/a/"].into_iter().enumerate() {
        drop(client.create(stem, b"", &options));
        peer.expect(&format!("create2#{} {stem}", n + 1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_chroot_is_applied_and_stripped() {
    let mut network = Network::new();
    let (client, mut peer) = in_the_shop(&mut network).await;
    let creating = client.create("/a", b"", &CreateOptions::persistent());
    peer.expect("create2#2 /shop/a").await;
    peer.answer(&created("/shop/a")).await;
    assert_eq!(creating.await.unwrap().path, "/a");

    let owned = client.create_owned("/x-", b"", &OWNED);
    peer.expect("create2#3 /shop/x-").await;
    peer.answer(&created("/shop/x-0000000001")).await;
    let owned = owned.await.unwrap();
    assert_eq!(owned.path(), "/x-0000000001");
    let deleting = owned.delete();
    peer.expect("delete#4 /shop/x-0000000001").await;
    peer.answer(&()).await;
    deleting.await.unwrap();

    let watching = client.get_children_and_watch("/");
    peer.expect("getChildren2#5 /shop").await;
    let children = List::new(&["a"]);
    peer.answer(&GetChildren2Response { children, stat: stat_of(SESSION) }).await;
    let (children, mut root) = watching.await.unwrap();
    assert_eq!(children.names, ["a"]);
    let watching = client.exists_and_watch("/b");
    peer.expect("exists#6 /shop/b").await;
    peer.refuse(ErrorCode::NO_NODE).await;
    let (stat, mut b) = watching.await.unwrap();
    assert_eq!(stat, None);
    peer.fire(EventType::NODE_CREATED, "/shop/b").await;
    peer.fire(EventType::NODE_CHILDREN_CHANGED, "/shop").await;
    assert_eq!(b.changed().await.unwrap().path, "/b");
    assert_eq!(root.changed().await.unwrap().path, "/");

    let refused = client.delete("/c", None);
    peer.expect("delete#7 /shop/c").await;
    peer.refuse(ErrorCode::NO_NODE).await;
    let error = refused.await.unwrap_err().to_string();
    assert_eq!(error, "delete /c: NoNode", "errors name the caller's path");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_one_write() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    settle().await;
    let (before, clock) = (peer.writes(), Clock::start());
    let (a, b) = client.batch(|| {
        let first = client.get_data("/a");
        // Inner batches end with the outer one.
        let second = client.batch(|| client.get_data("/b"));
        (first, second)
    });
    peer.expect("getData#1 /a").await;
    peer.expect("getData#2 /b").await;
    assert_eq!((peer.writes() - before, clock.elapsed()), (1, Duration::ZERO));
    peer.answer(&data(b"a")).await;
    peer.answer(&data(b"b")).await;
    assert_eq!((a.await.unwrap().data, b.await.unwrap().data), ("a".into(), "b".into()));
}

/// The batch is held open on a thread of its own while another submits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_submit_during_a_batch_leaves_with_it() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let mut watches = Vec::new();
    for (path, request) in [("/v", "getData#1 /v"), ("/w", "getData#2 /w")] {
        let watching = client.get_data_and_watch(path);
        peer.expect(request).await;
        peer.answer(&data(b"")).await;
        watches.push(watching.await.unwrap().1);
    }
    let (corked, was_corked) = tokio::sync::oneshot::channel();
    let (uncork, may_uncork) = std::sync::mpsc::channel();
    let batcher = client.clone();
    let batch = tokio::task::spawn_blocking(move || {
        batcher.batch(|| {
            let mine = batcher.get_data("/mine");
            corked.send(()).unwrap();
            may_uncork.recv().unwrap();
            mine
        })
    });
    was_corked.await.unwrap();
    let before = peer.writes();
    let other = client.get_data("/other");
    // An event wakes the driver. When the next event is delivered, the driver's first turn is over.
    for (path, mut watch) in ["/v", "/w"].into_iter().zip(watches) {
        peer.fire(EventType::NODE_DELETED, path).await;
        watch.changed().await.unwrap();
    }
    assert_eq!(peer.writes(), before, "nothing leaves while the batch is open");
    uncork.send(()).unwrap();
    let mine = batch.await.unwrap();
    peer.expect("getData#3 /mine").await;
    peer.expect("getData#4 /other").await;
    peer.answer(&data(b"mine")).await;
    peer.answer(&data(b"other")).await;
    assert_eq!(mine.await.unwrap().data, "mine");
    assert_eq!(other.await.unwrap().data, "other");
}

#[tokio::test(start_paused = true)]
async fn who_finds_answer_after_answer_lets_other_tasks_run() {
    let mut network = Network::new();
    let (client, peer) = connected(&mut network).await;
    let served = peer.serve();
    let ask = || client.get_data("/a").within(TIMEOUT);
    let replies = client.batch(|| (0..1000).map(|_| ask()).collect::<Vec<_>>());
    // The deadline of each has passed by then, so each has been answered.
    tokio::time::sleep(2 * TIMEOUT).await;
    let other = tokio::spawn(async {});
    for reply in replies {
        assert_eq!(reply.await.unwrap().data, "data");
    }
    assert!(other.is_finished(), "a thousand answers without a pause");
    served.abort();
}

/// A task within a task, which is polled only when it was woken.
struct Woken {
    again: AtomicBool,
    outer: Mutex<Option<Waker>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.again.store(true, Ordering::SeqCst);
        if let Some(outer) = self.outer.lock().unwrap().take() {
            outer.wake();
        }
    }
}

async fn when_woken(future: impl Future<Output = ()>) {
    let mut future = pin!(future);
    let woken = Arc::new(Woken { again: AtomicBool::new(true), outer: Mutex::new(None) });
    let waker = Waker::from(Arc::clone(&woken));
    poll_fn(|cx| {
        woken.outer.lock().unwrap().replace(cx.waker().clone());
        match woken.again.swap(false, Ordering::SeqCst) {
            true => future.as_mut().poll(&mut Context::from_waker(&waker)),
            false => Poll::Pending,
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_driver_asks_to_be_polled_whenever_there_is_something_to_do() {
    for batched in [false, true] {
        let mut network = Network::new();
        let (client, driver) = builder(&network).split("zk1:1").unwrap();
        let driver = tokio::spawn(when_woken(driver));
        let served = network.attach().await.serve();
        client.sync("/").await.unwrap();
        let clock = Clock::start();
        for tasks in [1, 2, 3, 100] {
            let loops = (0..tasks).map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    for _ in 0..10 {
                        match batched {
                            true => client.batch(|| client.get_data("/a")).await.unwrap(),
                            false => client.get_data("/a").await.unwrap(),
                        };
                    }
                })
            });
            for task in loops.collect::<Vec<_>>() {
                task.await.unwrap();
            }
        }
        assert_eq!(clock.elapsed(), Duration::ZERO, "somebody waited for a timer");
        client.close().await;
        driver.await.unwrap();
        served.await.unwrap();
    }
}

/// The driver's timer belongs to that runtime and no longer fires, so no deadline would be met.
#[test]
fn a_driver_ends_with_the_runtime_that_it_was_made_in() {
    let runtime = || Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (birthplace, home) = (runtime(), runtime());
    let mut network = Network::new();
    let made = birthplace.block_on(async { builder(&network).split("zk1:1").unwrap() });
    let (client, driver) = made;
    let driver = home.spawn(driver);
    let dialed = home.block_on(network.dial());
    drop(birthplace);
    let reply = client.get_data("/a");
    home.block_on(async {
        assert!(driver.await.unwrap_err().is_panic());
        assert_eq!(reply.await.unwrap_err().kind(), ErrorKind::Closed);
    });
    drop(dialed);
}

/// A caller that checks a watch without waiting takes "pending" for an answer.
#[tokio::test(start_paused = true)]
async fn an_event_that_is_there_is_seen_by_a_task_that_shall_let_others_run() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let watching = client.get_data_and_watch("/a");
    peer.expect("getData#1 /a").await;
    peer.answer(&data(b"")).await;
    let (_, mut watcher) = watching.await.unwrap();
    peer.fire(EventType::NODE_DELETED, "/a").await;
    settle().await;
    let seen = poll_fn(|cx| {
        while let Poll::Ready(coop) = poll_proceed(cx) {
            coop.made_progress();
        }
        Poll::Ready(watcher.poll_changed(cx))
    });
    let Poll::Ready(event) = seen.await else { panic!("the event is not seen") };
    assert_eq!(event.unwrap().kind, EventType::NODE_DELETED);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_panics_lets_requests_go() {
    let mut network = Network::new();
    let (client, peer) = connected(&mut network).await;
    let served = peer.serve();
    let batch =
        std::panic::AssertUnwindSafe(|| client.batch(|| std::panic::resume_unwind(Box::new(()))));
    assert!(std::panic::catch_unwind(batch).is_err());
    client.get_data("/a").await.unwrap();
    served.abort();
}

#[tokio::test(start_paused = true)]
async fn what_was_not_written_when_the_server_hung_up_waits_for_the_next() {
    let mut network = Network::new();
    let (client, peer) = connected(&mut network).await;
    settle().await;
    drop(peer);
    let reply = client.get_data("/a");
    let mut peer = network.attach().await;
    let served = tokio::time::timeout(TIMEOUT, async {
        peer.expect("getData#1 /a").await;
        peer.answer(&data(b"later")).await;
    });
    let (served, reply) = tokio::join!(served, reply);
    assert_eq!(reply.unwrap().data, "later", "it never left this machine");
    served.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_survives_a_reconnect_and_tells_what_it_missed() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let watching = client.get_data_and_watch("/a");
    peer.expect("getData#1 /a").await;
    peer.answer(&data(b"")).await;
    let (_, mut watch) = watching.await.unwrap();
    drop(peer);
    let mut peer = network.attach().await;
    peer.expect(r#"setWatches#-8 since 0x1: ["/a"] [] []"#).await;
    peer.fire(EventType::NODE_DELETED, "/a").await;
    peer.answer(&()).await;
    let event = watch.changed().await.unwrap();
    assert_eq!((event.kind, event.missed), (EventType::NODE_DELETED, true));
    assert!(watch.changed().await.is_err(), "once");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_is_dropped_is_forgotten() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let watching = client.get_data_and_watch("/a");
    peer.expect("getData#1 /a").await;
    let dropped_before_its_reply = client.get_data_and_watch("/b");
    peer.expect("getData#2 /b").await;
    drop(dropped_before_its_reply);
    peer.answer(&data(b"")).await;
    peer.answer(&data(b"")).await;
    // The client removes the watch from the server as soon as it knows that it is set.
    peer.expect("removeWatches#3 /b").await;
    drop(watching.await.unwrap());
    peer.expect("removeWatches#4 /a").await;
    drop(peer);
    let peer = network.attach().await;
    let served = peer.serve();
    client.close().await;
    assert_eq!(served.await.unwrap(), ["closeSession#5"], "nothing to arm");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_a_node_that_is_about_to_go_is_forgotten_without_a_request() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let watching = client.get_data_and_watch("/a");
    peer.expect("getData#1 /a").await;
    peer.answer(&data(b"")).await;
    let (_, watch) = watching.await.unwrap();
    watch.abandon();
    drop(client.delete("/a", None));
    peer.expect("delete#2 /a").await;
    peer.fire(EventType::NODE_DELETED, "/a").await;
    peer.answer(&()).await;
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn an_owned_node_goes_with_its_owner() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let creating = client.create_owned("/x-", b"", &OWNED);
    peer.expect("create2#1 /x-").await;
    peer.answer(&created("/x-1")).await;
    drop(creating.await.unwrap());
    peer.expect("delete#2 /x-1").await;
    peer.answer(&()).await;

    // No caller waits for the node, so the client deletes it right after the reply.
    let creating = client.create_owned("/x-", b"", &OWNED);
    peer.expect("create2#3 /x-").await;
    drop(creating);
    peer.answer(&created("/x-2")).await;
    peer.expect("delete#4 /x-2").await;
    peer.answer(&()).await;

    let creating = client.create_owned("/x-", b"", &OWNED);
    peer.expect("create2#5 /x-").await;
    peer.answer(&created("/x-3")).await;
    let node = creating.await.unwrap();
    let deleting = node.delete();
    peer.expect("delete#6 /x-3").await;
    peer.refuse(ErrorCode::NO_NODE).await;
    assert_eq!(deleting.await.unwrap(), Deletion::AlreadyGone);
}

#[tokio::test(start_paused = true)]
async fn an_owned_node_whose_create_was_lost_is_found_again() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let creating = client.create_owned("/locks/x-", b"", &OWNED);
    peer.expect("create2#1 /locks/x-").await;
    drop(peer);
    let mut peer = network.attach().await;
    peer.expect("sync#2 /locks").await;
    peer.expect("getEphemerals#3 /locks/").await;
    peer.answer(&()).await;
    peer.answer_ephemerals(&["/locks/x-0000000004"]).await;
    peer.expect("exists#4 /locks/x-0000000004").await;
    peer.answer(&ExistsResponse { stat: stat_of(SESSION) }).await;
    let node = creating.await.unwrap();
    assert_eq!((node.path(), node.czxid()), ("/locks/x-0000000004", stat_of(SESSION).czxid));

    drop(node);
    peer.expect("delete#5 /locks/x-0000000004").await;
    drop(peer);
    let mut peer = network.attach().await;
    peer.expect("delete#6 /locks/x-0000000004").await;
    peer.answer(&()).await;
}

#[tokio::test(start_paused = true)]
async fn close_answers_what_was_called_and_is_done_when_the_server_says_so() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let reply = client.get_data("/a");
    let closing = tokio::spawn(client.close());
    let late = client.get_data("/b").await.unwrap_err();
    assert_eq!((late.kind(), late.outcome()), (ErrorKind::Closed, Outcome::NotApplied));
    peer.expect("getData#1 /a").await;
    peer.expect("closeSession#2").await;
    settle().await;
    assert!(!closing.is_finished());
    peer.answer(&data(b"a")).await;
    peer.answer(&()).await;
    closing.await.unwrap();
    assert_eq!(reply.await.unwrap().data, "a");
    assert_eq!(client.state(), SessionState::Closed);
    client.close().await;
    client.clone().close().await;
    peer.expect_hangup().await;
}

#[tokio::test(start_paused = true)]
async fn close_returns_although_the_server_is_dead() {
    for connected_first in [true, false] {
        let mut network = Network::new();
        let (client, peer) = if connected_first {
            let (client, peer) = connected(&mut network).await;
            (client, Some(peer))
        } else {
            (builder(&network).connect_lazily("zk1:1").unwrap(), None)
        };
        let clock = Clock::start();
        let hole = tokio::spawn(async move {
            if let Some(mut peer) = peer {
                while peer.frame().await.is_some() {}
            }
            loop {
                network.dial().await.ignore().await;
            }
        });
        client.close().await;
        assert!(clock.elapsed() <= TIMEOUT + Duration::from_millis(2), "{:?}", clock.elapsed());
        assert_eq!(client.state(), SessionState::Closed);
        hole.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_closes_the_session() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let clone = client.clone();
    drop(client);
    let creating = clone.create_owned("/x-", b"", &OWNED);
    peer.expect("create2#1 /x-").await;
    peer.answer(&created("/x-1")).await;
    let node = creating.await.unwrap();
    let reply = clone.get_data("/a");
    drop(clone);
    peer.expect("getData#2 /a").await;
    settle().await;
    drop(node);
    peer.expect("delete#3 /x-1").await;
    peer.expect("closeSession#4").await;
    peer.answer(&data(b"still")).await;
    assert_eq!(reply.await.unwrap().data, "still");
    peer.answer(&()).await;
    peer.answer(&()).await;
    peer.expect_hangup().await;
}

#[test]
fn a_runtime_that_is_shut_down_leaves_nobody_waiting() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let inside = runtime();
    let (client, reply, watching, mut watch, peer) = inside.block_on(async {
        let mut network = Network::new();
        let (client, mut peer) = connected(&mut network).await;
        let watching = client.get_data_and_watch("/w");
        peer.expect("getData#1 /w").await;
        peer.answer(&data(b"")).await;
        let (_, watch) = watching.await.unwrap();
        let reply = client.get_data("/a");
        peer.expect("getData#2 /a").await;
        let watching = client.exists_and_watch("/b");
        (client, reply, watching, watch, peer)
    });
    drop(inside);
    runtime().block_on(async {
        let error = reply.await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Closed, Outcome::Unknown));
        let error = watching.await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Closed, Outcome::NotApplied));
        assert_eq!(watch.changed().await.unwrap_err().kind(), ErrorKind::Closed);
        let late = client.get_data("/c").await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Closed);
        client.close().await;
    });
    drop(peer);
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_an_error_that_names_it() {
    let mut network = Network::new();
    let mut limits = zk_client::Limits::default();
    limits.max_requests = 1;
    let connecting = builder(&network).limits(limits).connect("zk1:1");
    let (client, mut peer) = tokio::join!(connecting, network.attach());
    let client = client.unwrap();
    let first = client.get_data("/a");
    let error = client.get_data("/b").await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::LimitExceeded, Outcome::NotApplied));
    assert_eq!(error.to_string(), "getData /b: 1 requests are waiting already");
    peer.expect("getData#1 /a").await;
    peer.answer(&data(b"a")).await;
    first.await.unwrap();
    let long = vec![0; 2 * 1024 * 1024];
    let error = client.set_data("/a", &long, None).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotApplied));
    settle().await;
}

/// Whichever of these futures is dropped, after any poll, the session goes on and answers in order.
#[tokio::test(start_paused = true)]
async fn a_future_that_is_dropped_after_any_poll_leaves_a_session_that_answers() {
    const CALLS: usize = 16;
    for call in 0..CALLS {
        let mut polls = 0;
        loop {
            let mut network = Network::new();
            let (client, peer) = connected(&mut network).await;
            let served = peer.serve();
            let options = CreateOptions::persistent();
            let done = match call {
                0 => drop_after(polls, client.create("/a", b"", &options)).await.is_some(),
                1 => drop_after(polls, client.delete("/a", None)).await.is_some(),
                2 => drop_after(polls, client.exists("/a")).await.is_some(),
                3 => drop_after(polls, client.exists_and_watch("/a")).await.is_some(),
                4 => drop_after(polls, client.get_data("/a")).await.is_some(),
                5 => drop_after(polls, client.get_data_and_watch("/a")).await.is_some(),
                6 => drop_after(polls, client.set_data("/a", b"", None)).await.is_some(),
                7 => drop_after(polls, client.get_children("/a")).await.is_some(),
                8 => drop_after(polls, client.get_children_and_watch("/a")).await.is_some(),
                9 => drop_after(polls, client.sync("/a")).await.is_some(),
                10 => drop_after(polls, client.create_owned("/x-", b"", &OWNED)).await.is_some(),
                11 => {
                    let node = client.create_owned("/x-", b"", &OWNED).await.unwrap();
                    drop_after(polls, node.delete()).await.is_some()
                }
                12 => {
                    let (_, mut watch) = client.get_data_and_watch("/a").await.unwrap();
                    let event = drop_after(polls, watch.changed()).await;
                    assert!(event.is_none(), "nothing has changed");
                    polls == 1
                }
                13 => {
                    let watching = client.watch("/a", WatchMode::Persistent);
                    drop_after(polls, watching).await.is_some()
                }
                14 => {
                    let mut stream = client.watch("/a", WatchMode::Persistent).await.unwrap();
                    let event = drop_after(polls, stream.next()).await;
                    assert!(event.is_none(), "nothing has changed");
                    polls == 1
                }
                _ => drop_after(polls, client.close()).await.is_some(),
            };
            if call + 1 < CALLS {
                client.get_data("/last").await.unwrap();
                client.close().await;
            } else {
                client.close().await;
            }
            let asked = served.await.unwrap();
            let (creates, deletes) =
                (count(&asked, OpCode::CREATE2), count(&asked, OpCode::DELETE));
            if call == 10 || call == 11 {
                assert_eq!((creates, deletes), (1, 1), "{call}, {polls} polls: {asked:?}");
            }
            let watches = [3, 5, 8, 12, 13, 14].contains(&call);
            let removals = count(&asked, OpCode::REMOVE_WATCHES);
            assert_eq!(removals, usize::from(watches), "{call}, {polls} polls: {asked:?}");
            assert!(asked.last().unwrap().starts_with("closeSession"), "{asked:?}");
            if done {
                break;
            }
            polls += 1;
            assert!(polls < 10, "call {call} does not end");
        }
        assert!(polls > 0, "call {call} was never dropped early");
    }
}

fn count(asked: &[String], op: OpCode) -> usize {
    asked.iter().filter(|asked| asked.starts_with(&format!("{op}#"))).count()
}

#[tokio::test(start_paused = true)]
async fn a_connect_that_is_dropped_after_any_poll_leaves_nothing_open() {
    let mut polls = 0;
    loop {
        let mut network = Network::new();
        let connecting = builder(&network).connect("zk1:1/shop");
        let serving = tokio::spawn(async move {
            let mut peer = network.dial().await.accept();
            // A client that gave up before it was connected may hang up at any time.
            if peer.frame().await.is_some() {
                let welcome = zk_test_support::peer::welcome(TIMEOUT);
                peer.send(&zk_test_support::peer::payload(&welcome)).await;
            }
            peer.serve().await.unwrap()
        });
        let client = drop_after(polls, connecting).await;
        let done = client.is_some();
        drop(client);
        settle().await;
        if polls == 0 {
            assert!(!serving.is_finished(), "a future that was not polled does nothing");
            serving.abort();
        } else if let Ok(asked) = tokio::time::timeout(TIMEOUT, serving).await {
            let asked = asked.unwrap();
            assert!(
                asked.is_empty() || asked.last().unwrap().starts_with("closeSession"),
                "{polls} polls: {asked:?}"
            );
        }
        if done {
            break;
        }
        polls += 1;
        assert!(polls < 10);
    }
    assert!(polls >= 3, "{polls}");
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_kept_is_its_own() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let writing = client.set_data("/a", b"x", None);
    peer.expect("setData#1 /a").await;
    peer.answer(&SetDataResponse { stat: stat_of(SESSION) }).await;
    assert_eq!(writing.await.unwrap(), stat_of(SESSION));
    let big = vec![7; 200_000];
    let reading = client.get_data("/a");
    peer.expect("getData#2 /a").await;
    peer.answer(&data(&big)).await;
    assert_eq!(reading.await.unwrap().data, big);
    let creating = client.create("/b", b"", &CreateOptions::ephemeral());
    peer.expect("create2#3 /b").await;
    peer.answer(&Create2Response { path: "/b", stat: stat_of(SESSION) }).await;
    assert_eq!(creating.await.unwrap().stat, Some(stat_of(SESSION)));
}

#[tokio::test(start_paused = true)]
async fn no_secret_is_shown() {
    let mut network = Network::new();
    let (client, _peer) = connected(&mut network).await;
    let shown = format!("{client:?} {:?} {:?}", client.session(), client.get_data("/a"));
    assert!(!shown.contains("0123456789abcdef") && !shown.contains("48, 49, 50"), "{shown}");
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_refused_multi_names_the_operation_and_its_place() {
    let mut network = Network::new();
    let (client, mut peer) = in_the_shop(&mut network).await;
    let ops = (Op::check("/open", None), Op::set_data("/a", b"1", Some(3)));
    let refused = client.multi(ops);
    peer.expect("multi#2 check /shop/open, setData /shop/a").await;
    let results = [ErrorCode::OK, ErrorCode::BAD_VERSION].map(MultiResult::Error);
    peer.answer(&MultiResponse::new(&results)).await;
    let error = refused.await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Refused, Outcome::NotApplied));
    assert_eq!((error.code(), error.failed_op()), (Some(ErrorCode::BAD_VERSION), Some(1)));
    assert_eq!(error.to_string(), "operation 1 of a multi, setData /a: BadVersion");

    let refused = client.multi(ops);
    peer.expect("multi#3 check /shop/open, setData /shop/a").await;
    peer.refuse(ErrorCode::MARSHALLING_ERROR).await;
    let error = refused.await.unwrap_err();
    assert_eq!((error.code(), error.failed_op()), (Some(ErrorCode::MARSHALLING_ERROR), None));
    assert_eq!(error.to_string(), "multi /open and 1 more: MarshallingError");

    let short = client.multi(ops);
    peer.expect("multi#4 check /shop/open, setData /shop/a").await;
    peer.answer(&MultiResponse::new(&[MultiResult::Check(())])).await;
    let error = short.await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Protocol, Outcome::Unknown));

    let other = client.multi(ops);
    peer.expect("multi#5 check /shop/open, setData /shop/a").await;
    peer.answer(&MultiResponse::new(&[MultiResult::Check(()), MultiResult::Delete(())])).await;
    let error = other.await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Protocol, Outcome::Unknown));
    assert!(error.to_string().ends_with("of type 2 to a multi's operation of type 5"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_multi_that_cannot_be_sent_is_refused_here_and_names_the_operation() {
    let mut network = Network::new();
    let (client, _peer) = connected(&mut network).await;
    let owned = Op::create_owned("/x-", b"", &OWNED);
    let error = client.multi((Op::check("/a", None), owned)).await.unwrap_err();
    assert_eq!((error.kind(), error.failed_op()), (ErrorKind::InvalidOp, Some(1)));
    let rule = "operation 1 of a multi, create /x-: owned nodes are created by multi_owned";
    assert_eq!(error.to_string(), rule);

    let undigited = Op::create_owned("/x", b"", &CreateOptions::ephemeral());
    let replies = client.multi_owned([owned, undigited]);
    assert_eq!(replies.len(), 2);
    for reply in replies {
        let error = reply.await.unwrap_err();
        assert_eq!((error.kind(), error.failed_op()), (ErrorKind::InvalidOp, Some(1)));
    }
    for ops in [
        [owned.any(), Op::delete("/a/", None).any()],
        [owned.any(), Op::create("/a//", b"", &CreateOptions::persistent().sequential()).any()],
    ] {
        let error = client.multi_owned(ops).remove(0).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPath);
    }
    let large = vec![0; 600_000];
    let ops = (Op::set_data("/a", &large, None), owned, Op::set_data("/b", &large, None));
    for reply in client.multi_owned(ops) {
        assert_eq!(reply.await.unwrap_err().kind(), ErrorKind::TooLarge);
    }
}

#[tokio::test(start_paused = true)]
async fn owned_nodes_of_a_multi_have_each_an_owner() {
    let mut network = Network::new();
    let (client, mut peer) = in_the_shop(&mut network).await;
    let ops = [
        Op::create_owned("/x-", b"", &OWNED),
        Op::create_owned("/y-0000000007", b"", &CreateOptions::ephemeral()),
    ];
    let text = "create /shop/x-, create /shop/y-0000000007";
    let paths = ["/shop/x-0000000001", "/shop/y-0000000007"];
    let made = paths.map(|path| MultiResult::Create(CreateResponse { path }));

    let replies = client.multi_owned(ops);
    peer.expect(&format!("multi#2 {text}")).await;
    peer.answer(&MultiResponse::new(&made)).await;
    let mut nodes = Vec::new();
    for reply in replies {
        nodes.push(reply.await.unwrap());
    }
    let [first, second] = nodes.try_into().unwrap();
    assert_eq!((first.path(), second.path()), ("/x-0000000001", "/y-0000000007"));
    assert_eq!(first.czxid(), second.czxid());
    first.disown();
    drop(second);
    peer.expect("delete#3 /shop/y-0000000007").await;
    peer.answer(&()).await;

    // The connection breaks, and the caller drops one of the replies.
    let replies = client.multi_owned(ops);
    peer.expect(&format!("multi#4 {text}")).await;
    drop(peer);
    let [first, second] = replies.try_into().unwrap();
    drop(first);
    let mut peer = network.attach().await;
    peer.expect("sync#5 /shop").await;
    peer.expect("getEphemerals#6 /shop/").await;
    peer.answer(&()).await;
    peer.answer_ephemerals(&["/shop/x-0000000001", "/shop/y-0000000007"]).await;
    for request in ["exists#7 /shop/x-0000000001", "exists#8 /shop/y-0000000007"] {
        peer.expect(request).await;
        peer.answer(&ExistsResponse { stat: stat_of(SESSION) }).await;
    }
    peer.expect("delete#9 /shop/x-0000000001").await;
    peer.answer(&()).await;
    let second = second.await.unwrap();
    assert_eq!((second.path(), second.czxid()), ("/y-0000000007", stat_of(SESSION).czxid));
    second.disown();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_adoption_leaves_the_node_alone() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    for awaited in [false, true] {
        let adopting = client.adopt("/mine");
        let xid = peer.next().await.unwrap().xid();
        peer.answer(&ExistsResponse { stat: stat_of(SESSION) }).await;
        settle().await;
        if awaited {
            drop(adopting.await.unwrap());
            peer.expect(&format!("delete#{} /mine", xid.0 + 1)).await;
            peer.answer(&()).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn detach_answers_what_was_called_and_does_not_close_the_session() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let creating = client.create_owned("/x-", b"", &OWNED);
    let reply = client.get_data("/a");
    let session = client.session();
    let detaching = tokio::spawn(client.detach());
    let late = client.get_data("/b").await.unwrap_err();
    assert_eq!((late.kind(), late.outcome()), (ErrorKind::Closed, Outcome::NotApplied));
    peer.expect("create2#1 /x-").await;
    peer.expect("getData#2 /a").await;
    peer.answer(&created("/x-1")).await;
    let node = creating.await.unwrap();
    settle().await;
    assert!(!detaching.is_finished());
    peer.answer(&data(b"a")).await;
    assert_eq!(reply.await.unwrap().data, "a");
    assert_eq!(detaching.await.unwrap(), session);
    assert_eq!(client.state(), SessionState::Closed);
    assert_eq!(node.delete().await.unwrap_err().kind(), ErrorKind::Closed);
    client.close().await;
    assert_eq!(client.clone().detach().await, session);
    drop(client);
    peer.expect_hangup().await;

    let (client, peer) = connected(&mut network).await;
    let served = peer.serve();
    client.close().await;
    assert_eq!(client.detach().await, None, "there is nothing left to take up");
    assert_eq!(served.await.unwrap(), ["closeSession#1"]);
}

/// A connector whose connections can be cut: then what the server has sent before arrives only
/// after a write has failed.
#[derive(Debug)]
struct Cut(Dialer, Arc<AtomicBool>);

impl Connector for Cut {
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        Box::pin(async move {
            let (io, cut) = (self.0.connect(host).await?, Arc::clone(&self.1));
            Ok(Box::new(CutIo { io, cut, failed: false, reader: None }) as Box<dyn Transport>)
        })
    }
}

struct CutIo {
    io: Box<dyn Transport>,
    cut: Arc<AtomicBool>,
    failed: bool,
    reader: Option<Waker>,
}

impl AsyncRead for CutIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.cut.load(Ordering::SeqCst) && !self.failed {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for CutIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.cut.load(Ordering::SeqCst) {
            self.failed = true;
            self.reader.take().into_iter().for_each(Waker::wake);
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_costs_no_reply_that_was_there_before() {
    let (mut network, cut) = (Network::new(), Arc::new(AtomicBool::new(false)));
    let builder = builder(&network).connector(Cut(network.dialer(), Arc::clone(&cut)));
    let (client, mut peer) = tokio::join!(builder.connect("zk1:1"), network.attach());
    let client = client.unwrap();
    let deletes = ["/a", "/b"].map(|path| client.delete(path, None));
    peer.expect("delete#1 /a").await;
    peer.expect("delete#2 /b").await;
    settle().await;
    cut.store(true, Ordering::SeqCst);
    peer.refuse(ErrorCode::NO_NODE).await;
    peer.refuse(ErrorCode::NOT_EMPTY).await;
    drop(peer);
    let unsent = client.delete("/c", None);
    let codes = deletes.map(|delete| async { delete.await.unwrap_err().code() });
    let [first, second] = codes;
    assert_eq!(first.await, Some(ErrorCode::NO_NODE));
    assert_eq!(second.await, Some(ErrorCode::NOT_EMPTY));
    let refusing = network.refuse_all();
    let error = unsent.await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::ConnectionLoss, Outcome::Unknown));
    refusing.abort();
}
