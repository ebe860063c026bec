//! Leases on owned nodes: until when a holder may rely on one, with T as the session timeout.
//! Nothing here sleeps; the clock is a number.

use std::time::{Duration, Instant};

use zk_client::session::{ClaimId, Event, LeaseId};
use zk_client::{DeadlineRule, Ended, Lapse, LeaseState, SessionConfig};
use zk_proto::{
    CheckVersionRequest, CreateMode, CreateRequest, DeleteRequest, ErrorCode, EventType,
    ExistsResponse, GetChildrenResponse, GetDataRequest, List, MultiOp, MultiRequest, OpCode,
    SyncResponse, Text, Xid,
};
use zk_tests::peer::{
    Bench, SESSION, TIMEOUT, created, data, expired, payload, reply, stat_of, welcome,
};

const STEM: &str = "/locks/x-";
const NODE: &str = "/locks/x-0000000003";
const DELETE: &str = "delete /locks/x-0000000003";
const GET: GetDataRequest<'_> = GetDataRequest { path: "/a", watch: false };
const PUT: DeleteRequest<'_> = DeleteRequest { path: "/a", version: 3 };
const MS: Duration = Duration::from_millis(1);

/// TIMEOUT is 12 s; this is what is left of it when clocks may run apart.
const TERM: Duration = Duration::from_millis(11_880);
/// A third: of silence, and between two proofs.
const THIRD: Duration = Duration::from_secs(4);

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

/// What is sent, without numbers.
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

fn create(bench: &mut Bench) -> ClaimId {
    let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
    let request = CreateRequest { path: STEM, data: None, acl: List::new(&[]), mode };
    bench.session.submit_owned(&request, 1).unwrap()
}

/// Creates the node as request `xid`, with an answer at once.
fn own(bench: &mut Bench, xid: i32) -> ClaimId {
    let claim = create(bench);
    assert_eq!(bench.sent(), [format!("create2#{xid} {STEM}")]);
    bench.answer(xid, &created(NODE));
    assert_eq!(bench.said(), ["1 ok"]);
    claim
}

/// A connected session that relies on a node, all at the same moment.
fn held(rule: DeadlineRule) -> (Bench, ClaimId, LeaseId) {
    let mut bench = attached(rule);
    let claim = own(&mut bench, 1);
    let lease = bench.session.open_lease(bench.now, claim, None);
    (bench, claim, lease)
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

/// Lets time pass up to the next deadline, answering pings, until `time` is over. Gives back what
/// else was sent, with when.
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
    let claim = own(&mut bench, 1);
    let lease = bench.session.open_lease(bench.now, claim, None);
    assert_eq!(state(&bench, lease), valid(handshake + TERM), "from its send");
}

#[test]
fn the_deadline_counts_from_the_send_and_not_from_the_reply() {
    let mut bench = attached(DeadlineRule::Contact);
    bench.pass(MS);
    let asked = bench.now;
    let claim = create(&mut bench);
    assert_eq!(bench.sent(), ["create2#1 /locks/x-"]);
    bench.pass(TIMEOUT * 6 / 10);
    assert_eq!(bench.sent(), ["ping"]);
    bench.answer(1, &created(NODE));
    assert_eq!(bench.said(), ["1 ok"]);
    let lease = bench.session.open_lease(bench.now, claim, None);
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
    // The first write vouches for the handshake, a second for the first.
    let first = bench.now;
    let claim = own(&mut bench, 1);
    bench.pass(THIRD - MS);
    bench.session.submit(&PUT, 2).unwrap();
    assert_eq!(bench.sent(), ["delete#2 /a"]);
    let lease = bench.session.open_lease(bench.now, claim, None);
    assert_eq!(state(&bench, lease), valid(first - MS + TERM), "from the handshake");
    bench.pass(THIRD);
    assert_eq!(sent(&mut bench), ["ping", "multi check /"]);
    pong(&mut bench);
    bench.pass(TIMEOUT * 6 / 10 - THIRD);
    assert_eq!(bench.said(), ["Leases"]);
    assert_eq!(state(&bench, lease), suspended(first - MS + TERM), "asked a third ago");
    bench.refuse(2, ErrorCode::NO_NODE);
    assert_eq!(bench.said(), ["2 NoNode", "Leases"]);
    assert_eq!(state(&bench, lease), valid(first + TERM), "refused by the leader");
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
    let claim = create(&mut bench);
    assert_eq!(bench.sent(), ["create2#1 /locks/x-"]);
    bench.pass(THIRD / 2);
    bench.answer(1, &created(NODE));
    let Some(Event::Completed { result: Ok(answer), .. }) = bench.session.poll_event() else {
        panic!("the create was answered");
    };
    assert_eq!(answer.requested_at, asked);
    let term = answer.requested_at + THIRD;
    let lease = bench.session.open_lease(bench.now, claim, Some(term));
    let other = bench.session.open_lease(bench.now, claim, None);
    assert_eq!(state(&bench, lease), valid(term));
    bench.pass(THIRD / 2 - MS);
    assert_eq!(state(&bench, lease), valid(term));
    assert_eq!(sent(&mut bench), [""; 0]);
    bench.pass(MS);
    assert_eq!(bench.said(), ["Leases"]);
    assert_eq!(state(&bench, lease), LeaseState::Lapsed(Lapse::Term));
    assert_eq!(state(&bench, other), LeaseState::Lapsed(Lapse::Term), "its node goes, too");
    assert_eq!(sent(&mut bench), ["ping", DELETE], "at once, and no probe: nobody relies on it");

    // The holder's own delete is the same one.
    bench.session.release(claim, Some(2)).unwrap();
    bench.session.release(claim, None).unwrap();
    assert_eq!(bench.said(), [""; 0]);
    bench.answer(2, &());
    assert_eq!(bench.said(), ["2 ok"]);
    assert_eq!(bench.load(), (0, 0, 0));
    bench.session.release(claim, Some(2)).unwrap();
    assert_eq!(bench.said(), ["2 NoNode"]);
    let late = bench.session.open_lease(bench.now, claim, None);
    assert_eq!(state(&bench, late), LATE, "there is nothing to rely on");
}

/// A connected session at a server that answers pings alone, from the moment of the create on. Gives
/// back how the lease ended, or how it stands after three session timeouts.
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
    assert_eq!(log, ["multi check /", "multi check /", DELETE]);
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
    bench.refuse(2, ErrorCode::NO_AUTH);
    assert_eq!(state(&bench, lease), valid(again + TERM), "a refusal proves as much");
    assert_eq!(bench.said(), [""; 0]);
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
    let (mut bench, claim, lease) = held(DeadlineRule::default());
    bench.cut();
    bench.pass(TERM);
    assert_eq!(bench.said(), ["Disconnected", "Leases", "Leases"]);
    bench.attach();
    assert_eq!(state(&bench, lease), LATE);
    assert_eq!(sent(&mut bench), [DELETE], "the node must not outlive its lease");
    bench.answer(2, &());
    assert_eq!(state(&bench, lease), LATE);
    bench.session.release(claim, None).unwrap();
    assert_eq!(sent(&mut bench), [""; 0]);

    own(&mut bench, 3);
    let next = bench.session.open_lease(bench.now, claim, None);
    assert_eq!(state(&bench, next), LATE, "that was the old node");
    bench.session.close_lease(next);
    let claim = own(&mut bench, 4);
    let next = bench.session.open_lease(bench.now, claim, None);
    assert_eq!(state(&bench, next), valid(bench.now + TERM));
    assert_eq!(state(&bench, lease), LATE);
}

/// Whatever comes first at the end of the deadline: it does not revive a lease.
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

#[test]
fn an_idle_session_proves_itself_once_in_each_third_while_it_has_leases() {
    let (mut bench, claim, lease) = held(DeadlineRule::default());
    let more: Vec<LeaseId> =
        (0..10).map(|_| bench.session.open_lease(bench.now, claim, None)).collect();
    for n in 1..=50 {
        let log = live(&mut bench, THIRD);
        assert_eq!(log, [(THIRD * n, format!("multi#{} check /", n + 1))]);
        // Of the proof before, since this one vouches for it; the first for the handshake.
        assert_eq!(state(&bench, lease), valid(bench.now - THIRD + TERM));
    }
    more.into_iter().for_each(|lease| bench.session.close_lease(lease));
    assert_eq!(live(&mut bench, THIRD * 3).len(), 3, "one is left");
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
    bench.pass(THIRD);
    let probe = bench.requests().into_iter().find(|it| it.op() == OpCode::MULTI).unwrap();
    let ops: Vec<MultiOp<'_>> = probe.body::<MultiRequest<'_>>().iter().collect();
    let check = CheckVersionRequest { path: "/", version: -1 };
    assert_eq!(ops, [MultiOp::Check(check)]);
}

#[test]
fn writes_of_the_callers_are_proofs_and_reads_are_not() {
    let (mut bench, ..) = held(DeadlineRule::default());
    for n in 0..20 {
        assert_eq!(live(&mut bench, THIRD - MS), []);
        bench.session.submit(&PUT, 7).unwrap();
        assert_eq!(bench.sent(), [format!("delete#{} /a", n + 2)]);
        bench.answer(n + 2, &());
        assert_eq!(bench.said(), ["7 ok"]);
    }
    for n in 0..20 {
        assert_eq!(live(&mut bench, THIRD - 2 * MS).len(), n.min(1));
        bench.session.submit(&GET, 7).unwrap();
        let [get] = bench.requests().try_into().unwrap();
        bench.answer(get.xid().0, &data(b""));
        assert_eq!(bench.said(), ["7 ok"]);
    }
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
            // The slack, and one grain.
            let behind = bench.now + TERM - until;
            assert!(behind <= TIMEOUT * 3 / 10 + TIMEOUT / 100, "{rule:?}: {behind:?} after {n}");
        }
        assert_eq!(bench.said().len(), 1000);
    }
}

#[test]
fn refusals_of_the_server_alone_prove_nothing() {
    let (mut bench, _, lease) = held(DeadlineRule::default());
    let until = bench.now + TERM;
    bench.pass(THIRD);
    assert_eq!(sent(&mut bench), ["ping", "multi check /"]);
    pong(&mut bench);
    bench.refuse(2, ErrorCode::THROTTLED_OP);
    assert_eq!(state(&bench, lease), valid(until));
    assert_eq!(live(&mut bench, MS), [], "and are no reason to ask more often");
}

/// A session that has found its node again, asked whose it is at the moment given, and not proved
/// anything since.
fn found() -> (Bench, LeaseId, Instant) {
    let mut bench = attached(DeadlineRule::default());
    let claim = create(&mut bench);
    assert_eq!(bench.sent(), ["create2#1 /locks/x-"]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), ["sync#2 /locks", "getChildren#3 /locks"]);
    bench.answer(2, &SyncResponse { path: Text::new("/locks") });
    bench.answer(3, &GetChildrenResponse { children: List::new(&["x-0000000003"]) });
    bench.pass(MS);
    assert_eq!(bench.sent(), [format!("exists#4 {NODE}")]);
    let asked = bench.now;
    bench.pass(MS);
    bench.answer(4, &ExistsResponse { stat: stat_of(SESSION) });
    let Some(Event::Completed { result: Ok(answer), .. }) = bench.session.poll_event() else {
        panic!("the create was answered");
    };
    assert_eq!(answer.requested_at, asked, "when it was found");

    let lease = bench.session.open_lease(bench.now, claim, None);
    assert_eq!(state(&bench, lease), suspended(asked + TERM));
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
    let log = live(&mut bench, MS);
    assert_eq!(log, []);
    while bench.now < asked + TERM {
        assert_eq!(state(&bench, lease), suspended(asked + TERM));
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

#[test]
fn the_end_of_the_session_ends_its_leases() {
    let (mut bench, claim, lease) = held(DeadlineRule::default());
    bench.cut();
    bench.connect();
    bench.frame(payload(&expired()));
    assert_eq!(state(&bench, lease), LeaseState::Lapsed(Lapse::Ended(Ended::Expired)));
    let next = bench.session.open_lease(bench.now, claim, None);
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
