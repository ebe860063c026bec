//! Owned nodes that replace released ones: in one transaction where possible, and neither node is
//! left behind whatever breaks.

use zk_client::Failure;
use zk_client::session::{Event, OwnedNodeId};
use zk_proto::{
    CreateMode, CreateRequest, CreateResponse, DeleteRequest, ErrorCode, ExistsResponse,
    GetDataRequest, List, MultiOp, MultiRequest, MultiResponse, MultiResult, OpCode,
};
use zk_test_support::peer::{Bench, SESSION, created, stat_of};

const OLD: &str = "/locks/x-0000000003";
const STEM: &str = "/locks/y-";
const NEW: &str = "/locks/y-0000000004";
const GET: GetDataRequest<'_> = GetDataRequest { path: "/a", watch: false };

/// The tokens of the callers that wait for the delete and for the create.
const RELEASER: u32 = 2;
const CREATOR: u32 = 3;

const BOTH: &[MultiResult<'_>] =
    &[MultiResult::Create(CreateResponse { path: NEW }), MultiResult::Delete(())];
const CREATE_AND_DELETE: &str = "multi#3 create /locks/y-, delete /locks/x-0000000003";

fn request(path: &str) -> CreateRequest<'_> {
    let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
    CreateRequest { path, data: Some(b"data"), acl: List::new(&[]), mode }
}

/// A connected session that owns the old node.
fn held() -> (Bench, OwnedNodeId) {
    let mut bench = Bench::attached();
    let old = bench.session.submit_owned(&request("/locks/x-"), 1).unwrap();
    assert_eq!(bench.sent(), ["create2#1 /locks/x-"]);
    bench.answer(1, &created(OLD));
    assert_eq!(bench.said(), ["1 ok"]);
    (bench, old)
}

fn replace(bench: &mut Bench, old: OwnedNodeId) -> OwnedNodeId {
    bench.session.release(old, Some(RELEASER)).unwrap();
    let node = bench.session.submit_replacing(OLD, &request(STEM), CREATOR).unwrap();
    node.expect("its delete is the last request")
}

/// Creates the new node by itself, since the old one cannot be replaced.
fn create(bench: &mut Bench) -> OwnedNodeId {
    assert_eq!(bench.session.submit_replacing(OLD, &request(STEM), 99), Ok(None));
    bench.session.submit_owned(&request(STEM), CREATOR).unwrap()
}

/// A connected session whose multi is on the wire.
fn asked() -> (Bench, OwnedNodeId) {
    let (mut bench, old) = held();
    let new = replace(&mut bench, old);
    assert_eq!(bench.sent(), [CREATE_AND_DELETE]);
    assert_eq!(bench.load(), (1, 0, 2));
    (bench, new)
}

/// Refuses the multi for one of its operations.
fn refuse(bench: &mut Bench, index: usize, code: ErrorCode) {
    let mut results = [MultiResult::Error(ErrorCode::RUNTIME_INCONSISTENCY); 2];
    results[..index].fill(MultiResult::Error(ErrorCode::OK));
    results[index] = MultiResult::Error(code);
    bench.answer(3, &MultiResponse::new(&results));
}

/// Releases the new node, which is the only one left.
fn ends(bench: &mut Bench, new: OwnedNodeId, xid: i32) {
    assert_eq!(bench.load(), (0, 0, 1));
    bench.session.release(new, None).unwrap();
    assert_eq!(bench.sent(), [format!("delete#{xid} {NEW}")]);
    bench.answer(xid, &());
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn a_node_takes_the_place_of_another_in_one_transaction() {
    let (mut bench, old) = held();
    let new = replace(&mut bench, old);
    let [multi] = bench.requests().try_into().unwrap();
    let both = multi.body::<MultiRequest<'_>>().iter().collect::<Vec<_>>();
    let delete = DeleteRequest { path: OLD, version: -1 };
    assert_eq!(both, [MultiOp::Create(request(STEM)), MultiOp::Delete(delete)]);
    bench.answer(3, &MultiResponse::new(BOTH));
    assert_eq!(bench.said(), ["2 ok", "3 ok"]);
    ends(&mut bench, new, 4);
}

#[test]
fn what_was_asked_before_stays_in_front_of_it() {
    let (mut bench, old) = held();
    bench.session.submit(&GET, 7).unwrap();
    replace(&mut bench, old);
    bench.session.submit(&GET, 8).unwrap();
    let multi = CREATE_AND_DELETE.replace("#3", "#4");
    assert_eq!(bench.sent(), ["getData#2 /a", &multi, "getData#5 /a"]);
}

#[test]
fn a_delete_that_something_was_asked_behind_stays_where_it_is() {
    let (mut bench, old) = held();
    bench.session.release(old, None).unwrap();
    bench.session.submit(&GET, 7).unwrap();
    create(&mut bench);
    let delete = format!("delete#2 {OLD}");
    assert_eq!(bench.sent(), [&delete, "getData#3 /a", "create2#4 /locks/y-"]);
}

#[test]
fn a_delete_that_was_sent_stays_by_itself() {
    let (mut bench, old) = held();
    bench.session.release(old, Some(RELEASER)).unwrap();
    assert_eq!(bench.sent(), [format!("delete#2 {OLD}")]);
    let new = create(&mut bench);
    assert_eq!(bench.sent(), ["create2#3 /locks/y-"]);
    bench.answer(2, &());
    bench.answer(3, &created(NEW));
    assert_eq!(bench.said(), ["2 ok", "3 ok"]);
    ends(&mut bench, new, 4);
}

#[test]
fn nobodys_delete_is_taken_but_an_owned_nodes() {
    let mut bench = Bench::attached();
    bench.session.submit(&DeleteRequest { path: OLD, version: -1 }, 7).unwrap();
    create(&mut bench);
    assert_eq!(bench.sent(), [format!("delete#1 {OLD}"), "create2#2 /locks/y-".to_owned()]);
}

/// The replacement is not requested, and no event is reported for it.
#[test]
fn no_other_delete_than_the_one_that_is_named_is_taken() {
    for old in ["", "/", "/locks", "/locks/x-", "/locks/x-000000000", "/locks/x-00000000031", NEW] {
        let (mut bench, held) = held();
        bench.session.release(held, Some(RELEASER)).unwrap();
        assert_eq!(bench.session.submit_replacing(old, &request(STEM), CREATOR), Ok(None));
        assert_eq!(bench.load(), (1, 0, 1));
        assert_eq!(bench.sent(), [format!("delete#2 {OLD}")]);
        bench.answer(2, &());
        assert_eq!(bench.said(), ["2 ok"]);
        assert_eq!(bench.load(), (0, 0, 0));
    }
}

/// The caller has named the node explicitly, so the folder may differ.
#[test]
fn a_node_takes_the_place_of_one_in_another_folder() {
    let (mut bench, old) = held();
    bench.session.release(old, None).unwrap();
    assert!(bench.session.submit_replacing(OLD, &request("/queue/y-"), CREATOR).unwrap().is_some());
    assert_eq!(bench.sent(), [format!("multi#3 create /queue/y-, delete {OLD}")]);
}

/// If several nodes were released, the last one is replaced.
#[test]
fn the_last_delete_is_the_one() {
    let (mut bench, old) = held();
    let other = bench.session.adopt("/locks/z").unwrap().unwrap();
    bench.session.release(other, None).unwrap();
    replace(&mut bench, old);
    let multi = CREATE_AND_DELETE.replace("#3", "#4");
    assert_eq!(bench.sent(), ["delete#2 /locks/z", &multi]);
}

/// Another client has deleted the node or revoked the permission. Nothing was created, and the
/// delete goes on as if it was refused alone.
#[test]
fn a_refused_delete_is_told_to_both() {
    let codes = [(ErrorCode::NO_NODE, "NoNode", 0), (ErrorCode::NO_AUTH, "NoAuth", 1)];
    for (code, name, left) in codes {
        let (mut bench, _) = asked();
        refuse(&mut bench, 1, code);
        assert_eq!(bench.sent(), [""; 0]);
        let Some(Event::Completed { token: RELEASER, result, .. }) = bench.session.poll_event()
        else {
            panic!("{name}")
        };
        assert_eq!(result, Err(Failure::Refused(code)));
        let Some(Event::Completed { token: CREATOR, result, .. }) = bench.session.poll_event()
        else {
            panic!("{name}")
        };
        assert_eq!(result, Err(Failure::OpRefused { index: 1, code }));
        assert_eq!(bench.load(), (0, 0, left), "{name}");
    }
}

#[test]
fn a_refused_create_is_told_as_if_asked_for_alone_and_the_delete_is_repeated() {
    let (mut bench, _) = asked();
    refuse(&mut bench, 0, ErrorCode::NO_AUTH);
    assert_eq!(bench.said(), ["3 NoAuth"]);
    assert_eq!(bench.sent(), [format!("delete#4 {OLD}")]);
    bench.answer(4, &());
    assert_eq!(bench.said(), ["2 ok"]);
    assert_eq!(bench.load(), (0, 0, 0));
}

/// The node was released before the other requests were made, so it is deleted before they are
/// sent.
#[test]
fn a_delete_that_is_repeated_goes_ahead_of_what_was_asked_for_since() {
    for index in [None, Some(0)] {
        let (mut bench, _) = asked();
        bench.session.submit(&GET, 7).unwrap();
        match index {
            Some(index) => refuse(&mut bench, index, ErrorCode::NO_AUTH),
            None => bench.refuse(3, ErrorCode::THROTTLED_OP),
        }
        assert_eq!(bench.sent(), [format!("delete#5 {OLD}"), "getData#4 /a".into()]);
        assert!(bench.said()[0].starts_with("3 "), "the creator is told");
    }
}

/// A released node is deleted on the next connection ahead of all other requests.
#[test]
fn a_connection_that_breaks_before_the_delete_is_repeated_puts_it_first() {
    let (mut bench, _) = asked();
    bench.session.submit(&GET, 7).unwrap();
    refuse(&mut bench, 0, ErrorCode::NO_AUTH);
    bench.cut();
    assert_eq!(bench.said(), ["3 NoAuth", "2 lost, unsent", "Disconnected"]);
    bench.attach();
    let sent = bench.sent();
    assert!(sent[0].starts_with("delete#") && sent[0].ends_with(OLD), "{sent:?}");
    assert_eq!(sent[1..], ["getData#4 /a"]);
}

#[test]
fn a_multi_that_is_refused_as_a_whole_leaves_the_delete_to_be_asked_alone() {
    for code in [ErrorCode::THROTTLED_OP, ErrorCode::NOT_READ_ONLY] {
        let (mut bench, _) = asked();
        bench.refuse(3, code);
        assert_eq!(bench.said(), [format!("3 {code}")]);
        assert_eq!(bench.sent(), [format!("delete#4 {OLD}")]);
        bench.answer(4, &());
        assert_eq!(bench.said(), ["2 ok"]);
        assert_eq!(bench.load(), (0, 0, 0));
    }
}

/// Whether the transaction was carried out or not, the next connection resolves both nodes.
#[test]
fn a_lost_answer_repeats_the_delete_and_looks_for_the_new_node() {
    for happened in [false, true] {
        let (mut bench, new) = asked();
        bench.cut();
        assert_eq!(bench.said(), ["2 lost, sent", "Disconnected"]);
        bench.attach();
        let urgent = [format!("delete#4 {OLD}"), "sync#5 /locks".into()];
        assert_eq!(bench.sent(), [&urgent[..], &["getEphemerals#6 /locks/".into()]].concat());
        if happened {
            bench.refuse(4, ErrorCode::NO_NODE);
        } else {
            bench.answer(4, &());
        }
        bench.answer(5, &());
        let children: &[&str] = if happened { &["y-0000000004"] } else { &[] };
        bench.answer_ephemerals(6, "/locks/", children);
        if happened {
            assert_eq!(bench.sent(), [format!("exists#7 {NEW}")]);
            bench.answer(7, &ExistsResponse { stat: stat_of(SESSION) });
            assert_eq!(bench.said().last().unwrap(), "3 ok");
            ends(&mut bench, new, 8);
        } else {
            assert_eq!(bench.said().last().unwrap(), "3 lost, unsent");
        }
    }
}

#[test]
fn an_answer_that_makes_no_sense_is_as_good_as_lost() {
    let (mut bench, _) = asked();
    let results = [MultiResult::Check(()), MultiResult::Delete(())];
    bench.answer(3, &MultiResponse::new(&results));
    bench.cut();
    assert_eq!(bench.said(), ["2 lost, sent", "Disconnected"], "the creator waits");
    bench.attach();
    let sent = bench.sent();
    assert_eq!(sent[0], format!("delete#4 {OLD}"));
    assert_eq!(sent[1..], ["sync#5 /locks", "getEphemerals#6 /locks/"]);
}

#[test]
fn an_answer_that_is_too_long_has_both_looked_at() {
    let (mut bench, _) = asked();
    bench.oversized(3, ErrorCode::OK, 1 << 30);
    let sent = bench.sent();
    assert_eq!(sent[0], format!("delete#4 {OLD}"));
    assert_eq!(sent[1..], ["sync#5 /locks", "getEphemerals#6 /locks/"]);
}

#[test]
fn while_cut_off_they_wait_together() {
    let (mut bench, old) = held();
    bench.cut();
    bench.said();
    replace(&mut bench, old);
    bench.attach();
    assert_eq!(bench.sent(), [CREATE_AND_DELETE]);
}

/// Each request fits into a frame, but not both.
#[test]
fn what_does_not_fit_into_one_frame_is_asked_in_two() {
    let mut config = Bench::config();
    config.limits.max_request = 70;
    let mut bench = Bench::new(config);
    bench.attach();
    let old = bench.session.adopt(OLD).unwrap().unwrap();
    bench.session.release(old, None).unwrap();
    create(&mut bench);
    let sent = bench.sent();
    assert!(sent[0].starts_with("delete#") && sent[0].ends_with(OLD), "{sent:?}");
    assert!(sent[1].starts_with("create2#") && sent[1].ends_with(STEM), "{sent:?}");
    assert_eq!(sent.len(), 2);
    assert_eq!(bench.load(), (2, 0, 2));
}

#[test]
fn what_does_not_fit_at_all_leaves_the_delete() {
    let mut config = Bench::config();
    config.limits.max_request = 35;
    let mut bench = Bench::new(config);
    bench.attach();
    let old = bench.session.adopt(OLD).unwrap().unwrap();
    bench.session.release(old, None).unwrap();
    assert_eq!(bench.session.submit_replacing(OLD, &request(STEM), CREATOR), Ok(None));
    bench.session.submit_owned(&request(STEM), CREATOR).unwrap_err();
    let [delete] = bench.requests().try_into().unwrap();
    assert_eq!((delete.op(), delete.path()), (OpCode::DELETE, OLD));
    assert_eq!(bench.load(), (1, 0, 1));
}

/// A node whose create was not answered yet cannot be replaced.
#[test]
fn a_node_that_is_not_known_yet_is_replaced_by_two_requests() {
    let mut bench = Bench::attached();
    let old = bench.session.submit_owned(&request("/locks/x-"), 1).unwrap();
    bench.session.release(old, None).unwrap();
    create(&mut bench);
    assert_eq!(bench.sent(), ["create2#1 /locks/x-", "create2#2 /locks/y-"]);
    bench.answer(1, &created(OLD));
    assert_eq!(bench.said(), ["1 ok"]);
    assert_eq!(bench.sent(), [format!("delete#3 {OLD}")]);
}

#[test]
fn the_end_of_the_session_is_told_to_both() {
    let (mut bench, _) = asked();
    bench.session.abandon();
    let said = bench.said();
    assert!(said.iter().any(|it| it.starts_with("2 ")), "{said:?}");
    assert!(said.iter().any(|it| it.starts_with("3 ")), "{said:?}");
    assert_eq!(bench.load(), (0, 0, 0));
}
