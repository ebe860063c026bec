//! Persistent watches and the removal of watches: the events that streams receive, the requests
//! that keep the watches set, and the watches that are removed from the server.

use zk_client::WatchMode;
use zk_client::session::{Watch, WatchId, WatchKind};
use zk_proto::{
    CreateMode, CreateRequest, ErrorCode, ErrorResponse, EventType, ExistsRequest,
    GetChildrenRequest, GetDataRequest, List,
};
use zk_test_support::peer::{Bench, data, notification, there};

const PERSISTENT: WatchMode = WatchMode::Persistent;
const RECURSIVE: WatchMode = WatchMode::PersistentRecursive;

/// The body of the reply to addWatch.
const ADDED: ErrorResponse = ErrorResponse { error: ErrorCode::OK };

/// Opens a stream with token 0.
fn ask(bench: &mut Bench, mode: WatchMode, path: &str, stream: u32) -> WatchId {
    bench.session.submit_stream(path, mode, 0, stream).unwrap()
}

/// Sets a one-shot watch with the request for that kind; its token is 0.
fn ask_once(bench: &mut Bench, kind: WatchKind, path: &str, watcher: u32) -> WatchId {
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

/// Answers all pending requests with success. Returns their number.
fn answer_all(bench: &mut Bench) -> usize {
    let requests = bench.requests();
    for request in &requests {
        bench.answer(request.xid().0, &there());
    }
    requests.len()
}

/// A connected session with these streams.
fn streaming(streams: &[(WatchMode, &str, u32)]) -> (Bench, Vec<WatchId>) {
    let mut bench = Bench::attached();
    let ids = streams.iter().map(|(mode, path, stream)| ask(&mut bench, *mode, path, *stream));
    let ids = ids.collect::<Vec<_>>();
    answer_all(&mut bench);
    assert_eq!(bench.said(), vec!["0 ok"; streams.len()]);
    assert_eq!(bench.load(), (0, streams.len(), 0));
    (bench, ids)
}

/// An event of a server before 3.9, which does not carry a zxid.
fn fire_old(bench: &mut Bench, kind: EventType, path: &str) {
    bench.frame(notification(-1, kind, path));
}

#[test]
fn a_stream_begins_with_the_reply_and_not_before() {
    let mut bench = Bench::attached();
    ask(&mut bench, RECURSIVE, "/w", 8);
    ask(&mut bench, PERSISTENT, "/w", 9);
    assert_eq!(
        bench.sent(),
        ["addWatch#1 /w persistentRecursive", "addWatch#2 /w persistent"],
        "one request each"
    );
    bench.fire(EventType::NODE_CREATED, "/w");
    assert_eq!(bench.load(), (2, 0, 0));
    bench.answer(1, &ADDED);
    bench.fire(EventType::NODE_DATA_CHANGED, "/w");
    bench.refuse(2, ErrorCode::UNIMPLEMENTED);
    bench.fire(EventType::NODE_DELETED, "/w");
    assert_eq!(
        bench.said(),
        [
            "0 ok",
            "8 hears NodeDataChanged /w at 0x3",
            "9 unstreamed",
            "0 Unimplemented",
            "8 hears NodeDeleted /w at 0x5",
        ]
    );
}

#[test]
fn a_stream_hears_of_its_node_and_a_recursive_one_of_all_below_it() {
    use EventType as E;
    let cases: &[(E, &str, &[u32])] = &[
        (E::NODE_CREATED, "/w", &[1, 2, 3]),
        (E::NODE_DATA_CHANGED, "/w", &[1, 2, 3]),
        (E::NODE_DELETED, "/w", &[1, 2, 3]),
        (E::NODE_CHILDREN_CHANGED, "/w", &[1]),
        (E::NODE_CREATED, "/w/a", &[2, 3]),
        (E::NODE_DELETED, "/w/a/b/c", &[2, 3]),
        (E::NODE_CHILDREN_CHANGED, "/w/a", &[]),
        (E::NODE_CREATED, "/wx", &[3]),
        (E::NODE_CREATED, "/x/w", &[3]),
        (E::NODE_DATA_CHANGED, "/", &[3]),
        (E::NODE_CHILDREN_CHANGED, "/", &[]),
    ];
    for (kind, path, heard) in cases {
        let (mut bench, _) =
            streaming(&[(PERSISTENT, "/w", 1), (RECURSIVE, "/w", 2), (RECURSIVE, "/", 3)]);
        for zxid in ["0x4", "0x5"] {
            bench.fire(*kind, path);
            let told = heard.iter().map(|stream| format!("{stream} hears {kind} {path} at {zxid}"));
            assert_eq!(bench.said(), told.collect::<Vec<_>>(), "again and again");
        }
    }
}

#[test]
fn an_event_is_told_to_one_shot_watches_and_streams_alike() {
    let (mut bench, _) = streaming(&[(RECURSIVE, "/w", 1)]);
    ask_once(&mut bench, WatchKind::Data, "/w/a", 7);
    answer_all(&mut bench);
    bench.fire(EventType::NODE_DATA_CHANGED, "/w/a");
    assert_eq!(
        bench.said(),
        ["0 ok", "7 saw NodeDataChanged /w/a at 0x3", "1 hears NodeDataChanged /w/a at 0x3",]
    );
}

#[test]
fn streams_are_armed_again_by_the_newer_request_and_know_it_before_any_reply() {
    let (mut bench, _) =
        streaming(&[(PERSISTENT, "/p", 1), (PERSISTENT, "/p", 2), (RECURSIVE, "/r", 3)]);
    ask_once(&mut bench, WatchKind::Child, "/c", 7);
    answer_all(&mut bench);
    bench.cut();
    bench.session.submit(&GetDataRequest { path: "/a", watch: false }, 5).unwrap();
    assert_eq!(bench.said(), ["0 ok", "Disconnected"]);
    bench.attach();
    assert_eq!(
        bench.sent(),
        [r#"setWatches2#-8 since 0x4: [] [] ["/c"] ["/p"] ["/r"]"#, "getData#5 /a"]
    );
    bench.fire(EventType::NODE_DELETED, "/c");
    bench.answer(-8, &());
    bench.answer(5, &data(b""));
    assert_eq!(
        bench.said(),
        ["7 saw NodeDeleted /c at 0x5, missed", "1 Rearmed", "2 Rearmed", "3 Rearmed", "5 ok"]
    );
}

#[test]
fn servers_before_3_6_never_see_the_newer_request() {
    let (mut bench, ids) = streaming(&[(RECURSIVE, "/r", 3)]);
    ask_once(&mut bench, WatchKind::Data, "/d", 7);
    answer_all(&mut bench);
    bench.session.unwatch(ids[0], "/r");
    assert_eq!(bench.sent(), ["removeWatches#3 /r"]);
    bench.cut();
    assert_eq!(bench.said(), ["0 ok", "3 unstreamed", "Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), [r#"setWatches#-8 since 0x2: ["/d"] [] []"#]);
}

#[test]
fn many_streams_are_armed_in_batches_and_told_behind_the_last() {
    let paths = (0..200).map(|n| format!("/{n:04}{}", "x".repeat(995))).collect::<Vec<_>>();
    let streams = paths.iter().enumerate().map(|(n, path)| (RECURSIVE, path.as_str(), n as u32));
    let (mut bench, _) = streaming(&streams.collect::<Vec<_>>());
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent().len(), 2, "200 kB");
    bench.answer(-8, &());
    assert_eq!(bench.said(), [""; 0]);
    bench.answer(-8, &());
    assert_eq!(bench.said(), (0..200).map(|n| format!("{n} Rearmed")).collect::<Vec<_>>());
}

/// Servers before 3.9 keep only one mode, the last one, per path and table.
#[test]
fn a_persistent_watch_that_another_may_have_replaced_is_set_again() {
    use WatchKind::{Child, Data, Exist};
    for (mode, kind, restored) in [
        (PERSISTENT, Data, true),
        (PERSISTENT, Exist, true),
        (PERSISTENT, Child, true),
        (RECURSIVE, Data, true),
        (RECURSIVE, Exist, true),
        // In the table of children a recursive watch reports nothing.
        (RECURSIVE, Child, false),
    ] {
        for waits in [true, false] {
            let (mut bench, _) = streaming(&[(mode, "/w", 1), (mode, "/w", 2)]);
            ask_once(&mut bench, kind, "/w/x", 6);
            answer_all(&mut bench);
            let id = ask_once(&mut bench, kind, "/w", 7);
            if !waits {
                bench.session.unwatch(id, "/w");
            }
            answer_all(&mut bench);
            let name = if mode == RECURSIVE { "persistentRecursive" } else { "persistent" };
            let expected = restored.then(|| format!("addWatch#5 /w {name}"));
            assert_eq!(
                bench.sent(),
                expected.into_iter().collect::<Vec<_>>(),
                "{mode:?} and {kind:?}"
            );
            assert_eq!(bench.said().last().unwrap(), "0 ok");
            if restored {
                bench.answer(5, &ADDED);
                assert_eq!(bench.said(), ["1 Rearmed", "2 Rearmed"], "{mode:?} and {kind:?}");
            }
        }
    }
}

#[test]
fn a_refused_read_replaces_no_watch() {
    let (mut bench, _) = streaming(&[(RECURSIVE, "/w", 1)]);
    ask_once(&mut bench, WatchKind::Data, "/w", 7);
    bench.sent();
    bench.refuse(2, ErrorCode::NO_NODE);
    assert_eq!(bench.said(), ["7 unwatched", "0 NoNode"]);
    assert_eq!(bench.sent(), [""; 0]);
}

#[test]
fn of_two_modes_at_one_path_the_recursive_one_is_set_last() {
    let (mut bench, _) = streaming(&[(RECURSIVE, "/w", 1)]);
    ask(&mut bench, PERSISTENT, "/w", 2);
    answer_all(&mut bench);
    assert_eq!(bench.sent(), ["addWatch#3 /w persistentRecursive"]);
    bench.answer(3, &ADDED);
    assert_eq!(bench.said(), ["0 ok", "2 Rearmed", "1 Rearmed"]);
    ask(&mut bench, RECURSIVE, "/w", 3);
    answer_all(&mut bench);
    assert_eq!(bench.said(), ["0 ok"]);
}

#[test]
fn a_watch_that_is_not_set_again_is_left_to_the_next_connection() {
    let (mut bench, _) = streaming(&[(PERSISTENT, "/w", 1)]);
    ask_once(&mut bench, WatchKind::Data, "/w", 7);
    answer_all(&mut bench);
    bench.sent();
    bench.refuse(3, ErrorCode::THROTTLED_OP);
    let said = bench.said();
    assert!(said[1].starts_with("hangup: the server refused to arm watches"), "{said:?}");
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), [r#"setWatches2#-8 since 0x3: ["/w"] [] [] ["/w"] []"#]);
    bench.answer(-8, &());
    assert_eq!(bench.said(), ["1 Rearmed"]);
}

/// A recursive watch replaces a child watch at its path, and never reports that children changed.
#[test]
fn what_a_recursive_watch_silences_on_old_servers_follows_from_what_it_tells() {
    for zxid in [-1, 9] {
        let (mut bench, _) = streaming(&[(RECURSIVE, "/w", 1), (RECURSIVE, "/", 2)]);
        ask_once(&mut bench, WatchKind::Child, "/w", 7);
        ask_once(&mut bench, WatchKind::Child, "/w/a", 8);
        answer_all(&mut bench);
        bench.said();
        let at = if zxid > 0 { " at 0x9" } else { "" };
        for (kind, path) in
            [(EventType::NODE_DATA_CHANGED, "/w/a"), (EventType::NODE_CREATED, "/w/a/b")]
        {
            bench.frame(notification(zxid, kind, path));
            let told = [1, 2].map(|stream| format!("{stream} hears {kind} {path}{at}"));
            assert_eq!(bench.said(), told);
        }
        bench.frame(notification(zxid, EventType::NODE_CREATED, "/w/c"));
        let mut told = [1, 2].map(|stream| format!("{stream} hears NodeCreated /w/c{at}")).to_vec();
        if zxid < 0 {
            told.push("7 saw NodeChildrenChanged /w".to_owned());
        }
        assert_eq!(bench.said(), told, "newer servers say so themselves");
        bench.frame(notification(zxid, EventType::NODE_DELETED, "/w/c"));
        assert_eq!(bench.said().len(), 2, "it is one-shot");
    }
}

#[test]
fn what_is_told_for_the_sake_of_another_watch_is_marked_for_streams_too() {
    let (mut bench, _) = streaming(&[(RECURSIVE, "/w", 1)]);
    ask_once(&mut bench, WatchKind::Child, "/w", 7);
    answer_all(&mut bench);
    assert_eq!(bench.said(), ["0 ok"]);
    let ids = bench.session.submit_watching_all(vec![("/w/a".into(), 8)], 0).unwrap();
    let [xid] = bench.requests().try_into().map(|[request]: [_; 1]| [request.xid().0]).unwrap();
    bench.session.abandon_watch(ids[0], "/w/a");
    fire_old(&mut bench, EventType::NODE_DATA_CHANGED, "/w/b");
    fire_old(&mut bench, EventType::NODE_DELETED, "/w/a");
    bench.answer(xid, &());
    fire_old(&mut bench, EventType::NODE_CREATED, "/w/a");
    let restored = bench.requests().len();
    assert_eq!(
        bench.said(),
        [
            "8 unwatched",
            "1 hears NodeDataChanged /w/b",
            "1 hears NodeDeleted /w/a, missed",
            "7 saw NodeChildrenChanged /w, missed",
            "0 ok",
            "1 hears NodeCreated /w/a",
        ]
    );
    assert_eq!(restored, 0);
}

/// A node whose data is watched exists. Its creation came before the watch, so only the stream gets
/// that event, however late it arrives.
#[test]
fn a_creation_that_a_stream_hears_of_does_not_end_a_watch_on_the_node() {
    let (mut bench, _) = streaming(&[(RECURSIVE, "/w", 1)]);
    ask_once(&mut bench, WatchKind::Data, "/w/b", 9);
    bench.session.submit_watching_all(vec![("/w/a".into(), 8)], 0).unwrap();
    let [asking, arming] = bench.requests().try_into().unwrap();
    bench.answer(asking.xid().0, &there());
    for path in ["/w/a", "/w/b"] {
        fire_old(&mut bench, EventType::NODE_CREATED, path);
    }
    bench.answer(arming.xid().0, &());
    // These events do not come from the arming request, which reports only deletions of nodes that
    // it expects to exist.
    let told = ["/w/a", "/w/b"].map(|path| format!("1 hears NodeCreated {path}"));
    assert_eq!(bench.said(), ["0 ok", &told[0], &told[1], "0 ok"]);
    for (path, watcher) in [("/w/a", 8), ("/w/b", 9)] {
        fire_old(&mut bench, EventType::NODE_DELETED, path);
        let told =
            ["1 hears", &format!("{watcher} saw")].map(|it| format!("{it} NodeDeleted {path}"));
        let mut said = bench.said();
        said.sort();
        assert_eq!(said, told);
    }
}

#[test]
fn a_child_watch_may_miss_something_while_a_recursive_one_is_replaced() {
    let (mut bench, _) = streaming(&[(RECURSIVE, "/w", 1)]);
    ask_once(&mut bench, WatchKind::Child, "/w", 7);
    ask_once(&mut bench, WatchKind::Data, "/w", 8);
    answer_all(&mut bench);
    assert_eq!(answer_all(&mut bench), 1);
    assert_eq!(bench.said(), ["0 ok", "0 ok", "7 saw NodeChildrenChanged /w, missed", "1 Rearmed"]);
    assert_eq!(bench.load(), (0, 2, 0), "the other one waits on");
}

#[test]
fn the_servers_watch_is_removed_with_the_last_that_waits_at_its_path() {
    let (mut bench, ids) =
        streaming(&[(PERSISTENT, "/w", 1), (RECURSIVE, "/w", 2), (RECURSIVE, "/w", 3)]);
    ask(&mut bench, RECURSIVE, "/w/x", 4);
    let once = ask_once(&mut bench, WatchKind::Child, "/w", 7);
    answer_all(&mut bench);
    bench.said();
    for id in &ids {
        bench.session.unwatch(*id, "/w");
        assert_eq!(bench.sent(), [""; 0]);
    }
    assert_eq!(bench.said(), ["1 unstreamed", "2 unstreamed", "3 unstreamed"]);
    bench.session.unwatch(once, "/w");
    let [remove] = bench.requests().try_into().unwrap();
    assert_eq!(remove.to_string(), "removeWatches#6 /w");
    let zk_proto::RemoveWatchesRequest { kind, .. } = remove.body();
    assert_eq!(kind, zk_proto::WatcherType::ANY, "servers before 3.9 know no other that does");
    bench.answer(6, &());
    bench.session.unwatch(once, "/w");
    bench.session.unwatch(ids[0], "/w");
    assert_eq!(bench.said(), ["7 unwatched"]);
    assert_eq!(bench.load(), (0, 1, 0));
}

#[test]
fn what_was_left_behind_is_removed_when_the_last_watch_there_fires() {
    let (mut bench, ids) = streaming(&[(RECURSIVE, "/w", 1)]);
    ask_once(&mut bench, WatchKind::Child, "/w", 7);
    answer_all(&mut bench);
    bench.session.unwatch(ids[0], "/w");
    assert_eq!(bench.sent(), [""; 0]);
    assert_eq!(bench.said(), ["0 ok", "1 unstreamed"]);
    fire_old(&mut bench, EventType::NODE_CREATED, "/w/a");
    assert_eq!(bench.said(), ["7 saw NodeChildrenChanged /w"], "what is left silences it still");
    assert_eq!(bench.sent(), ["removeWatches#3 /w"]);
    bench.refuse(3, ErrorCode::NO_WATCHER);
    fire_old(&mut bench, EventType::NODE_CREATED, "/w/b");
    assert_eq!(bench.said(), [""; 0]);
}

#[test]
fn a_watch_that_fires_leaves_nothing_to_remove() {
    let mut bench = Bench::attached();
    let id = ask_once(&mut bench, WatchKind::Data, "/a", 7);
    answer_all(&mut bench);
    bench.fire(EventType::NODE_DELETED, "/a");
    bench.session.unwatch(id, "/a");
    assert_eq!(bench.said(), ["0 ok", "7 saw NodeDeleted /a at 0x2"]);
    assert_eq!(bench.sent(), [""; 0]);
}

/// The server handles a removal after all earlier requests, so it would also remove their watch.
#[test]
fn nothing_is_removed_while_a_request_is_on_its_way_that_sets_a_watch_there() {
    for sent in [true, false] {
        for code in [ErrorCode::OK, ErrorCode::NO_AUTH] {
            let (mut bench, ids) = streaming(&[(PERSISTENT, "/w", 1)]);
            ask_once(&mut bench, WatchKind::Child, "/w", 7);
            if sent {
                assert_eq!(bench.sent().len(), 1);
            }
            bench.session.unwatch(ids[0], "/w");
            let others = if sent { 0 } else { 1 };
            assert_eq!(bench.sent().len(), others, "no removal");
            if code == ErrorCode::OK {
                bench.answer(2, &there());
                assert_eq!(bench.said(), ["1 unstreamed", "0 ok"]);
                assert_eq!(bench.sent(), [""; 0]);
                fire_old(&mut bench, EventType::NODE_CHILDREN_CHANGED, "/w");
                assert_eq!(bench.said(), ["7 saw NodeChildrenChanged /w"]);
            } else {
                bench.refuse(2, code);
                assert_eq!(bench.said(), ["1 unstreamed", "7 unwatched", "0 NoAuth"]);
            }
            assert_eq!(bench.sent(), ["removeWatches#3 /w"]);
        }
    }
}

#[test]
fn a_watch_that_is_set_behind_a_removal_stays() {
    let (mut bench, ids) = streaming(&[(PERSISTENT, "/w", 1)]);
    bench.session.unwatch(ids[0], "/w");
    ask(&mut bench, PERSISTENT, "/w", 2);
    assert_eq!(bench.sent(), ["removeWatches#2 /w", "addWatch#3 /w persistent"]);
    bench.fire(EventType::NODE_CREATED, "/w");
    bench.answer(2, &());
    bench.answer(3, &ADDED);
    bench.fire(EventType::NODE_DELETED, "/w");
    assert_eq!(bench.said(), ["1 unstreamed", "0 ok", "2 hears NodeDeleted /w at 0x5"]);
}

#[test]
fn a_watch_whose_caller_left_before_the_reply_is_removed_behind_it() {
    for stream in [true, false] {
        let mut bench = Bench::attached();
        let id = match stream {
            true => ask(&mut bench, RECURSIVE, "/w", 7),
            false => ask_once(&mut bench, WatchKind::Exist, "/w", 7),
        };
        assert_eq!(bench.sent().len(), 1);
        bench.session.unwatch(id, "/w");
        bench.session.unwatch(id, "/w");
        assert_eq!(bench.sent(), [""; 0]);
        bench.answer(1, &there());
        let returned = if stream { "7 unstreamed" } else { "7 unwatched" };
        assert_eq!(bench.said(), [returned, "0 ok"]);
        assert_eq!(bench.sent(), ["removeWatches#2 /w"]);
        bench.fire(EventType::NODE_DELETED, "/w");
        assert_eq!((bench.said(), bench.load()), (vec![], (1, 0, 0)));
    }
}

/// The request that restores the watch is kept if the connection breaks before it is sent.
#[test]
fn a_watch_that_is_restored_for_nobody_is_removed() {
    let (mut bench, ids) = streaming(&[(RECURSIVE, "/w", 1)]);
    ask_once(&mut bench, WatchKind::Data, "/w", 7);
    answer_all(&mut bench);
    bench.fire(EventType::NODE_DATA_CHANGED, "/w");
    bench.cut();
    bench.session.unwatch(ids[0], "/w");
    bench.said();
    bench.attach();
    assert_eq!(bench.sent(), ["addWatch#3 /w persistentRecursive"]);
    bench.answer(3, &ADDED);
    assert_eq!(bench.sent(), ["removeWatches#4 /w"]);
    assert_eq!(bench.said(), [""; 0]);
}

#[test]
fn a_server_that_cannot_remove_is_asked_once() {
    let mut bench = Bench::attached();
    let ids = ["/a", "/b"].map(|path| ask_once(&mut bench, WatchKind::Data, path, 7));
    answer_all(&mut bench);
    bench.session.unwatch(ids[0], "/a");
    assert_eq!(bench.sent(), ["removeWatches#3 /a"]);
    bench.refuse(3, ErrorCode::UNIMPLEMENTED);
    bench.session.unwatch(ids[1], "/b");
    assert_eq!(bench.sent(), [""; 0]);
    assert_eq!(bench.said(), ["0 ok", "0 ok", "7 unwatched", "7 unwatched"]);
    let (path, mode) = ("/c", CreateMode::PERSISTENT);
    let create = CreateRequest { path, data: None, acl: List::new(&[]), mode };
    bench.session.submit(&create, 0).unwrap();
    assert_eq!(bench.sent().len(), 1, "it may well know everything else");
}

#[test]
fn while_cut_off_there_is_nothing_to_remove() {
    let (mut bench, ids) = streaming(&[(RECURSIVE, "/w", 1), (RECURSIVE, "/w", 2)]);
    let lost = ask(&mut bench, PERSISTENT, "/w", 3);
    bench.sent();
    bench.cut();
    bench.session.unwatch(ids[0], "/w");
    bench.session.unwatch(lost, "/w");
    let said = ["0 lost, sent", "3 unstreamed", "Disconnected", "1 unstreamed"];
    assert_eq!(bench.said(), said);
    bench.attach();
    assert_eq!(bench.sent(), [r#"setWatches2#-8 since 0x2: [] [] [] [] ["/w"]"#]);
    bench.answer(-8, &());
    bench.session.unwatch(ids[1], "/w");
    assert_eq!(bench.said(), ["2 Rearmed", "2 unstreamed"]);
    assert_eq!(bench.sent(), ["removeWatches#4 /w"], "once");
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), [""; 0]);
}

#[test]
fn nothing_is_removed_behind_a_close() {
    let (mut bench, ids) = streaming(&[(RECURSIVE, "/w", 1)]);
    bench.session.close();
    bench.session.unwatch(ids[0], "/w");
    assert_eq!(bench.sent(), ["closeSession#2"]);
    assert_eq!(bench.said(), ["1 unstreamed"]);
}

#[test]
fn a_forgotten_watch_stays_with_the_server_until_it_fires() {
    let mut bench = Bench::attached();
    let id = ask_once(&mut bench, WatchKind::Data, "/a", 7);
    answer_all(&mut bench);
    bench.session.abandon_watch(id, "/a");
    bench.session.abandon_watch(id, "/a");
    assert_eq!(bench.sent(), [""; 0]);
    bench.fire(EventType::NODE_DELETED, "/a");
    assert_eq!(bench.said(), ["0 ok", "7 unwatched"]);
}

#[test]
fn the_end_of_the_session_gives_all_streams_back_behind_what_they_were_told() {
    let (mut bench, _) = streaming(&[(RECURSIVE, "/w", 1)]);
    ask(&mut bench, PERSISTENT, "/v", 2);
    bench.fire(EventType::NODE_CREATED, "/w/a");
    bench.session.abandon();
    assert_eq!(
        bench.said(),
        [
            "1 hears NodeCreated /w/a at 0x2",
            "0 over, unsent: Closed",
            "2 unstreamed",
            "1 unstreamed",
            "Closed",
            "hangup: the client is closed",
        ]
    );
    assert_eq!(bench.load(), (0, 0, 0));
}
