//! A move to another server: requests that were sent are answered first, and all others wait.

use std::time::Duration;

use zk_client::{Hangup, Sasl};
use zk_proto::{ErrorCode, GetDataRequest, Secret, SetSaslResponse, Xid};
use zk_test_support::peer::{Bench, TIMEOUT, data, payload, reply, welcome};

const GET: GetDataRequest<'_> = GetDataRequest { path: "/a", watch: false };
const MOVING: &str = "hangup: moving to another server";

fn leave(bench: &mut Bench) {
    bench.session.leave(bench.now, Hangup::Moving);
}

#[test]
fn what_was_sent_is_answered_before_and_what_was_not_waits() {
    let mut bench = Bench::attached();
    for token in 1..=2 {
        bench.session.submit(&GET, token).unwrap();
    }
    assert_eq!(bench.sent(), ["getData#1 /a", "getData#2 /a"]);
    leave(&mut bench);
    bench.session.submit(&GET, 3).unwrap();
    assert_eq!(bench.sent(), [""; 0]);
    bench.answer(1, &data(b""));
    assert_eq!(bench.said(), ["1 ok"]);
    bench.answer(2, &data(b""));
    assert_eq!(bench.said(), ["2 ok", MOVING]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), ["getData#3 /a"]);
    bench.answer(3, &data(b""));
    assert_eq!(bench.said(), ["3 ok"]);
}

#[test]
fn an_idle_connection_is_left_at_once_and_an_attempt_given_up() {
    let mut bench = Bench::attached();
    leave(&mut bench);
    assert_eq!(bench.said(), [MOVING]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.session.handle_connecting(bench.now);
    leave(&mut bench);
    assert_eq!(bench.said(), [MOVING]);
    bench.cut();
    bench.attach();
}

/// The server may have opened a session, which must not be left there to expire.
#[test]
fn a_handshake_is_waited_for() {
    let mut bench = Bench::new(Bench::config());
    bench.connect();
    bench.session.submit(&GET, 1).unwrap();
    leave(&mut bench);
    assert_eq!(bench.said(), [""; 0]);
    bench.frame(payload(&welcome(TIMEOUT)));
    assert_eq!(bench.said(), ["Connected", MOVING]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), ["getData#1 /a"]);
    bench.answer(1, &data(b""));
    assert_eq!(bench.said(), ["1 ok"]);
}

/// The session leaves a server that is not in the list, or does not serve writes, while SASL is in
/// progress there.
#[test]
fn sasl_is_waited_for() {
    for done in [true, false] {
        let mut config = Bench::config();
        config.sasl = Some(Sasl::digest_md5("bob", "secret", 7));
        config.attempt_timeout = TIMEOUT;
        let mut bench = Bench::new(config);
        bench.connect();
        bench.frame(payload(&welcome(TIMEOUT)));
        assert_eq!(bench.requests().len(), 1);
        leave(&mut bench);
        assert_eq!(bench.said(), [""; 0]);
        if done {
            for (xid, token) in [
                (1, "nonce=\"abc1\",realm=\"zk-sasl-md5\",charset=utf-8,algorithm=md5-sess"),
                (2, "rspauth=393887adff47fec5fef153ca3c81e6f1"),
            ] {
                let token = Secret::new(Some(token.as_bytes()));
                bench.frame(reply(Xid(xid), 0, ErrorCode::OK, &SetSaslResponse { token }));
            }
            assert_eq!(bench.said(), ["Connected", MOVING]);
        } else {
            bench.pass(TIMEOUT / 3);
            assert_eq!(bench.said(), [MOVING]);
        }
        bench.cut();
        bench.said();
    }
}

#[test]
fn an_answer_is_waited_for_during_a_third_of_the_timeout() {
    let mut bench = Bench::attached();
    bench.session.submit(&GET, 1).unwrap();
    assert_eq!(bench.sent(), ["getData#1 /a"]);
    leave(&mut bench);
    bench.pass(TIMEOUT / 3 - Duration::from_millis(1));
    assert_eq!(bench.said(), [""; 0]);
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.said(), [MOVING]);
    bench.cut();
    assert_eq!(bench.said(), ["1 lost, sent", "Disconnected"]);
}

#[test]
fn pings_go_on_and_cost_no_wait() {
    let mut bench = Bench::attached();
    bench.pass(TIMEOUT / 6);
    bench.session.submit(&GET, 1).unwrap();
    assert_eq!(bench.sent(), ["getData#1 /a"]);
    bench.pass(TIMEOUT / 6);
    leave(&mut bench);
    bench.pass(TIMEOUT / 6);
    assert_eq!(bench.sent(), ["ping"]);
    bench.frame(reply(Xid(1), 1, ErrorCode::OK, &data(b"")));
    assert_eq!(bench.said(), ["1 ok", MOVING]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
}

#[test]
fn a_session_that_closes_stays_where_it_is() {
    for close_first in [true, false] {
        let mut bench = Bench::attached();
        bench.session.submit(&GET, 1).unwrap();
        assert_eq!(bench.sent(), ["getData#1 /a"]);
        if close_first {
            bench.session.close();
            leave(&mut bench);
        } else {
            leave(&mut bench);
            bench.session.close();
        }
        assert_eq!(bench.sent(), ["closeSession#2"]);
        bench.answer(1, &data(b""));
        assert_eq!(bench.said(), ["1 ok"]);
        bench.answer(2, &());
        assert_eq!(bench.said(), ["Closed", "hangup: the client is closed"]);
    }
}
