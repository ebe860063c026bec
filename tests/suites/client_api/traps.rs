//! Mistakes that other ZooKeeper clients have made. Each test checks that this client does not make
//! one of them.

use std::any::type_name;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::timeout;
use zk_client::session::LeaseState;
use zk_client::{
    Client, CreateOptions, DeadlineRule, Error, ErrorKind, EventType, Lapse, Lease, OpCode,
    Outcome, OwnedNode, StreamEvent, WatchMode, WatchStream, Watcher,
};
use zk_embedded::{Config, Fault, Server};
use zk_proto::{
    Create2Response, CreateMode, CreateRequest, ErrorCode, GetDataRequest, KeeperState, List,
    WatcherEvent, Xid, Zxid,
};
use zk_recipes::{Guard, Lock, LockState, RwLock};
use zk_test_support::explore::{poll_once, settle, sweep};
use zk_test_support::peer::{
    Bench, Network, Peer, SESSION, TIMEOUT, created, data, reply, stat_of,
};

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();

fn server() -> Server {
    Server::in_memory(Config::new().max_connections_per_host(0))
}

async fn client(server: &Server) -> Client {
    Client::builder().connector(server.connector()).connect("zk").await.unwrap()
}

/// Waits until the client has had this many connections.
async fn connections(client: &Client, count: u64) {
    while client.stats().totals.connections < count || !client.state().is_connected() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Fails the test if `work` hangs.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(600), work).await.expect("it hangs")
}

/// The mistake: persistent watches are not set again on the next server.
#[tokio::test(start_paused = true)]
async fn persistent_watches_are_armed_again_on_the_next_connection() {
    let server = server();
    let (client, other) = (client(&server).await, client(&server).await);
    let persistent = CreateOptions::persistent();
    other.create("/a", b"", &persistent).await.unwrap();
    let mut one = client.watch("/a", WatchMode::Persistent).await.unwrap();
    let mut all = client.watch("/a", WatchMode::PersistentRecursive).await.unwrap();
    for round in 0..3 {
        server.disconnect(client.session().unwrap().id);
        settle().await;
        connections(&client, round + 2).await;
        for stream in [&mut one, &mut all] {
            let told = soon(stream.next()).await.unwrap();
            assert_eq!(told, StreamEvent::Rearmed, "told that it was gone");
        }
        other.create(&format!("/a/{round}"), b"", &persistent).await.unwrap();
        let told = async |stream: &mut WatchStream| match soon(stream.next()).await.unwrap() {
            StreamEvent::Changed(event) => (event.kind, event.path),
            other => panic!("{other:?}"),
        };
        let created = (EventType::NODE_CREATED, format!("/a/{round}"));
        assert_eq!(told(&mut one).await, (EventType::NODE_CHILDREN_CHANGED, "/a".to_owned()));
        assert_eq!(told(&mut all).await, created);
    }
}

/// The mistake: after an abandoned create, the client searches for the bare name and deletes a path
/// without the folder.
#[test]
fn an_abandoned_create_below_a_folder_is_deleted() {
    let polls = sweep(|polls| async move {
        let server = server();
        let (client, other) = (client(&server).await, client(&server).await);
        other.create("/dir", b"", &CreateOptions::persistent()).await.unwrap();
        other.create("/dir/sub", b"", &CreateOptions::persistent()).await.unwrap();
        // The reply is lost with its connection.
        server.inject(Fault::lose_reply().op(OpCode::CREATE2).path("/dir/sub"));
        let creating = client.create_owned("/dir/sub/x-", b"", &OWNED);
        let created = drop_after(polls, creating).await;
        let dropped = created.is_none();
        drop(created.map(Result::unwrap));
        // All pending work finishes, and the session survives.
        tokio::time::sleep(Duration::from_secs(30)).await;
        client.sync("/").await.unwrap();
        assert_eq!(server.children("/dir/sub"), [""; 0], "after {polls} polls");
        assert_eq!(client.stats().owned_nodes, 0);
        dropped
    });
    assert!(polls > 1);
}

/// The same for a lock.
#[test]
fn an_abandoned_acquire_leaves_no_contender() {
    let polls = sweep(|polls| async move {
        let server = server();
        let client = client(&server).await;
        server.inject(Fault::lose_reply().op(OpCode::CREATE2).path("/locks/a/"));
        let lock = Lock::new(&client, "/locks/a").unwrap();
        let dropped = drop_after(polls, lock.acquire()).await.is_none();
        tokio::time::sleep(Duration::from_secs(30)).await;
        client.sync("/").await.unwrap();
        assert_eq!(server.children("/locks/a"), [""; 0], "after {polls} polls");
        dropped
    });
    assert!(polls > 1);
}

/// Polls `future` up to `polls` times and drops it. Returns its output if it was ready before.
async fn drop_after<F: Future>(polls: u32, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    for _ in 0..polls {
        if let Poll::Ready(output) = poll_once(future.as_mut()) {
            return Some(output);
        }
        settle().await;
    }
    None
}

/// True if a type can be cloned: the wrapper's own method exists only in that case.
macro_rules! is_clone {
    ($type:ty) => {{
        struct Of<T>(PhantomData<T>);
        #[allow(dead_code, reason = "one of the two answers")]
        trait Fallback {
            fn answer(&self) -> bool {
                false
            }
        }
        impl<T> Fallback for Of<T> {}
        #[allow(dead_code, reason = "one of the two answers")]
        impl<T: Clone> Of<T> {
            fn answer(&self) -> bool {
                true
            }
        }
        (type_name::<$type>(), Of::<$type>(PhantomData).answer())
    }};
}

/// The mistake: a guard can be cloned, and dropping one clone releases the lock under the other.
#[test]
fn what_releases_when_dropped_cannot_be_cloned() {
    assert!(
        is_clone!(Client).1 && is_clone!(Lock).1 && is_clone!(RwLock).1,
        "they release nothing"
    );
    for (name, is_clone) in [
        is_clone!(Guard),
        is_clone!(zk_recipes::ReadGuard),
        is_clone!(zk_recipes::WriteGuard),
        is_clone!(zk_recipes::MultiGuard),
        is_clone!(OwnedNode),
        is_clone!(Lease),
        is_clone!(Watcher),
        is_clone!(WatchStream),
    ] {
        assert!(!is_clone, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_clone_of_client_or_lock_releases_nothing() {
    let server = server();
    let client = client(&server).await;
    let lock = Lock::new(&client, "/locks/a").unwrap();
    let guard = lock.acquire().await.unwrap();
    drop((lock.clone(), lock, client.clone()));
    settle().await;
    assert_eq!(server.children("/locks/a").len(), 1);
    assert_eq!(guard.state(), LockState::Held);
    drop(client);
    settle().await;
    assert_eq!(server.children("/locks/a").len(), 1, "the guard keeps the session");
    drop(guard);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.children("/locks/a").len(), 0);
}

async fn connected(network: &mut Network) -> (Client, Peer) {
    let builder = Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1);
    let (client, peer) = tokio::join!(builder.connect("zk1:1"), network.attach());
    (client.unwrap(), peer)
}

type Calling = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

/// The mistake: a length from a reply is used in an unchecked subtraction.
#[tokio::test(start_paused = true)]
async fn a_reply_shorter_than_a_stat_is_an_error() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    for length in 0..72 {
        let (exists, get) = (client.exists("/a"), client.get_data("/a"));
        let (set, list) = (client.set_data("/a", b"", None), client.get_children("/a"));
        let create = client.create("/a", b"", &CreateOptions::persistent());
        let calls: [(usize, Calling); 5] = [
            (68, Box::pin(async { exists.await.map(drop) })),
            (72, Box::pin(async { get.await.map(drop) })),
            (68, Box::pin(async { set.await.map(drop) })),
            (72, Box::pin(async { list.await.map(drop) })),
            (72, Box::pin(async { create.await.map(drop) })),
        ];
        for (least, call) in calls {
            let request = peer.next().await.unwrap();
            let mut answer = BytesMut::from(&reply(request.xid(), 1, ErrorCode::OK, &())[..]);
            answer.resize(answer.len() + length, 0);
            peer.send(&answer).await;
            let result = call.await.map_err(|error| error.kind());
            let expected = if length < least { Err(ErrorKind::Protocol) } else { Ok(()) };
            assert_eq!(result, expected, "{request} with {length} bytes");
        }
    }
    assert_eq!(client.stats().totals.connections, 1);
}

/// The mistake: a reconnect panics because the client searches for the handshake's reply among the
/// requests.
#[test]
fn every_reconnect_finds_its_handshake() {
    let mut bench = Bench::attached();
    for round in 0..100 {
        // The request is sent and lost, or waits for the next connection.
        bench.session.submit(&GetDataRequest { path: "/a", watch: false }, round).unwrap();
        let lost = if round % 2 == 0 { bench.frames().len() } else { 0 };
        bench.cut();
        assert_eq!(bench.said().len(), 1 + lost);
        bench.attach();
        for request in bench.requests() {
            bench.answer(request.xid().0, &data(b""));
        }
        assert_eq!(bench.said().len(), 1 - lost);
    }
    assert_eq!(bench.session.stats(bench.now).totals.connections, 101);
}

/// The mistake: values that the client does not know are assumed to be impossible.
#[tokio::test(start_paused = true)]
async fn unknown_values_and_wrong_text_are_errors() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    for code in [-1234, 7, i32::MIN, i32::MAX] {
        let reading = client.get_data("/a");
        let request = peer.next().await.unwrap();
        peer.send(&reply(request.xid(), 1, ErrorCode(code), &())).await;
        let error = reading.await.unwrap_err();
        assert_eq!((error.code(), error.kind()), (Some(ErrorCode(code)), ErrorKind::Refused));
        assert!(error.to_string().contains(&code.to_string()), "{error}");
    }
    let creating = client.create("/a", b"", &CreateOptions::persistent());
    let request = peer.next().await.unwrap();
    let stat = stat_of(SESSION);
    let good = reply(request.xid(), 1, ErrorCode::OK, &Create2Response { path: "/abc", stat });
    let mut wrong = BytesMut::from(&good[..]);
    wrong[16 + 4 + 1] = 0xc3;
    peer.send(&wrong).await;
    assert_eq!(creating.await.unwrap_err().kind(), ErrorKind::Protocol);
    assert_eq!(client.stats().totals.connections, 1, "of all this none has cost the connection");

    for (kind, state) in [(99, 3), (1, 99)] {
        let event = WatcherEvent { kind: EventType(kind), state: KeeperState(state), path: "/a" };
        peer.send(&reply(Xid::NOTIFICATION, 1, ErrorCode::OK, &event)).await;
        peer.expect_hangup().await;
        peer = network.attach().await;
    }
    let reading = client.get_data("/a");
    peer.next().await.unwrap();
    peer.answer(&data(b"")).await;
    reading.await.unwrap();
}

/// The mistake: a zxid lower than the last one panics. Restored servers and reads at followers
/// return such zxids.
#[test]
fn a_lower_zxid_is_no_reason_to_panic() {
    let mut bench = Bench::attached();
    for (xid, zxid) in [(1, 9), (2, 3), (3, 0), (4, -1)] {
        bench.session.submit(&GetDataRequest { path: "/a", watch: false }, 1).unwrap();
        assert_eq!(bench.sent().len(), 1);
        bench.frame(reply(Xid(xid), zxid, ErrorCode::OK, &data(b"")));
        assert_eq!(bench.said(), ["1 ok"]);
    }
    assert_eq!(bench.session.last_zxid(), Zxid(9));
}

/// The mistake: the client reserves memory for a length that the server chose.
#[tokio::test(start_paused = true)]
async fn a_length_from_the_wire_sets_nothing_aside() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let listing = client.get_children("/a");
    let request = peer.next().await.unwrap();
    let mut answer = BytesMut::from(&reply(request.xid(), 1, ErrorCode::OK, &())[..]);
    answer.extend_from_slice(&i32::MAX.to_be_bytes());
    answer.resize(200, 0);
    peer.send(&answer).await;
    let error = listing.await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Protocol, Outcome::Unknown));
    assert_eq!(client.stats().totals.connections, 1);
}

/// The mistake: a frame that is shorter than a header is completed with bytes of the last frame.
#[test]
fn a_frame_without_a_whole_header_is_no_reply() {
    for length in 0..16 {
        let mut bench = Bench::attached();
        (1..=2).for_each(|token| {
            bench.session.submit(&GetDataRequest { path: "/a", watch: false }, token).unwrap();
        });
        assert_eq!(bench.sent().len(), 2);
        let first = reply(Xid(1), 1, ErrorCode::OK, &data(b""));
        bench.frame(first.clone());
        bench.frame(Bytes::copy_from_slice(&reply(Xid(2), 1, ErrorCode::OK, &())[..length]));
        let said = bench.said();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0] == "1 ok" && said[1].starts_with("hangup"), "{said:?}");
        bench.cut();
        assert_eq!(bench.said(), ["2 lost, sent", "Disconnected"]);
    }
}

/// The mistake: a lock fails with an error, and its contender blocks the others for ever.
#[tokio::test(start_paused = true)]
async fn a_lock_that_fails_on_any_request_leaves_no_contender() {
    for op in [
        OpCode::CREATE2,
        OpCode::GET_EPHEMERALS,
        OpCode::GET_CHILDREN2,
        OpCode::EXISTS,
        OpCode::GET_DATA,
        OpCode::ADD_WATCH,
        OpCode::SET_WATCHES,
        OpCode::SYNC,
    ] {
        let server = server();
        let (holder, waiter) = (client(&server).await, client(&server).await);
        let held = Lock::new(&holder, "/locks/a").unwrap().acquire().await.unwrap();
        let lock = Lock::new(&waiter, "/locks/a").unwrap();
        let session = waiter.session().unwrap().id;
        for _ in 0..20 {
            server.inject(Fault::refuse(ErrorCode::NO_AUTH).op(op).session(session));
        }
        let acquired = timeout(Duration::from_secs(5), lock.acquire()).await;
        assert!(!matches!(acquired, Ok(Ok(_))), "{op}: it is held");
        drop(acquired);
        server.clear_faults();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(server.children("/locks/a").len(), 1, "{op}: the holder's alone");
        held.release().await.unwrap();
        let guard = timeout(Duration::from_secs(5), lock.acquire()).await;
        guard.expect("nobody is in the way").unwrap().release().await.unwrap();
    }
}

/// The mistake: sequence numbers wrap or stick at the end of 31 bits, so the newcomer would be
/// first in the queue.
#[tokio::test(start_paused = true)]
async fn a_lock_whose_numbers_run_out_is_refused_in_time() {
    for left in [0, 1, 10, 1000] {
        let server = server();
        let client = client(&server).await;
        let lock = Lock::new(&client, "/locks/a").unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
        assert!(server.preset_sequence("/locks/a", i32::MAX - left));
        for _ in 0..3 {
            let error = lock.acquire().await.unwrap_err();
            assert_eq!(error.kind(), zk_recipes::ErrorKind::SequenceExhausted, "{error}");
        }
        settle().await;
        assert_eq!(server.children("/locks/a"), [""; 0]);
    }
}

/// A server answers pings by itself: if it is cut off from its leader, it still answers while the
/// leader ends the session.
#[test]
fn an_answered_ping_does_not_prove_that_the_session_is_kept() {
    let mut config = Bench::config();
    config.deadline_rule = DeadlineRule::Quorum { slack: None };
    let mut bench = Bench::new(config);
    bench.attach();
    let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
    let request = CreateRequest { path: "/l/x-", data: None, acl: List::new(&[]), mode };
    let claim = bench.session.submit_owned(&request, 1).unwrap();
    assert_eq!(bench.sent().len(), 1);
    bench.answer(1, &created("/l/x-0000000001"));
    assert_eq!(bench.said(), ["1 ok"]);
    let lease = bench.session.open_lease(bench.now, claim, None);
    let mut lapsed_at = None;
    for _ in 0..200 {
        bench.pass(TIMEOUT / 100);
        for frame in bench.frames() {
            // The probes are writes and get no reply.
            if frame.starts_with(&Xid::PING.0.to_be_bytes()) {
                bench.frame(reply(Xid::PING, 0, ErrorCode::OK, &()));
            }
        }
        let state = bench.session.lease_state(bench.now, lease);
        if state == LeaseState::Lapsed(Lapse::Deadline) {
            lapsed_at.get_or_insert(bench.age());
        }
    }
    let lapsed_at = lapsed_at.expect("it lapses, though every ping was answered");
    assert!(lapsed_at <= TIMEOUT, "before the leader ends the session: {lapsed_at:?}");
    assert!(bench.session.state().is_connected(), "the connection is well");
    bench.session.abandon();
    assert!(!bench.said().is_empty());
}
