//! A client against servers that lie, stall, flood or break off, one fault at a time and in virtual
//! time.
//!
//! Whatever a server does, the client does not panic, hang or grow. Every caller gets an error that
//! names the cause. If the session can survive, it does, as the next server shows.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::time::{sleep, timeout};
use zk_client::{
    Client, ClientBuilder, CreateOptions, Error, ErrorKind, EventType, Limits, Outcome,
    SessionState, WatchMode,
};
use zk_proto::*;
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::peer::{
    Clock, Dial, Network, Peer, SESSION, TIMEOUT, data, expired, notification, payload, reply,
    stat_of, welcome,
};

/// More than any step here may take.
const DEADLINE: Duration = Duration::from_secs(600);

fn builder(network: &Network) -> ClientBuilder {
    Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1)
}

async fn connected(network: &mut Network) -> (Client, Peer) {
    let connecting = builder(network).connect("zk1:1");
    let (client, peer) = tokio::join!(connecting, network.attach());
    (client.unwrap(), peer)
}

/// Fails the test if `work` hangs.
async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(DEADLINE, work).await.unwrap_or_else(|_| panic!("{what} hangs"))
}

/// These frames in their wire format.
fn wire(frames: &[Bytes]) -> Vec<u8> {
    let mut out = BytesMut::new();
    for payload in frames {
        frame::encode(&mut out, usize::MAX, |writer| writer.put(payload)).unwrap();
    }
    out.to_vec()
}

/// Checks that the client keeps no bytes of requests or replies that are finished.
#[track_caller]
fn at_rest(client: &Client) {
    let stats = client.stats();
    assert_eq!((stats.in_flight, stats.queued, stats.queued_bytes), (0, 0, 0));
    assert_eq!((stats.watches, stats.streams, stats.owned_nodes), (0, 0, 0));
}

/// The next server resumes the session and serves it.
async fn next_server_is_fine(network: &mut Network, client: &Client) -> Peer {
    let mut peer = network.dial().await.accept();
    assert_eq!(peer.attach().await.session_id, SESSION, "the session goes on");
    let reading = client.get_data("/next");
    assert_eq!(peer.next().await.unwrap().path(), "/next");
    peer.answer(&data(b"fine")).await;
    assert_eq!(reading.await.unwrap().data, "fine");
    at_rest(client);
    peer
}

/// While a request is in flight, `bytes` end the connection for this reason, and have no other
/// effect.
async fn drops(what: &str, bytes: &[u8], why: &str) {
    soon(what, async {
        let mut network = Network::new();
        let (client, mut peer) = connected(&mut network).await;
        let reading = client.get_data("/a");
        peer.expect("getData#1 /a").await;
        let clock = Clock::start();
        peer.raw(bytes).await;
        let error = reading.await.unwrap_err();
        assert!(clock.elapsed() < TIMEOUT / 3, "{what}: seen at once");
        assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{what}");
        assert_eq!(error.outcome(), Outcome::Unknown, "{what}");
        assert!(error.to_string().contains(why), "{what}: {error}");
        next_server_is_fine(&mut network, &client).await;
    })
    .await;
}

fn event(kind: EventType, state: KeeperState, path: &str) -> Bytes {
    reply(Xid::NOTIFICATION, 1, ErrorCode::OK, &WatcherEvent { kind, state, path })
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_frames_end_the_connection_alone() {
    let broken = "the server broke the protocol";
    drops("a negative length", &[0xff; 4], broken).await;
    drops("the least length", &[0x80, 0, 0, 0], broken).await;
    drops("an empty frame", &[0; 4], broken).await;
    for len in 1..16 {
        drops("a frame without a whole header", &wire(&[vec![0; len].into()]), broken).await;
    }
    drops("http", b"HTTP/1.1 400 Bad Request\r\n\r\n", broken).await;
    drops("tls", &[0x15, 3, 3, 0, 2, 2, 40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], broken).await;
    drops("a frame without an end", &[[0x7f; 4].as_slice(), &[0xee; 40]].concat(), broken).await;
}

#[tokio::test(start_paused = true)]
async fn replies_that_nobody_asked_for_end_the_connection_alone() {
    let ok = |xid: Xid| wire(&[reply(xid, 1, ErrorCode::OK, &())]);
    drops("another xid", &ok(Xid(77)), "reply to xid 77 where xid 1").await;
    drops("the next xid", &ok(Xid(2)), "reply to xid 2 where xid 1").await;
    drops("xid zero", &ok(Xid(0)), "reply to xid 0").await;
    drops("the least xid", &ok(Xid(i32::MIN)), "where xid 1").await;
    drops("a ping's answer", &ok(Xid::PING), "nothing is in flight").await;
    drops("a credential's answer", &ok(Xid::AUTH), "where xid 1").await;
    drops("an answer to setWatches", &ok(Xid::SET_WATCHES), "where xid 1").await;
    drops(
        "a refused credential",
        &wire(&[reply(Xid::AUTH, 0, ErrorCode::AUTH_FAILED, &())]),
        "xid",
    )
    .await;
    drops("a second welcome", &wire(&[payload(&welcome(TIMEOUT))]), "xid").await;
    let overtaking = reply(Xid(9), 1, ErrorCode::UNIMPLEMENTED, &());
    drops("an early refusal of nothing", &wire(&[overtaking]), "where xid 1").await;
}

#[tokio::test(start_paused = true)]
async fn events_that_make_no_sense_end_the_connection_alone() {
    let connected = KeeperState::SYNC_CONNECTED;
    for kind in [-1, 0, 5, 6, 99, i32::MAX, i32::MIN] {
        let event = event(EventType(kind), connected, "/a");
        drops("an unknown type", &wire(&[event]), "watch event of type").await;
    }
    for state in [-112, 0, 4, 42, i32::MAX] {
        let event = event(EventType::NODE_CREATED, KeeperState(state), "/a");
        drops("an unknown state", &wire(&[event]), "watch event with the state").await;
    }
    let mut notified = BytesMut::from(&event(EventType::NODE_CREATED, connected, "/aaaa")[..]);
    let path = notified.len() - 5;
    notified[path] = 0xff;
    drops("a path that is no text", &wire(&[notified.clone().freeze()]), "undecodable").await;
    for length in [-2, i32::MIN, i32::MAX, 6] {
        notified[path - 4..path].copy_from_slice(&i32::to_be_bytes(length));
        drops("a path of another length", &wire(&[notified.clone().freeze()]), "undecodable").await;
    }
}

/// The first reply counts, and the second answers no request.
#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_twice_is_given_once() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let (first, second) = client.batch(|| (client.get_data("/a"), client.get_data("/b")));
    peer.expect("getData#1 /a").await;
    peer.expect("getData#2 /b").await;
    let answer = reply(Xid(1), 1, ErrorCode::OK, &data(b"one"));
    peer.raw(&wire(&[answer.clone(), answer])).await;
    assert_eq!(first.await.unwrap().data, "one");
    assert!(second.await.unwrap_err().is_connection_loss());
    next_server_is_fine(&mut network, &client).await;
}

/// Replies whose record is cut short at every byte, or promises more data than it holds: only the
/// call fails.
#[tokio::test(start_paused = true)]
async fn a_short_record_fails_its_call_alone() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let stat = stat_of(SESSION);
    let node = payload(&data(b"text"));
    let children = payload(&GetChildren2Response { children: List::new(&["a", "b"]), stat });
    let created = payload(&Create2Response { path: "/a", stat });
    let options = CreateOptions::persistent();
    let mut cases: Vec<(&str, Bytes)> = Vec::new();
    for (op, whole) in [("get", node), ("list", children), ("create", created)] {
        cases.extend((0..whole.len()).map(|cut| (op, whole.slice(..cut))));
        // ZooKeeper's own decoder reads a negative count of children as none.
        let lies = [i32::MAX, 0x00ff_ffff, -2, i32::MIN];
        for lie in lies.into_iter().take(if op == "list" { 2 } else { 4 }) {
            let mut lying = BytesMut::from(&whole[..]);
            lying[..4].copy_from_slice(&lie.to_be_bytes());
            cases.push((op, lying.freeze()));
        }
    }
    let cases_len = cases.len();
    for (at, (op, body)) in cases.into_iter().enumerate() {
        let calling: Pin<Box<dyn Future<Output = Result<(), Error>>>> = match op {
            "get" => {
                let reading = client.get_data("/a");
                Box::pin(async { reading.await.map(drop) })
            }
            "list" => {
                let reading = client.get_children("/a");
                Box::pin(async { reading.await.map(drop) })
            }
            _ => {
                let creating = client.create("/a", b"", &options);
                Box::pin(async { creating.await.map(drop) })
            }
        };
        let request = peer.next().await.unwrap();
        let mut answer = BytesMut::from(&reply(request.xid(), 1, ErrorCode::OK, &())[..]);
        answer.extend_from_slice(&body);
        peer.raw(&wire(&[answer.freeze()])).await;
        let Err(error) = calling.await else {
            panic!("{op} {body:02x?}");
        };
        assert_eq!(error.kind(), ErrorKind::Protocol, "{op} {body:?}");
        assert_eq!(error.outcome(), Outcome::Unknown);
        assert_eq!(client.stats().totals.connections, 1, "case {at} of {cases_len}");
    }
    at_rest(&client);
}

/// A watch whose reply makes no sense belongs to no caller, neither in the client nor on the
/// server.
#[tokio::test(start_paused = true)]
async fn a_short_record_leaves_no_watch() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let reading = client.get_data_and_watch("/a");
    peer.expect("getData#1 /a").await;
    peer.answer(&()).await;
    assert_eq!(reading.await.unwrap_err().kind(), ErrorKind::Protocol);
    peer.expect("removeWatches#2 /a").await;
    peer.answer(&()).await;
    settle().await;
    at_rest(&client);
}

#[tokio::test(start_paused = true)]
async fn one_byte_at_a_time_is_slow_and_works() {
    let mut network = Network::new();
    let client = builder(&network).connect_lazily("zk1:1").unwrap();
    let mut peer = network.dial().await.accept();
    peer.handshake().await;
    for byte in wire(&[payload(&welcome(TIMEOUT))]) {
        peer.raw(&[byte]).await;
        sleep(Duration::from_millis(10)).await;
    }
    let watching = client.get_data_and_watch("/a");
    let request = peer.expect("getData#1 /a").await;
    let answer = reply(request.xid(), 1, ErrorCode::OK, &data(b"slow"));
    for byte in wire(&[answer, notification(2, EventType::NODE_DELETED, "/a")]) {
        peer.raw(&[byte]).await;
        sleep(Duration::from_millis(10)).await;
    }
    let (node, mut watcher) = watching.await.unwrap();
    assert_eq!(node.data, "slow");
    assert_eq!(watcher.changed().await.unwrap().kind, EventType::NODE_DELETED);
    assert_eq!(client.stats().totals.connections, 1);
}

/// As slow as that, and without an end: only a whole frame in time counts.
#[tokio::test(start_paused = true)]
async fn bytes_that_make_no_frame_in_time_are_silence() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let reading = client.get_data("/a");
    peer.expect("getData#1 /a").await;
    let clock = Clock::start();
    // The length is within the limit, so the client would keep all the bytes.
    peer.raw(&(15_000_000_i32).to_be_bytes()).await;
    let drip = tokio::spawn(async move {
        loop {
            peer.raw(&[0]).await;
            sleep(Duration::from_millis(50)).await;
        }
    });
    let error = soon("the drip", reading).await.unwrap_err();
    let silence = TIMEOUT * 2 / 3;
    assert!((silence..silence + Duration::from_millis(100)).contains(&clock.elapsed()));
    assert!(error.to_string().contains("was silent for 8s"), "{error}");
    drip.abort();
    next_server_is_fine(&mut network, &client).await;
}

#[tokio::test(start_paused = true)]
async fn an_early_close_at_every_byte_of_the_handshake_costs_an_attempt() {
    let whole = wire(&[payload(&welcome(TIMEOUT))]);
    let mut network = Network::new();
    let client = builder(&network).connect_lazily("zk1:1").unwrap();
    for cut in 0..whole.len() {
        let mut peer = soon("the next attempt", network.dial()).await.accept();
        peer.handshake().await;
        peer.raw(&whole[..cut]).await;
        assert_eq!(client.state(), SessionState::Connecting, "cut at {cut}");
    }
    let peer = network.attach().await;
    settle().await;
    assert_eq!(client.state(), SessionState::Connected);
    assert_eq!(client.stats().totals.connections, 1);
    drop(peer);
    drop(network.dial().await);
}

#[tokio::test(start_paused = true)]
async fn an_early_close_at_every_byte_of_a_reply_loses_that_reply() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let length = wire(&[reply(Xid(1), 1, ErrorCode::OK, &data(b"cut"))]).len();
    for cut in 0..=length {
        let reading = client.get_data("/a");
        let request = peer.next().await.unwrap();
        let whole = wire(&[reply(request.xid(), 1, ErrorCode::OK, &data(b"cut"))]);
        peer.raw(&whole[..cut]).await;
        drop(peer);
        let read = soon("the reply", reading).await;
        match cut == length {
            true => assert_eq!(read.unwrap().data, "cut"),
            false => {
                let error = read.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "cut at {cut}");
                assert_eq!(error.outcome(), Outcome::Unknown);
            }
        }
        peer = soon("the next attempt", network.attach()).await;
    }
    at_rest(&client);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_of_the_past_does_not_take_the_session_back() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    for zxid in [100, 7, 0, -1, i64::MIN] {
        let reading = client.get_data("/a");
        let request = peer.next().await.unwrap();
        peer.raw(&wire(&[reply(request.xid(), zxid, ErrorCode::OK, &data(b""))])).await;
        reading.await.unwrap();
        assert_eq!(client.stats().last_zxid, Zxid(100));
    }
    drop(peer);
    let mut peer = network.dial().await.accept();
    assert_eq!(peer.attach().await.last_zxid_seen, Zxid(100));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_events_without_watches_is_read_and_forgotten() {
    const FLOOD: u64 = 200_000;
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let events = vec![notification(1, EventType::NODE_DATA_CHANGED, "/nobody/watches"); 1000];
    let events = wire(&events);
    for _ in 0..FLOOD / 1000 {
        peer.raw(&events).await;
    }
    let reading = client.get_data("/a");
    peer.expect("getData#1 /a").await;
    peer.answer(&data(b"fine")).await;
    assert_eq!(reading.await.unwrap().data, "fine");
    let stats = client.stats();
    assert_eq!((stats.totals.events_received, stats.totals.connections), (FLOOD, 1));
    at_rest(&client);
}

/// The same flood to a stream that is not read: it keeps events up to its capacity, and counts the
/// others.
#[tokio::test(start_paused = true)]
async fn a_flood_of_events_to_a_stream_is_kept_up_to_its_capacity() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let watching = client.watch("/a", WatchMode::Persistent);
    peer.expect("addWatch#1 /a persistent").await;
    peer.answer(&()).await;
    let mut stream = watching.await.unwrap();
    let capacity = zk_client::WatchStream::CAPACITY.div_ceil("/a".len() + 64) as u64;
    for _ in 0..capacity + 500 {
        peer.fire(EventType::NODE_DATA_CHANGED, "/a").await;
    }
    settle().await;
    let (mut kept, mut lagged) = (0, 0);
    while kept + lagged < capacity + 500 {
        match soon("the stream", stream.next()).await.unwrap() {
            zk_client::StreamEvent::Lagged(dropped) => lagged += dropped,
            _ => kept += 1,
        }
    }
    assert!(lagged >= 500 - 1 && kept <= capacity, "{kept} kept, {lagged} counted");
    drop(stream);
    peer.expect("removeWatches#2 /a").await;
}

/// The same flood to a stream that is read: it misses nothing, however many events arrive at once.
#[tokio::test(start_paused = true)]
async fn a_flood_of_events_to_a_stream_that_is_read_is_told_in_full() {
    const FLOOD: usize = 50_000;
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let watching = client.watch("/", WatchMode::PersistentRecursive);
    peer.expect("addWatch#1 / persistentRecursive").await;
    peer.answer(&()).await;
    let mut stream = watching.await.unwrap();
    let reader = tokio::spawn(async move {
        for n in 0..FLOOD {
            let told = soon("the stream", stream.next()).await.unwrap();
            assert!(matches!(told, zk_client::StreamEvent::Changed(_)), "{n}: {told:?}");
        }
    });
    settle().await;
    // These are the shortest events, so that each read brings as many as possible.
    peer.raw(&wire(&vec![notification(1, EventType::NODE_DATA_CHANGED, "/"); FLOOD])).await;
    reader.await.unwrap();
    peer.expect("removeWatches#2 /").await;
}

#[tokio::test(start_paused = true)]
async fn what_comes_behind_the_answer_to_a_close_is_not_heard() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let closing = client.close();
    peer.expect("closeSession#1").await;
    let closed = reply(Xid(1), 1, ErrorCode::OK, &());
    let more = reply(Xid(2), 2, ErrorCode::OK, &data(b"more"));
    let event = notification(3, EventType::NODE_CREATED, "/a");
    peer.raw(&wire(&[closed, more.clone(), event, more])).await;
    peer.raw(&[0xff; 100]).await;
    soon("the close", closing).await;
    assert_eq!(client.state(), SessionState::Closed);
    assert_eq!(client.get_data("/a").await.unwrap_err().kind(), ErrorKind::Closed);
    peer.expect_hangup().await;
    at_rest(&client);
}

/// Answers the handshake that would open a session with `answer`.
async fn answers(dial: Dial, answer: &ConnectResponse) -> Peer {
    let mut peer = dial.accept();
    peer.handshake().await;
    peer.send(&payload(answer)).await;
    peer
}

#[tokio::test(start_paused = true)]
async fn a_new_session_without_a_timeout_is_none() {
    for timeout in [0, -1, i32::MIN] {
        let mut network = Network::new();
        let client = builder(&network).connect_lazily("zk1:1").unwrap();
        let answer = ConnectResponse { timeout, ..welcome(TIMEOUT) };
        let mut peer = answers(network.dial().await, &answer).await;
        peer.expect_hangup().await;
        let mut peer = answers(network.dial().await, &expired()).await;
        peer.expect_hangup().await;
        let reading = client.get_data("/a");
        let mut peer = network.attach().await;
        peer.expect("getData#1 /a").await;
        peer.answer(&data(b"fine")).await;
        assert_eq!(soon("the call", reading).await.unwrap().data, "fine");
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_and_the_shortest_timeouts_are_kept() {
    for millis in [i32::MAX as u64, 1] {
        let mut network = Network::new();
        let client = builder(&network).connect_lazily("zk1:1").unwrap();
        let answer = welcome(Duration::from_millis(millis));
        let mut peer = answers(network.dial().await, &answer).await;
        let reading = client.get_data("/a");
        peer.expect("getData#1 /a").await;
        peer.answer(&data(b"fine")).await;
        assert_eq!(soon("the call", reading).await.unwrap().data, "fine");
        assert_eq!(client.session_timeout(), Duration::from_millis(millis));
        if millis > 1 {
            // Pings go on, at least every ten seconds.
            sleep(Duration::from_secs(35)).await;
            assert_eq!(client.stats().totals.pings_sent, 3);
            let closing = client.close();
            peer.expect("closeSession#2").await;
            peer.answer(&()).await;
            closing.await;
        } else {
            sleep(Duration::from_millis(10)).await;
            assert_eq!(client.state(), SessionState::Expired, "cut off for that long");
            drop((peer, client));
            while let Ok(dial) = timeout(TIMEOUT, network.dial()).await {
                drop(dial);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_session_than_the_one_asked_for_is_the_end_of_it() {
    for id in [SessionId(7), SessionId(0), SessionId(-1)] {
        let mut network = Network::new();
        let (client, peer) = connected(&mut network).await;
        drop(peer);
        let dial = network.dial().await;
        let waiting = client.get_data("/a");
        let other = ConnectResponse { session_id: id, ..welcome(TIMEOUT) };
        let mut peer = answers(dial, &other).await;
        let error = soon("the call", waiting).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionExpired);
        assert_eq!(error.outcome(), Outcome::NotApplied, "it never left");
        peer.expect_hangup().await;
        at_rest(&client);
    }
}

#[tokio::test(start_paused = true)]
async fn handshakes_that_make_no_sense_cost_an_attempt() {
    let good = payload(&welcome(TIMEOUT));
    let mut cases: Vec<Vec<u8>> = (0..36).map(|cut| wire(&[good.slice(..cut)])).collect();
    let mut long_password = BytesMut::from(&good[..]);
    long_password[16..20].copy_from_slice(&17_i32.to_be_bytes());
    long_password.put_u8(0);
    cases.push(wire(&[long_password.freeze()]));
    cases.push(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
    cases.push(b"This ZooKeeper instance is not currently serving requests\n".to_vec());
    cases.push(vec![0x15, 3, 3, 0, 2, 2, 40]);
    cases.push(vec![0xff; 64]);
    cases.push([&100_000_000_i32.to_be_bytes()[..], &[0; 64]].concat());
    let mut network = Network::new();
    let client = builder(&network).connect_lazily("zk1:1").unwrap();
    let count = cases.len() as u64;
    for bytes in cases {
        let mut peer = soon("the next attempt", network.dial()).await.accept();
        peer.handshake().await;
        peer.raw(&bytes).await;
        soon("the hangup", peer.expect_hangup()).await;
        assert_eq!(client.state(), SessionState::Connecting, "{bytes:02x?}");
    }
    let reading = client.get_data("/a");
    let mut peer = network.attach().await;
    peer.expect("getData#1 /a").await;
    peer.answer(&data(b"fine")).await;
    assert_eq!(reading.await.unwrap().data, "fine");
    let stats = client.stats();
    assert_eq!((stats.totals.attempts, stats.totals.connections), (count + 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_shakes_hands_is_left_for_the_next() {
    let mut network = Network::new();
    let client = builder(&network).connect_lazily("zk1:1").unwrap();
    let clock = Clock::start();
    let mut peer = network.dial().await.accept();
    peer.handshake().await;
    soon("the attempt", peer.expect_hangup()).await;
    assert_eq!(clock.elapsed(), TIMEOUT / 3, "a third of the timeout");
    let reading = client.get_data("/a");
    let mut peer = network.attach().await;
    peer.expect("getData#1 /a").await;
    peer.answer(&data(b"fine")).await;
    reading.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_pings_is_left_for_the_next() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let clock = Clock::start();
    let mut pings = 0;
    while let Some(frame) = soon("the silence", peer.frame()).await {
        assert_eq!(frame.len(), 8);
        pings += 1;
    }
    assert_eq!((pings, clock.elapsed()), (1, TIMEOUT * 2 / 3));
    next_server_is_fine(&mut network, &client).await;
}

/// Requests that the server does not read wait in the client, up to a limit that is reported to the
/// caller.
#[tokio::test(start_paused = true)]
async fn a_server_that_reads_nothing_fills_the_queue_and_no_more() {
    let mut network = Network::new();
    let mut limits = Limits::default();
    limits.max_queued_bytes = 4_000_000;
    let connecting = builder(&network).limits(limits).connect("zk1:1");
    let (client, mut peer) = tokio::join!(connecting, network.attach());
    let client = client.unwrap();
    let data = [0; 500_000];
    let mut waiting = Vec::new();
    let error = loop {
        let mut setting = client.set_data("/a", &data, None);
        match poll_once(Pin::new(&mut setting)) {
            Poll::Ready(result) => break result.unwrap_err(),
            Poll::Pending => waiting.push(setting),
        }
        settle().await;
        assert!(waiting.len() < 100, "no limit");
        assert!(client.stats().queued_bytes <= 4_000_000 + 500_100);
    };
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::LimitExceeded, Outcome::NotApplied));
    let sent = client.stats().in_flight;
    // The peer keeps the connection open, so only the silence ends it.
    let mut outcomes = Vec::new();
    let (mut next, ()) =
        tokio::join!(async { soon("the next attempt", network.attach()).await }, async {
            for setting in waiting.drain(..sent) {
                outcomes.push(soon("the lost ones", setting).await.unwrap_err().outcome());
            }
        });
    assert_eq!(outcomes, vec![Outcome::Unknown; sent]);
    while peer.frame().await.is_some() {}
    for setting in waiting {
        assert_eq!(next.next().await.unwrap().op(), OpCode::SET_DATA, "what was not sent is");
        next.answer(&SetDataResponse { stat: stat_of(SESSION) }).await;
        soon("the others", setting).await.unwrap();
    }
    at_rest(&client);
}

/// The client tries the server again, with growing pauses.
#[tokio::test(start_paused = true)]
async fn a_server_that_lets_in_and_throws_out_is_not_asked_in_a_tight_loop() {
    let mut network = Network::new();
    let (client, peer) = connected(&mut network).await;
    drop(peer);
    let mut attempts = 0;
    let minute = timeout(Duration::from_secs(60), async {
        loop {
            drop(network.attach().await);
            attempts += 1;
        }
    });
    minute.await.unwrap_err();
    assert!((50..150).contains(&attempts), "{attempts} attempts in a minute");
    assert_eq!(client.state().ended(), None, "each is a sign of life");
    while let Ok(dial) = timeout(Duration::ZERO, network.dial()).await {
        drop(dial);
    }
    drop(client);
    settle().await;
    while let Ok(dial) = timeout(Duration::from_secs(2), network.dial()).await {
        drop(dial);
    }
}

/// Random bytes from a seed.
#[tokio::test(start_paused = true)]
async fn noise_costs_connections_and_nothing_else() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    for round in 0..500 {
        let reading = client.get_data("/a");
        let request = soon("the request", peer.next()).await.unwrap();
        let good = reply(request.xid(), 1, ErrorCode::OK, &data(b"fine"));
        let mut noise = wire(&[good]);
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..noise.len());
            noise[at] = random.u8(..);
        }
        let behind = random.usize(..64);
        noise.extend(std::iter::repeat_with(|| random.u8(..)).take(behind));
        peer.raw(&noise).await;
        let before = client.stats().totals.connections;
        drop(peer);
        // The call is answered, whether the bytes were read or not.
        soon("the call", reading).await.err();
        peer = soon("the next attempt", network.attach()).await;
        settle().await;
        assert_eq!(client.stats().totals.connections, before + 1, "round {round}");
        at_rest(&client);
    }
}
