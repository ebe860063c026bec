//! The session with servers of other makers: what it sends to them, and what it takes for an end.

use std::sync::Arc;

use zk_client::session::Event;
use zk_client::{Dialect, WatchMode};
use zk_proto::{
    CreateMode, CreateRequest, CreateResponse, ErrorCode, ExistsResponse, GetDataRequest, List,
    MultiOp, MultiRequest, MultiResponse, MultiResult, OpCode, Stat, WhoAmIRequest, Xid, Zxid,
};
use zk_test_support::peer::{Bench, SESSION, payload, reply, stat_of, welcome};

const STEM: &str = "/locks/x-";
const NODE: &str = "/locks/x-0000000003";
const GET: GetDataRequest<'_> = GetDataRequest { path: "/a", watch: false };
const UNKNOWN: &str = "1 Unimplemented";

fn owned() -> CreateRequest<'static> {
    let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
    CreateRequest { path: STEM, data: None, acl: List::new(&[]), mode }
}

fn attached(dialect: Dialect) -> Bench {
    let mut config = Bench::config();
    config.dialect = dialect;
    let mut bench = Bench::new(config);
    bench.attach();
    bench
}

/// The czxid that the next event has.
fn czxid(bench: &mut Bench) -> Zxid {
    match bench.session.poll_event() {
        Some(Event::Completed { result: Ok(answer), .. }) => answer.zxid,
        other => panic!("not created: {other:?}"),
    }
}

#[test]
fn the_old_create_is_sent_and_the_node_is_read_for_its_czxid() {
    let mut bench = attached(Dialect::clickhouse_keeper());
    bench.session.submit_owned(&owned(), 1).unwrap();
    assert_eq!(bench.sent(), ["create#1 /locks/x-"]);
    bench.answer(1, &CreateResponse { path: NODE });
    assert_eq!(bench.said(), [""; 0], "the zxid of the reply may be another one");
    assert_eq!(bench.sent(), [format!("exists#2 {NODE}")]);
    bench.answer(2, &ExistsResponse { stat: stat_of(SESSION) });
    assert_eq!(czxid(&mut bench), Zxid(0x77));
}

#[test]
fn each_owned_node_of_a_multi_is_read_as_well() {
    let mut bench = attached(Dialect::clickhouse_keeper());
    let request = [MultiOp::Create(owned())];
    bench.session.submit_multi_owned(&MultiRequest::new(&request), [(0, STEM, 1)]).unwrap();
    bench.sent();
    let created = [MultiResult::Create(CreateResponse { path: NODE })];
    bench.answer(1, &MultiResponse::new(&created));
    assert_eq!(bench.sent(), [format!("exists#2 {NODE}")]);
    bench.answer(2, &ExistsResponse { stat: stat_of(SESSION) });
    assert_eq!(czxid(&mut bench), Zxid(0x77));
}

/// Apache's servers name the transaction of the create in its reply.
#[test]
fn where_the_zxid_of_a_create_is_its_czxid_nothing_is_read() {
    let mut bench = attached(Dialect::apache().without(OpCode::CREATE2));
    bench.session.submit_owned(&owned(), 1).unwrap();
    assert_eq!(bench.sent(), ["create#1 /locks/x-"]);
    bench.answer(1, &CreateResponse { path: NODE });
    assert_eq!(czxid(&mut bench), Zxid(1));
    assert_eq!(bench.sent(), [""; 0]);
}

/// Somebody has deleted it, or it is another session's.
#[test]
fn a_node_that_is_gone_when_it_is_read_is_not_handed_out() {
    let mut bench = attached(Dialect::clickhouse_keeper());
    bench.session.submit_owned(&owned(), 1).unwrap();
    bench.sent();
    bench.answer(1, &CreateResponse { path: NODE });
    bench.sent();
    bench.refuse(2, ErrorCode::NO_NODE);
    assert_eq!(bench.said(), ["1 NoNode"]);
}

#[test]
fn what_the_dialect_lacks_is_refused_unsent() {
    let mut bench = attached(Dialect::clickhouse_keeper());
    bench.session.submit(&WhoAmIRequest, 1).unwrap();
    bench.session.submit(&CreateRequest { mode: CreateMode::CONTAINER, ..owned() }, 1).unwrap();
    assert_eq!(bench.said(), [UNKNOWN, UNKNOWN]);
    for mode in [WatchMode::Persistent, WatchMode::PersistentRecursive] {
        bench.session.submit_stream("/a", mode, 1, 8).unwrap();
        assert_eq!(bench.said(), [UNKNOWN, "8 unstreamed"]);
    }
    assert_eq!(bench.sent(), [""; 0]);
}

/// Whoever kept a tree by it would go stale.
#[test]
fn a_recursive_watch_whose_events_name_no_node_is_refused() {
    let mut bench = attached(Dialect::apache().recursive_watches(false));
    bench.session.submit_stream("/a", WatchMode::PersistentRecursive, 1, 8).unwrap();
    assert_eq!(bench.said(), [UNKNOWN, "8 unstreamed"]);
    bench.session.submit_stream("/a", WatchMode::Persistent, 1, 8).unwrap();
    assert_eq!(bench.sent(), ["addWatch#1 /a persistent"]);
    bench.refuse(1, ErrorCode::NO_AUTH);
    bench.said();
}

/// Each tells what it has missed, as with setWatches.
#[test]
fn many_nodes_are_watched_one_by_one_where_no_request_watches_many() {
    let mut bench = attached(Dialect::clickhouse_keeper());
    bench.session.submit(&GET, 1).unwrap();
    bench.sent();
    bench.frame(reply(Xid(1), 0x77, ErrorCode::NO_NODE, &()));
    assert_eq!(bench.said(), ["1 NoNode"]);

    let nodes = [("/same", 5), ("/written", 6), ("/gone", 7)];
    let nodes = nodes.map(|(path, watcher)| (Arc::from(path), watcher));
    bench.session.submit_watching_all(nodes.to_vec(), 2).unwrap();
    assert_eq!(bench.sent(), ["exists#2 /same", "exists#3 /written", "exists#4 /gone"]);
    let stat = |mzxid| Stat { mzxid: Zxid(mzxid), ..stat_of(SESSION) };
    bench.frame(reply(Xid(2), 0x79, ErrorCode::OK, &ExistsResponse { stat: stat(0x77) }));
    bench.frame(reply(Xid(3), 0x79, ErrorCode::OK, &ExistsResponse { stat: stat(0x78) }));
    assert_eq!(bench.said(), ["6 saw NodeDataChanged /written, missed"]);
    bench.frame(reply(Xid(4), 0x79, ErrorCode::NO_NODE, &()));
    assert_eq!(bench.said(), ["7 saw NodeDeleted /gone, missed", "2 ok"]);
    bench.fire(zk_proto::EventType::NODE_DELETED, "/same");
    assert_eq!(bench.said(), ["5 saw NodeDeleted /same at 0x1"]);

    bench.session.submit_watching_all(Vec::new(), 3).unwrap();
    assert_eq!(bench.sent(), ["exists#5 /"]);
    bench.answer(5, &ExistsResponse { stat: stat(0x77) });
    assert_eq!(bench.said(), ["3 ok"]);
}

#[test]
fn the_end_of_the_connection_is_the_end_of_the_session() {
    let mut bench = attached(Dialect::clickhouse_keeper());
    bench.session.submit(&GET, 1).unwrap();
    bench.sent();
    bench.session.submit(&GET, 2).unwrap();
    bench.cut();
    let over = ["1 over, sent: Expired", "2 over, unsent: Expired", "Expired"];
    assert_eq!(bench.said(), over);
    assert!(bench.session.submit(&GET, 3).is_err());
}

/// The server deletes all that the session had, so nothing is due.
#[test]
fn nothing_of_a_session_that_ended_with_its_connection_is_looked_for_or_deleted() {
    let mut bench = attached(Dialect::clickhouse_keeper().with(OpCode::CREATE2));
    let node = bench.session.submit_owned(&owned(), 1).unwrap();
    bench.sent();
    bench.session.release(node, Some(2)).unwrap();
    assert_eq!(bench.said(), ["2 NoNode"]);
    bench.cut();
    assert_eq!(bench.said(), ["1 over, sent: Expired", "Expired"]);
    assert_eq!(bench.load(), (0, 0, 0));
}

/// A move would end the session.
#[test]
fn such_a_session_stays_at_its_server() {
    let mut bench = attached(Dialect::clickhouse_keeper());
    bench.session.leave(bench.now, zk_client::Hangup::Moving);
    assert_eq!(bench.said(), [""; 0]);
}

#[test]
fn such_a_session_is_not_left_behind() {
    let mut bench = attached(Dialect::clickhouse_keeper());
    bench.session.detach();
    assert_eq!(bench.session.detached(), None);
    bench.said();
}

#[test]
fn an_operation_that_three_connections_end_on_is_given_up_however_small() {
    let mut bench = Bench::attached();
    for times in 1..=3 {
        bench.session.submit(&WhoAmIRequest, 1).unwrap();
        bench.session.submit(&GET, 2).unwrap();
        bench.sent();
        bench.cut();
        let first = match times {
            3 => "1 never answered: 8 bytes, 3 times",
            _ => "1 lost, sent",
        };
        assert_eq!(bench.said(), [first, "2 lost, sent", "Disconnected"]);
        bench.attach();
    }
}

/// A server that has answered it once knows it.
#[test]
fn an_operation_that_was_answered_is_lost_as_any_other() {
    let mut bench = Bench::attached();
    bench.session.submit(&WhoAmIRequest, 1).unwrap();
    bench.sent();
    bench.refuse(1, ErrorCode::NO_AUTH);
    bench.said();
    for _ in 0..5 {
        bench.session.submit(&WhoAmIRequest, 1).unwrap();
        bench.sent();
        bench.cut();
        assert_eq!(bench.said(), ["1 lost, sent", "Disconnected"]);
        bench.attach();
    }
}

/// The session has asked for it by itself, and goes on without.
#[test]
fn a_search_that_three_connections_end_on_lists_the_folder_instead() {
    let mut bench = Bench::attached();
    bench.session.submit_owned(&owned(), 1).unwrap();
    bench.sent();
    for _ in 0..4 {
        bench.cut();
        assert_eq!(bench.said(), ["Disconnected"]);
        bench.attach();
        let asked = bench.requests();
        assert_eq!(asked[0].op(), OpCode::SYNC);
        if asked[1].op() == OpCode::GET_CHILDREN {
            return;
        }
        assert_eq!(asked[1].op(), OpCode::GET_EPHEMERALS);
        bench.refuse_alone(asked[0].xid(), ErrorCode::NO_NODE);
    }
    panic!("it asks for the ephemeral nodes again and again");
}

/// Its watchers look for themselves then.
#[test]
fn watches_that_no_server_lets_arm_again_are_told_that_they_missed_something() {
    let mut bench = Bench::attached();
    let watch = zk_client::session::Watch {
        kind: zk_client::session::WatchKind::Data,
        path: Arc::from("/a"),
        watcher: 7,
    };
    bench.session.submit_watching(&GetDataRequest { path: "/a", watch: true }, 1, watch).unwrap();
    bench.sent();
    bench.answer(1, &zk_test_support::peer::data(b""));
    bench.said();
    for _ in 0..3 {
        bench.cut();
        assert_eq!(bench.said(), ["Disconnected"]);
        bench.attach();
        assert_eq!(bench.requests()[0].op(), OpCode::SET_WATCHES);
    }
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.connect();
    bench.frame(payload(&welcome(zk_test_support::peer::TIMEOUT)));
    assert_eq!(bench.said(), ["7 saw NodeDataChanged /a, missed", "Connected"]);
    assert_eq!(bench.sent(), [""; 0]);
}

#[test]
fn a_server_without_a_leader_is_no_end_of_the_session() {
    let mut bench = Bench::attached();
    bench.cut();
    bench.said();
    bench.connect();
    let leaderless = zk_proto::ConnectResponse {
        protocol_version: 42,
        session_id: zk_proto::SessionId(0),
        ..welcome(zk_test_support::peer::TIMEOUT)
    };
    bench.frame(payload(&leaderless));
    let said = bench.said();
    assert!(said[0].contains("has no leader"), "{said:?}");
    bench.cut();
    bench.attach();
}
