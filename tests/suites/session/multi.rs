//! Owned nodes that one multi creates: each has a reply of its own, and none is left behind.

use std::time::Duration;

use zk_client::Failure;
use zk_client::session::{Event, OwnedNodeId};
use zk_proto::{
    CheckVersionRequest, Create2Response, CreateMode, CreateRequest, CreateResponse, Decode,
    DeleteRequest, ErrorCode, ExistsResponse, GetDataRequest, GetDataResponse, List, MultiOp,
    MultiRequest, MultiResponse, MultiResult, Zxid,
};
use zk_test_support::peer::{Bench, SESSION, TIMEOUT, created, data, expired, payload, stat_of};

const READ: &str = "/locks/u-read-";
const WRITE: &str = "/locks/u-write-";
/// The second create names its whole path.
const AT: &str = "/locks/u-write-0000000007";
const MADE: &str = "/locks/u-read-0000000009";

const FIRST: u32 = 1;
const SECOND: u32 = 2;
const ALL: &[MultiResult<'_>] = &[
    MultiResult::Check(()),
    MultiResult::Create(CreateResponse { path: MADE }),
    MultiResult::Delete(()),
    MultiResult::Create(CreateResponse { path: AT }),
];

fn submit(bench: &mut Bench) -> [OwnedNodeId; 2] {
    let create =
        |path, mode| MultiOp::Create(CreateRequest { path, data: None, acl: List::new(&[]), mode });
    let ops = [
        MultiOp::Check(CheckVersionRequest { path: "/locks", version: -1 }),
        create(READ, CreateMode::EPHEMERAL_SEQUENTIAL),
        MultiOp::Delete(DeleteRequest { path: "/locks/t-0000000007", version: -1 }),
        create(AT, CreateMode::EPHEMERAL),
    ];
    let owned = [(1, READ, FIRST), (3, WRITE, SECOND)];
    let owned_nodes = bench.session.submit_multi_owned(&MultiRequest::new(&ops), owned).unwrap();
    owned_nodes.try_into().unwrap()
}

/// A connected session whose multi is on the wire.
fn asked() -> (Bench, [OwnedNodeId; 2]) {
    let mut bench = Bench::attached();
    let owned_nodes = submit(&mut bench);
    let [request] = bench.sent().try_into().unwrap();
    let ops = "check /locks, create /locks/u-read-, delete /locks/t-0000000007";
    assert_eq!(request, format!("multi#1 {ops}, create {AT}"));
    (bench, owned_nodes)
}

/// A connected session that owns both nodes.
fn held() -> (Bench, [OwnedNodeId; 2]) {
    let (mut bench, owned_nodes) = asked();
    bench.answer(1, &MultiResponse::new(ALL));
    assert_eq!(bench.said(), ["1 ok", "2 ok"]);
    assert_eq!(bench.load(), (0, 0, 2));
    (bench, owned_nodes)
}

/// A session that lost its connection before the reply, attached again, and looks for the nodes.
fn lost() -> (Bench, [OwnedNodeId; 2]) {
    let (mut bench, owned_nodes) = asked();
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"], "the creators wait");
    bench.attach();
    assert_eq!(bench.sent(), ["sync#2 /locks", "getEphemerals#3 /locks/"], "one search for both");
    (bench, owned_nodes)
}

fn list(bench: &mut Bench, children: &[&str]) {
    bench.answer(2, &());
    bench.answer_ephemerals(3, "/locks/", children);
}

/// The results of the creators: the path, and the transaction that created the node.
fn nodes(bench: &mut Bench) -> Vec<(u32, String, Zxid)> {
    let mut nodes = Vec::new();
    while let Some(event) = bench.session.poll_event() {
        let Event::Completed { token, result: Ok(answer), .. } = event else {
            panic!("{event:?}");
        };
        let CreateResponse { path } = CreateResponse::decode_exact(&answer.body).unwrap();
        nodes.push((token, path.to_owned(), answer.zxid));
    }
    nodes
}

#[test]
fn each_creator_is_told_of_its_own_node_and_of_the_transaction() {
    let newer = [
        MultiResult::Check(()),
        MultiResult::Create2(Create2Response { path: MADE, stat: stat_of(SESSION) }),
        MultiResult::Delete(()),
        MultiResult::Create2(Create2Response { path: AT, stat: stat_of(SESSION) }),
    ];
    for results in [ALL, &newer] {
        let (mut bench, [first, second]) = asked();
        bench.answer(1, &MultiResponse::new(results));
        let told = [(FIRST, MADE.to_owned(), Zxid(1)), (SECOND, AT.to_owned(), Zxid(1))];
        assert_eq!(nodes(&mut bench), told);

        bench.session.release(second, None).unwrap();
        bench.session.release(first, None).unwrap();
        assert_eq!(bench.sent(), [format!("delete#2 {AT}"), format!("delete#3 {MADE}")]);
        bench.answer(2, &());
        bench.answer(3, &());
        assert_eq!(bench.load(), (0, 0, 0));
    }
}

#[test]
fn a_refused_multi_tells_every_creator_why_and_leaves_no_claim() {
    let (mut bench, [first, _]) = asked();
    let error = MultiResult::Error;
    let rolled_back = error(ErrorCode::RUNTIME_INCONSISTENCY);
    let results = [error(ErrorCode::OK), error(ErrorCode::OK), error(ErrorCode::NO_NODE)];
    bench.answer(1, &MultiResponse::new(&[&results[..], &[rolled_back]].concat()));
    for token in [FIRST, SECOND] {
        let failure = Failure::OpRefused { index: 2, code: ErrorCode::NO_NODE };
        let expected = Event::Completed { token, result: Err(failure), zxid: Some(Zxid(1)) };
        assert_eq!(bench.session.poll_event(), Some(expected));
    }
    assert_eq!(bench.load(), (0, 0, 0));
    bench.session.release(first, None).unwrap();
    assert_eq!(bench.sent(), [""; 0]);
}

#[test]
fn a_multi_that_is_refused_as_a_whole_leaves_no_claim() {
    let (mut bench, _) = asked();
    bench.refuse(1, ErrorCode::THROTTLED_OP);
    assert_eq!(bench.said(), ["1 ThrottledOp", "2 ThrottledOp"]);
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn a_multi_whose_error_proves_nothing_is_looked_for() {
    let (mut bench, _) = asked();
    bench.refuse(1, ErrorCode::MARSHALLING_ERROR);
    assert_eq!(bench.said(), [""; 0], "the creators wait");
    assert_eq!(bench.sent(), ["sync#2 /locks", "getEphemerals#3 /locks/"], "one search for both");
}

#[test]
fn a_multi_that_does_not_fit_leaves_no_claim() {
    let mut config = Bench::config();
    config.limits.max_request = 40;
    let mut bench = Bench::new(config);
    let ops = [MultiOp::Check(CheckVersionRequest { path: AT, version: -1 })];
    let owned = [(0, WRITE, FIRST)];
    bench.session.submit_multi_owned(&MultiRequest::new(&ops), owned).unwrap_err();
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn a_lost_multi_that_was_applied_is_found_node_by_node() {
    let (mut bench, [_, second]) = lost();
    list(&mut bench, &["u-read-0000000009", "u-write-0000000007", "v-0000000001"]);
    assert_eq!(bench.sent(), [format!("exists#4 {MADE}"), format!("exists#5 {AT}")]);
    bench.answer(4, &ExistsResponse { stat: stat_of(SESSION) });
    bench.answer(5, &ExistsResponse { stat: stat_of(SESSION) });
    let told = [(FIRST, MADE.to_owned(), Zxid(0x77)), (SECOND, AT.to_owned(), Zxid(0x77))];
    assert_eq!(nodes(&mut bench), told);
    assert_eq!(bench.load(), (0, 0, 2));

    bench.session.release(second, None).unwrap();
    assert_eq!(bench.sent(), [format!("delete#6 {AT}")]);
    bench.answer(6, &());
}

#[test]
fn a_lost_multi_that_was_not_applied_is_told_to_every_creator() {
    let (mut bench, _) = lost();
    list(&mut bench, &["t-0000000007"]);
    assert_eq!(bench.said(), ["1 lost, unsent", "2 lost, unsent"]);
}

#[test]
fn a_multi_that_was_not_sent_waits_for_the_next_connection() {
    let mut bench = Bench::attached();
    submit(&mut bench);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent().len(), 1);
    bench.answer(1, &MultiResponse::new(ALL));
    assert_eq!(bench.said(), ["1 ok", "2 ok"]);
}

#[test]
fn a_creator_that_has_gone_leaves_no_node_and_the_other_its_own() {
    let (mut bench, [first, _]) = asked();
    bench.session.release(first, None).unwrap();
    bench.answer(1, &MultiResponse::new(ALL));
    assert_eq!(bench.said(), ["1 ok", "2 ok"]);
    assert_eq!(bench.sent(), [format!("delete#2 {MADE}")]);
    bench.answer(2, &());
    assert_eq!(bench.load(), (0, 0, 1));
}

#[test]
fn a_multi_whose_answer_makes_no_sense_is_looked_for() {
    let create = MultiResult::Create(CreateResponse { path: MADE });
    let read = MultiResult::GetData(GetDataResponse { data: None, stat: stat_of(SESSION) });
    let answers: [&[MultiResult<'_>]; 3] = [
        &[],
        &[MultiResult::Check(()), create, MultiResult::Delete(())],
        &[MultiResult::Check(()), create, MultiResult::Delete(()), read],
    ];
    for results in answers {
        let (mut bench, _) = asked();
        bench.answer(1, &MultiResponse::new(results));
        let [hangup] = bench.said().try_into().unwrap();
        assert!(hangup.starts_with("hangup: the server broke the protocol"), "{hangup}");
        bench.cut();
        assert_eq!(bench.said(), ["Disconnected"], "nobody was told half of it");
        bench.attach();
        assert_eq!(bench.sent().len(), 2);
        list(&mut bench, &[]);
        assert_eq!(bench.said(), ["1 lost, unsent", "2 lost, unsent"]);
    }
}

#[test]
fn a_session_that_ends_tells_every_creator_once() {
    let (mut bench, _) = asked();
    bench.cut();
    bench.connect();
    bench.frame(payload(&expired()));
    let said = bench.said();
    for token in [FIRST, SECOND] {
        let told = said.iter().filter(|said| said.starts_with(&token.to_string())).count();
        assert_eq!(told, 1, "{said:?}");
    }
    let mut bench = Bench::attached();
    submit(&mut bench);
    bench.session.abandon();
    let said = bench.said();
    assert_eq!(said[..2], ["1 over, unsent: Closed", "2 over, unsent: Closed"]);
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn a_node_that_is_forgotten_is_left_alone() {
    let (mut bench, [first, second]) = held();
    bench.session.disown(first);
    bench.session.release(first, None).unwrap();
    assert_eq!(bench.sent(), [""; 0]);
    assert_eq!(bench.load(), (0, 0, 1));
    bench.session.disown(second);
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn a_create_under_way_cannot_be_forgotten() {
    let (mut bench, [first, _]) = asked();
    bench.session.disown(first);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.session.abandon();
    assert_eq!(bench.said(), ["1 over, sent: Closed", "2 over, sent: Closed", "Closed"]);
}

#[test]
fn a_node_that_is_adopted_is_deleted_when_it_is_released() {
    let mut bench = Bench::attached();
    let node = bench.session.adopt(AT).unwrap().unwrap();
    assert_eq!(bench.session.adopt(AT), Ok(None), "it has an owner");
    assert_eq!(bench.load(), (0, 0, 1));
    bench.session.release(node, None).unwrap();
    assert_eq!(bench.sent(), [format!("delete#1 {AT}")]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), [format!("delete#2 {AT}")], "until it is answered");
    bench.answer(2, &());
    assert_eq!(bench.load(), (0, 0, 0));
}

const GET: GetDataRequest<'_> = GetDataRequest { path: "/a", watch: false };

#[test]
fn detaching_answers_what_was_asked_and_sends_nothing_else() {
    let (mut bench, [first, second]) = held();
    bench.session.release(first, None).unwrap();
    bench.session.submit(&GET, 5).unwrap();
    let credentials = bench.session.identity();
    bench.session.detach();
    bench.session.submit(&GET, 6).unwrap_err();
    bench.session.release(second, None).unwrap_err();
    bench.session.adopt("/locks/other").unwrap_err();
    bench.session.close();
    assert_eq!(bench.sent(), [format!("delete#2 {MADE}"), "getData#3 /a".to_owned()]);
    bench.answer(2, &());
    assert_eq!((bench.said(), bench.session.detached()), (vec![], None));
    bench.answer(3, &data(b""));
    assert_eq!(bench.said(), ["5 ok", "Closed", "hangup: the client is closed"]);
    assert_eq!(bench.session.detached(), credentials);
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn an_idle_session_is_detached_at_once() {
    let (mut bench, _) = held();
    bench.session.detach();
    assert_eq!(bench.said(), ["Closed", "hangup: the client is closed"]);

    let mut bench = Bench::attached();
    bench.cut();
    bench.said();
    bench.session.detach();
    assert_eq!(bench.said(), ["Closed"]);
    assert!(bench.session.detached().is_some());

    let mut bench = Bench::new(Bench::config());
    bench.session.detach();
    assert_eq!(bench.said(), ["Closed"]);
    assert_eq!(bench.session.detached(), None, "there was no session yet");
}

#[test]
fn a_lost_create_is_found_before_a_session_is_detached() {
    let (mut bench, _) = asked();
    bench.session.detach();
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent().len(), 2);
    list(&mut bench, &["u-read-0000000009"]);
    assert_eq!(bench.said(), ["2 lost, unsent"]);
    assert_eq!(bench.sent(), [format!("exists#4 {MADE}")]);
    bench.answer(4, &ExistsResponse { stat: stat_of(SESSION) });
    assert_eq!(bench.said(), ["1 ok", "Closed", "hangup: the client is closed"]);
}

#[test]
fn a_lost_delete_is_repeated_before_a_session_is_detached() {
    let (mut bench, [first, _]) = held();
    bench.session.release(first, Some(5)).unwrap();
    bench.session.detach();
    assert_eq!(bench.sent(), [format!("delete#2 {MADE}")]);
    bench.cut();
    assert_eq!(bench.said(), ["5 lost, sent", "Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), [format!("delete#3 {MADE}")]);
    bench.answer(3, &());
    assert_eq!(bench.said(), ["Closed", "hangup: the client is closed"]);
}

#[test]
fn a_server_that_does_not_answer_holds_a_detach_up_for_one_session_timeout() {
    let (mut bench, _) = asked();
    bench.session.detach();
    bench.pass(Duration::ZERO);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.pass(TIMEOUT - Duration::from_millis(1));
    assert_eq!(bench.said(), [""; 0]);
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.said(), ["1 over, sent: Closed", "2 over, sent: Closed", "Closed"]);
    assert!(bench.session.detached().is_some());
}

#[test]
fn a_session_that_expires_first_is_not_detached() {
    let (mut bench, _) = asked();
    bench.session.detach();
    bench.cut();
    bench.connect();
    bench.frame(payload(&expired()));
    assert!(bench.said().contains(&"Expired".to_owned()));
    assert_eq!(bench.session.detached(), None);
}

#[test]
fn a_node_that_one_answer_made_is_told_by_its_own_transaction() {
    let mut bench = Bench::attached();
    let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
    let request = CreateRequest { path: READ, data: None, acl: List::new(&[]), mode };
    bench.session.submit_owned(&request, FIRST).unwrap();
    bench.sent();
    bench.answer(1, &created(MADE));
    assert_eq!(nodes(&mut bench), [(FIRST, MADE.to_owned(), stat_of(SESSION).czxid)]);
}
