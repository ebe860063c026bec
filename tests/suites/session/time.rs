//! How a session acts as time passes: with T as its timeout, it pings at T/3, hangs up at 2T/3 and
//! ends at 4T/3. Nothing here sleeps; the clock is a number.

use std::time::Duration;

use zk_client::{LeaseState, SessionConfig};
use zk_proto::{CreateMode, CreateRequest, ErrorCode, EventType, GetDataRequest, List, Xid};
use zk_test_support::peer::{Bench, TIMEOUT, created, data, payload, reply, welcome};

const GET: GetDataRequest<'_> = GetDataRequest { path: "/a", watch: false };
const MS: Duration = Duration::from_millis(1);

/// TIMEOUT is 12 s.
const PING: Duration = Duration::from_secs(4);
const SILENCE: Duration = Duration::from_secs(8);
const EXPIRY: Duration = Duration::from_secs(16);
const ATTEMPT: Duration = Duration::from_secs(4);

/// The server's reply to a ping.
fn pong(bench: &mut Bench) {
    bench.frame(reply(Xid::PING, 0, ErrorCode::OK, &()));
}

/// Lets time pass up to the next deadline, and returns how long that took.
fn to_deadline(bench: &mut Bench) -> Duration {
    let wait = bench.due_in().expect("a deadline");
    bench.pass(wait);
    bench.age()
}

#[test]
fn an_idle_session_pings_at_each_third_of_its_timeout() {
    let mut bench = Bench::attached();
    for n in 1..=100 {
        assert_eq!(to_deadline(&mut bench), PING * n);
        assert_eq!(bench.sent(), ["ping"]);
        pong(&mut bench);
    }
    assert_eq!(bench.said(), [""; 0]);
}

#[test]
fn a_ping_is_due_after_ten_seconds_at_most() {
    let mut bench = Bench::new(SessionConfig::new(Duration::from_secs(600), 1));
    bench.connect();
    bench.frame(payload(&welcome(Duration::from_secs(600))));
    assert_eq!(bench.said(), ["Connected"]);
    assert_eq!(to_deadline(&mut bench), Duration::from_secs(10));
    assert_eq!(bench.sent(), ["ping"]);
    assert_eq!(to_deadline(&mut bench), Duration::from_secs(20));
    assert_eq!(bench.sent(), ["ping"]);
}

#[test]
fn a_request_that_is_sent_postpones_the_ping() {
    let mut bench = Bench::attached();
    bench.pass(PING - MS);
    bench.session.submit(&GET, 1).unwrap();
    bench.sent();
    bench.pass(PING - MS);
    assert_eq!(bench.sent(), [""; 0]);
    bench.pass(MS);
    assert_eq!(bench.sent(), ["ping"]);
}

#[test]
fn a_request_that_waits_does_not_postpone_the_ping() {
    let mut bench = Bench::attached();
    bench.pass(PING - MS);
    bench.session.submit(&GET, 1).unwrap();
    assert_eq!(bench.due_in(), Some(MS));
    assert_eq!(bench.sent(), ["getData#1 /a"]);
}

#[test]
fn what_is_received_does_not_postpone_the_ping() {
    let mut bench = Bench::attached();
    bench.pass(PING - MS);
    bench.fire(EventType::NODE_CREATED, "/a");
    assert_eq!(bench.due_in(), Some(MS));
}

#[test]
fn a_busy_session_does_not_ping() {
    let mut bench = Bench::attached();
    for n in 1..=50 {
        bench.pass(PING / 2);
        bench.session.submit(&GET, 0).unwrap();
        assert_eq!(bench.sent(), [format!("getData#{n} /a")]);
        bench.answer(n, &data(b""));
        assert_eq!(bench.said(), ["0 ok"]);
    }
}

#[test]
fn a_server_that_is_silent_for_two_thirds_is_left() {
    let mut bench = Bench::attached();
    bench.pass(PING);
    assert_eq!(bench.sent(), ["ping"]);
    bench.pass(SILENCE - PING - MS);
    assert_eq!(bench.said(), [""; 0]);
    bench.pass(MS);
    assert_eq!(bench.said(), ["hangup: the server was silent for 8s"]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    assert_eq!(bench.session.ended(), None);
}

#[test]
fn every_frame_is_a_sign_of_life() {
    type Hear = fn(&mut Bench);
    let frames: [(&str, Hear); 3] = [
        ("a reply", |bench| {
            bench.session.submit(&GET, 1).unwrap();
            bench.sent();
            bench.answer(1, &data(b""));
        }),
        ("an event", |bench| bench.fire(EventType::NODE_CREATED, "/a")),
        ("a pong", |bench| pong(bench)),
    ];
    for (what, hear) in frames {
        let mut bench = Bench::attached();
        bench.pass(PING);
        assert_eq!(bench.sent(), ["ping"]);
        bench.pass(SILENCE - PING - MS);
        hear(&mut bench);
        bench.said();
        bench.sent();
        bench.pass(SILENCE - MS);
        bench.sent();
        assert_eq!(bench.said(), [""; 0], "{what}");
        bench.pass(MS);
        assert_eq!(bench.said(), ["hangup: the server was silent for 8s"], "{what}");
    }
}

#[test]
fn the_session_is_given_up_at_four_thirds_although_it_is_cut_off() {
    let mut bench = Bench::attached();
    bench.pass(PING);
    bench.sent();
    pong(&mut bench);
    let heard = bench.age();
    bench.pass(MS);
    bench.cut();
    bench.session.submit(&GET, 1).unwrap();
    assert_eq!(bench.said(), ["Disconnected"]);

    // Connection attempts to servers that do not answer change nothing.
    bench.pass(PING);
    bench.connect();
    bench.pass(MS);
    bench.cut();
    assert_eq!(bench.said(), [""; 0]);

    bench.pass(heard + EXPIRY - bench.age() - MS);
    assert_eq!(bench.said(), [""; 0]);
    bench.pass(MS);
    assert_eq!(bench.said(), ["1 over, unsent: Expired", "Expired"]);
    assert_eq!(bench.due_in(), None);
}

#[test]
fn a_session_that_was_never_attached_does_not_expire() {
    let mut bench = Bench::new(Bench::config());
    bench.pass(EXPIRY * 10);
    assert_eq!(bench.due_in(), None);
    bench.attach();
}

#[test]
fn an_attempt_has_its_share_of_the_timeout() {
    let up = |bench: &mut Bench| {
        bench.connect();
    };
    let down = |bench: &mut Bench| bench.session.handle_connecting(bench.now);
    for (begin, why) in [(up as fn(&mut _), "no answer"), (down, "no handshake")] {
        let mut bench = Bench::new(Bench::config());
        begin(&mut bench);
        bench.pass(ATTEMPT - MS);
        assert_eq!(bench.said(), [""; 0]);
        bench.pass(MS);
        let said = bench.said();
        assert!(said[0].starts_with(&format!("hangup: {why} within 4s")), "{said:?}");
        bench.session.handle_connected(bench.now);
        assert_eq!(bench.sent(), [""; 0], "too late");
        bench.cut();
        bench.attach();
        assert_eq!(bench.due_in(), Some(PING), "the attempt's deadline is over");
    }
}

#[test]
fn the_handshakes_wait_counts_towards_the_attempt() {
    let mut bench = Bench::new(Bench::config());
    bench.session.handle_connecting(bench.now);
    bench.pass(ATTEMPT - MS);
    bench.session.handle_connected(bench.now);
    assert_eq!(bench.frames().len(), 1);
    bench.pass(MS);
    let said = bench.said();
    assert!(said[0].starts_with("hangup: no answer within 4s, although"), "{said:?}");
}

/// When a session pings, hangs up and ends, with a server that answers `pongs` pings and a session
/// that checks the clock every `step`.
fn story(pongs: usize, step: Option<Duration>) -> Vec<(Duration, String)> {
    let mut bench = Bench::attached();
    bench.session.submit(&GET, 1).unwrap();
    bench.sent();
    let mut story = Vec::new();
    let mut answered = 0;
    while let Some(due) = bench.due_in() {
        bench.pass(step.map_or(due, |step| step.min(due)));
        let mut news = bench.sent();
        if news == ["ping"] && answered < pongs {
            answered += 1;
            pong(&mut bench);
        }
        news.extend(bench.said());
        story.extend(news.into_iter().map(|news| (bench.age(), news)));
    }
    story
}

#[test]
fn an_early_or_spurious_timeout_changes_nothing() {
    let punctual = story(5, None);
    let told = |news: &str| punctual.iter().find(|(_, told)| told.starts_with(news)).unwrap().0;
    assert_eq!(told("hangup"), PING * 5 + SILENCE);
    assert_eq!(told("Expired"), PING * 5 + EXPIRY);
    for step in [0.3, 7.0, 1001.0] {
        assert_eq!(story(5, Some(MS.mul_f64(step))), punctual, "every {step} ms");
    }
}

#[test]
fn the_deadline_is_never_in_the_past_once_it_was_handled() {
    let mut bench = Bench::attached();
    for _ in 0..20 {
        bench.pass(SILENCE / 3 * 2);
        assert!(bench.session.poll_timeout().is_none_or(|at| at > bench.now));
        bench.sent();
        if bench.age() < SILENCE * 4 {
            pong(&mut bench);
        }
    }
    assert!(bench.session.ended().is_some());
    bench.said();
}

#[test]
fn a_clock_that_jumps_past_everything_ends_the_session() {
    let mut bench = Bench::attached();
    bench.pass(EXPIRY * 100);
    bench.frames();
    let said = bench.said();
    assert_eq!(said.iter().filter(|said| *said == "Expired").count(), 1, "{said:?}");
    assert_eq!(bench.due_in(), None);
}

#[test]
fn close_waits_one_timeout_for_a_server() {
    let mut bench = Bench::attached();
    bench.cut();
    bench.session.close();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.pass(Duration::ZERO);
    bench.pass(TIMEOUT - MS);
    assert_eq!(bench.said(), [""; 0]);
    bench.pass(MS);
    assert_eq!(bench.said(), ["Closed"]);
    assert_eq!(bench.due_in(), None);
}

#[test]
fn close_is_sent_to_the_server_that_comes_in_time() {
    let mut bench = Bench::attached();
    bench.cut();
    bench.session.close();
    bench.session.close();
    bench.pass(TIMEOUT / 2);
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), ["closeSession#1"]);
    bench.answer(1, &());
    assert_eq!(bench.said(), ["Closed", "hangup: the client is closed"]);
}

#[test]
fn close_before_any_server_is_done_at_once() {
    let mut bench = Bench::new(Bench::config());
    bench.session.submit(&GET, 1).unwrap();
    bench.session.close();
    assert_eq!(bench.said(), ["1 over, unsent: Closed", "Closed"]);
}

#[test]
fn close_during_the_first_handshake_closes_what_it_opens() {
    let mut bench = Bench::new(Bench::config());
    bench.connect();
    bench.session.close();
    bench.frame(payload(&welcome(TIMEOUT)));
    assert_eq!(bench.said(), ["Connected"]);
    assert_eq!(bench.sent(), ["closeSession#1"]);
    bench.answer(1, &());
    assert_eq!(bench.said(), ["Closed", "hangup: the client is closed"]);

    let mut bench = Bench::new(Bench::config());
    bench.connect();
    bench.session.close();
    bench.cut();
    assert_eq!(bench.said(), ["Closed"], "there is nothing to close elsewhere");
}

#[test]
fn attempts_shrink_with_the_timeout_that_the_server_grants() {
    let mut bench = Bench::new(SessionConfig::new(TIMEOUT * 10, 3));
    bench.connect();
    bench.frame(payload(&welcome(TIMEOUT)));
    assert_eq!(bench.said(), ["Connected"]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.session.handle_connecting(bench.now);
    assert_eq!(bench.due_in(), Some(TIMEOUT / 3), "not a third of what was wanted");
}

#[test]
fn a_close_waits_for_a_server_that_works_through_what_was_asked_before() {
    let mut bench = Bench::attached();
    for token in 1..=40 {
        bench.session.submit(&GET, token).unwrap();
    }
    bench.session.close();
    bench.pass(Duration::ZERO);
    for xid in 1..=40 {
        bench.pass(Duration::from_secs(1));
        bench.sent();
        bench.answer(xid, &data(b""));
    }
    bench.answer(41, &());
    let said = bench.said();
    let answered = (1..=40).map(|token| format!("{token} ok")).collect::<Vec<_>>();
    assert_eq!(said[..40], answered);
    assert_eq!(said[40..], ["Closed", "hangup: the client is closed"]);
}

#[test]
fn a_reply_that_says_that_the_session_is_expired_ends_it() {
    let mut bench = Bench::attached();
    for token in 1..=2 {
        bench.session.submit(&GET, token).unwrap();
    }
    assert_eq!(bench.sent().len(), 2);
    bench.refuse(1, ErrorCode::SESSION_EXPIRED);
    let said = bench.said();
    assert_eq!(said[0], "1 SessionExpired");
    assert!(said.contains(&"Expired".to_owned()), "{said:?}");
    assert!(said.last().unwrap().starts_with("hangup: "), "{said:?}");
    assert!(said.iter().any(|told| told.starts_with("2 ")), "nobody waits for ever: {said:?}");
}

const SECOND: Duration = Duration::from_secs(1);

/// Lets seconds pass in each of which so many bytes of one frame come, until the session hangs up.
fn drips(bench: &mut Bench, bytes: usize, seconds: u64) -> Option<u64> {
    (1..=seconds).find(|_| {
        bench.pass(SECOND);
        bench.session.handle_part(bench.now, bytes);
        bench.sent();
        !bench.said().is_empty()
    })
}

#[test]
fn a_frame_that_keeps_arriving_is_a_sign_of_life_and_one_that_drips_is_none() {
    let mut bench = Bench::attached();
    assert_eq!(drips(&mut bench, 1024, 600), None);
    pong(&mut bench);
    assert_eq!(bench.said(), [""; 0]);
    for bytes in [0, 1, 1000, 1023] {
        let mut bench = Bench::attached();
        let dropped = drips(&mut bench, bytes, 600).unwrap();
        assert!((8..=9).contains(&dropped), "{bytes} bytes: after {dropped} s");
    }
}

#[test]
fn a_frame_that_keeps_arriving_proves_nothing_for_a_lease() {
    let lapses = |bytes| {
        let mut bench = Bench::attached();
        let request = CreateRequest {
            path: "/x-",
            data: None,
            acl: List::new(&[]),
            mode: CreateMode::EPHEMERAL_SEQUENTIAL,
        };
        let node = bench.session.submit_owned(&request, 1).unwrap();
        bench.sent();
        bench.answer(1, &created("/x-0000000001"));
        let lease = bench.session.open_lease(bench.now, node, None);
        assert_eq!(bench.said(), ["1 ok"]);
        let lapsed = (1..=24).find(|_| {
            bench.pass(SECOND / 2);
            bench.session.handle_part(bench.now, bytes);
            bench.sent();
            bench.said();
            matches!(bench.session.lease_state(bench.now, lease), LeaseState::Lapsed(_))
        });
        bench.cut();
        bench.said();
        lapsed
    };
    assert!(lapses(0).is_some());
    assert_eq!(lapses(100_000), lapses(0));
}
