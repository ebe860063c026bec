//! Requests and replies: their order, their xids, and how a request ends when its connection or its
//! session ends.

use zk_client::session::Event;
use zk_client::{Ended, Failure, Hangup, Limit, ProtocolError, Rejected, SessionConfig};
use zk_proto::{
    CreateMode, CreateRequest, ErrorCode, EventType, GetAllChildrenNumberRequest, GetDataRequest,
    GetEphemeralsRequest, List, ReconfigRequest, SetDataRequest, Text, Xid, Zxid, frame,
};
use zk_test_support::peer::{Bench, TIMEOUT, data, notification, payload, reply, welcome};

const GET: GetDataRequest<'_> = GetDataRequest { path: "/a", watch: false };

/// A connected session with `n` requests on the wire, whose tokens equal their xids.
fn busy(n: u32) -> Bench {
    let mut bench = Bench::attached();
    for token in 1..=n {
        bench.session.submit(&GET, token).unwrap();
    }
    assert_eq!(bench.sent().len(), n as usize);
    bench
}

/// Checks that the only event is a hangup, and returns its reason.
fn hangup(bench: &mut Bench) -> ProtocolError {
    match (bench.session.poll_event(), bench.session.poll_event()) {
        (Some(Event::Hangup(Hangup::Protocol(error))), None) => error,
        other => panic!("no hangup: {other:?}"),
    }
}

#[test]
fn requests_go_out_and_are_answered_in_call_order() {
    let mut bench = Bench::attached();
    bench.session.submit(&GetDataRequest { path: "/b", watch: false }, 10).unwrap();
    let set = SetDataRequest { path: "/a", data: Some(b"x"), version: -1 };
    bench.session.submit(&set, 11).unwrap();
    bench.session.submit(&GET, 12).unwrap();
    assert_eq!(bench.sent(), ["getData#1 /b", "setData#2 /a", "getData#3 /a"]);
    bench.session.submit(&GET, 13).unwrap();
    assert_eq!(bench.sent(), ["getData#4 /a"]);
    for xid in 1..=4 {
        bench.answer(xid, &());
    }
    assert_eq!(bench.said(), ["10 ok", "11 ok", "12 ok", "13 ok"]);
}

#[test]
fn an_answer_is_the_replys_record_and_its_transaction() {
    let mut bench = busy(1);
    bench.frame(reply(Xid(1), 0x55, ErrorCode::OK, &data(b"hello")));
    let Some(Event::Completed { token: 1, result: Ok(answer), .. }) = bench.session.poll_event()
    else {
        panic!("not completed");
    };
    assert_eq!((answer.zxid, answer.body), (Zxid(0x55), payload(&data(b"hello"))));
}

#[test]
fn numbers_go_on_across_connections() {
    let mut bench = busy(2);
    bench.cut();
    assert_eq!(bench.said(), ["1 lost, sent", "2 lost, sent", "Disconnected"]);
    bench.attach();
    bench.session.submit(&GET, 3).unwrap();
    assert_eq!(bench.sent(), ["getData#3 /a"]);
    bench.answer(3, &());
    assert_eq!(bench.said(), ["3 ok"]);
}

#[test]
fn a_request_that_was_not_taken_leaves_no_gap() {
    let mut config = Bench::config();
    config.limits.max_request = 100;
    let mut bench = Bench::new(config);
    bench.attach();
    let long = "/".repeat(200);
    bench.session.submit(&GetDataRequest { path: &long, watch: false }, 1).unwrap_err();
    bench.session.submit(&GET, 2).unwrap();
    assert_eq!(bench.sent(), ["getData#1 /a"]);
    bench.answer(1, &());
    assert_eq!(bench.said(), ["2 ok"]);
}

#[test]
fn a_reply_out_of_order_drops_the_connection_and_keeps_the_session() {
    let mut bench = busy(3);
    bench.answer(2, &());
    let wrong = ProtocolError::WrongXid { expected: Xid(1), got: Xid(2) };
    assert_eq!(hangup(&mut bench), wrong);
    bench.answer(1, &());
    assert_eq!(bench.said(), [""; 0], "nothing counts behind it");
    bench.cut();
    assert_eq!(bench.said(), ["1 lost, sent", "2 lost, sent", "3 lost, sent", "Disconnected"]);
    bench.attach();
}

#[test]
fn a_reply_to_nothing_drops_the_connection() {
    let mut bench = Bench::attached();
    bench.answer(1, &());
    assert_eq!(hangup(&mut bench), ProtocolError::Unasked(Xid(1)));

    let mut bench = busy(1);
    bench.answer(1, &());
    bench.answer(1, &());
    assert_eq!(
        bench.session.poll_event().map(|event| matches!(event, Event::Completed { .. })),
        Some(true)
    );
    assert_eq!(hangup(&mut bench), ProtocolError::Unasked(Xid(1)), "twice");
}

#[test]
fn a_reply_to_a_request_that_was_not_sent_drops_the_connection() {
    let mut bench = Bench::attached();
    bench.session.submit(&GET, 1).unwrap();
    bench.answer(1, &());
    assert_eq!(hangup(&mut bench), ProtocolError::Unasked(Xid(1)));
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"], "and the request waits");
    bench.attach();
    assert_eq!(bench.sent(), ["getData#1 /a"]);
    bench.answer(1, &());
    assert_eq!(bench.said(), ["1 ok"]);
}

#[test]
fn a_pong_without_a_ping_drops_the_connection() {
    let mut bench = Bench::attached();
    let pong = || reply(Xid::PING, 0, ErrorCode::OK, &());
    bench.pass(TIMEOUT / 3);
    assert_eq!(bench.sent(), ["ping"]);
    bench.frame(pong());
    assert_eq!(bench.said(), [""; 0]);
    bench.frame(pong());
    assert_eq!(hangup(&mut bench), ProtocolError::Unasked(Xid::PING));
}

#[test]
fn a_ping_is_not_waited_for_on_the_next_connection() {
    let mut bench = Bench::attached();
    bench.pass(TIMEOUT / 3);
    assert_eq!(bench.sent(), ["ping"]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    bench.frame(reply(Xid::PING, 0, ErrorCode::OK, &()));
    assert_eq!(hangup(&mut bench), ProtocolError::Unasked(Xid::PING));
}

#[test]
fn a_pong_may_come_between_replies() {
    let mut bench = busy(1);
    bench.pass(TIMEOUT / 3);
    bench.session.submit(&GET, 2).unwrap();
    assert_eq!(bench.sent(), ["ping", "getData#2 /a"]);
    bench.answer(1, &());
    bench.answer(2, &());
    bench.frame(reply(Xid::PING, 0, ErrorCode::OK, &()));
    assert_eq!(bench.said(), ["1 ok", "2 ok"]);
}

#[test]
fn unimplemented_overtakes_and_finds_its_request_by_its_number() {
    let mut bench = busy(4);
    bench.frame(reply(Xid(3), -1, ErrorCode::UNIMPLEMENTED, &()));
    bench.answer(1, &());
    bench.answer(2, &());
    bench.frame(reply(Xid(4), -1, ErrorCode::UNIMPLEMENTED, &()));
    assert_eq!(bench.said(), ["3 Unimplemented", "1 ok", "2 ok", "4 Unimplemented"]);

    let mut bench = busy(2);
    bench.frame(reply(Xid(7), -1, ErrorCode::UNIMPLEMENTED, &()));
    let wrong = ProtocolError::WrongXid { expected: Xid(1), got: Xid(7) };
    assert_eq!(hangup(&mut bench), wrong, "to nobody");
}

/// A server with `zookeeper.enableEagerACLCheck` refuses a write while the write ahead of it is
/// still on its way to the leader.
#[test]
fn an_eager_refusal_overtakes_and_the_connection_stays() {
    for refusal in [ErrorCode::NO_AUTH, ErrorCode::INVALID_ACL] {
        let mut bench = busy(3);
        bench.refuse_alone(Xid(2), refusal);
        bench.answer(1, &());
        bench.refuse_alone(Xid(3), refusal);
        let said = [format!("2 {refusal}"), "1 ok".to_owned(), format!("3 {refusal}")];
        assert_eq!(bench.said(), said);
    }
}

#[test]
fn what_a_server_is_too_old_for_is_asked_once() {
    let mut bench = Bench::attached();
    let count = GetAllChildrenNumberRequest { path: "/a" };
    for (xid, token) in [(1, 1), (2, 2)] {
        bench.session.submit(&count, token).unwrap();
        assert_eq!(bench.sent(), [format!("getAllChildrenNumber#{xid} /a")]);
        if xid == 1 {
            bench.answer(xid, &());
        } else {
            bench.frame(reply(Xid(xid), -1, ErrorCode::UNIMPLEMENTED, &()));
        }
    }
    bench.session.submit(&count, 3).unwrap();
    assert_eq!(bench.sent(), [""; 0], "the server would hang up again");
    assert_eq!(bench.said(), ["1 ok", "2 Unimplemented", "3 Unimplemented"]);

    // Servers of other makers may know one operation of a version and not another.
    let as_new = GetEphemeralsRequest { prefix_path: Text::new("/a") };
    bench.session.submit(&as_new, 4).unwrap();
    assert_eq!(bench.sent(), ["getEphemerals#3 /a"]);
    bench.answer(3, &());
    assert_eq!(bench.said(), ["4 ok"]);

    // An operation that one server has switched off may be enabled on another.
    let nothing = Text::NULL;
    let reconfig = ReconfigRequest {
        joining_servers: nothing,
        leaving_servers: nothing,
        new_members: nothing,
        cur_config_id: -1,
    };
    for xid in [4, 5] {
        bench.session.submit(&reconfig, 4).unwrap();
        assert_eq!(bench.sent(), [format!("reconfig#{xid}")]);
        bench.refuse(xid, ErrorCode::UNIMPLEMENTED);
        assert_eq!(bench.said(), ["4 Unimplemented"]);
    }
}

#[test]
fn unimplemented_does_not_reach_what_was_not_sent() {
    let mut bench = busy(1);
    bench.session.submit(&GET, 2).unwrap();
    bench.frame(reply(Xid(2), -1, ErrorCode::UNIMPLEMENTED, &()));
    let wrong = ProtocolError::WrongXid { expected: Xid(1), got: Xid(2) };
    assert_eq!(hangup(&mut bench), wrong);
}

#[test]
fn an_error_code_nobody_knows_reaches_the_caller() {
    let mut bench = busy(1);
    bench.refuse(1, ErrorCode(-4242));
    assert_eq!(bench.said(), ["1 unknown (-4242)"]);
}

#[test]
fn garbage_drops_the_connection_and_keeps_the_session() {
    for garbage in [&b""[..], b"\x00\x00\x00", &[0xff; 15]] {
        let mut bench = busy(1);
        bench.frame(garbage.to_vec().into());
        assert!(matches!(hangup(&mut bench), ProtocolError::Undecodable(_)), "{garbage:?}");
        bench.cut();
        assert_eq!(bench.said(), ["1 lost, sent", "Disconnected"]);
        assert_eq!(bench.session.ended(), None);
    }
}

#[test]
fn the_first_reason_for_a_hangup_is_the_one_that_callers_hear() {
    let mut bench = busy(1);
    bench.session.hang_up(Hangup::Io(std::io::ErrorKind::ConnectionReset));
    bench.session.hang_up(Hangup::Eof);
    bench.cut();
    let why = Hangup::Io(std::io::ErrorKind::ConnectionReset);
    let lost = Failure::ConnectionLoss { sent: true, why };
    let event = bench.session.poll_event();
    assert_eq!(event, Some(Event::Completed { token: 1, result: Err(lost), zxid: None }));
    assert_eq!(bench.said(), ["Disconnected"], "and the hangup itself is old news");
}

#[test]
fn what_was_sent_is_lost_and_what_was_not_waits_in_order() {
    let mut bench = busy(2);
    for token in 3..=5 {
        bench.session.submit(&GET, token).unwrap();
    }
    bench.cut();
    bench.session.submit(&GET, 6).unwrap();
    assert_eq!(bench.said(), ["1 lost, sent", "2 lost, sent", "Disconnected"]);
    bench.attach();
    let sent = bench.sent();
    assert_eq!(sent, ["getData#3 /a", "getData#4 /a", "getData#5 /a", "getData#6 /a"]);
    for xid in 3..=6 {
        bench.answer(xid, &());
    }
    assert_eq!(bench.said(), ["3 ok", "4 ok", "5 ok", "6 ok"]);
}

#[test]
fn what_was_not_sent_waits_through_any_number_of_connections() {
    let mut bench = Bench::new(Bench::config());
    bench.session.submit(&GET, 1).unwrap();
    for _ in 0..5 {
        bench.connect();
        bench.cut();
        assert_eq!(bench.said(), [""; 0]);
    }
    bench.attach();
    assert_eq!(bench.sent(), ["getData#1 /a"]);
    bench.answer(1, &());
    assert_eq!(bench.said(), ["1 ok"]);
}

/// Six requests: two were answered, two are on the wire, and two wait.
fn in_all_stages() -> Bench {
    let mut bench = busy(4);
    bench.answer(1, &());
    bench.refuse(2, ErrorCode::NO_NODE);
    bench.session.submit(&GET, 5).unwrap();
    bench.session.submit(&GET, 6).unwrap();
    bench
}

#[test]
fn every_request_is_over_once_when_the_session_is() {
    type End = fn(&mut Bench);
    let endings: [(&str, End, &[&str]); 4] = [
        (
            "abandoned",
            |bench| bench.session.abandon(),
            &[
                "3 over, sent: Closed",
                "4 over, sent: Closed",
                "5 over, unsent: Closed",
                "6 over, unsent: Closed",
                "Closed",
                "hangup: the client is closed",
            ],
        ),
        (
            "expired while connected",
            |bench| {
                bench.now += TIMEOUT * 4 / 3;
                bench.session.handle_timeout(bench.now);
            },
            &[
                "hangup: the server was silent for 8s",
                "3 over, sent: Expired",
                "4 over, sent: Expired",
                "5 over, unsent: Expired",
                "6 over, unsent: Expired",
                "Expired",
            ],
        ),
        (
            "expired by the server",
            |bench| {
                bench.cut();
                bench.connect();
                bench.frame(payload(&zk_test_support::peer::expired()));
            },
            &[
                "3 lost, sent",
                "4 lost, sent",
                "Disconnected",
                "5 over, unsent: Expired",
                "6 over, unsent: Expired",
                "Expired",
                "hangup: the session is expired",
            ],
        ),
        (
            "closed, and the server hung up before it said so",
            |bench| {
                bench.session.close();
                let sent = bench.sent();
                assert_eq!(sent, ["getData#5 /a", "getData#6 /a", "closeSession#7"]);
                bench.answer(3, &());
                bench.cut();
                bench.connect();
                bench.frame(payload(&zk_test_support::peer::expired()));
            },
            &[
                "3 ok",
                "4 lost, sent",
                "5 lost, sent",
                "6 lost, sent",
                "Disconnected",
                "Closed",
                "hangup: the client is closed",
            ],
        ),
    ];
    for (how, end, expected) in endings {
        let mut bench = in_all_stages();
        assert_eq!(bench.said(), ["1 ok", "2 NoNode"]);
        end(&mut bench);
        assert_eq!(bench.said(), expected, "{how}");
        assert_eq!(bench.load(), (0, 0, 0), "{how}");
        bench.session.abandon();
        bench.session.close();
        bench.cut();
        bench.pass(TIMEOUT * 10);
        bench.answer(3, &());
        assert_eq!(bench.said(), [""; 0], "{how}: nothing comes after the end");
    }
}

#[test]
fn closing_answers_what_was_called_before_and_refuses_what_comes_later() {
    let mut bench = busy(1);
    bench.session.submit(&GET, 2).unwrap();
    bench.session.close();
    assert_eq!(bench.session.submit(&GET, 3), Err(Rejected::Ended(Ended::Closed)));
    assert_eq!(bench.sent(), ["getData#2 /a", "closeSession#3"]);
    for xid in 1..=3 {
        bench.answer(xid, &());
    }
    assert_eq!(bench.said(), ["1 ok", "2 ok", "Closed", "hangup: the client is closed"]);
    assert_eq!(bench.session.submit(&GET, 4), Err(Rejected::Ended(Ended::Closed)));
}

#[test]
fn a_close_that_was_not_sent_survives_a_disconnect() {
    let mut bench = busy(1);
    bench.session.close();
    bench.cut();
    assert_eq!(bench.said(), ["1 lost, sent", "Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), ["closeSession#2"]);
    bench.answer(2, &());
    assert_eq!(bench.said(), ["Closed", "hangup: the client is closed"]);
}

#[test]
fn a_close_that_was_lost_is_repeated_until_it_is_answered() {
    let mut bench = Bench::attached();
    bench.session.close();
    for xid in 1..=3 {
        assert_eq!(bench.sent(), [format!("closeSession#{xid}")]);
        bench.cut();
        assert_eq!(bench.said(), ["Disconnected"]);
        bench.attach();
    }
    assert_eq!(bench.sent(), ["closeSession#4"]);
    bench.answer(4, &());
    assert_eq!(bench.said(), ["Closed", "hangup: the client is closed"]);
}

#[test]
fn max_requests_counts_what_is_unanswered() {
    let mut config = Bench::config();
    config.limits.max_requests = 2;
    let mut bench = Bench::new(config);
    bench.attach();
    bench.session.submit(&GET, 1).unwrap();
    bench.sent();
    bench.session.submit(&GET, 2).unwrap();
    let full = Err(Rejected::Limit(Limit::Requests(2)));
    assert_eq!(bench.session.submit(&GET, 3), full);
    assert_eq!(bench.session.submit_owned(&owned(), 4).map(drop), full);
    assert_eq!(bench.load(), (2, 0, 0));
    bench.answer(1, &());
    bench.session.submit(&GET, 5).unwrap();
    assert_eq!(bench.sent(), ["getData#2 /a", "getData#3 /a"]);
    bench.answer(2, &());
    bench.answer(3, &());
    assert_eq!(bench.said(), ["1 ok", "2 ok", "5 ok"]);
}

fn owned() -> CreateRequest<'static> {
    let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
    CreateRequest { path: "/locks/x-", data: None, acl: List::new(&[]), mode }
}

#[test]
fn max_queued_bytes_counts_what_is_unsent() {
    let mut config = Bench::config();
    config.limits.max_queued_bytes = 30;
    let mut bench = Bench::new(config);
    bench.attach();
    bench.session.submit(&GET, 1).unwrap();
    bench.session.submit(&GET, 2).unwrap();
    let full = Err(Rejected::Limit(Limit::Bytes(30)));
    assert_eq!(bench.session.submit(&GET, 3), full);
    assert_eq!(bench.sent(), ["getData#1 /a", "getData#2 /a"]);
    bench.session.submit(&GET, 4).unwrap();
    assert_eq!(bench.sent(), ["getData#3 /a"]);
    for xid in 1..=3 {
        bench.answer(xid, &());
    }
    assert_eq!(bench.said(), ["1 ok", "2 ok", "4 ok"]);
}

#[test]
fn an_oversize_request_is_refused_and_harms_nothing() {
    let mut bench = busy(1);
    bench.session.submit(&GET, 2).unwrap();
    // The frame also holds the header, the path, the length of the data and the version.
    let fits = vec![0; frame::SERVER_FRAME_LIMIT - 8 - 6 - 4 - 4];
    let set = |data| SetDataRequest { path: "/a", data: Some(data), version: -1 };
    let long = [&fits[..], b"x"].concat();
    let error = bench.session.submit(&set(&long), 3).unwrap_err();
    assert!(matches!(error, Rejected::TooLong(_)), "{error}");
    bench.session.submit(&set(&fits), 4).unwrap();
    bench.session.submit(&GET, 5).unwrap();
    assert_eq!(bench.sent(), ["getData#2 /a", "setData#3 /a", "getData#4 /a"]);
    for xid in 1..=4 {
        bench.answer(xid, &());
    }
    assert_eq!(bench.said(), ["1 ok", "2 ok", "4 ok", "5 ok"]);
}

#[test]
fn an_oversize_owned_create_leaves_no_claim() {
    let mut config = Bench::config();
    config.limits.max_request = 20;
    let mut bench = Bench::new(config);
    assert!(matches!(bench.session.submit_owned(&owned(), 1), Err(Rejected::TooLong(_))));
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn the_last_transaction_follows_replies_alone_and_never_goes_back() {
    let mut bench = busy(5);
    bench.pass(TIMEOUT / 3);
    assert_eq!(bench.sent(), ["ping"]);
    let steps = [
        (reply(Xid(1), 5, ErrorCode::OK, &()), 5, "a reply"),
        (reply(Xid(2), 9, ErrorCode::NO_NODE, &()), 9, "a refusal"),
        (reply(Xid(3), 7, ErrorCode::OK, &()), 9, "an older one"),
        (reply(Xid(4), -1, ErrorCode::UNIMPLEMENTED, &()), 9, "none"),
        (reply(Xid::PING, 50, ErrorCode::OK, &()), 9, "a pong"),
        (notification(60, EventType::NODE_CREATED, "/a"), 9, "an event"),
        (reply(Xid(5), 10, ErrorCode::OK, &()), 10, "a newer reply"),
    ];
    for (frame, zxid, what) in steps {
        bench.frame(frame);
        assert_eq!(bench.session.last_zxid(), Zxid(zxid), "{what}");
    }
    bench.cut();
    assert_eq!(bench.session.last_zxid(), Zxid(10), "a disconnect");
    bench.said();
}

#[test]
fn what_is_sent_is_appended_to_the_callers_buffer() {
    let mut bench = Bench::new(SessionConfig::new(TIMEOUT, 1));
    bench.connect();
    bench.frame(payload(&welcome(TIMEOUT)));
    bench.session.submit(&GET, 1).unwrap();
    let mut out = bytes::BytesMut::from(&b"before"[..]);
    assert!(bench.session.poll_transmit(bench.now, &mut out));
    assert!(out.starts_with(b"before") && out.len() > 6);
    let len = out.len();
    assert!(!bench.session.poll_transmit(bench.now, &mut out));
    assert_eq!(out.len(), len);
    bench.answer(1, &());
    assert_eq!(bench.said(), ["Connected", "1 ok"]);
}
