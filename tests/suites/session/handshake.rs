//! The handshake: what a session requests of a server, and how it handles each reply.

use std::time::Duration;

use bytes::Bytes;
use zk_client::{SessionConfig, SessionIdentity, SessionState};
use zk_proto::{
    ConnectRequest, ConnectResponse, ErrorCode, GetDataRequest, Password, SessionId, Xid, Zxid,
};
use zk_test_support::peer::{
    Bench, SESSION, TIMEOUT, data, expired, password, payload, reply, welcome,
};

const GET: GetDataRequest<'_> = GetDataRequest { path: "/a", watch: false };

#[test]
fn a_new_session_asks_for_no_id_and_the_wanted_timeout() {
    let mut bench = Bench::new(Bench::config());
    assert_eq!(bench.session.state(), SessionState::Connecting);
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout: 12_000,
        session_id: SessionId(0),
        password: Password::ZERO,
        read_only: Some(false),
    };
    assert_eq!(bench.connect(), request);
    assert_eq!(bench.session.identity(), None);
}

#[test]
fn nothing_is_sent_before_the_transport_is_up() {
    let mut bench = Bench::new(Bench::config());
    bench.session.submit(&GET, 1).unwrap();
    assert_eq!(bench.sent(), [""; 0]);
    bench.session.handle_connecting(bench.now);
    assert_eq!(bench.sent(), [""; 0]);
    bench.session.abandon();
    bench.said();
}

#[test]
fn requests_wait_for_the_end_of_the_handshake() {
    let mut bench = Bench::new(Bench::config());
    bench.session.submit(&GET, 1).unwrap();
    bench.connect();
    bench.session.submit(&GET, 2).unwrap();
    assert_eq!(bench.sent(), [""; 0]);
    bench.frame(payload(&welcome(TIMEOUT)));
    assert_eq!(bench.said(), ["Connected"]);
    assert_eq!(bench.sent(), ["getData#1 /a", "getData#2 /a"]);
}

#[test]
fn the_servers_timeout_rules_from_then_on() {
    let mut bench = Bench::new(Bench::config());
    bench.connect();
    assert_eq!(bench.session.timeout(), TIMEOUT);
    bench.frame(payload(&welcome(Duration::from_secs(6))));
    assert_eq!(bench.said(), ["Connected"]);
    assert_eq!(bench.session.timeout(), Duration::from_secs(6));
    assert_eq!(bench.due_in(), Some(Duration::from_secs(2)), "the first ping");

    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    assert_eq!(bench.due_in(), Some(Duration::from_secs(8)), "the expiry");
    assert_eq!(bench.connect().timeout, 12_000, "what is wanted is asked for again");
    bench.frame(payload(&welcome(Duration::from_secs(30))));
    assert_eq!(bench.said(), ["Connected"]);
    assert_eq!(bench.session.timeout(), Duration::from_secs(30));
}

#[test]
fn a_reattach_names_the_session_its_password_and_the_last_reply() {
    let mut bench = Bench::attached();
    bench.session.submit(&GET, 1).unwrap();
    bench.sent();
    bench.frame(reply(Xid(1), 0x42, ErrorCode::OK, &data(b"")));
    bench.cut();
    assert_eq!(bench.said(), ["1 ok", "Disconnected"]);
    let ConnectRequest { session_id, password: secret, last_zxid_seen, .. } = bench.connect();
    assert_eq!((session_id, secret, last_zxid_seen), (SESSION, password(), Zxid(0x42)));
}

#[test]
fn a_resumed_session_is_asked_for_and_not_a_new_one() {
    let mut config = Bench::config();
    config.resume = Some(SessionIdentity::new(SESSION, password()));
    let mut bench = Bench::new(config);
    let request = bench.connect();
    assert_eq!((request.session_id, request.password), (SESSION, password()));
    bench.frame(payload(&expired()));
    assert_eq!(
        bench.said(),
        ["Expired", "hangup: the session is expired"],
        "a session that is over"
    );
}

#[test]
fn a_server_that_does_not_know_the_session_ends_it() {
    let another = ConnectResponse { session_id: SessionId(9), ..welcome(TIMEOUT) };
    let zero = ConnectResponse { session_id: SessionId(0), ..welcome(TIMEOUT) };
    let negative = ConnectResponse { timeout: -1, ..welcome(TIMEOUT) };
    for (what, answer) in [
        ("timeout 0", expired()),
        ("a negative timeout", negative),
        ("no id", zero),
        ("another id", another),
    ] {
        let mut bench = Bench::attached();
        bench.cut();
        bench.session.submit(&GET, 1).unwrap();
        bench.connect();
        bench.frame(payload(&answer));
        assert_eq!(
            bench.said(),
            [
                "Disconnected",
                "1 over, unsent: Expired",
                "Expired",
                "hangup: the session is expired"
            ],
            "{what}"
        );
        assert!(bench.session.submit(&GET, 2).is_err(), "{what}");
        assert_eq!(bench.due_in(), None, "{what}");
    }
}

#[test]
fn an_empty_answer_is_that_of_a_read_only_server() {
    let mut bench = Bench::new(Bench::config());
    bench.connect();
    bench.frame(Bytes::new());
    let [hangup] = bench.said().try_into().unwrap();
    assert!(hangup.contains("allow_read_only"), "{hangup}");
}

/// As servers do that open no local sessions.
#[test]
fn a_read_only_server_that_opens_no_session_says_so_in_place_of_an_answer() {
    let mut bench = Bench::new(Bench::config());
    bench.connect();
    bench.frame(reply(Xid(0), 0x42, ErrorCode::NOT_READ_ONLY, &()));
    let [hangup] = bench.said().try_into().unwrap();
    assert!(hangup.contains("cut off from its ensemble"), "{hangup}");
}

#[test]
fn a_new_session_cannot_be_expired() {
    let mut bench = Bench::new(Bench::config());
    bench.connect();
    bench.frame(payload(&expired()));
    let [hangup] = bench.said().try_into().unwrap();
    assert!(hangup.starts_with("hangup: the server broke the protocol: handshake"), "{hangup}");
    bench.cut();
    assert_eq!(bench.session.ended(), None);
    bench.attach();
}

#[test]
fn an_answer_that_is_no_handshake_drops_the_connection_and_keeps_the_session() {
    let header_alone = reply(Xid(0), 0, ErrorCode::NOT_READ_ONLY, &());
    assert_eq!(header_alone.len(), 16);
    let whole = payload(&welcome(TIMEOUT));
    let garbage = [
        ("a reply header in its place", header_alone),
        ("nothing", Bytes::new()),
        ("half of it", whole.slice(..20)),
        ("noise", Bytes::from_static(&[0xa5; 37])),
    ];
    for (what, frame) in garbage {
        for known in [false, true] {
            let mut bench = Bench::new(Bench::config());
            if known {
                bench.attach();
                bench.cut();
                assert_eq!(bench.said(), ["Disconnected"]);
            }
            bench.connect();
            bench.frame(frame.clone());
            let [hangup] = bench.said().try_into().unwrap();
            assert!(
                hangup.starts_with("hangup: the server broke the protocol"),
                "{what}: {hangup}"
            );
            bench.frame(whole.clone());
            assert_eq!(bench.said(), [""; 0], "{what}: nothing counts behind it");
            bench.cut();
            let expected = if known { SESSION } else { SessionId(0) };
            assert_eq!(bench.connect().session_id, expected, "{what}");
        }
    }
}

#[test]
fn an_old_server_answers_without_the_read_only_byte() {
    let mut bench = Bench::new(Bench::config());
    bench.connect();
    let whole = payload(&ConnectResponse { read_only: None, ..welcome(TIMEOUT) });
    assert_eq!(whole.len(), 36);
    bench.frame(whole);
    assert_eq!(bench.said(), ["Connected"]);
}

#[test]
fn a_newer_server_may_append_to_its_answer() {
    let mut bench = Bench::new(Bench::config());
    bench.connect();
    bench.frame([&payload(&welcome(TIMEOUT))[..], b"more"].concat().into());
    assert_eq!(bench.said(), ["Connected"]);
}

#[test]
fn a_read_only_server_is_told_apart() {
    let mut bench = Bench::new(Bench::config());
    bench.connect();
    bench.frame(payload(&ConnectResponse { read_only: Some(true), ..welcome(TIMEOUT) }));
    assert_eq!(bench.said(), ["ConnectedReadOnly"]);
    assert!(bench.session.state().is_connected());
}

#[test]
fn a_timeout_beyond_the_wire_is_asked_for_as_the_longest() {
    let forever = Duration::from_secs(1 << 40);
    let mut bench = Bench::new(SessionConfig::new(forever, 1));
    assert_eq!(bench.connect().timeout, i32::MAX);
}

#[test]
fn the_sessions_debug_shows_no_password() {
    let bench = Bench::attached();
    let shown = format!("{:?} {:?}", bench.session, bench.session.identity());
    assert!(shown.contains(&SESSION.0.to_string()), "{shown}");
    assert!(!shown.contains("0123456789abcdef") && !shown.contains("48, 49, 50"), "{shown}");
}
