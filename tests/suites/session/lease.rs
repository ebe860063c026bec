//! Leases on owned nodes: until when a holder may rely on one, with T as the session timeout.
//! Nothing here sleeps; the clock is a number.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use zk_client::session::{Event, LeaseId, OwnedNodeId};
use zk_client::{DeadlineRule, Ended, Lapse, LeaseState, SessionConfig};
use zk_proto::{
    CheckVersionRequest, CreateMode, CreateRequest, DeleteRequest, ErrorCode, EventType,
    ExistsResponse, GetDataRequest, List, MultiOp, MultiRequest, OpCode, SyncResponse, Text, Xid,
};
use zk_test_support::peer::{
    Bench, SESSION, TIMEOUT, created, data, expired, payload, reply, stat_of, welcome,
};

const STEM: &str = "/locks/x-";
const NODE: &str = "/locks/x-0000000003";
const DELETE: &str = "delete /locks/x-0000000003";
const GET: GetDataRequest<'_> = GetDataRequest { path: "/a", watch: false };
const PUT: DeleteRequest<'_> = DeleteRequest { path: "/a", version: 3 };
const MS: Duration = Duration::from_millis(1);

/// The session timeout of 12 s less the allowance for clock drift.
const TERM: Duration = Duration::from_millis(11_880);
/// A third of the timeout. A silence this long suspends leases, and a probe is sent this long
/// before the deadline.
const THIRD: Duration = Duration::from_secs(4);
/// The time between two pings of a session with a lease.
const PING: Duration = Duration::from_millis(800);
/// A write proves an earlier request only if that was answered at least this long before the write
/// is sent.
const SLACK: Duration = Duration::from_millis(3600);

fn config(rule: DeadlineRule) -> SessionConfig {
    let mut config = Bench::config();
    config.deadline_rule = rule;
    config
}

fn attached(rule: DeadlineRule) -> Bench {
    let mut bench = Bench::new(config(rule));
    bench.attach();
    bench
}

/// The requests that are sent, without their xids.
fn sent(bench: &mut Bench) -> Vec<String> {
    let bare = |text: String| {
        let (head, tail) = text.split_once('#').unwrap_or((&text, ""));
        let path = tail.split_once(' ').map(|(_, path)| format!(" {path}")).unwrap_or_default();
        format!("{head}{path}")
    };
    bench.sent().into_iter().map(bare).collect()
}

fn pong(bench: &mut Bench) {
    bench.frame(reply(Xid::PING, 0, ErrorCode::OK, &()));
}

fn create(bench: &mut Bench) -> OwnedNodeId {
    let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
    let request = CreateRequest { path: STEM, data: None, acl: List::new(&[]), mode };
    bench.session.submit_owned(&request, 1).unwrap()
}

/// Creates the node as request `xid`, which is answered at once.
fn own(bench: &mut Bench, xid: i32) -> OwnedNodeId {
    let node = create(bench);
    assert_eq!(bench.sent(), [format!("create2#{xid} {STEM}")]);
    bench.answer(xid, &created(NODE));
    assert_eq!(bench.said(), ["1 ok"]);
    node
}

/// A connected session that has a lease on a node, all at the same moment.
fn held(rule: DeadlineRule) -> (Bench, OwnedNodeId, LeaseId) {
    let mut bench = attached(rule);
    let node = own(&mut bench, 1);
    let lease = bench.session.open_lease(bench.now, node, None);
    (bench, node, lease)
}

fn state(bench: &Bench, lease: LeaseId) -> LeaseState {
    bench.session.lease_state(bench.now, lease)
}

fn valid(until: Instant) -> LeaseState {
    LeaseState::Valid { until }
}

fn suspended(until: Instant) -> LeaseState {
    LeaseState::Suspended { until }
}

const LATE: LeaseState = LeaseState::Lapsed(Lapse::Deadline);

/// Lets time pass from deadline to deadline, answering pings, until `time` is over. Returns the
/// other requests and when they were sent.
fn live(bench: &mut Bench, time: Duration) -> Vec<(Duration, String)> {
    let end = bench.now + time;
    let mut log = Vec::new();
    while bench.now < end {
        let wait = bench.due_in().unwrap_or(time).min(end - bench.now);
        bench.pass(wait);
        for request in bench.requests() {
            match request.op() {
                OpCode::PING => pong(bench),
                OpCode::MULTI => {
                    log.push((bench.age(), request.to_string()));
                    bench.answer(request.xid().0, &());
                }
                _ => log.push((bench.age(), request.to_string())),
            }
        }
    }
    log
}

#[test]
fn a_node_of_a_fresh_session_is_leased_at_once() {
    for rule in [DeadlineRule::default(), DeadlineRule::Contact] {
        let (mut bench, _, lease) = held(rule);
        assert_eq!(state(&bench, lease), valid(bench.now + TERM), "{rule:?}");
        assert_eq!(bench.sent(), [""; 0], "the create is proof enough");
    }
}

#[test]
fn the_handshake_counts_behind_any_later_write() {
    let mut bench = Bench::new(config(DeadlineRule::default()));
    bench.connect();
    let handshake = bench.now;
    bench.pass(3 * MS);
    bench.frame(payload(&welcome(TIMEOUT)));
    assert_eq!(bench.said(), ["Connected"]);
    let node = own(&mut bench, 1);
    let lease = bench.session.open_lease(bench.now, node, None);
    assert_eq!(state(&bench, lease), valid(handshake + TERM), "from its send");
}

#[test]
fn the_deadline_counts_from_the_send_and_not_from_the_reply() {
    let mut bench = attached(DeadlineRule::Contact);
    bench.pass(MS);
    let asked = bench.now;
    let node = create(&mut bench);
    assert_eq!(bench.sent(), ["create2#1 /locks/x-"]);
    bench.pass(TIMEOUT * 6 / 10);
    assert_eq!(bench.sent(), ["ping"]);
    bench.answer(1, &created(NODE));
    assert_eq!(bench.said(), ["1 ok"]);
    let lease = bench.session.open_lease(bench.now, node, None);
    assert_eq!(state(&bench, lease), valid(asked + TERM));

    bench.cut();
    assert_eq!(bench.said(), ["Disconnected", "Leases"]);
    bench.pass(asked + TERM - bench.now - MS);
    assert_eq!(state(&bench, lease), suspended(asked + TERM));
    bench.pass(MS);
    assert_eq!(state(&bench, lease), LATE);
    assert_eq!(bench.said(), ["Leases"]);
}

#[test]
fn the_same_holds_for_a_quorum() {
    let mut bench = attached(DeadlineRule::default());
    bench.pass(MS);
    // The first write proves the handshake, and a second write proves the first.
    let first = bench.now;
    let node = own(&mut bench, 1);
    bench.pass(THIRD - MS);
    bench.session.submit(&PUT, 2).unwrap();
    assert_eq!(bench.sent(), ["delete#2 /a"]);
    let lease = bench.session.open_lease(bench.now, node, None);
    assert_eq!(state(&bench, lease), valid(first - MS + TERM), "from the handshake");
    bench.pass(THIRD);
    assert_eq!(sent(&mut bench), ["ping", "multi check /"]);
    pong(&mut bench);
    bench.pass(TIMEOUT * 6 / 10 - THIRD);
    assert_eq!(bench.said(), ["Leases"]);
    assert_eq!(state(&bench, lease), suspended(first - MS + TERM), "asked a third ago");
    bench.answer(2, &());
    assert_eq!(bench.said(), ["2 ok", "Leases"]);
    assert_eq!(state(&bench, lease), valid(first + TERM));
    bench.cut();
    bench.pass(first + TERM - bench.now - MS);
    assert_eq!(state(&bench, lease), suspended(first + TERM));
    bench.pass(MS);
    assert_eq!(state(&bench, lease), LATE);
    assert_eq!(bench.said(), ["Disconnected", "Leases", "Leases"]);
}

#[test]
fn the_term_counts_from_the_send_of_the_create() {
    let mut bench = attached(DeadlineRule::default());
    let asked = bench.now;
    let node = create(&mut bench);
    assert_eq!(bench.sent(), ["create2#1 /locks/x-"]);
    bench.pass(THIRD / 2);
    bench.answer(1, &created(NODE));
    let Some(Event::Completed { result: Ok(answer), .. }) = bench.session.poll_event() else {
        panic!("the create was answered");
    };
    assert_eq!(answer.requested_at, asked);
    let term = answer.requested_at + THIRD;
    let lease = bench.session.open_lease(bench.now, node, Some(term));
    let other = bench.session.open_lease(bench.now, node, None);
    assert_eq!(state(&bench, lease), valid(term));
    bench.pass(THIRD / 2 - MS);
    assert_eq!(state(&bench, lease), valid(term));
    assert_eq!(sent(&mut bench), ["ping"]);
    bench.pass(MS);
    assert_eq!(bench.said(), ["Leases"]);
    assert_eq!(state(&bench, lease), LeaseState::Lapsed(Lapse::MaxDuration));
    assert_eq!(state(&bench, other), LeaseState::Lapsed(Lapse::MaxDuration), "its node goes, too");
    assert_eq!(sent(&mut bench), [DELETE], "at once, and no probe: nobody relies on it");

    // The holder's own delete is the one that was already sent.
    bench.session.release(node, Some(2)).unwrap();
    bench.session.release(node, None).unwrap();
    assert_eq!(bench.said(), [""; 0]);
    bench.answer(2, &());
    assert_eq!(bench.said(), ["2 ok"]);
    assert_eq!(bench.load(), (0, 0, 0));
    bench.session.release(node, Some(2)).unwrap();
    assert_eq!(bench.said(), ["2 NoNode"]);
    let late = bench.session.open_lease(bench.now, node, None);
    assert_eq!(state(&bench, late), LATE, "there is nothing to rely on");
}

/// A connected session at a server that answers only pings from the create on. Returns how the
/// lease ended, or its state after three session timeouts.
fn at_a_server_that_was_cut_off(rule: DeadlineRule) -> (Duration, LeaseState, Vec<String>) {
    let (mut bench, _, lease) = held(rule);
    let mut log = Vec::new();
    while bench.age() < TIMEOUT * 3 && state(&bench, lease) != LATE {
        let wait = bench.due_in().unwrap();
        bench.pass(wait);
        for asked in sent(&mut bench) {
            match asked.as_str() {
                "ping" => pong(&mut bench),
                _ => log.push(asked),
            }
        }
    }
    assert!(bench.session.state().is_connected());
    bench.said();
    bench.frames();
    (bench.age(), state(&bench, lease), log)
}

#[test]
fn a_server_that_was_cut_off_does_not_deceive_the_quorum_rule() {
    let (age, state, log) = at_a_server_that_was_cut_off(DeadlineRule::default());
    assert_eq!((age, state), (TERM, LATE), "although it answers pings");
    assert_eq!(log, ["multi check /", DELETE]);
}

#[test]
fn a_server_that_was_cut_off_deceives_the_contact_rule() {
    let (_, state, _) = at_a_server_that_was_cut_off(DeadlineRule::Contact);
    assert!(!matches!(state, LeaseState::Lapsed(_)), "{state:?}");
}

#[test]
fn a_lease_is_suspended_while_the_session_is_cut_off() {
    let (mut bench, _, lease) = held(DeadlineRule::default());
    let until = bench.now + TERM;
    bench.pass(MS);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected", "Leases"]);
    assert_eq!(state(&bench, lease), suspended(until));
    bench.pass(THIRD);
    bench.connect();
    assert_eq!(state(&bench, lease), suspended(until));
    let again = bench.now;
    bench.frame(payload(&welcome(TIMEOUT)));
    assert_eq!(bench.said(), ["Connected", "Leases"]);
    assert_eq!(state(&bench, lease), valid(until), "nothing new is proved");
    assert_eq!(sent(&mut bench), ["multi check /"], "that is asked for at once");
    bench.answer(2, &());
    assert_eq!(state(&bench, lease), valid(again + TERM));
    assert_eq!(bench.said(), [""; 0]);
}

/// The proof was fresh when the lease was opened, and is old when the connection is back.
#[test]
fn a_lease_that_is_opened_while_cut_off_does_not_begin_at_its_end() {
    let mut bench = attached(DeadlineRule::default());
    let node = own(&mut bench, 1);
    let until = bench.now + TERM;
    bench.pass(MS);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    let lease = bench.session.open_lease(bench.now, node, None);
    assert_eq!(state(&bench, lease), suspended(until));
    bench.pass(TERM - 2 * MS);
    bench.connect();
    bench.frame(payload(&welcome(TIMEOUT)));
    assert_eq!(bench.said(), ["Connected", "Leases"]);
    let again = bench.now;
    assert_eq!(state(&bench, lease), suspended(again + TERM), "a moment is left of the old proof");
    assert_eq!(sent(&mut bench), ["multi check /"]);
    bench.answer(2, &());
    assert_eq!(state(&bench, lease), valid(again + TERM));
    assert_eq!(bench.said(), ["Leases"]);
}

#[test]
fn a_server_that_does_not_answer_suspends_leases() {
    let (mut bench, _, lease) = held(DeadlineRule::default());
    bench.pass(MS);
    bench.session.submit(&GET, 5).unwrap();
    assert_eq!(bench.sent(), ["getData#2 /a"]);
    bench.pass(THIRD - MS);
    assert!(matches!(state(&bench, lease), LeaseState::Valid { .. }));
    assert_eq!(bench.said(), [""; 0]);
    bench.pass(MS);
    assert!(matches!(state(&bench, lease), LeaseState::Suspended { .. }));
    assert_eq!(bench.said(), ["Leases"]);
    bench.answer(2, &data(b""));
    assert!(matches!(state(&bench, lease), LeaseState::Valid { .. }));
    assert_eq!(bench.said(), ["5 ok", "Leases"]);
    bench.frames();
}

#[test]
fn a_ping_counts_from_its_send_and_suspends_leases_without_an_answer() {
    let (mut bench, _, lease) = held(DeadlineRule::Contact);
    bench.pass(THIRD);
    let asked = bench.now;
    assert_eq!(bench.sent(), ["ping"]);
    bench.pass(THIRD - MS);
    bench.fire(EventType::NODE_CREATED, "/a");
    assert!(matches!(state(&bench, lease), LeaseState::Valid { .. }));
    bench.pass(MS);
    assert!(matches!(state(&bench, lease), LeaseState::Suspended { .. }));
    assert_eq!(bench.said(), ["Leases"]);
    pong(&mut bench);
    assert_eq!(state(&bench, lease), valid(asked + TERM));
    assert_eq!(bench.sent(), ["ping"]);
    bench.said();
}

#[test]
fn what_has_lapsed_stays_lapsed_although_the_session_lives() {
    let (mut bench, node, lease) = held(DeadlineRule::default());
    bench.cut();
    bench.pass(TERM);
    assert_eq!(bench.said(), ["Disconnected", "Leases", "Leases"]);
    bench.attach();
    assert_eq!(state(&bench, lease), LATE);
    assert_eq!(sent(&mut bench), [DELETE], "the node must not outlive its lease");
    bench.answer(2, &());
    assert_eq!(state(&bench, lease), LATE);
    bench.session.release(node, None).unwrap();
    assert_eq!(sent(&mut bench), [""; 0]);

    own(&mut bench, 3);
    let next = bench.session.open_lease(bench.now, node, None);
    assert_eq!(state(&bench, next), LATE, "that was the old node");
    bench.session.close_lease(next);
    let node = own(&mut bench, 4);
    let next = bench.session.open_lease(bench.now, node, None);
    assert_eq!(state(&bench, next), valid(bench.now + TERM));
    assert_eq!(state(&bench, lease), LATE);
}

/// Whatever the session receives first after the deadline, it does not revive a lease.
#[test]
fn what_is_heard_too_late_revives_nothing() {
    for rule in [DeadlineRule::default(), DeadlineRule::Contact] {
        let (mut bench, _, lease) = held(rule);
        bench.pass(THIRD);
        bench.session.submit(&PUT, 5).unwrap();
        let asked = sent(&mut bench);
        bench.now += TERM - THIRD;
        assert_eq!(state(&bench, lease), LATE);
        pong(&mut bench);
        (2..=asked.len() as i32).for_each(|xid| bench.answer(xid, &()));
        assert_eq!(state(&bench, lease), LATE, "{rule:?}");
        assert_eq!(bench.said(), ["Leases", "5 ok"]);
        assert_eq!(sent(&mut bench), [DELETE]);
    }
}

#[test]
fn the_first_look_after_a_jump_of_the_clock_sees_the_lapse() {
    let (mut bench, _, lease) = held(DeadlineRule::default());
    bench.now += TIMEOUT * 2;
    assert_eq!(state(&bench, lease), LATE);
    bench.pass(Duration::ZERO);
    bench.said();
    assert_eq!(state(&bench, lease), LATE, "not Expired: that came later");
}

/// The requests that an idle holder has sent.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cost {
    pings: u32,
    probes: u32,
}

/// Lets `time` pass at a server that answers everything in order, each request with the delay that
/// `late` returns when it is sent. The lease must be valid all the time.
fn answered_late(
    bench: &mut Bench,
    lease: LeaseId,
    time: Duration,
    late: impl FnMut(Duration) -> Duration,
) -> Cost {
    let mut answers = VecDeque::new();
    let (cost, begun) = serve_late(bench, Some(lease), &mut answers, time, late);
    while let Some((_, xid)) = answers.pop_front() {
        bench.frame(reply(xid, 1, ErrorCode::OK, &()));
    }
    bench.frames();
    assert_eq!(begun, Some((Duration::ZERO, 0)), "it was valid all the time");
    assert_eq!(bench.said(), [""; 0], "it was valid all the time");
    cost
}

/// Answers everything late for some time. A lease must stay valid once it is. Returns also when it
/// began, and behind how many probes.
fn serve_late(
    bench: &mut Bench,
    lease: Option<LeaseId>,
    answers: &mut VecDeque<(Instant, Xid)>,
    time: Duration,
    mut late: impl FnMut(Duration) -> Duration,
) -> (Cost, Option<(Duration, u32)>) {
    let (start, end, mut cost) = (bench.now, bench.now + time, Cost::default());
    let mut begun = None;
    loop {
        let mut look = |bench: &Bench| match lease.map(|lease| state(bench, lease)) {
            Some(LeaseState::Valid { .. }) => {
                begun.get_or_insert((bench.now - start, cost.probes));
            }
            Some(LeaseState::Suspended { .. }) if begun.is_none() => {}
            Some(state) => panic!("{state:?} after {:?}, begun: {begun:?}", bench.now - start),
            None => {}
        };
        look(bench);
        while let Some((at, xid)) = answers.front().copied()
            && at <= bench.now
        {
            answers.pop_front();
            bench.frame(reply(xid, 1, ErrorCode::OK, &()));
        }
        look(bench);
        bench.pass(Duration::ZERO);
        let age = bench.age();
        for request in bench.requests() {
            let at = bench.now + late(age);
            let at = answers.back().map_or(at, |(before, _)| at.max(*before));
            answers.push_back((at, request.xid()));
            match request.op() {
                OpCode::PING => cost.pings += 1,
                OpCode::MULTI => cost.probes += 1,
                _ => panic!("{request}"),
            }
        }
        if bench.now == end {
            return (cost, begun);
        }
        let due = bench.now + bench.due_in().unwrap();
        bench.now = answers.front().map_or(due, |(at, _)| due.min(*at)).min(end);
    }
}

/// The cost of an idle lock for each delay of the replies: in a hundred session timeouts, after the
/// first.
#[test]
fn an_idle_holder_stays_valid_although_every_answer_is_late() {
    for (late, pings, probes) in [
        (Duration::ZERO, 1370, 304),
        (TIMEOUT / 100, 1370, 304),
        (TIMEOUT / 20, 1392, 380),
        (TIMEOUT / 10, 1370, 456),
        (TIMEOUT / 5, 1370, 760),
        (TIMEOUT * 3 / 10, 517, 1661),
    ] {
        let (mut bench, _, lease) = held(DeadlineRule::default());
        answered_late(&mut bench, lease, TIMEOUT, |_| late);
        let cost = answered_late(&mut bench, lease, TIMEOUT * 100, |_| late);
        assert_eq!(cost, Cost { pings, probes }, "{late:?}");
    }
}

/// From any moment on every reply is late by 0.3 T, or by any time up to that.
#[test]
fn answers_may_begin_to_be_late_at_any_moment() {
    for begin in (0..240).map(|n| TIMEOUT * 2 + n * TIMEOUT / 120) {
        let (mut bench, _, lease) = held(DeadlineRule::default());
        let late = |age| if age < begin { Duration::ZERO } else { TIMEOUT * 3 / 10 };
        answered_late(&mut bench, lease, TIMEOUT * 5, late);
    }
    let mut seed = 1_u64;
    for _ in 0..200 {
        let (mut bench, _, lease) = held(DeadlineRule::default());
        answered_late(&mut bench, lease, TIMEOUT * 5, |_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            TIMEOUT * 3 / 10 * ((seed >> 33) % 100) as u32 / 99
        });
    }
}

/// A session without a lease pings only once in each third, so a new lease of such a session rests
/// on older requests at first.
#[test]
fn a_lease_of_a_session_that_was_idle_stays_valid() {
    for idle in (0..60).map(|n| TIMEOUT * 5 + n * TIMEOUT / 120) {
        let mut bench = attached(DeadlineRule::default());
        live(&mut bench, idle);
        let node = own(&mut bench, 1);
        let lease = bench.session.open_lease(bench.now, node, None);
        answered_late(&mut bench, lease, TIMEOUT * 5, |_| TIMEOUT / 50);
    }
}

/// A node is created, and a lease is opened `wait` after the reply. All replies are late. Returns
/// after what time the lease began, and behind how many probes.
fn opened_after(idle: Duration, wait: Duration, late: Duration) -> (Duration, u32) {
    let (mut bench, mut answers) = (attached(DeadlineRule::default()), VecDeque::new());
    serve_late(&mut bench, None, &mut answers, idle, |_| late);
    let node = create(&mut bench);
    let created_at = bench.now + late;
    assert_eq!(bench.sent(), [format!("create2#1 {STEM}")]);
    while let Some((at, xid)) = answers.pop_front() {
        bench.pass(at - bench.now);
        bench.frame(reply(xid, 1, ErrorCode::OK, &()));
    }
    bench.pass(created_at - bench.now);
    bench.answer(1, &created(NODE));
    assert_eq!(bench.said(), ["1 ok"]);
    serve_late(&mut bench, None, &mut answers, wait, |_| late);
    let lease = bench.session.open_lease(bench.now, node, None);
    let (_, begun) = serve_late(&mut bench, Some(lease), &mut answers, TIMEOUT * 4, |_| late);
    assert!(bench.said().iter().all(|said| said == "Leases"));
    bench.frames();
    begun.expect("it begins")
}

/// A lease begins once it will stay valid, although each reply is late by up to 0.3 T: at once if
/// the last proof is young, and with the first reply if the path is quick.
#[test]
fn a_lease_that_has_begun_stays_valid_however_long_its_node_has_waited() {
    for late in (0..=30).map(|n| TIMEOUT * n / 100) {
        for (idle, wait) in (0..6).flat_map(|idle| (0..60).map(move |wait| (idle, wait))) {
            let (idle, wait) = (TIMEOUT * idle / 5, TIMEOUT * wait / 40);
            let (after, probes) = opened_after(idle, wait, late);
            let what = format!("{wait:?}, idle for {idle:?} before, late by {late:?}");
            assert!(after <= TIMEOUT * 11 / 10, "{after:?} after {what}");
            if idle.is_zero() && wait < THIRD && late < TIMEOUT / 7 {
                assert!(after.is_zero(), "{after:?} after {what}");
            }
            if late <= TIMEOUT / 40 {
                assert!(after <= late && probes <= 2, "{after:?}, {probes} probes after {what}");
            }
        }
    }
}

/// The path to the server stalls and recovers. The requests sent in between arrive at once, and the
/// leader knows of none of them when it carries out the write behind them.
#[test]
fn a_request_that_was_held_up_is_not_vouched_for_by_the_next_write() {
    let (mut bench, _, lease) = held(DeadlineRule::default());
    let start = bench.now;
    let stalled = TIMEOUT * 58 / 100;
    let mut pings = 0;
    while bench.now < start + stalled {
        let wait = bench.due_in().unwrap().min(start + stalled - bench.now);
        bench.pass(wait);
        pings += sent(&mut bench).len();
    }
    assert_eq!(pings, 8);
    (0..pings).for_each(|_| pong(&mut bench));
    bench.session.submit(&PUT, 5).unwrap();
    assert_eq!(sent(&mut bench), ["delete /a"]);
    bench.answer(2, &());
    assert_eq!(state(&bench, lease), valid(start + TERM));
    assert_eq!(bench.said(), ["Leases", "Leases", "5 ok"]);

    // Later the leader knows of them.
    bench.pass(SLACK);
    bench.session.submit(&PUT, 5).unwrap();
    assert_eq!(sent(&mut bench), ["ping", "multi check /", "delete /a"]);
    pong(&mut bench);
    bench.answer(3, &());
    bench.answer(4, &());
    assert_eq!(state(&bench, lease), valid(start + stalled + TERM), "for the first write");
    assert_eq!(bench.said(), ["5 ok"]);
}

#[test]
fn probes_end_with_the_last_lease() {
    let (mut bench, node, lease) = held(DeadlineRule::default());
    let more: Vec<LeaseId> =
        (0..10).map(|_| bench.session.open_lease(bench.now, node, None)).collect();
    let for_eleven = live(&mut bench, TIMEOUT * 10).len();
    more.into_iter().for_each(|lease| bench.session.close_lease(lease));
    let for_one = live(&mut bench, TIMEOUT * 10).len();
    assert!(for_eleven.abs_diff(for_one) <= 1, "{for_eleven} and {for_one}");
    bench.session.close_lease(lease);
    assert_eq!(live(&mut bench, TIMEOUT * 10), []);
    assert_eq!(bench.said(), [""; 0]);
    assert_eq!(bench.load(), (0, 0, 1), "the node stays");
}

#[test]
fn the_contact_rule_needs_no_proof_but_pings() {
    let (mut bench, _, lease) = held(DeadlineRule::Contact);
    assert_eq!(live(&mut bench, TIMEOUT * 10), []);
    assert_eq!(state(&bench, lease), valid(bench.now + TERM));
}

#[test]
fn a_session_without_leases_asks_for_no_proof() {
    let mut bench = attached(DeadlineRule::default());
    own(&mut bench, 1);
    assert_eq!(live(&mut bench, TIMEOUT * 10), []);
}

#[test]
fn the_multi_of_a_probe_only_checks_the_root() {
    let (mut bench, ..) = held(DeadlineRule::default());
    bench.pass(TERM - THIRD);
    let probe = bench.requests().into_iter().find(|it| it.op() == OpCode::MULTI).unwrap();
    let ops: Vec<MultiOp<'_>> = probe.body::<MultiRequest<'_>>().iter().collect();
    let check = CheckVersionRequest { path: "/", version: -1 };
    assert_eq!(ops, [MultiOp::Check(check)]);
}

#[test]
fn writes_of_the_callers_are_proofs_and_reads_are_not() {
    let (mut bench, ..) = held(DeadlineRule::default());
    for n in 0..20 {
        assert_eq!(live(&mut bench, TIMEOUT / 4), []);
        bench.session.submit(&PUT, 7).unwrap();
        assert_eq!(bench.sent(), [format!("delete#{} /a", n + 2)]);
        bench.answer(n + 2, &());
        assert_eq!(bench.said(), ["7 ok"]);
    }
    let mut probes = 0;
    for _ in 0..20 {
        probes += live(&mut bench, THIRD - MS).len();
        bench.session.submit(&GET, 7).unwrap();
        let [get] = bench.requests().try_into().unwrap();
        bench.answer(get.xid().0, &data(b""));
        assert_eq!(bench.said(), ["7 ok"]);
    }
    assert!(probes >= 19, "{probes} in 20 thirds");
}

#[test]
fn a_busy_session_stays_valid_under_both_rules() {
    for rule in [DeadlineRule::default(), DeadlineRule::Contact] {
        let (mut bench, _, lease) = held(rule);
        for n in 0..1000 {
            bench.pass(THIRD / 100);
            bench.session.submit(&PUT, 7).unwrap();
            bench.sent();
            bench.answer(n + 2, &());
            let LeaseState::Valid { until } = state(&bench, lease) else {
                panic!("{rule:?}: not valid after {n} writes");
            };
            // The slack, and a little more than one granule of time.
            let behind = bench.now + TERM - until;
            assert!(behind <= SLACK + TIMEOUT / 100, "{rule:?}: {behind:?} after {n}");
        }
        assert_eq!(bench.said().len(), 1000);
    }
}

#[test]
fn a_probe_that_is_refused_proves_nothing_and_is_sent_again_soon() {
    let (mut bench, _, lease) = held(DeadlineRule::default());
    let until = bench.now + TERM;
    assert_eq!(live(&mut bench, TERM - THIRD - MS), []);
    bench.pass(MS);
    assert_eq!(sent(&mut bench), ["multi check /"]);
    bench.refuse(2, ErrorCode::THROTTLED_OP);
    assert_eq!(state(&bench, lease), valid(until));
    assert_eq!(live(&mut bench, MS), [], "but not at once");
    assert_eq!(live(&mut bench, PING).len(), 1);
    assert!(matches!(state(&bench, lease), LeaseState::Valid { until: later } if later > until));
}

/// With `zookeeper.enableEagerACLCheck` a follower refuses writes by itself, even when it is cut
/// off from its leader.
#[test]
fn forbidden_writes_neither_prove_a_quorum_nor_keep_probes_away() {
    for refusal in [ErrorCode::NO_AUTH, ErrorCode::INVALID_ACL] {
        let (mut bench, _, lease) = held(DeadlineRule::default());
        let (until, mut probes) = (bench.now + TERM, 0);
        while bench.now < until {
            assert_eq!(state(&bench, lease), valid(until));
            bench.session.submit(&PUT, 7).unwrap();
            for request in bench.requests() {
                match request.op() {
                    OpCode::PING => pong(&mut bench),
                    OpCode::DELETE => bench.refuse_alone(request.xid(), refusal),
                    _ => probes += 1,
                }
            }
            assert_eq!(bench.said(), [format!("7 {refusal}")]);
            bench.pass(10 * MS);
        }
        assert_eq!(state(&bench, lease), LATE);
        assert_eq!(probes, 1, "asked in time, and not answered");
        assert_eq!(bench.said(), ["Leases"]);
        assert_eq!(sent(&mut bench), [DELETE]);
    }
}

/// A session that has found its node again. It read the node's owner at the returned moment, and
/// has proved nothing since.
fn found() -> (Bench, LeaseId, Instant) {
    let mut bench = attached(DeadlineRule::default());
    let node = create(&mut bench);
    assert_eq!(bench.sent(), ["create2#1 /locks/x-"]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), ["sync#2 /locks", "getEphemerals#3 /locks/"]);
    bench.answer(2, &SyncResponse { path: Text::new("/locks") });
    bench.answer_ephemerals(3, "/locks/", &["x-0000000003"]);
    bench.pass(MS);
    assert_eq!(bench.sent(), [format!("exists#4 {NODE}")]);
    let asked = bench.now;
    bench.pass(MS);
    bench.answer(4, &ExistsResponse { stat: stat_of(SESSION) });
    let Some(Event::Completed { result: Ok(answer), .. }) = bench.session.poll_event() else {
        panic!("the create was answered");
    };
    assert_eq!(answer.requested_at, asked, "when it was found");

    let lease = bench.session.open_lease(bench.now, node, None);
    assert_eq!(state(&bench, lease), suspended(bench.now + TERM));
    assert_eq!(bench.sent(), ["multi#5 check /"], "asked for at once");
    (bench, lease, asked)
}

#[test]
fn a_node_that_was_found_again_waits_for_a_proof() {
    let (mut bench, lease, asked) = found();
    bench.answer(5, &());
    assert_eq!(state(&bench, lease), valid(asked - MS + TERM), "from the handshake");
    assert_eq!(bench.said(), ["Leases"]);
    bench.now = asked - MS + TERM;
    assert_eq!(state(&bench, lease), LATE, "and not when it would have without");
}

#[test]
fn a_node_that_was_found_again_lapses_without_a_proof() {
    let (mut bench, lease, asked) = found();
    let opened = asked + MS;
    let log = live(&mut bench, MS);
    assert_eq!(log, []);
    while bench.now < opened + TERM {
        assert_eq!(state(&bench, lease), suspended(opened + TERM));
        let wait = bench.due_in().unwrap();
        bench.pass(wait);
        if sent(&mut bench).contains(&"ping".to_owned()) {
            pong(&mut bench);
        }
    }
    assert_eq!(state(&bench, lease), LATE);
    assert_eq!(bench.said(), ["Leases"]);
}

#[test]
fn a_shorter_timeout_of_another_server_counts_from_its_handshake() {
    let (mut bench, _, lease) = held(DeadlineRule::default());
    bench.pass(MS);
    bench.cut();
    bench.connect();
    let again = bench.now;
    bench.frame(payload(&welcome(TIMEOUT / 4)));
    assert_eq!(state(&bench, lease), valid(again + TERM / 4));
    assert_eq!(sent(&mut bench), ["multi check /"]);
    bench.said();
}

/// Each server reports its own timeout to the leader: also for a handshake whose reply is lost, and
/// for requests of the session before it moved on.
#[test]
fn of_the_timeouts_that_servers_have_granted_the_least_counts() {
    let mut bench = attached(DeadlineRule::default());
    bench.cut();
    bench.connect();
    bench.frame(payload(&welcome(TIMEOUT / 4)));
    bench.cut();
    bench.connect();
    let again = bench.now;
    bench.frame(payload(&welcome(TIMEOUT)));
    bench.said();
    assert_eq!(bench.session.timeout(), TIMEOUT);
    let node = own(&mut bench, 1);
    let lease = bench.session.open_lease(bench.now, node, None);
    assert_eq!(state(&bench, lease), valid(again + TERM / 4));
    bench.cut();
    // The reply to this handshake is lost.
    bench.connect();
    bench.pass(MS);
    bench.cut();
    assert_eq!(state(&bench, lease), suspended(again + TERM / 4));
    bench.said();
}

#[test]
fn the_end_of_the_session_ends_its_leases() {
    let (mut bench, node, lease) = held(DeadlineRule::default());
    bench.cut();
    bench.connect();
    bench.frame(payload(&expired()));
    assert_eq!(state(&bench, lease), LeaseState::Lapsed(Lapse::Ended(Ended::Expired)));
    let next = bench.session.open_lease(bench.now, node, None);
    assert!(matches!(state(&bench, next), LeaseState::Lapsed(_)));
    assert_eq!(bench.due_in(), None);
    let said = bench.said();
    assert_eq!(said[..4], ["Disconnected", "Leases", "Leases", "Expired"], "{said:?}");

    let (mut bench, _, lease) = held(DeadlineRule::default());
    bench.session.close();
    assert_eq!(state(&bench, lease), LeaseState::Lapsed(Lapse::Ended(Ended::Closed)));
    assert_eq!(bench.said(), ["Leases"]);
    assert_eq!(sent(&mut bench), ["closeSession"]);
}

#[test]
fn an_event_that_tells_of_the_end_of_a_node_ends_its_leases() {
    const GONE: LeaseState = LeaseState::Lapsed(Lapse::NodeDeleted);
    let (mut bench, node, lease) = held(DeadlineRule::default());
    let other = bench.session.open_lease(bench.now, node, None);
    bench.fire(EventType::NODE_DELETED, "/locks/x-0000000002");
    bench.fire(EventType::NODE_DATA_CHANGED, NODE);
    assert_eq!(state(&bench, lease), valid(bench.now + TERM));
    bench.fire(EventType::NODE_DELETED, NODE);
    assert_eq!([lease, other].map(|lease| state(&bench, lease)), [GONE, GONE]);
    assert_eq!(bench.said(), ["Leases"]);
    let next = bench.session.open_lease(bench.now, node, None);
    assert_eq!(state(&bench, next), LATE);
    bench.session.release(node, None).unwrap();
    assert_eq!(sent(&mut bench), [DELETE], "in any case");

    // The session's own delete is no loss.
    let (mut bench, node, lease) = held(DeadlineRule::default());
    bench.session.release(node, None).unwrap();
    assert_eq!(sent(&mut bench), [DELETE]);
    bench.fire(EventType::NODE_DELETED, NODE);
    assert_eq!(state(&bench, lease), valid(bench.now + TERM));
}
