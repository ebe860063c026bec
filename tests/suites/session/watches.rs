//! One-shot watches: when they are set, what ends them, and how they survive a reconnect.

use zk_client::session::{Watch, WatchId, WatchKind};
use zk_proto::{
    ErrorCode, EventType, ExistsRequest, GetChildrenRequest, GetDataRequest, KeeperState, List,
    SetDataRequest, SetDataResponse, SetWatches, WatcherEvent, Xid, Zxid,
};
use zk_test_support::peer::{Bench, SESSION, data, notification, reply, stat_of, there};

/// Sets a watch with the request for that kind.
fn ask(bench: &mut Bench, kind: WatchKind, path: &str, watcher: u32) -> WatchId {
    let watch = Watch { kind, path: path.into(), watcher };
    let session = &mut bench.session;
    match kind {
        WatchKind::Exist => session.submit_watching(&ExistsRequest { path, watch: true }, 0, watch),
        WatchKind::Child => {
            session.submit_watching(&GetChildrenRequest { path, watch: true }, 0, watch)
        }
        _ => session.submit_watching(&GetDataRequest { path, watch: true }, 0, watch),
    }
    .unwrap()
}

/// Answers all pending requests with success.
fn answer_all(bench: &mut Bench) {
    for request in bench.requests() {
        bench.frame(reply(request.xid(), 1, ErrorCode::OK, &there()));
        assert_eq!(bench.said(), ["0 ok"]);
    }
}

/// A connected session with these watches.
fn watching(watches: &[(WatchKind, &str, u32)]) -> Bench {
    let mut bench = Bench::attached();
    for (kind, path, watcher) in watches {
        ask(&mut bench, *kind, path, *watcher);
    }
    answer_all(&mut bench);
    assert_eq!(bench.load(), (0, watches.len(), 0));
    bench
}

#[test]
fn a_watch_is_set_by_success_and_that_of_exists_by_an_absent_node_too() {
    let cases = [
        (WatchKind::Data, ErrorCode::OK, 1),
        (WatchKind::Data, ErrorCode::NO_NODE, 0),
        (WatchKind::Data, ErrorCode::NO_AUTH, 0),
        (WatchKind::Child, ErrorCode::OK, 1),
        (WatchKind::Child, ErrorCode::NO_NODE, 0),
        (WatchKind::Exist, ErrorCode::OK, 1),
        (WatchKind::Exist, ErrorCode::NO_NODE, 1),
        (WatchKind::Exist, ErrorCode::NO_AUTH, 0),
        (WatchKind::Exist, ErrorCode::THROTTLED_OP, 0),
    ];
    for (kind, code, set) in cases {
        let mut bench = Bench::attached();
        ask(&mut bench, kind, "/a", 7);
        assert_eq!(bench.sent().len(), 1);
        assert_eq!(bench.load(), (1, 0, 0), "not before the reply");
        bench.frame(reply(Xid(1), 1, code, &()));
        let said = bench.said();
        let unwatched = said.iter().filter(|said| *said == "7 unwatched").count();
        assert_eq!((said.len(), unwatched), (2 - set, 1 - set), "{kind:?} and {code}: {said:?}");
        assert_eq!(bench.load(), (0, set, 0), "{kind:?} and {code}");
    }
}

#[test]
fn a_watch_whose_request_was_lost_is_not_set() {
    let mut bench = Bench::attached();
    ask(&mut bench, WatchKind::Data, "/a", 7);
    bench.sent();
    bench.cut();
    assert_eq!(bench.said(), ["0 lost, sent", "7 unwatched", "Disconnected"]);
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn each_event_ends_the_kinds_that_the_server_ends() {
    use EventType as E;
    let cases = [
        (E::NODE_CREATED, vec![2]),
        (E::NODE_DATA_CHANGED, vec![1, 2]),
        (E::NODE_DELETED, vec![1, 3]),
        (E::NODE_CHILDREN_CHANGED, vec![3]),
    ];
    for (event, seen_by) in cases {
        let mut bench = Bench::attached();
        ask(&mut bench, WatchKind::Data, "/a", 1);
        ask(&mut bench, WatchKind::Exist, "/a", 2);
        ask(&mut bench, WatchKind::Child, "/a", 3);
        ask(&mut bench, WatchKind::Data, "/a/b", 4);
        ask(&mut bench, WatchKind::Data, "/", 5);
        bench.sent();
        bench.answer(1, &there());
        bench.refuse(2, ErrorCode::NO_NODE);
        (3..=5).for_each(|xid| bench.answer(xid, &there()));
        assert_eq!(bench.said(), ["0 ok", "0 NoNode", "0 ok", "0 ok", "0 ok"]);

        bench.frame(notification(0x99, event, "/a"));
        let told = |watcher: &u32| format!("{watcher} saw {event} /a at 0x99");
        assert_eq!(bench.said(), seen_by.iter().map(told).collect::<Vec<_>>());
        bench.frame(notification(0x99, event, "/a"));
        assert_eq!(bench.said(), [""; 0], "{event}: once");
        assert_eq!(bench.load(), (0, 5 - seen_by.len(), 0));
    }
}

#[test]
fn all_watchers_of_a_path_see_one_event() {
    let mut bench = watching(&[
        (WatchKind::Data, "/a", 1),
        (WatchKind::Data, "/a", 2),
        (WatchKind::Child, "/a", 3),
        (WatchKind::Data, "/a", 4),
    ]);
    bench.frame(notification(9, EventType::NODE_DATA_CHANGED, "/a"));
    let said = bench.said();
    assert_eq!(said, [1, 2, 4].map(|watcher| format!("{watcher} saw NodeDataChanged /a at 0x9")));
}

#[test]
fn an_event_that_nobody_waits_for_is_no_error() {
    let mut bench = Bench::attached();
    bench.fire(EventType::NODE_DELETED, "/nobody");
    assert_eq!(bench.said(), [""; 0]);
}

#[test]
fn a_watch_that_is_forgotten_before_or_after_its_reply_sees_nothing() {
    for before in [true, false] {
        let mut bench = Bench::attached();
        let id = ask(&mut bench, WatchKind::Data, "/a", 1);
        ask(&mut bench, WatchKind::Data, "/a", 2);
        if !before {
            answer_all(&mut bench);
            assert_eq!(bench.load(), (0, 2, 0));
        }
        bench.session.unwatch(id, "/a");
        assert_eq!(bench.said(), ["1 unwatched"]);
        if before {
            answer_all(&mut bench);
        }
        assert_eq!(bench.load(), (0, 1, 0));
        bench.session.unwatch(id, "/a");
        bench.frame(notification(-1, EventType::NODE_DELETED, "/a"));
        assert_eq!(bench.said(), ["2 saw NodeDeleted /a"], "and nothing comes back twice");
        // If it was forgotten before the other watch was known to be set, it may stay on the
        // server.
        assert_eq!(bench.sent(), if before { vec!["removeWatches#3 /a"] } else { vec![] });
    }
}

#[test]
fn the_last_watch_that_is_forgotten_is_not_armed_again() {
    let mut bench = Bench::attached();
    let id = ask(&mut bench, WatchKind::Exist, "/a", 1);
    answer_all(&mut bench);
    bench.session.unwatch(id, "/a");
    assert_eq!(bench.sent(), ["removeWatches#2 /a"]);
    assert_eq!(bench.load(), (1, 0, 0));
    bench.cut();
    assert_eq!(bench.said(), ["1 unwatched", "Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), [""; 0]);
}

#[test]
fn an_old_servers_event_tells_no_transaction() {
    for zxid in [-1, 0] {
        let mut bench = watching(&[(WatchKind::Data, "/a", 1)]);
        bench.frame(notification(zxid, EventType::NODE_DATA_CHANGED, "/a"));
        assert_eq!(bench.said(), ["1 saw NodeDataChanged /a"]);
    }
}

#[test]
fn an_unknown_event_or_state_breaks_the_protocol() {
    let event = |kind, state| WatcherEvent { kind, state, path: "/a" };
    let connected = KeeperState::SYNC_CONNECTED;
    for event in [
        event(EventType(0), connected),
        event(EventType::NONE, connected),
        event(EventType::DATA_WATCH_REMOVED, connected),
        event(EventType(8), connected),
        event(EventType::NODE_CREATED, KeeperState::DISCONNECTED),
        event(EventType::NODE_CREATED, KeeperState::EXPIRED),
        event(EventType::NODE_CREATED, KeeperState(99)),
    ] {
        let mut bench = watching(&[(WatchKind::Data, "/a", 1)]);
        bench.frame(reply(Xid::NOTIFICATION, 5, ErrorCode::OK, &event));
        let [hangup] = bench.said().try_into().unwrap();
        assert!(
            hangup.starts_with("hangup: the server broke the protocol: watch event"),
            "{hangup}"
        );
        assert_eq!(bench.load(), (0, 1, 0), "the watch waits on");
    }
}

#[test]
fn an_event_comes_before_the_reply_to_the_write_that_fired_it() {
    let mut bench = watching(&[(WatchKind::Data, "/a", 7)]);
    let set = SetDataRequest { path: "/a", data: None, version: -1 };
    bench.session.submit(&set, 1).unwrap();
    bench.sent();
    bench.frame(notification(3, EventType::NODE_DATA_CHANGED, "/a"));
    bench.frame(reply(Xid(2), 3, ErrorCode::OK, &SetDataResponse { stat: stat_of(SESSION) }));
    assert_eq!(bench.said(), ["7 saw NodeDataChanged /a at 0x3", "1 ok"]);
}

#[test]
fn an_event_behind_the_reply_that_set_its_watch_finds_it() {
    let mut bench = Bench::attached();
    ask(&mut bench, WatchKind::Data, "/a", 7);
    bench.sent();
    bench.answer(1, &data(b""));
    bench.frame(notification(3, EventType::NODE_DATA_CHANGED, "/a"));
    assert_eq!(bench.said(), ["0 ok", "7 saw NodeDataChanged /a at 0x3"]);
}

#[test]
fn watches_are_armed_again_ahead_of_requests_that_wait() {
    let mut bench = Bench::attached();
    ask(&mut bench, WatchKind::Data, "/data", 1);
    ask(&mut bench, WatchKind::Exist, "/there", 2);
    ask(&mut bench, WatchKind::Exist, "/absent", 3);
    ask(&mut bench, WatchKind::Child, "/child", 4);
    ask(&mut bench, WatchKind::Child, "/child", 5);
    bench.sent();
    bench.answer(1, &there());
    bench.answer(2, &there());
    bench.refuse(3, ErrorCode::NO_NODE);
    bench.answer(4, &there());
    bench.frame(reply(Xid(5), 0x30, ErrorCode::OK, &()));
    bench.cut();
    bench.said();
    let get = GetDataRequest { path: "/a", watch: false };
    bench.session.submit(&get, 9).unwrap();
    bench.attach();
    bench.session.submit(&get, 10).unwrap();
    assert_eq!(
        bench.sent(),
        [
            r#"setWatches#-8 since 0x30: ["/data", "/there"] ["/absent"] ["/child"]"#,
            "getData#6 /a",
            "getData#7 /a",
        ]
    );
    bench.answer(-8, &());
    bench.answer(6, &());
    bench.answer(7, &());
    assert_eq!(bench.said(), ["9 ok", "10 ok"]);
    assert_eq!(bench.load(), (0, 5, 0));
}

#[test]
fn what_was_missed_is_marked_until_set_watches_is_answered() {
    let mut bench = watching(&[
        (WatchKind::Data, "/a", 1),
        (WatchKind::Data, "/b", 2),
        (WatchKind::Child, "/c", 3),
    ]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent().len(), 1);
    bench.frame(notification(-1, EventType::NODE_DATA_CHANGED, "/a"));
    bench.frame(notification(-1, EventType::NODE_DELETED, "/c"));
    bench.answer(-8, &());
    bench.frame(notification(0x44, EventType::NODE_DELETED, "/b"));
    assert_eq!(
        bench.said(),
        [
            "1 saw NodeDataChanged /a, missed",
            "3 saw NodeDeleted /c, missed",
            "2 saw NodeDeleted /b at 0x44"
        ]
    );
}

/// Sets data watches on these nodes with one request, whose token is 0.
fn ask_all(bench: &mut Bench, nodes: &[(&str, u32)]) {
    let nodes = nodes.iter().map(|(path, watcher)| ((*path).into(), *watcher)).collect();
    bench.session.submit_watching_all(nodes, 0).unwrap();
}

#[test]
fn an_event_is_marked_if_its_own_path_is_being_armed() {
    let mut bench = watching(&[(WatchKind::Data, "/other", 1), (WatchKind::Child, "/a", 2)]);
    ask_all(&mut bench, &[("/a", 3), ("/b", 4)]);
    assert_eq!(bench.sent(), [r#"setWatches#-8 since 0x1: ["/a", "/b"] [] []"#]);
    bench.frame(notification(0x7, EventType::NODE_DATA_CHANGED, "/other"));
    bench.frame(notification(-1, EventType::NODE_DELETED, "/a"));
    bench.answer(-8, &());
    bench.frame(notification(0x8, EventType::NODE_DELETED, "/b"));
    assert_eq!(
        bench.said(),
        [
            "1 saw NodeDataChanged /other at 0x7",
            "3 saw NodeDeleted /a, missed",
            "2 saw NodeDeleted /a, missed",
            "0 ok",
            "4 saw NodeDeleted /b at 0x8",
        ]
    );
}

#[test]
fn an_event_is_marked_until_the_last_request_for_its_path_is_answered() {
    let mut bench = Bench::attached();
    ask_all(&mut bench, &[("/a", 1)]);
    ask_all(&mut bench, &[("/b", 2), ("/a", 3)]);
    assert_eq!(bench.sent().len(), 2);
    bench.answer(-8, &());
    bench.frame(notification(-1, EventType::NODE_DATA_CHANGED, "/a"));
    bench.answer(-8, &());
    let told = [1, 3].map(|watcher| format!("{watcher} saw NodeDataChanged /a, missed"));
    assert_eq!(bench.said(), ["0 ok", &told[0], &told[1], "0 ok"]);
    ask_all(&mut bench, &[("/a", 4)]);
    bench.sent();
    bench.cut();
    assert_eq!(bench.said(), ["0 lost, sent", "Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent().len(), 1, "it is armed like all others");
    bench.answer(-8, &());
    bench.frame(notification(-1, EventType::NODE_DELETED, "/a"));
    assert_eq!(bench.said(), ["4 saw NodeDeleted /a"]);
}

#[test]
fn a_request_that_is_refused_arms_nothing() {
    let mut bench = watching(&[(WatchKind::Data, "/a", 1)]);
    let long = format!("/{}", "x".repeat(2 * 1024 * 1024));
    let nodes = || vec![("/a".into(), 2), (long.as_str().into(), 3)];
    assert!(bench.session.submit_watching_all(nodes(), 0).is_err());
    assert_eq!(bench.load(), (0, 1, 0));
    bench.frame(notification(0x7, EventType::NODE_DELETED, "/a"));
    assert_eq!(bench.said(), ["1 saw NodeDeleted /a at 0x7"]);
}

#[test]
fn a_disconnect_while_arming_arms_again_and_forgets_the_old_request() {
    let mut bench = watching(&[(WatchKind::Data, "/a", 1)]);
    let armed = r#"setWatches#-8 since 0x1: ["/a"] [] []"#;
    for sent in [true, false, true] {
        bench.cut();
        assert_eq!(bench.said(), ["Disconnected"]);
        bench.attach();
        if sent {
            assert_eq!(bench.sent(), [armed]);
        }
    }
    bench.answer(-8, &());
    bench.frame(notification(-1, EventType::NODE_DELETED, "/a"));
    assert_eq!(bench.said(), ["1 saw NodeDeleted /a"], "not missed");
}

#[test]
fn a_server_that_does_not_arm_watches_is_left_for_the_next() {
    let mut bench = watching(&[(WatchKind::Data, "/a", 1)]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    bench.sent();
    bench.refuse(-8, ErrorCode::MARSHALLING_ERROR);
    let [hangup] = bench.said().try_into().unwrap();
    assert!(hangup.starts_with("hangup: the server refused to arm watches"), "{hangup}");
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent().len(), 1, "once more");
    bench.answer(-8, &());
    bench.frame(notification(5, EventType::NODE_DELETED, "/a"));
    assert_eq!(bench.said(), ["1 saw NodeDeleted /a at 0x5"]);
}

#[test]
fn many_watches_are_armed_in_batches_of_128_kib() {
    const WATCHES: usize = 500;
    let mut bench = Bench::attached();
    let paths = (0..WATCHES).map(|n| format!("/{n:04}{}", "x".repeat(995))).collect::<Vec<_>>();
    for (n, path) in paths.iter().enumerate() {
        let kind = [WatchKind::Data, WatchKind::Child][n % 2];
        ask(&mut bench, kind, path, n as u32);
    }
    answer_all(&mut bench);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    let requests = bench.requests();
    assert_eq!(requests.len(), 4, "500 kB");
    let mut armed = Vec::new();
    for request in &requests {
        assert_eq!(request.xid(), Xid::SET_WATCHES);
        let SetWatches { relative_zxid, data, exist, child } = request.body();
        assert_eq!(relative_zxid, Zxid(1));
        assert_eq!(exist, List::new(&[]));
        let paths = data.iter().chain(child.iter()).collect::<Vec<_>>();
        let bytes: usize = paths.iter().map(|path| path.len()).sum();
        assert!(bytes <= 128 * 1024, "{bytes} bytes in one");
        armed.extend(paths.into_iter().map(str::to_owned));
    }
    armed.sort_unstable();
    assert_eq!(armed, paths, "each once");

    let (first, last) = (armed.first().unwrap(), armed.last().unwrap());
    for n in 0..4 {
        if n == 3 {
            bench.frame(notification(-1, EventType::NODE_DELETED, first));
        }
        bench.answer(-8, &());
    }
    bench.frame(notification(-1, EventType::NODE_DELETED, last));
    assert_eq!(
        bench.said(),
        [format!("0 saw NodeDeleted {first}, missed"), format!("499 saw NodeDeleted {last}")],
        "missed until the last batch is answered"
    );
}

#[test]
fn a_path_longer_than_a_batch_is_armed_alone() {
    let long = format!("/{}", "x".repeat(200_000));
    let mut bench = watching(&[
        (WatchKind::Data, "/a", 1),
        (WatchKind::Data, &long, 2),
        (WatchKind::Data, "/z", 3),
    ]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent().len(), 3);
    (0..3).for_each(|_| bench.answer(-8, &()));
    assert_eq!(bench.load(), (0, 3, 0));
}

#[test]
fn a_watch_set_after_the_reconnect_is_not_marked_as_missed() {
    let mut bench = Bench::attached();
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    ask(&mut bench, WatchKind::Data, "/a", 1);
    bench.attach();
    answer_all(&mut bench);
    bench.frame(notification(-1, EventType::NODE_DELETED, "/a"));
    assert_eq!(bench.said(), ["1 saw NodeDeleted /a"]);
}

#[test]
fn the_end_of_the_session_gives_all_watches_back() {
    let mut bench = watching(&[(WatchKind::Data, "/a", 1), (WatchKind::Child, "/a", 2)]);
    ask(&mut bench, WatchKind::Data, "/b", 3);
    bench.session.abandon();
    assert_eq!(bench.load(), (0, 0, 0));
    bench.frame(notification(5, EventType::NODE_DELETED, "/a"));
    let mut said = bench.said();
    let closed = said.split_off(4);
    said.sort();
    assert_eq!(said, ["0 over, unsent: Closed", "1 unwatched", "2 unwatched", "3 unwatched"]);
    assert_eq!(closed, ["Closed", "hangup: the client is closed"]);
}
