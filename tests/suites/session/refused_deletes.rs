//! Deletes of owned nodes that the server refuses: they are repeated until the node is gone, and
//! nobody waits for that.

use zk_client::session::OwnedNodeId;
use zk_client::{Ended, SessionState};
use zk_proto::{
    CreateMode, CreateRequest, DeleteRequest, ErrorCode, List, OpCode, SyncRequest, SyncResponse,
    Text,
};
use zk_test_support::peer::{Bench, TIMEOUT, created};

const STEM: &str = "/locks/x-";
const NODE: &str = "/locks/x-0000000003";

/// The token of the caller that waits for the delete.
const RELEASER: u32 = 2;

/// What a server may say to a delete, and the name of it: what lasts until somebody gives a
/// permission back, what an old server that has lost its ensemble says, and what means nothing.
const REFUSALS: [(ErrorCode, &str); 4] = [
    (ErrorCode::NO_AUTH, "NoAuth"),
    (ErrorCode::NOT_READ_ONLY, "NotReadOnly"),
    (ErrorCode::NOT_EMPTY, "NotEmpty"),
    (ErrorCode::SYSTEM_ERROR, "SystemError"),
];

/// What a session says at its end.
const CLOSED: [&str; 2] = ["Closed", "hangup: the client is closed"];

/// A connected session that owns the node.
fn held() -> (Bench, OwnedNodeId) {
    let mut bench = Bench::attached();
    let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
    let request = CreateRequest { path: STEM, data: None, acl: List::new(&[]), mode };
    let node = bench.session.submit_owned(&request, 1).unwrap();
    bench.sent();
    bench.answer(1, &created(NODE));
    assert_eq!(bench.said(), ["1 ok"]);
    (bench, node)
}

/// A session whose delete was refused, which its caller knows.
fn refused(code: ErrorCode, name: &str) -> (Bench, OwnedNodeId) {
    let (mut bench, node) = held();
    bench.session.release(node, Some(RELEASER)).unwrap();
    assert_eq!(deletes(&mut bench), [2]);
    bench.refuse(2, code);
    assert_eq!(bench.said(), [format!("{RELEASER} {name}")], "told at once");
    assert_eq!(bench.load(), (0, 0, 1), "it is not forgotten");
    assert_eq!(bench.session.undeleted(), [NODE.into()]);
    (bench, node)
}

/// The numbers of the deletes that are sent now.
fn deletes(bench: &mut Bench) -> Vec<i32> {
    let requests = bench.requests();
    let deletes = requests.iter().filter(|request| request.op() == OpCode::DELETE);
    deletes
        .inspect(|it| assert_eq!(it.body::<DeleteRequest<'_>>().path, NODE))
        .map(|it| it.xid().0)
        .collect()
}

/// Lets a session timeout pass at a server that answers pings. Returns the numbers of the deletes
/// that are sent at its end.
fn wait(bench: &mut Bench) -> Vec<i32> {
    let start = bench.now;
    loop {
        bench.pass(bench.due_in().unwrap());
        let mut deletes = Vec::new();
        for request in bench.requests() {
            match request.op() {
                OpCode::PING => bench.answer(request.xid().0, &()),
                _ => deletes.push(request.xid().0),
            }
        }
        if bench.now - start >= TIMEOUT {
            return deletes;
        }
        assert_eq!(deletes, [0; 0], "not yet");
    }
}

#[test]
fn a_refused_delete_is_repeated_each_session_timeout_until_the_node_is_gone() {
    for (code, name) in REFUSALS {
        let (mut bench, _) = refused(code, name);
        for _ in 0..3 {
            let [xid] = wait(&mut bench)[..] else { panic!("{name} ends it") };
            bench.refuse(xid, code);
            assert_eq!(bench.said(), [""; 0], "nobody waits any more");
        }
        let [xid] = wait(&mut bench)[..] else { panic!("{name} ends it") };
        bench.answer(xid, &());
        assert_eq!(bench.load(), (0, 0, 0));
        assert_eq!(bench.session.undeleted(), []);
        assert_eq!(wait(&mut bench), [0; 0], "gone is gone");
    }
}

#[test]
fn a_refused_delete_is_repeated_on_each_connection() {
    for (code, name) in REFUSALS {
        let (mut bench, _) = refused(code, name);
        for _ in 0..3 {
            bench.cut();
            assert_eq!(bench.said(), ["Disconnected"]);
            bench.attach();
            let [xid] = deletes(&mut bench)[..] else { panic!("{name} ends it") };
            bench.refuse(xid, code);
        }
        bench.cut();
        assert_eq!(bench.said(), ["Disconnected"]);
        bench.attach();
        let [xid] = deletes(&mut bench)[..] else { panic!("{name} ends it") };
        bench.refuse(xid, ErrorCode::NO_NODE);
        assert_eq!(bench.load(), (0, 0, 0));
    }
}

#[test]
fn who_releases_a_node_whose_delete_was_refused_has_it_tried_again() {
    let (mut bench, node) = refused(ErrorCode::NO_AUTH, "NoAuth");
    for xid in [3, 4] {
        bench.session.release(node, Some(7)).unwrap();
        assert_eq!(deletes(&mut bench), [xid]);
        bench.refuse(xid, ErrorCode::NO_AUTH);
        assert_eq!(bench.said(), ["7 NoAuth"]);
    }
    bench.session.release(node, Some(7)).unwrap();
    assert_eq!(deletes(&mut bench), [5]);
    bench.answer(5, &());
    assert_eq!(bench.said(), ["7 ok"]);
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn a_detach_does_not_wait_for_a_refused_delete_and_says_what_it_leaves() {
    let (mut bench, _) = refused(ErrorCode::NO_AUTH, "NoAuth");
    bench.session.submit(&SyncRequest { path: Text::new("/") }, 5).unwrap();
    bench.session.detach();
    assert_eq!(bench.sent(), ["sync#3 /"]);
    assert_eq!(bench.session.state(), SessionState::Connected, "earlier calls are answered");
    bench.answer(3, &SyncResponse { path: Text::new("/") });
    assert_eq!(bench.session.state().ended(), Some(Ended::Closed));
    assert_eq!(bench.said(), ["5 ok", CLOSED[0], CLOSED[1]]);
    assert!(bench.session.detached().is_some());
    assert_eq!(bench.session.undeleted(), [NODE.into()]);

    // One that is on its way is waited for, whatever the answer.
    for error in [ErrorCode::NO_AUTH, ErrorCode::NO_NODE] {
        let (mut bench, node) = held();
        bench.session.release(node, None).unwrap();
        bench.session.detach();
        assert_eq!(deletes(&mut bench), [2]);
        assert!(bench.session.detached().is_none());
        bench.refuse(2, error);
        assert_eq!(bench.said(), CLOSED);
        assert!(bench.session.detached().is_some(), "{error}");
        assert_eq!(bench.session.undeleted().len(), usize::from(error != ErrorCode::NO_NODE));
    }
}

#[test]
fn a_close_ends_a_refused_delete() {
    let (mut bench, _) = refused(ErrorCode::NO_AUTH, "NoAuth");
    bench.session.close();
    assert_eq!(bench.sent(), ["closeSession#3"]);
    bench.answer(3, &());
    assert_eq!(bench.session.state().ended(), Some(Ended::Closed));
    assert_eq!(bench.said(), CLOSED);
    assert_eq!(bench.load(), (0, 0, 0));
    assert_eq!(bench.session.undeleted(), [], "it is gone with the session");
}
