//! Replies above the limit: each fails the request that it answers, and nothing else.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use zk_client::session::{Event, OwnedNodeId, Watch, WatchKind};
use zk_client::{
    Client, ClientBuilder, CreateOptions, Credential, ErrorKind, Failure, Hangup, Limits, Op,
    Outcome, ProtocolError, WatchMode,
};
use zk_embedded::{Config, Server};
use zk_proto::{
    CreateMode, CreateRequest, DecodeError, ErrorCode, EventType, ExistsRequest, ExistsResponse,
    GetChildrenRequest, GetDataRequest, List, MultiOp, MultiRequest, SyncResponse, Text, Xid,
    frame,
};
use zk_test_support::peer::{Bench, Clock, Network, Peer, SESSION, TIMEOUT, data, reply, stat_of};

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();

const GET: GetDataRequest<'_> = GetDataRequest { path: "/a", watch: false };

/// More than the default limit.
const LARGE: usize = 20_000_000;

const LIMIT: usize = 16 * 1024 * 1024;

/// A connected session with this many requests on the wire.
fn busy(n: u32) -> Bench {
    let mut bench = Bench::attached();
    (1..=n).for_each(|token| bench.session.submit(&GET, token).unwrap());
    assert_eq!(bench.sent().len(), n as usize);
    bench
}

#[test]
fn a_reply_above_the_limit_fails_its_own_request_alone() {
    let mut bench = busy(3);
    bench.answer(1, &data(b"fine"));
    bench.oversized(2, ErrorCode::OK, LARGE);
    bench.answer(3, &data(b"fine"));
    assert_eq!(bench.said(), ["1 ok", "2 too large: 20000000", "3 ok"]);

    bench.session.submit(&GET, 4).unwrap();
    assert_eq!(bench.sent(), ["getData#4 /a"]);
    bench.oversized(4, ErrorCode::OK, LARGE);
    let Some(Event::Completed { token: 4, result: Err(failure), .. }) = bench.session.poll_event()
    else {
        panic!("not completed");
    };
    assert_eq!(failure, Failure::ReplyTooLarge { len: LARGE, limit: LIMIT });
}

#[test]
fn a_refusal_is_a_refusal_at_any_length() {
    let mut bench = busy(1);
    bench.oversized(1, ErrorCode::NO_NODE, LARGE);
    assert_eq!(bench.said(), ["1 NoNode"]);
}

#[test]
fn a_large_reply_out_of_order_drops_the_connection() {
    let mut bench = busy(2);
    bench.oversized(2, ErrorCode::OK, LARGE);
    let said = bench.said();
    assert!(said.len() == 1 && said[0].contains("xid 2 where xid 1"), "{said:?}");
}

/// Frames that no caller requested, and replies to the session's own requests, are always small.
#[test]
fn events_pings_and_what_the_session_does_itself_above_the_limit_break_the_protocol() {
    let too_long = DecodeError::FrameTooLong { len: LARGE, limit: LIMIT };
    let broken = Hangup::Protocol(ProtocolError::Undecodable(too_long));
    let check = |mut bench: Bench, xid: Xid| {
        bench.oversized(xid.0, ErrorCode::OK, LARGE);
        assert_eq!(bench.session.poll_event(), Some(Event::Hangup(broken)), "{xid}");
        bench.oversized(xid.0, ErrorCode::OK, LARGE);
        bench.cut();
        assert!(!bench.said().is_empty());
    };
    check(busy(1), Xid::NOTIFICATION);

    let mut pinged = busy(1);
    pinged.pass(TIMEOUT / 3);
    assert_eq!(pinged.sent(), ["ping"]);
    check(pinged, Xid::PING);

    let mut proving = busy(0);
    proving.session.add_auth(Credential::new("digest", b"ann:secret"), 1).unwrap();
    assert_eq!(proving.frames().len(), 1);
    check(proving, Xid::AUTH);

    let mut rearming = Bench::attached();
    let watch = Watch { kind: WatchKind::Data, path: "/a".into(), watcher: 7 };
    rearming.session.submit_watching(&GET, 1, watch).unwrap();
    assert_eq!(rearming.sent(), ["getData#1 /a"]);
    rearming.answer(1, &data(b""));
    rearming.cut();
    assert_eq!(rearming.said(), ["1 ok", "Disconnected"]);
    rearming.attach();
    assert_eq!(rearming.sent().len(), 1, "setWatches");
    check(rearming, Xid::SET_WATCHES);

    let mut shaking = Bench::new(Bench::config());
    shaking.connect();
    shaking.oversized(0, ErrorCode::OK, LARGE);
    assert_eq!(shaking.session.poll_event(), Some(Event::Hangup(broken)), "the handshake");
}

/// The server has set a watch that the client does not know, so the client removes it.
#[test]
fn a_watch_set_by_a_read_that_was_too_large_is_removed() {
    let path = "/a";
    let cases = [
        (WatchKind::Data, "getData#1 /a"),
        (WatchKind::Exist, "exists#1 /a"),
        (WatchKind::Child, "getChildren#1 /a"),
    ];
    for (kind, asked) in cases {
        let mut bench = Bench::attached();
        let watch = Watch { kind, path: path.into(), watcher: 7 };
        let session = &mut bench.session;
        match kind {
            WatchKind::Data => {
                session.submit_watching(&GetDataRequest { path, watch: true }, 1, watch)
            }
            WatchKind::Exist => {
                session.submit_watching(&ExistsRequest { path, watch: true }, 1, watch)
            }
            _ => session.submit_watching(&GetChildrenRequest { path, watch: true }, 1, watch),
        }
        .unwrap();
        assert_eq!(bench.sent(), [asked]);
        bench.oversized(1, ErrorCode::OK, LARGE);
        assert_eq!(bench.said(), ["7 unwatched", "1 too large: 20000000"]);
        assert_eq!(bench.sent(), ["removeWatches#2 /a"], "{kind:?}");
        bench.answer(2, &());
        bench.cut();
        assert_eq!(bench.said(), ["Disconnected"]);
        bench.attach();
        assert_eq!(bench.sent(), [""; 0], "nothing is armed again");
    }

    let mut bench = Bench::attached();
    bench.session.submit_stream(path, WatchMode::Persistent, 1, 8).unwrap();
    assert_eq!(bench.sent().len(), 1);
    bench.oversized(1, ErrorCode::OK, LARGE);
    assert_eq!(bench.said(), ["8 unstreamed", "1 too large: 20000000"]);
    assert_eq!(bench.sent(), ["removeWatches#2 /a"]);
    bench.answer(2, &());
}

const CREATE: CreateRequest<'_> = CreateRequest {
    path: "/l/x-",
    data: None,
    acl: List::new(&[]),
    mode: CreateMode::EPHEMERAL_SEQUENTIAL,
};

/// A session whose create got an oversized reply, and which looks for the node.
fn unheard() -> (Bench, OwnedNodeId) {
    let mut bench = Bench::attached();
    let node = bench.session.submit_owned(&CREATE, 1).unwrap();
    assert_eq!(bench.sent(), ["create2#1 /l/x-"]);
    bench.oversized(1, ErrorCode::OK, LARGE);
    assert_eq!(bench.said(), [""; 0], "the creator waits");
    assert_eq!(bench.sent(), ["sync#2 /l", "getEphemerals#3 /l/"]);
    bench.answer(2, &SyncResponse { path: Text::new("/l") });
    (bench, node)
}

fn own() -> ExistsResponse {
    ExistsResponse { stat: stat_of(SESSION) }
}

#[test]
fn an_owned_node_whose_reply_was_too_large_is_found() {
    let (mut bench, node) = unheard();
    bench.answer_ephemerals(3, "/l/", &["x-0000000007"]);
    assert_eq!(bench.sent(), ["exists#4 /l/x-0000000007"]);
    bench.answer(4, &own());
    assert_eq!(bench.said(), ["1 ok"]);
    bench.session.release(node, None).unwrap();
    assert_eq!(bench.sent(), ["delete#5 /l/x-0000000007"]);
    bench.answer(5, &());
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn an_owned_node_that_cannot_be_listed_is_looked_for_again_and_goes() {
    let (mut bench, node) = unheard();
    bench.oversized(3, ErrorCode::OK, LARGE + 1);
    assert_eq!(bench.said(), ["1 too large: 20000000"], "of the create, not of the list");
    bench.session.release(node, None).unwrap();
    assert_eq!(bench.load(), (0, 0, 1), "it is not forgotten");
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), ["sync#4 /l", "getEphemerals#5 /l/"]);
    bench.answer(4, &SyncResponse { path: Text::new("/l") });
    bench.answer_ephemerals(5, "/l/", &["x-0000000007"]);
    assert_eq!(bench.sent(), ["exists#6 /l/x-0000000007"]);
    bench.answer(6, &own());
    assert_eq!(bench.sent(), ["delete#7 /l/x-0000000007"]);
    bench.answer(7, &());
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn owned_nodes_of_a_multi_whose_reply_was_too_large_are_found() {
    let mut bench = Bench::attached();
    let ops = [MultiOp::Create(CREATE), MultiOp::Create(CreateRequest { path: "/l/y-", ..CREATE })];
    let owned = [(0, "/l/x-", 1), (1, "/l/y-", 2)];
    bench.session.submit_multi_owned(&MultiRequest::new(&ops), owned).unwrap();
    assert_eq!(bench.sent().len(), 1);
    bench.oversized(1, ErrorCode::OK, LARGE);
    assert_eq!(bench.sent(), ["sync#2 /l", "getEphemerals#3 /l/"]);
    bench.answer(2, &SyncResponse { path: Text::new("/l") });
    bench.answer_ephemerals(3, "/l/", &["x-0000000007", "y-0000000008"]);
    assert_eq!(bench.sent(), ["exists#4 /l/x-0000000007", "exists#5 /l/y-0000000008"]);
    bench.answer(4, &own());
    // The reply's header does not show whether the multi has failed.
    bench.refuse(5, ErrorCode::NO_NODE);
    assert_eq!(bench.said(), ["1 ok", "2 too large: 20000000"]);
}

#[test]
fn a_delete_that_was_answered_at_length_is_done() {
    let (mut bench, node) = unheard();
    bench.answer_ephemerals(3, "/l/", &["x-0000000007"]);
    assert_eq!(bench.sent(), ["exists#4 /l/x-0000000007"]);
    bench.answer(4, &own());
    bench.session.release(node, Some(2)).unwrap();
    assert_eq!(bench.sent(), ["delete#5 /l/x-0000000007"]);
    bench.oversized(5, ErrorCode::OK, LARGE);
    assert_eq!(bench.said(), ["1 ok", "2 too large: 20000000"]);
    assert_eq!(bench.load(), (0, 0, 0));
}

fn builder(network: &Network) -> ClientBuilder {
    let mut limits = Limits::default();
    limits.max_reply = 1000;
    Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1).limits(limits)
}

async fn connected(network: &mut Network) -> (Client, Peer) {
    let connecting = builder(network).connect("zk1:1");
    let (client, peer) = tokio::join!(connecting, network.attach());
    (client.unwrap(), peer)
}

/// A frame that promises `len` bytes and holds only a reply's header.
fn promise(xid: i32, len: usize) -> BytesMut {
    let mut wire = BytesMut::new();
    wire.put_u32(u32::try_from(len).unwrap());
    wire.extend_from_slice(&reply(Xid(xid), 1, ErrorCode::OK, &()));
    wire
}

#[tokio::test(start_paused = true)]
async fn the_body_is_thrown_away_and_the_connection_lives_on() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let large = client.get_data("/large");
    let small = client.get_data("/small");
    peer.expect("getData#1 /large").await;
    peer.expect("getData#2 /small").await;
    peer.answer(&data(&[7; 5_000_000])).await;
    peer.answer(&data(b"fine")).await;
    let error = large.await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::ReplyTooLarge, Outcome::NotApplied));
    assert_eq!(error.reply_size(), Some(16 + 4 + 5_000_000 + 68));
    let text = error.to_string();
    assert!(text.starts_with("getData /large: the reply has 5000088 bytes, and 1000"), "{text}");
    assert_eq!(small.await.unwrap().data, "fine");
}

/// 200 kB on a link of 100 kbit/s.
#[tokio::test(start_paused = true)]
async fn a_body_that_takes_long_to_arrive_is_no_silence() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let large = client.get_data("/large");
    let small = client.get_data("/small");
    peer.expect("getData#1 /large").await;
    peer.expect("getData#2 /small").await;
    peer.raw(&promise(1, 16 + 200_000)).await;
    for _ in 0..160 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        peer.raw(&[7; 1250]).await;
    }
    assert_eq!(large.await.unwrap_err().kind(), ErrorKind::ReplyTooLarge);
    peer.send(&reply(Xid(2), 2, ErrorCode::OK, &data(b"fine"))).await;
    assert_eq!(small.await.unwrap().data, "fine");
    assert_eq!(client.stats().totals.connections, 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_only_drips_is_silence() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let reading = client.get_data("/large");
    peer.expect("getData#1 /large").await;
    let clock = Clock::start();
    peer.raw(&promise(1, i32::MAX as usize)).await;
    let error = reading.await.unwrap_err();
    assert_eq!(error.reply_size(), Some(i32::MAX as usize), "known from the head");
    let dripping = tokio::spawn(async move {
        loop {
            peer.raw(&[0; 100]).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let mut second = network.attach().await;
    let silence = TIMEOUT * 2 / 3;
    let dropped = clock.elapsed();
    assert!((silence..silence + Duration::from_millis(300)).contains(&dropped), "{dropped:?}");
    dripping.abort();
    let reading = client.get_data("/b");
    second.expect("getData#2 /b").await;
    second.answer(&data(b"fine")).await;
    assert_eq!(reading.await.unwrap().data, "fine");
}

#[tokio::test(start_paused = true)]
async fn a_frame_shorter_than_a_head_above_the_limit_breaks_the_protocol() {
    let mut network = Network::new();
    let mut limits = Limits::default();
    limits.max_reply = 8;
    let client = builder(&network).limits(limits).connect_lazily("zk1:1").unwrap();
    let mut peer = network.dial().await.accept();
    peer.handshake().await;
    let mut wire = BytesMut::new();
    frame::encode(&mut wire, usize::MAX, |writer| writer.put(&[0; 12])).unwrap();
    peer.raw(&wire).await;
    peer.expect_hangup().await;
    drop((client, network.dial().await));
}

/// The client knows only that the write was answered. Even if it succeeded, the name of the created
/// node is lost.
#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_write_is_unknown() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let creating = client.create("/a", b"", &CreateOptions::persistent());
    peer.expect("create2#1 /a").await;
    peer.answer(&data(&[0; 2000])).await;
    let error = creating.await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::ReplyTooLarge, Outcome::Unknown));
    let syncing = client.sync("/");
    peer.expect("sync#2 /").await;
    peer.answer(&SyncResponse { path: Text::new("/") }).await;
    syncing.await.unwrap();
}

/// Against an embedded server: replies that are too large for the client are small enough for the
/// server.
#[tokio::test(start_paused = true)]
async fn large_nodes_cost_no_connection() {
    let server = Server::in_memory(Config::new());
    let mut limits = Limits::default();
    limits.max_reply = 500;
    let client =
        Client::builder().connector(server.connector()).limits(limits).connect("zk").await.unwrap();
    let session = client.session();
    client.create("/large", &[1; 600], &CreateOptions::persistent()).await.unwrap();
    for _ in 0..3 {
        let error = client.get_data_and_watch("/large").await.unwrap_err();
        assert_eq!(error.reply_size(), Some(16 + 4 + 600 + 68));
        assert_eq!(client.exists("/large").await.unwrap().unwrap().data_length, 600);
    }
    assert_eq!(client.session(), session);
    let (_, mut watcher) = client.exists_and_watch("/large").await.unwrap();
    client.set_data("/large", b"small", None).await.unwrap();
    assert_eq!(watcher.changed().await.unwrap().kind, EventType::NODE_DATA_CHANGED);
    assert_eq!(&client.get_data("/large").await.unwrap().data[..], b"small");

    // The path is as long as the limit, and so is each reply that holds it, also that of a search.
    let stem = format!("/{}-", "n".repeat(485));
    let node = client.create_owned(&stem, b"", &OWNED).await.unwrap_err();
    assert_eq!((node.kind(), node.outcome()), (ErrorKind::ReplyTooLarge, Outcome::Unknown));
    let other = format!("{stem}2");
    let persistent = CreateOptions::persistent();
    let ops = [Op::create(&stem, b"", &persistent), Op::create(&other, b"", &persistent)];
    let error = client.multi(&ops).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::ReplyTooLarge, Outcome::Unknown));
    client.close().await;
}
