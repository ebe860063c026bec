//! The authentication of a session: on which connection, in which order, and what a refusal ends.

use std::time::Duration;

use zk_client::{Credential, Limit, Rejected, SessionState};
use zk_proto::{ErrorCode, ExistsRequest, GetDataRequest, SyncRequest, Xid};
use zk_test_support::peer::{Bench, TIMEOUT, data, payload, reply, there, welcome};

const GET: GetDataRequest<'_> = GetDataRequest { path: "/a", watch: false };

fn ann() -> Credential {
    Credential::new("digest", b"ann:secret")
}

fn bob() -> Credential {
    Credential::new("digest", b"bob:secret")
}

/// Answers the oldest auth request without a zxid, as servers do.
fn answer_auth(bench: &mut Bench, error: ErrorCode) {
    bench.frame(reply(Xid::AUTH, 0, error, &()));
}

#[test]
fn a_credential_goes_out_in_its_turn_and_its_answer_overtakes() {
    let mut bench = Bench::attached();
    bench.session.submit(&GET, 1).unwrap();
    bench.session.add_auth(ann(), 2).unwrap();
    bench.session.submit(&GET, 3).unwrap();
    assert_eq!(bench.sent(), ["getData#1 /a", "auth#-4 digest ann:secret", "getData#2 /a"]);
    answer_auth(&mut bench, ErrorCode::OK);
    assert_eq!(bench.said(), ["2 ok"]);
    bench.answer(1, &data(b""));
    bench.answer(2, &data(b""));
    assert_eq!(bench.said(), ["1 ok", "3 ok"]);
}

#[test]
fn credentials_in_flight_are_answered_in_order() {
    let mut bench = Bench::attached();
    bench.session.add_auth(ann(), 1).unwrap();
    bench.session.submit(&GET, 2).unwrap();
    bench.session.add_auth(bob(), 3).unwrap();
    bench.sent();
    answer_auth(&mut bench, ErrorCode::OK);
    answer_auth(&mut bench, ErrorCode::OK);
    assert_eq!(bench.said(), ["1 ok", "3 ok"]);
    bench.answer(1, &data(b""));
    assert_eq!(bench.said(), ["2 ok"]);
}

#[test]
fn an_auth_reply_that_nobody_asked_for_breaks_the_protocol() {
    for in_flight in [false, true] {
        let mut bench = Bench::attached();
        if in_flight {
            bench.session.submit(&GET, 1).unwrap();
            bench.sent();
        }
        answer_auth(&mut bench, ErrorCode::OK);
        let said = bench.said();
        assert!(said[0].starts_with("hangup: the server broke the protocol"), "{said:?}");
        bench.cut();
        let lost =
            if in_flight { vec!["1 lost, sent", "Disconnected"] } else { vec!["Disconnected"] };
        assert_eq!(bench.said(), lost);
    }
}

#[test]
fn every_connection_begins_with_the_credentials_each_of_them_once() {
    let mut bench = Bench::new(Bench::config());
    bench.session.submit(&GET, 1).unwrap();
    for (credential, token) in [(ann(), 2), (bob(), 3), (ann(), 4)] {
        bench.session.add_auth(credential, token).unwrap();
    }
    bench.attach();
    let ids = ["auth#-4 digest ann:secret", "auth#-4 digest bob:secret"];
    assert_eq!(bench.sent(), [ids[0], ids[1], "getData#1 /a"]);
    answer_auth(&mut bench, ErrorCode::OK);
    answer_auth(&mut bench, ErrorCode::OK);
    assert_eq!(bench.said(), ["2 ok", "4 ok", "3 ok"]);
    bench.answer(1, &data(b""));

    let exists = ExistsRequest { path: "/w", watch: true };
    let watch = zk_client::session::Watch {
        kind: zk_client::session::WatchKind::Exist,
        path: "/w".into(),
        watcher: 9,
    };
    bench.session.submit_watching(&exists, 5, watch).unwrap();
    bench.sent();
    bench.answer(2, &there());
    bench.cut();
    assert_eq!(bench.said(), ["1 ok", "5 ok", "Disconnected"]);

    bench.session.submit(&GET, 6).unwrap();
    bench.attach();
    let sent = bench.sent();
    assert_eq!(sent[..2], ids);
    assert!(sent[2].starts_with("setWatches#-8"), "{sent:?}");
    assert_eq!(sent[3..], ["getData#3 /a"]);
    bench.session.abandon();
    let said = bench.said();
    assert_eq!(
        said,
        ["6 over, sent: Closed", "9 unwatched", "Closed", "hangup: the client is closed"]
    );
}

#[test]
fn whoever_waits_for_a_credential_waits_across_connections() {
    let mut bench = Bench::attached();
    bench.session.add_auth(ann(), 1).unwrap();
    bench.sent();
    bench.session.add_auth(bob(), 2).unwrap();
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.connect();
    bench.cut();
    bench.attach();
    // The credential that was not sent keeps its place as well, although it proves nothing new.
    let sent =
        ["auth#-4 digest ann:secret", "auth#-4 digest bob:secret", "auth#-4 digest bob:secret"];
    assert_eq!(bench.sent(), sent);
    answer_auth(&mut bench, ErrorCode::OK);
    assert_eq!(bench.said(), ["1 ok"]);
    answer_auth(&mut bench, ErrorCode::OK);
    assert_eq!(bench.said(), [""; 0]);
    answer_auth(&mut bench, ErrorCode::OK);
    assert_eq!(bench.said(), ["2 ok"]);
}

#[test]
fn a_refused_credential_ends_the_session_and_everybody_hears_of_which_scheme() {
    let over = "AuthFailed(Credential(\"plug-in\"))";
    let mut bench = Bench::attached();
    bench.session.submit(&GET, 1).unwrap();
    bench.session.add_auth(ann(), 2).unwrap();
    bench.session.add_auth(Credential::new("plug-in", b"ticket"), 3).unwrap();
    bench.sent();
    bench.session.submit(&GET, 4).unwrap();
    answer_auth(&mut bench, ErrorCode::OK);
    answer_auth(&mut bench, ErrorCode::AUTH_FAILED);
    assert_eq!(
        bench.said(),
        [
            "2 ok".to_owned(),
            format!("3 over, unsent: {over}"),
            format!("1 over, sent: {over}"),
            format!("4 over, unsent: {over}"),
            over.to_owned(),
            "hangup: authentication failed: the server refused a credential of the scheme plug-in"
                .to_owned(),
        ]
    );
    assert!(matches!(bench.session.state(), SessionState::AuthFailed(_)));
    assert!(matches!(bench.session.submit(&GET, 5), Err(Rejected::Ended(_))));
    assert!(matches!(bench.session.add_auth(ann(), 6), Err(Rejected::Ended(_))));
    assert_eq!(bench.due_in(), None);
}

#[test]
fn a_repeated_credential_that_is_refused_ends_the_session_too() {
    let mut bench = Bench::attached();
    bench.session.add_auth(ann(), 1).unwrap();
    bench.sent();
    answer_auth(&mut bench, ErrorCode::OK);
    bench.cut();
    assert_eq!(bench.said(), ["1 ok", "Disconnected"]);
    bench.attach();
    bench.sent();
    answer_auth(&mut bench, ErrorCode::AUTH_FAILED);
    let over = "AuthFailed(Credential(\"digest\"))";
    let hangup =
        "hangup: authentication failed: the server refused a credential of the scheme digest";
    assert_eq!(bench.said(), [over, hangup]);
}

#[test]
fn the_end_is_told_to_those_who_wait_for_a_connection() {
    let mut bench = Bench::new(Bench::config());
    bench.session.add_auth(ann(), 1).unwrap();
    bench.session.close();
    assert_eq!(bench.said(), ["1 over, unsent: Closed", "Closed"]);
}

#[test]
fn a_session_that_is_detached_waits_for_its_credentials() {
    let mut bench = Bench::attached();
    bench.session.add_auth(ann(), 1).unwrap();
    bench.sent();
    bench.cut();
    bench.session.detach();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), ["auth#-4 digest ann:secret"]);
    answer_auth(&mut bench, ErrorCode::OK);
    assert_eq!(bench.said(), ["1 ok", "Closed", "hangup: the client is closed"]);
    assert!(bench.session.detached().is_some());
}

#[test]
fn what_is_remembered_is_bounded_in_number_and_in_bytes() {
    let mut bench = Bench::new(Bench::config());
    let nth = |n: usize| Credential::new("digest", format!("user{n}:x").as_bytes());
    for n in 0..100 {
        bench.session.add_auth(nth(n), 0).unwrap();
    }
    let refused = Err(Rejected::Limit(Limit::Credentials(100)));
    assert_eq!(bench.session.add_auth(nth(100), 0), refused);
    bench.session.add_auth(nth(50), 0).unwrap();
    bench.session.abandon();
    assert_eq!(bench.said().len(), 102);

    let mut config = Bench::config();
    config.limits.max_request = 1000;
    let mut bench = Bench::new(config);
    let refused = Err(Rejected::Limit(Limit::Credentials(0)));
    assert_eq!(bench.session.add_auth(Credential::new("digest", &[b'x'; 963]), 1), refused);
    let longest = Credential::new("digest", &[b'x'; 962]);
    bench.session.add_auth(longest, 2).unwrap();
    let refused = Err(Rejected::Limit(Limit::Credentials(1)));
    assert_eq!(bench.session.add_auth(ann(), 3), refused);
    bench.attach();
    assert_eq!(bench.frames()[0].len(), 988);
    answer_auth(&mut bench, ErrorCode::OK);
    assert_eq!(bench.said(), ["2 ok"]);
}

/// Servers answer auth requests without touching the session.
#[test]
fn proving_something_does_not_put_the_next_ping_off() {
    let mut bench = Bench::attached();
    bench.pass(TIMEOUT / 6);
    bench.session.add_auth(ann(), 1).unwrap();
    bench.sent();
    answer_auth(&mut bench, ErrorCode::OK);
    assert_eq!(bench.said(), ["1 ok"]);
    assert_eq!(bench.due_in(), Some(TIMEOUT / 6), "a third after the handshake");
    bench.session.submit(&SyncRequest { path: "/".into() }, 2).unwrap();
    bench.session.add_auth(bob(), 3).unwrap();
    bench.sent();
    assert_eq!(bench.due_in(), Some(TIMEOUT / 3), "anything else does");
    bench.session.abandon();
    bench.said();
}

#[test]
fn nothing_shows_a_secret() {
    let mut bench = Bench::new(Bench::config());
    bench.session.add_auth(ann(), 1).unwrap();
    bench.connect();
    bench.frame(payload(&welcome(Duration::from_secs(12))));
    let shown = format!("{:?} {:?}", bench.session, ann());
    // As text, and as the list of its bytes.
    assert!(!shown.contains("ann:") && !shown.contains("97, 110, 110"), "{shown}");
    bench.session.abandon();
    bench.said();
}
