//! The statistics of a session and of a client.

use std::time::Duration;

use zk_client::session::{Watch, WatchKind};
use zk_client::{Client, CreateOptions, Latencies, RequestCounts, SessionState, Stats, WatchMode};
use zk_embedded::{Config, Fault, Server};
use zk_proto::{
    CheckVersionRequest, ErrorCode, EventType, GetDataRequest, MultiOp, MultiRequest,
    MultiResponse, MultiResult, OpCode, Xid, Zxid,
};
use zk_test_support::peer::{Bench, Network, TIMEOUT, data, password, reply};

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();

const GET: GetDataRequest<'_> = GetDataRequest { path: "/a", watch: false };

/// The size of a handshake on the wire, of its reply, and of a request for `/a` and a ping.
const HANDSHAKE: u64 = 4 + 45;
const WELCOME: u64 = 4 + 37;
const REQUEST: u64 = 4 + 8 + 4 + 2 + 1;
const PING: u64 = 4 + 8;
const HEAD: u64 = 4 + 16;

fn stats(bench: &Bench) -> Stats {
    bench.session.stats(bench.now)
}

#[test]
fn frames_and_bytes_are_counted_both_ways() {
    let mut bench = Bench::new(Bench::config());
    let none = stats(&bench);
    assert_eq!(
        (none.totals.frames_sent, none.totals.bytes_sent, none.totals.frames_received),
        (0, 0, 0)
    );
    assert_eq!((none.session, none.age, none.state), (None, None, SessionState::Connecting));
    assert_eq!(none.session_timeout, TIMEOUT);

    bench.attach();
    let attached = stats(&bench);
    assert_eq!((attached.totals.frames_sent, attached.totals.bytes_sent), (1, HANDSHAKE));
    assert_eq!((attached.totals.frames_received, attached.totals.bytes_received), (1, WELCOME));
    assert_eq!(
        (attached.totals.attempts, attached.totals.connections, attached.reconnects()),
        (1, 1, 0)
    );

    (1..=3).for_each(|token| bench.session.submit(&GET, token).unwrap());
    let queued = stats(&bench);
    assert_eq!((queued.in_flight, queued.queued), (0, 3));
    assert_eq!(queued.queued_bytes as u64, 3 * REQUEST);
    assert_eq!(queued.totals.bytes_sent, HANDSHAKE, "nothing left yet");

    assert_eq!(bench.sent().len(), 3);
    let sent = stats(&bench);
    assert_eq!((sent.in_flight, sent.queued, sent.queued_bytes), (3, 0, 0));
    assert_eq!((sent.totals.frames_sent, sent.totals.bytes_sent), (4, HANDSHAKE + 3 * REQUEST));

    bench.pass(Duration::from_secs(1));
    assert_eq!(stats(&bench).last_round_trip, None);
    bench.answer(1, &());
    bench.fire(EventType::NODE_CREATED, "/b");
    bench.oversized(2, ErrorCode::OK, 1 << 30);
    let answered = stats(&bench);
    assert_eq!(answered.last_round_trip, Some(Duration::from_secs(1)));
    assert_eq!((answered.totals.frames_received, answered.totals.events_received), (4, 1));
    let event = HEAD + 4 + 4 + 4 + 2;
    assert_eq!(
        answered.totals.bytes_received,
        WELCOME + HEAD + event + HEAD,
        "of the large one the head"
    );
    assert_eq!((answered.totals.replies_too_large, answered.in_flight), (1, 1));
    assert_eq!(answered.last_zxid, Zxid(3));

    bench.pass(TIMEOUT / 3);
    assert_eq!(bench.sent(), ["ping"]);
    let pinged = stats(&bench);
    assert_eq!((pinged.totals.pings_sent, pinged.totals.frames_sent), (1, 5));
    assert_eq!(pinged.totals.bytes_sent, HANDSHAKE + 3 * REQUEST + PING);
    bench.pass(Duration::from_millis(7));
    bench.frame(reply(Xid::PING, 0, ErrorCode::OK, &()));
    assert_eq!(stats(&bench).last_round_trip, Some(Duration::from_millis(7)));
    assert_eq!(bench.said().len(), 2);

    bench.cut();
    assert_eq!(bench.said().len(), 2);
    let cut = stats(&bench);
    assert_eq!((cut.state, cut.connected_for), (SessionState::Disconnected, None));
    assert_eq!(cut.age, Some(bench.age()));
    bench.pass(Duration::from_secs(1));
    bench.attach();
    let again = stats(&bench);
    assert_eq!((again.totals.attempts, again.totals.connections, again.reconnects()), (2, 2, 1));
    assert_eq!((again.age, again.connected_for), (Some(bench.age()), Some(Duration::ZERO)));
}

#[test]
fn watches_are_counted_until_they_fire_or_are_forgotten() {
    let mut bench = Bench::attached();
    let watch = |watcher| Watch { kind: WatchKind::Data, path: "/a".into(), watcher };
    let id = bench.session.submit_watching(&GET, 1, watch(1)).unwrap();
    bench.session.submit_watching(&GET, 2, watch(2)).unwrap();
    let stream = bench.session.submit_stream("/a", WatchMode::Persistent, 3, 3).unwrap();
    assert_eq!(bench.sent().len(), 3);
    assert_eq!((stats(&bench).watches, stats(&bench).streams), (0, 0), "not set yet");
    (1..=3).for_each(|xid| bench.answer(xid, &data(b"")));
    assert_eq!((stats(&bench).watches, stats(&bench).streams), (2, 1));
    bench.session.unwatch(id, "/a");
    assert_eq!((stats(&bench).watches, stats(&bench).streams), (1, 1));
    bench.fire(EventType::NODE_DELETED, "/a");
    assert_eq!((stats(&bench).watches, stats(&bench).streams), (0, 1));
    bench.session.unwatch(stream, "/a");
    assert_eq!((stats(&bench).watches, stats(&bench).streams), (0, 0));
    assert_eq!(bench.sent().len(), 1, "the server is told");
    assert_eq!(bench.said().len(), 7);

    bench.answer(4, &());
    for n in 5..=6 {
        bench.session.submit_watching(&GET, n, watch(n)).unwrap();
    }
    assert_eq!(bench.sent().len(), 2);
    (5..=6).for_each(|xid| bench.answer(xid, &data(b"")));
    assert_eq!(stats(&bench).watches, 2);
    bench.session.abandon();
    assert_eq!(stats(&bench).watches, 0);
    assert!(!bench.said().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_tells_its_server_while_it_has_one() {
    let mut network = Network::new();
    let builder = Client::builder().connector(network.dialer()).session_timeout(TIMEOUT);
    let client = builder.connect_lazily("zk7:2182").unwrap();
    assert_eq!(client.stats().server, None);
    let peer = network.attach().await;
    let mut states = client.states();
    states.wait_for(|state| state.is_connected()).await.unwrap();
    let stats = client.stats();
    assert_eq!(stats.server.map(|host| host.to_string()).as_deref(), Some("zk7:2182"));
    drop(peer);
    states.wait_for(|state| !state.is_connected()).await.unwrap();
    assert_eq!(client.stats().server, None);
    drop(network.dial().await);
}

#[tokio::test(start_paused = true)]
async fn a_client_at_rest_holds_what_is_held() {
    let server = Server::in_memory(Config::new());
    let client = Client::builder().connector(server.connector()).connect("zk").await.unwrap();
    client.create("/a", b"", &CreateOptions::persistent()).await.unwrap();
    let owned = client.create_owned("/a/x-", b"", &OWNED).await.unwrap();
    let lease = owned.lease(None);
    let stats = client.stats();
    assert_eq!((stats.owned_nodes, stats.leases, stats.in_flight, stats.queued), (1, 1, 0, 0));
    drop((owned, lease));
    client.sync("/").await.unwrap();
    let stats = client.stats();
    assert_eq!((stats.owned_nodes, stats.leases), (0, 0));

    server.inject(Fault::lose_reply().op(OpCode::GET_DATA));
    client.get_data("/a").await.unwrap_err();
    client.sync("/").await.unwrap();
    assert_eq!(client.stats().reconnects(), 1);
    let text = format!("{:?}", client.stats());
    assert!(!text.contains(&format!("{:?}", password())), "no secret: {text}");
    client.close().await;
    assert_eq!(client.stats().state, SessionState::Closed);
}

/// Succeeded, refused, too large, unanswered, not sent and withdrawn requests of an operation.
fn ends(stats: &Stats, op: OpCode) -> [u64; 6] {
    let of_op = |counts: &&RequestCounts| counts.op == op;
    let Some(counts) = stats.totals.requests.iter().find(of_op) else {
        return [0; 6];
    };
    let RequestCounts { succeeded, refused, too_large, unanswered, not_sent, withdrawn, .. } =
        *counts;
    let ends = [succeeded, refused, too_large, unanswered, not_sent, withdrawn];
    assert_eq!(counts.total(), ends.iter().sum::<u64>());
    ends
}

#[test]
fn each_request_is_counted_once_by_operation_and_by_how_it_ended() {
    let mut bench = Bench::attached();
    assert_eq!(stats(&bench).totals.requests, []);
    (1..=4).for_each(|token| bench.session.submit(&GET, token).unwrap());
    assert_eq!(bench.sent().len(), 4);
    assert_eq!(stats(&bench).totals.requests, [], "none has ended");

    bench.answer(1, &data(b""));
    bench.frame(reply(Xid(2), 2, ErrorCode::NO_NODE, &()));
    bench.oversized(3, ErrorCode::OK, 1 << 30);
    assert_eq!(ends(&stats(&bench), OpCode::GET_DATA), [1, 1, 1, 0, 0, 0]);

    bench.session.submit(&GET, 5).unwrap();
    let taken_back = bench.session.last_request_id().unwrap();
    bench.session.submit(&GET, 6).unwrap();
    assert_eq!(bench.session.withdraw(taken_back), Some(5));
    assert_eq!(ends(&stats(&bench), OpCode::GET_DATA), [1, 1, 1, 0, 0, 1]);

    bench.cut();
    assert_eq!(ends(&stats(&bench), OpCode::GET_DATA), [1, 1, 1, 1, 0, 1], "one is still queued");
    bench.session.abandon();
    assert_eq!(ends(&stats(&bench), OpCode::GET_DATA), [1, 1, 1, 1, 1, 1]);
    assert_eq!(stats(&bench).totals.requests.len(), 1);
    assert!(!bench.said().is_empty());
}

/// The header of such a reply reports success: only the results show the refusal.
#[test]
fn a_multi_whose_operations_were_refused_counts_as_refused() {
    let mut bench = Bench::attached();
    let ops = [
        MultiOp::Check(CheckVersionRequest { path: "/a", version: -1 }),
        MultiOp::Check(CheckVersionRequest { path: "/b", version: 7 }),
    ];
    for token in 1..=3 {
        bench.session.submit(&MultiRequest::new(&ops), token).unwrap();
    }
    bench.session.submit(&MultiRequest::new(&[]), 4).unwrap();
    let read = [MultiOp::GetData(GET)];
    bench.session.submit(&MultiRequest::new(&read), 5).unwrap();
    assert_eq!(bench.requests().len(), 5);

    let done = MultiResult::Check(());
    bench.answer(1, &MultiResponse::new(&[done, done]));
    assert_eq!(ends(&stats(&bench), OpCode::MULTI), [1, 0, 0, 0, 0, 0]);
    let rolled_back = MultiResult::Error(ErrorCode::OK);
    let refused = MultiResult::Error(ErrorCode::BAD_VERSION);
    bench.answer(2, &MultiResponse::new(&[rolled_back, refused]));
    assert_eq!(ends(&stats(&bench), OpCode::MULTI), [1, 1, 0, 0, 0, 0]);
    let not_tried = MultiResult::Error(ErrorCode::RUNTIME_INCONSISTENCY);
    bench.answer(3, &MultiResponse::new(&[refused, not_tried]));
    bench.answer(4, &MultiResponse::new(&[]));
    assert_eq!(ends(&stats(&bench), OpCode::MULTI), [2, 2, 0, 0, 0, 0]);
    // The reads of a multiRead fail one by one, and the request succeeds.
    bench.answer(5, &MultiResponse::new(&[MultiResult::Error(ErrorCode::NO_NODE)]));
    assert_eq!(ends(&stats(&bench), OpCode::MULTI_READ), [1, 0, 0, 0, 0, 0]);
    assert_eq!(bench.said().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_counts_as_unanswered_and_pings_not_at_all() {
    let server = Server::in_memory(Config::new());
    let client = Client::builder().connector(server.connector()).connect("zk").await.unwrap();
    server.inject(Fault::lose_reply().op(OpCode::DELETE));
    client.delete("/none", None).await.unwrap_err();
    client.delete("/none", None).await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let stats = client.stats();
    assert!(stats.totals.pings_sent > 0);
    assert_eq!(ends(&stats, OpCode::DELETE), [0, 1, 0, 1, 0, 0]);
    assert_eq!(ends(&stats, OpCode::PING), [0; 6]);
    client.close().await;
    assert_eq!(ends(&client.stats(), OpCode::CLOSE_SESSION), [1, 0, 0, 0, 0, 0]);
}

#[test]
fn a_reply_is_in_the_bucket_of_the_time_since_the_send() {
    let mut bench = Bench::attached();
    let bounds = Latencies::BOUNDS;
    assert!(bounds.is_sorted());
    let mut sum = Duration::ZERO;
    // For each bound a request that took exactly that long, one more nanosecond, and a lost one.
    for (xid, took) in (1..).zip([bounds[0], bounds[3], bounds[3] + Duration::from_nanos(1)]) {
        bench.session.submit(&GET, 1).unwrap();
        bench.pass(Duration::from_millis(1));
        assert_eq!(bench.sent().len(), 1, "the wait before the send does not count");
        bench.pass(took);
        bench.answer(xid, &data(b""));
        sum += took;
    }
    bench.session.submit(&GET, 2).unwrap();
    assert_eq!(bench.sent().len(), 1);
    bench.cut();
    let latencies = stats(&bench).totals.latencies;
    assert_eq!((latencies.count(), latencies.sum().as_micros()), (3, sum.as_micros()));
    let counts = latencies.cumulative().map(|(_, count)| count).collect::<Vec<_>>();
    assert_eq!(counts, [1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]);
    assert!(latencies.cumulative().map(|(bound, _)| bound).eq(bounds));
    assert!(!bench.said().is_empty());
}

#[test]
fn what_took_longer_than_all_bounds_is_counted_too_and_a_ping_is_not() {
    let mut bench = Bench::attached();
    bench.pass(TIMEOUT / 3);
    assert_eq!(bench.sent(), ["ping"]);
    bench.frame(reply(Xid::PING, 0, ErrorCode::OK, &()));
    assert_eq!(stats(&bench).totals.latencies, Latencies::default());
    bench.session.submit(&GET, 1).unwrap();
    assert_eq!(bench.sent().len(), 1);
    bench.now += Duration::from_secs(11);
    bench.answer(1, &data(b""));
    let latencies = stats(&bench).totals.latencies;
    assert_eq!((latencies.count(), latencies.sum()), (1, Duration::from_secs(11)));
    assert!(latencies.cumulative().all(|(_, count)| count == 0));
    assert!(!bench.said().is_empty());
}
