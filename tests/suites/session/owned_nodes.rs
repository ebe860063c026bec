//! Owned nodes: whatever breaks at any moment, no node is left behind and no caller waits for ever.

use bytes::Bytes;
use zk_client::session::{Event, OwnedNodeId, Watch, WatchKind};
use zk_proto::{
    CreateMode, CreateRequest, CreateResponse, Decode, DeleteRequest, ErrorCode, ExistsResponse,
    GetChildren2Request, GetChildren2Response, GetChildrenRequest, GetChildrenResponse,
    GetDataRequest, List, OpCode, SessionId, SyncResponse, Text, Zxid,
};
use zk_test_support::peer::{
    Bench, Request, SESSION, TIMEOUT, created, expired, payload, stat_of, there, welcome,
};

const STEM: &str = "/locks/x-";
const NODE: &str = "/locks/x-0000000003";
const GET: GetDataRequest<'_> = GetDataRequest { path: "/a", watch: false };

/// The tokens of the callers that wait for the create and for the delete.
const CREATOR: u32 = 1;
const RELEASER: u32 = 2;

fn request() -> CreateRequest<'static> {
    let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
    CreateRequest { path: STEM, data: None, acl: List::new(&[]), mode }
}

fn create(bench: &mut Bench) -> OwnedNodeId {
    bench.session.submit_owned(&request(), CREATOR).unwrap()
}

/// A connected session whose create is on the wire.
fn creating() -> (Bench, OwnedNodeId) {
    let mut bench = Bench::attached();
    let node = create(&mut bench);
    assert_eq!(bench.sent(), ["create2#1 /locks/x-"]);
    (bench, node)
}

/// A connected session that owns the node.
fn held() -> (Bench, OwnedNodeId) {
    let (mut bench, node) = creating();
    bench.answer(1, &created(NODE));
    assert_eq!(bench.said(), ["1 ok"]);
    assert_eq!(bench.load(), (0, 0, 1));
    (bench, node)
}

/// A session whose create was lost, cut off.
fn lost() -> (Bench, OwnedNodeId) {
    let (mut bench, node) = creating();
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"], "the creator waits");
    assert_eq!(bench.load(), (0, 0, 1));
    (bench, node)
}

/// Attaches again and answers the listing that looks for the node with these children of the
/// folder.
fn look(bench: &mut Bench, xid: i32, children: &[&str]) {
    bench.attach();
    assert_eq!(
        bench.sent(),
        [format!("sync#{xid} /locks"), format!("getEphemerals#{} /locks/", xid + 1)]
    );
    bench.answer(xid, &SyncResponse { path: Text::new("/locks") });
    bench.answer_ephemerals(xid + 1, "/locks/", children);
}

/// The children of the folder, including our node.
const FOUND: &[&str] = &["y-0000000001", "x-0000000003", "x"];
const OTHERS: &[&str] = &["y-0000000001", "x"];

fn owned_by(owner: SessionId) -> ExistsResponse {
    ExistsResponse { stat: stat_of(owner) }
}

#[test]
fn a_release_deletes_the_node_once_at_any_version() {
    let (mut bench, node) = held();
    bench.session.release(node, Some(RELEASER)).unwrap();
    bench.session.release(node, None).unwrap();
    let [delete] = bench.requests().try_into().unwrap();
    assert_eq!(delete.body::<DeleteRequest<'_>>(), DeleteRequest { path: NODE, version: -1 });
    bench.answer(2, &());
    assert_eq!(bench.said(), ["2 ok"]);
    assert_eq!(bench.load(), (0, 0, 0));
    bench.session.release(node, Some(RELEASER)).unwrap();
    assert_eq!(bench.said(), ["2 NoNode"], "there is nothing left to delete");
}

#[test]
fn the_delete_goes_behind_what_was_asked_before() {
    let (mut bench, node) = held();
    bench.session.submit(&GET, 5).unwrap();
    bench.session.release(node, None).unwrap();
    bench.session.submit(&GET, 6).unwrap();
    assert_eq!(bench.sent(), ["getData#2 /a", "delete#3 /locks/x-0000000003", "getData#4 /a"]);
    (2..=4).for_each(|xid| bench.answer(xid, &()));
    assert_eq!(bench.said(), ["5 ok", "6 ok"]);
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn released_before_the_reply_it_is_deleted_right_behind_it() {
    let (mut bench, node) = creating();
    bench.session.release(node, None).unwrap();
    assert_eq!(bench.sent(), [""; 0], "nothing is known to delete yet");
    bench.answer(1, &created(NODE));
    assert_eq!(bench.said(), ["1 ok"]);
    assert_eq!(bench.sent(), ["delete#2 /locks/x-0000000003"]);
    bench.answer(2, &());
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn released_before_it_was_sent_it_is_made_and_deleted() {
    let mut bench = Bench::attached();
    let node = create(&mut bench);
    bench.session.release(node, None).unwrap();
    assert_eq!(bench.sent(), ["create2#1 /locks/x-"]);
    bench.answer(1, &created(NODE));
    assert_eq!(bench.sent(), ["delete#2 /locks/x-0000000003"]);
    bench.answer(2, &());
    assert_eq!(bench.said(), ["1 ok"]);
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn a_refused_create_leaves_nothing_to_do() {
    for released in [false, true] {
        let (mut bench, node) = creating();
        if released {
            bench.session.release(node, None).unwrap();
        }
        bench.refuse(1, ErrorCode::NO_NODE);
        assert_eq!(bench.said(), ["1 NoNode"]);
        assert_eq!(bench.load(), (0, 0, 0));
        bench.session.release(node, None).unwrap();
        assert_eq!(bench.sent(), [""; 0]);
    }
}

#[test]
fn a_create_that_was_not_sent_waits_for_the_next_connection() {
    let mut bench = Bench::attached();
    create(&mut bench);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), ["create2#1 /locks/x-"]);
    bench.answer(1, &created(NODE));
    assert_eq!(bench.said(), ["1 ok"]);
}

#[test]
fn a_lost_create_is_looked_for_found_and_answered() {
    let (mut bench, node) = lost();
    look(&mut bench, 2, FOUND);
    assert_eq!(bench.said(), [""; 0]);
    assert_eq!(bench.sent(), ["exists#4 /locks/x-0000000003"]);
    bench.answer(4, &owned_by(SESSION));
    let Some(Event::Completed { token: CREATOR, result: Ok(answer), .. }) =
        bench.session.poll_event()
    else {
        panic!("not completed");
    };
    let answered = CreateResponse::decode_exact(&answer.body).unwrap();
    assert_eq!(answered, CreateResponse { path: NODE });
    assert_eq!(answer.zxid, Zxid(0x77), "the create's own transaction");

    bench.session.release(node, Some(RELEASER)).unwrap();
    assert_eq!(bench.sent(), ["delete#5 /locks/x-0000000003"]);
    bench.answer(5, &());
    assert_eq!(bench.said(), ["2 ok"]);
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn a_lost_create_at_the_root_is_looked_for_there() {
    let mut bench = Bench::attached();
    let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
    let request = CreateRequest { path: "/x-", data: None, acl: List::new(&[]), mode };
    bench.session.submit_owned(&request, CREATOR).unwrap();
    bench.sent();
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), ["sync#2 /", "getEphemerals#3 /"]);
    bench.answer(2, &());
    bench.answer_ephemerals(3, "/", FOUND);
    assert_eq!(bench.sent(), ["exists#4 /x-0000000003"]);
    bench.answer(4, &owned_by(SESSION));
    assert_eq!(bench.said(), ["1 ok"]);
}

#[test]
fn a_lost_create_that_made_nothing_is_told_and_looked_for_once_more() {
    let (mut bench, _) = lost();
    look(&mut bench, 2, OTHERS);
    assert_eq!(bench.said(), ["1 lost, unsent"]);
    assert_eq!(bench.load(), (0, 0, 1), "the server may have been behind");

    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    look(&mut bench, 4, OTHERS);
    assert_eq!(bench.load(), (0, 0, 1), "the create may still be on its way");
    let connected = bench.now;
    while bench.load() != (0, 0, 0) {
        bench.pass(bench.due_in().unwrap());
        serve(&mut bench, OTHERS);
    }
    assert_eq!(bench.now - connected, TIMEOUT);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), [""; 0]);
}

#[test]
fn a_lost_create_that_made_nothing_is_forgotten_though_no_connection_lasts() {
    let (mut bench, _) = lost();
    look(&mut bench, 2, OTHERS);
    assert_eq!(bench.said(), ["1 lost, unsent"]);
    let mut connections = 0;
    while bench.load() != (0, 0, 0) {
        connections += 1;
        bench.cut();
        assert_eq!(bench.said(), ["Disconnected"]);
        look(&mut bench, 2 + 2 * connections, OTHERS);
    }
    assert_eq!(connections, 8);
}

#[test]
fn a_node_that_shows_up_in_the_second_look_is_deleted() {
    for released in [false, true] {
        let (mut bench, node) = lost();
        look(&mut bench, 2, OTHERS);
        assert_eq!(bench.said(), ["1 lost, unsent"]);
        if released {
            bench.session.release(node, None).unwrap();
        }
        bench.cut();
        assert_eq!(bench.said(), ["Disconnected"]);
        look(&mut bench, 4, FOUND);
        assert_eq!(serve(&mut bench, FOUND).deleted, 1);
        assert_eq!(bench.said(), [""; 0]);
        assert_eq!(bench.load(), (0, 0, 0));
    }
}

/// Lists the folder for a caller and answers it with these children.
fn list(bench: &mut Bench, xid: i32, with_stat: bool, children: &[&str]) {
    let children = List::new(children);
    if with_stat {
        let request = GetChildren2Request { path: "/locks", watch: false };
        bench.session.submit(&request, 7).unwrap();
        assert_eq!(bench.sent(), [format!("getChildren2#{xid} /locks")]);
        bench.answer(xid, &GetChildren2Response { children, stat: stat_of(SessionId(0)) });
    } else {
        let request = GetChildrenRequest { path: "/locks", watch: false };
        bench.session.submit(&request, 7).unwrap();
        assert_eq!(bench.sent(), [format!("getChildren#{xid} /locks")]);
        bench.answer(xid, &GetChildrenResponse { children });
    }
    assert_eq!(bench.said(), ["7 ok"]);
}

#[test]
fn a_node_that_shows_up_in_any_later_list_is_deleted() {
    for with_stat in [false, true] {
        let (mut bench, _) = lost();
        look(&mut bench, 2, OTHERS);
        assert_eq!(bench.said(), ["1 lost, unsent"]);
        list(&mut bench, 4, with_stat, OTHERS);
        assert_eq!(bench.sent(), [""; 0]);
        // A node of another session is left alone, and a node that is gone is ignored.
        list(&mut bench, 5, with_stat, FOUND);
        assert_eq!(bench.sent(), ["exists#6 /locks/x-0000000003"]);
        bench.answer(6, &owned_by(SessionId(9)));
        list(&mut bench, 7, with_stat, FOUND);
        assert_eq!(bench.sent(), ["exists#8 /locks/x-0000000003"]);
        bench.refuse(8, ErrorCode::NO_NODE);
        assert_eq!(bench.load(), (0, 0, 1), "ours may be still to come");
        list(&mut bench, 9, with_stat, FOUND);
        assert_eq!(bench.sent(), ["exists#10 /locks/x-0000000003"]);
        bench.answer(10, &owned_by(SESSION));
        assert_eq!(bench.sent(), ["delete#11 /locks/x-0000000003"]);
        bench.answer(11, &());
        assert_eq!(bench.load(), (0, 0, 0));
        list(&mut bench, 12, with_stat, FOUND);
        assert_eq!(bench.sent(), [""; 0], "nothing is suspected any more");
    }
}

#[test]
fn a_node_that_nobody_lists_is_looked_for_after_ever_longer_times() {
    let (mut bench, _) = lost();
    look(&mut bench, 2, OTHERS);
    assert_eq!(bench.said(), ["1 lost, unsent"]);
    let (start, mut looks) = (bench.now, Vec::new());
    for _ in 0..200 {
        if looks.len() == 4 {
            break;
        }
        bench.pass(bench.due_in().unwrap());
        for request in bench.requests() {
            if request.op() == OpCode::SYNC {
                looks.push((bench.now - start).as_secs() / TIMEOUT.as_secs());
            }
            answer(&mut bench, &request, if looks.len() < 4 { OTHERS } else { FOUND });
        }
    }
    assert_eq!(looks, [1, 3, 7, 15]);
    assert_eq!(serve(&mut bench, FOUND).deleted, 1);
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn a_look_that_was_cut_off_is_repeated() {
    // The connection breaks after the handshake, the requests, the first reply, and the second.
    for answered in 0..4 {
        let (mut bench, _) = lost();
        bench.attach();
        if answered > 0 {
            assert_eq!(bench.sent(), ["sync#2 /locks", "getEphemerals#3 /locks/"]);
        }
        if answered > 1 {
            bench.answer(2, &());
        }
        if answered > 2 {
            bench.answer_ephemerals(3, "/locks/", FOUND);
            assert_eq!(bench.sent(), ["exists#4 /locks/x-0000000003"]);
        }
        bench.cut();
        assert_eq!(bench.said(), ["Disconnected"], "after {answered}");
        let xid = if answered > 2 { 5 } else { 4 };
        look(&mut bench, xid, FOUND);
        assert_eq!(bench.sent(), [format!("exists#{} /locks/x-0000000003", xid + 2)]);
        bench.answer(xid + 2, &owned_by(SESSION));
        assert_eq!(bench.said(), ["1 ok"], "after {answered}");
    }
}

#[test]
fn a_node_of_another_session_is_not_adopted() {
    for owner in [SessionId(0), SessionId(5)] {
        let (mut bench, _) = lost();
        look(&mut bench, 2, FOUND);
        assert_eq!(bench.sent(), ["exists#4 /locks/x-0000000003"]);
        bench.answer(4, &owned_by(owner));
        assert_eq!(bench.said(), ["1 lost, unsent"]);
        assert_eq!(bench.sent(), [""; 0], "and not deleted");
    }
}

/// An earlier session generated the same names: its client was given the same seed.
#[test]
fn behind_a_node_of_another_session_the_own_one_is_found() {
    let (mut bench, _) = lost();
    let ghost = "/locks/x-0000000001";
    look(&mut bench, 2, &["x-0000000003", "x-0000000001"]);
    assert_eq!(bench.sent(), [format!("exists#4 {ghost}")]);
    bench.answer(4, &owned_by(SessionId(99)));
    assert_eq!(bench.sent(), [format!("exists#5 {NODE}")]);
    bench.answer(5, &owned_by(SESSION));
    assert_eq!(bench.said(), ["1 ok"]);
    assert_eq!(bench.load(), (0, 0, 1));
}

#[test]
fn behind_a_node_that_may_not_be_read_the_own_one_is_found() {
    let (mut bench, _) = lost();
    look(&mut bench, 2, &["x-0000000003", "x-0000000001"]);
    assert_eq!(bench.sent(), ["exists#4 /locks/x-0000000001"]);
    bench.refuse(4, ErrorCode::NO_AUTH);
    assert_eq!(bench.sent(), [format!("exists#5 {NODE}")]);
    bench.answer(5, &owned_by(SESSION));
    assert_eq!(bench.said(), ["1 ok"]);
}

#[test]
fn what_only_begins_like_the_own_node_is_left_alone() {
    let (mut bench, _) = lost();
    look(&mut bench, 2, &["x-y-0000000001", "x-"]);
    assert_eq!(bench.sent(), [""; 0]);
    assert_eq!(bench.said(), ["1 lost, unsent"]);
}

#[test]
fn a_node_that_goes_during_the_look_was_not_made() {
    let (mut bench, _) = lost();
    look(&mut bench, 2, FOUND);
    bench.sent();
    bench.refuse(4, ErrorCode::NO_NODE);
    assert_eq!(bench.said(), ["1 lost, unsent"]);
}

#[test]
fn a_look_that_was_refused_leaves_the_outcome_open_and_is_repeated() {
    for refused in [2, 3] {
        let (mut bench, _) = lost();
        bench.attach();
        assert_eq!(bench.sent(), ["sync#2 /locks", "getEphemerals#3 /locks/"]);
        for xid in [2, 3] {
            match xid == refused {
                true => bench.refuse(xid, ErrorCode::NO_AUTH),
                false => bench.answer_ephemerals(xid, "/locks/", OTHERS),
            }
        }
        assert_eq!(bench.said(), ["1 lost, sent"]);
        bench.cut();
        assert_eq!(bench.said(), ["Disconnected"]);
        assert_eq!(serve(&mut bench, FOUND).deleted, 1, "nobody waits for it any more");
        assert_eq!(bench.load(), (0, 0, 0));
    }
}

#[test]
fn a_look_that_was_refused_is_repeated_on_the_same_connection() {
    // The sync, the request behind it, and the look at the candidate.
    for refused in 2..=4 {
        let (mut bench, _) = lost();
        bench.attach();
        for xid in 2..=refused {
            bench.sent();
            match xid {
                _ if xid == refused => bench.refuse(xid, ErrorCode(-999)),
                2 => bench.answer(2, &()),
                _ => bench.answer_ephemerals(xid, "/locks/", FOUND),
            }
        }
        if refused == 2 {
            bench.answer_ephemerals(3, "/locks/", OTHERS);
        }
        assert_eq!(bench.said(), ["1 lost, sent"], "{refused}");
        bench.sent();
        let (mut deleted, end) = (0, bench.now + 3 * TIMEOUT);
        while deleted == 0 && bench.now < end {
            bench.pass(bench.due_in().unwrap());
            for request in bench.requests() {
                deleted += u32::from(request.op() == OpCode::DELETE);
                answer(&mut bench, &request, FOUND);
            }
        }
        assert_eq!(deleted, 1, "{refused}");
        assert_eq!(bench.load(), (0, 0, 0));
    }
}

#[test]
fn a_create_whose_answer_does_not_decode_is_looked_for() {
    let (mut bench, _) = creating();
    bench.answer(1, &List::<&str>::NULL);
    let [hangup] = bench.said().try_into().unwrap();
    assert!(hangup.starts_with("hangup: the server broke the protocol"), "{hangup}");
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    look(&mut bench, 2, FOUND);
    assert_eq!(bench.sent(), ["exists#4 /locks/x-0000000003"]);
    bench.answer(4, &owned_by(SESSION));
    assert_eq!(bench.said(), ["1 ok"]);
}

/// Codes that a server may answer with although it has carried a request out, one of them unknown.
const UNPROVEN: [i32; 7] = [-1, -2, -5, -7, -122, -128, -999];

#[test]
fn a_create_whose_error_proves_nothing_is_looked_for_at_once() {
    for (code, exists) in UNPROVEN.into_iter().flat_map(|code| [(code, true), (code, false)]) {
        let (mut bench, _) = creating();
        bench.refuse(1, ErrorCode(code));
        assert_eq!(bench.said(), [""; 0], "{code}: the creator waits");
        assert_eq!(bench.sent(), ["sync#2 /locks", "getEphemerals#3 /locks/"]);
        bench.answer(2, &());
        let children = if exists { FOUND } else { OTHERS };
        bench.answer_ephemerals(3, "/locks/", children);
        if exists {
            assert_eq!(bench.sent(), [format!("exists#4 {NODE}")]);
            bench.answer(4, &owned_by(SESSION));
            assert_eq!(bench.said(), ["1 ok"]);
            continue;
        }
        assert_eq!(bench.said(), [format!("1 {}", ErrorCode(code))]);
        // It may come late.
        let (delete, _) = (bench.load(), list(&mut bench, 4, true, FOUND));
        assert_eq!(delete, (0, 0, 1));
        assert_eq!(bench.sent(), [format!("exists#5 {NODE}")]);
        bench.answer(5, &owned_by(SESSION));
        assert_eq!(bench.sent(), [format!("delete#6 {NODE}")]);
    }
}

#[test]
fn a_look_whose_answer_does_not_decode_is_repeated() {
    let (mut bench, _) = lost();
    bench.attach();
    bench.sent();
    bench.answer(2, &());
    bench.answer(3, &());
    let [hangup] = bench.said().try_into().unwrap();
    assert!(hangup.starts_with("hangup: the server broke the protocol"), "{hangup}");
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    look(&mut bench, 4, OTHERS);
    assert_eq!(bench.said(), ["1 lost, unsent"]);
}

#[test]
fn released_while_lost_the_node_is_deleted_when_it_is_found() {
    let (mut bench, node) = lost();
    bench.session.release(node, None).unwrap();
    assert_eq!(serve(&mut bench, FOUND).deleted, 1);
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn released_during_the_look_the_node_is_deleted_when_it_is_seen() {
    let (mut bench, node) = lost();
    look(&mut bench, 2, FOUND);
    bench.session.release(node, None).unwrap();
    assert_eq!(bench.sent(), ["exists#4 /locks/x-0000000003"]);
    bench.answer(4, &owned_by(SESSION));
    assert_eq!(bench.sent(), ["delete#5 /locks/x-0000000003"]);
    bench.answer(5, &());
    assert_eq!(bench.load(), (0, 0, 0));
    bench.said();
}

#[test]
fn a_creator_is_answered_although_it_was_released_while_lost() {
    for children in [FOUND, OTHERS] {
        let (mut bench, node) = lost();
        bench.session.release(node, None).unwrap();
        let served = serve(&mut bench, children);
        assert_eq!(served.answers(CREATOR), 1, "{:?}", served.said);
        assert_eq!(served.deleted, usize::from(children == FOUND));
    }
}

#[test]
fn a_creator_is_answered_although_it_was_released_before_its_create_was_lost() {
    for children in [FOUND, OTHERS] {
        let (mut bench, node) = creating();
        bench.session.release(node, None).unwrap();
        bench.cut();
        let served = serve(&mut bench, children);
        assert_eq!(served.answers(CREATOR), 1, "{:?}", served.said);
        assert_eq!(served.deleted, usize::from(children == FOUND));
    }
}

#[test]
fn a_releaser_is_answered_although_a_look_that_was_held_back_comes_late() {
    let (mut bench, node) = lost();
    // The session requests the node's state, but the transport has no room until it breaks. The
    // session must not send a request twice, or it would take the later reply for a new one.
    look(&mut bench, 2, FOUND);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    look_beside(&mut bench);
    assert_eq!(bench.said(), ["1 ok"]);
    bench.session.release(node, Some(RELEASER)).unwrap();
    let mut served = serve(&mut bench, FOUND);
    bench.session.abandon();
    served.said.extend(bench.said());
    assert_eq!(served.answers(RELEASER), 1, "{:?}", served.said);
    assert!(served.said.contains(&"2 ok".to_owned()), "{:?}", served.said);
}

/// Attaches again and answers the first requests, but no requests that follow.
fn look_beside(bench: &mut Bench) {
    bench.attach();
    for request in bench.requests() {
        answer(bench, &request, FOUND);
    }
}

/// The record of a session that was served.
struct Served {
    said: Vec<String>,
    deleted: usize,
}

impl Served {
    /// How often a token was answered.
    fn answers(&self, token: u32) -> usize {
        let start = format!("{token} ");
        self.said.iter().filter(|said| said.starts_with(&start)).count()
    }
}

/// Attaches if need be, and answers all requests until the session sends no more.
fn serve(bench: &mut Bench, children: &[&str]) -> Served {
    let mut served = Served { said: bench.said(), deleted: 0 };
    if !bench.session.state().is_connected() {
        bench.connect();
        bench.frame(payload(&welcome(TIMEOUT)));
    }
    loop {
        served.said.extend(bench.said());
        let requests = bench.requests();
        if requests.is_empty() {
            return served;
        }
        for request in requests {
            served.deleted += usize::from(request.op() == OpCode::DELETE);
            answer(bench, &request, children);
        }
    }
}

/// Answers like a server whose folder has these children, all of this session.
fn answer(bench: &mut Bench, request: &Request, children: &[&str]) {
    let xid = request.xid().0;
    match request.op() {
        OpCode::GET_EPHEMERALS => {
            bench.answer_ephemerals(xid, "/locks/", children);
        }
        OpCode::EXISTS => bench.answer(xid, &owned_by(SESSION)),
        _ => bench.answer(xid, &()),
    }
}

#[test]
fn a_lost_delete_is_told_and_repeated_until_it_is_answered() {
    let (mut bench, node) = held();
    bench.session.release(node, Some(RELEASER)).unwrap();
    assert_eq!(bench.sent(), ["delete#2 /locks/x-0000000003"]);
    bench.cut();
    assert_eq!(bench.said(), ["2 lost, sent", "Disconnected"]);
    bench.session.submit(&GET, 5).unwrap();
    for xid in 4..=6 {
        bench.attach();
        let delete = format!("delete#{xid} /locks/x-0000000003");
        let mut expected = vec![delete];
        if xid == 4 {
            expected.push("getData#3 /a".to_owned());
        }
        assert_eq!(bench.sent(), expected, "first, ahead of what waits");
        bench.cut();
        let lost =
            if xid == 4 { vec!["5 lost, sent", "Disconnected"] } else { vec!["Disconnected"] };
        assert_eq!(bench.said(), lost);
        assert_eq!(bench.load(), (0, 0, 1));
    }
    bench.attach();
    assert_eq!(bench.sent(), ["delete#7 /locks/x-0000000003"]);
    bench.refuse(7, ErrorCode::NO_NODE);
    assert_eq!(bench.said(), [""; 0], "nobody waits any more");
    assert_eq!(bench.load(), (0, 0, 0), "gone is gone");
}

#[test]
fn a_due_delete_goes_right_behind_the_watches() {
    let (mut bench, node) = held();
    let watch = Watch { kind: WatchKind::Data, path: "/w".into(), watcher: 7 };
    let get = GetDataRequest { path: "/w", watch: true };
    bench.session.submit_watching(&get, 5, watch).unwrap();
    bench.sent();
    bench.answer(2, &there());
    bench.session.release(node, None).unwrap();
    bench.sent();
    bench.session.submit(&GET, 6).unwrap();
    bench.cut();
    assert_eq!(bench.said(), ["5 ok", "Disconnected"]);
    bench.attach();
    assert_eq!(
        bench.sent(),
        [
            r#"setWatches#-8 since 0x2: ["/w"] [] []"#,
            "delete#5 /locks/x-0000000003",
            "getData#4 /a"
        ]
    );
    bench.answer(-8, &());
    bench.answer(5, &());
    bench.answer(4, &());
    assert_eq!(bench.said(), ["6 ok"]);
    assert_eq!(bench.load(), (0, 1, 0));
}

#[test]
fn a_delete_that_was_not_sent_waits_with_its_releaser() {
    let (mut bench, node) = held();
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.session.release(node, Some(RELEASER)).unwrap();
    assert_eq!(bench.said(), [""; 0]);
    bench.connect();
    bench.cut();
    bench.attach();
    assert_eq!(bench.sent(), ["delete#2 /locks/x-0000000003"]);
    bench.answer(2, &());
    assert_eq!(bench.said(), ["2 ok"]);
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn what_is_held_is_left_alone_by_a_reconnect() {
    let (mut bench, _) = held();
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), [""; 0]);
    assert_eq!(bench.load(), (0, 0, 1));
}

#[test]
fn lost_creates_in_several_folders_are_each_looked_for() {
    let mut bench = Bench::attached();
    for (token, stem) in [(1, "/locks/x-"), (2, "/jobs/y-")] {
        let request = CreateRequest { path: stem, ..request() };
        bench.session.submit_owned(&request, token).unwrap();
    }
    bench.sent();
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    let sent = bench.sent();
    assert_eq!(
        sent,
        ["sync#3 /jobs", "getEphemerals#4 /jobs/", "sync#5 /locks", "getEphemerals#6 /locks/"]
    );
    bench.answer(3, &());
    bench.answer_ephemerals(4, "/jobs/", &["y-1"]);
    assert_eq!(bench.sent(), ["exists#7 /jobs/y-1"]);
    bench.answer(5, &());
    bench.answer_ephemerals(6, "/locks/", &[]);
    bench.answer(7, &owned_by(SESSION));
    assert_eq!(bench.said(), ["1 lost, unsent", "2 ok"]);
}

#[test]
fn the_end_of_the_session_answers_everybody_and_empties_everything() {
    type Prepare = fn() -> Bench;
    let cases: [(&str, Prepare, &[&str]); 7] = [
        ("creating", || creating().0, &["1 over, sent: Expired"]),
        (
            "queued",
            || {
                let mut bench = Bench::attached();
                create(&mut bench);
                bench
            },
            &["1 over, unsent: Expired"],
        ),
        ("lost", || lost().0, &["1 over, sent: Expired"]),
        (
            "looked for",
            || {
                let mut bench = lost().0;
                look(&mut bench, 2, FOUND);
                bench.sent();
                bench
            },
            &["1 over, sent: Expired"],
        ),
        ("held", || held().0, &[]),
        (
            "deleting",
            || {
                let (mut bench, node) = held();
                bench.session.release(node, Some(RELEASER)).unwrap();
                bench.sent();
                bench
            },
            &["2 over, sent: Expired"],
        ),
        (
            "suspect",
            || {
                let mut bench = lost().0;
                look(&mut bench, 2, OTHERS);
                assert_eq!(bench.said(), ["1 lost, unsent"]);
                bench
            },
            &[],
        ),
    ];
    for (what, prepare, expected) in cases {
        let mut bench = prepare();
        bench.pass(TIMEOUT * 2);
        bench.frames();
        let said = bench.said();
        let answers: Vec<_> = said.iter().filter(|said| said.contains(" over")).collect();
        assert_eq!(answers, expected, "{what}: {said:?}");
        assert_eq!(said.iter().filter(|said| *said == "Expired").count(), 1, "{what}");
        assert_eq!(bench.load(), (0, 0, 0), "{what}");
    }
}

#[test]
fn a_session_that_is_over_takes_no_release() {
    let (mut bench, node) = held();
    bench.cut();
    bench.connect();
    bench.frame(payload(&expired()));
    bench.said();
    assert!(bench.session.release(node, Some(RELEASER)).is_err());
    assert_eq!(bench.said(), [""; 0]);
}

#[test]
fn closing_ends_what_is_owned() {
    let (mut bench, node) = held();
    bench.session.close();
    assert!(bench.session.release(node, Some(RELEASER)).is_err(), "the close deletes it");
    assert_eq!(bench.sent(), ["closeSession#2"], "nothing goes out behind that");
    bench.answer(2, &Bytes::new().is_empty());
    assert_eq!(bench.said(), ["Closed", "hangup: the client is closed"]);
    assert_eq!(bench.load(), (0, 0, 0));
}

/// Creates this many nodes in each of the folders, and loses them.
fn lose(bench: &mut Bench, folders: u32, nodes: u32) {
    for token in 0..folders * nodes {
        let stem = format!("/f{:03}/x{token:04}-", token % folders);
        let request = CreateRequest { path: &stem, ..request() };
        bench.session.submit_owned(&request, token).unwrap();
    }
    bench.sent();
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
}

#[test]
fn one_search_of_a_folder_serves_all_of_its_lost_nodes() {
    let mut bench = Bench::attached();
    lose(&mut bench, 1, 500);
    assert_eq!(bench.sent(), ["sync#501 /f000", "getEphemerals#502 /f000/"]);
    bench.answer(501, &());
    let names = (0..500).map(|n| format!("x{n:04}-0000000001")).collect::<Vec<_>>();
    let names = names.iter().map(String::as_str).collect::<Vec<_>>();
    bench.answer_ephemerals(502, "/f000/", &names);
    let looks = (0..500).map(|n| format!("exists#{} /f000/x{n:04}-0000000001", 503 + n));
    assert_eq!(bench.sent(), looks.collect::<Vec<_>>());
    (503..1003).for_each(|xid| bench.answer(xid, &owned_by(SESSION)));
    assert_eq!(bench.said(), (0..500).map(|token| format!("{token} ok")).collect::<Vec<_>>());
    assert_eq!(bench.sent(), [""; 0]);
}

/// Replies come in order, so what proves a lease would wait behind all searches.
#[test]
fn few_folders_are_searched_at_a_time() {
    let mut bench = Bench::attached();
    lose(&mut bench, 100, 2);
    let mut open = std::collections::VecDeque::new();
    let mut searches = 0;
    loop {
        open.extend(bench.requests());
        assert!(open.len() <= 16, "{} requests are out", open.len());
        let Some(request) = open.pop_front() else { break };
        match request.op() {
            OpCode::GET_EPHEMERALS => {
                searches += 1;
                bench.answer_ephemerals(request.xid().0, "/", &[]);
            }
            _ => bench.answer(request.xid().0, &()),
        }
    }
    assert_eq!(searches, 100, "each folder once");
    let said = bench.said();
    assert_eq!(said.len(), 200);
    assert!(said.iter().all(|said| said.ends_with("lost, unsent")), "{said:?}");
}

#[test]
fn a_node_that_is_lost_during_a_search_is_looked_for_by_the_next_one() {
    let (mut bench, _) = creating();
    let second = CreateRequest { path: "/locks/z-", ..request() };
    bench.session.submit_owned(&second, 3).unwrap();
    assert_eq!(bench.sent(), ["create2#2 /locks/z-"]);
    bench.refuse(1, ErrorCode(-7));
    assert_eq!(bench.sent(), ["sync#3 /locks", "getEphemerals#4 /locks/"]);
    bench.refuse(2, ErrorCode(-7));
    assert_eq!(bench.sent(), [""; 0], "what is asked already may be too early for this node");
    bench.answer(3, &());
    bench.answer_ephemerals(4, "/locks/", &["x-0000000003", "z-0000000004"]);
    let next = ["exists#5 /locks/x-0000000003", "sync#6 /locks", "getEphemerals#7 /locks/"];
    assert_eq!(bench.sent(), next);
    bench.answer(5, &owned_by(SESSION));
    bench.answer(6, &());
    bench.answer_ephemerals(7, "/locks/", &["x-0000000003", "z-0000000004"]);
    assert_eq!(bench.sent(), ["exists#8 /locks/z-0000000004"]);
    bench.answer(8, &owned_by(SESSION));
    assert_eq!(bench.said(), ["1 ok", "3 ok"]);
}

/// Servers before 3.6 do not know getEphemerals, and hang up on what they do not know.
#[test]
fn an_older_server_is_asked_for_a_listing() {
    let (mut bench, _) = lost();
    bench.attach();
    assert_eq!(bench.sent(), ["sync#2 /locks", "getEphemerals#3 /locks/"]);
    bench.answer(2, &());
    bench.refuse(3, ErrorCode::UNIMPLEMENTED);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"], "the creator waits");
    bench.attach();
    assert_eq!(bench.sent(), ["sync#4 /locks", "getChildren#5 /locks"]);
    bench.answer(4, &());
    // A process that was born again may have chosen the same stem in its earlier session.
    let children = ["x-0000000002", "x-0000000003"];
    bench.answer(5, &GetChildrenResponse { children: List::new(&children) });
    assert_eq!(bench.sent(), ["exists#6 /locks/x-0000000002"]);
    bench.answer(6, &owned_by(SessionId(9)));
    assert_eq!(bench.said(), [""; 0], "a node of another session is not ours");
    assert_eq!(bench.sent(), [format!("exists#7 {NODE}")]);
    bench.answer(7, &owned_by(SESSION));
    assert_eq!(bench.said(), ["1 ok"]);
}
