//! What is found in a history.

use tokio::time::Instant;
use zk_recipes::FencingToken;
use zk_test_support::history::{Belief, Entry, Event, Findings, Problem, check};

const OLD: FencingToken = FencingToken::new(7, 0);
const NEW: FencingToken = FencingToken::new(7, 1);

/// Events of the writers `a` and `b`.
fn judge(events: &[(&str, Event)]) -> Findings {
    #[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
    let at = Instant::now();
    let entry =
        |(writer, event): &(&str, Event)| Entry { at, writer: (*writer).to_owned(), event: *event };
    check(&events.iter().map(entry).collect::<Vec<_>>())
}

fn write(token: FencingToken, accepted: bool) -> Event {
    Event::Write { token, value: 1, accepted }
}

fn belief(writer: &str, token: FencingToken) -> Belief {
    Belief { writer: writer.to_owned(), token }
}

fn double_owner() -> Problem {
    Problem::DoubleOwner { holder: belief("a", OLD), intruder: belief("b", NEW) }
}

#[test]
fn turns_one_after_the_other_are_flawless() {
    for end in [Event::Leave(OLD), Event::Lost(OLD), Event::Gone] {
        let findings = judge(&[
            ("a", Event::Enter(OLD)),
            ("a", write(OLD, true)),
            ("a", end),
            ("a", write(OLD, false)),
            ("b", Event::Enter(NEW)),
            ("b", write(NEW, true)),
            ("b", Event::Leave(NEW)),
        ]);
        let counts = (findings.enters, findings.accepted, findings.refused);
        assert_eq!((counts, findings.problems), ((2, 2, 1), vec![]), "{end:?}");
    }
}

#[test]
fn overlapping_beliefs_are_a_double_owner() {
    let problems = judge(&[
        ("a", Event::Enter(OLD)),
        ("b", Event::Enter(NEW)),
        ("a", Event::Leave(OLD)),
        ("b", Event::Leave(NEW)),
    ]);
    assert_eq!(problems.problems, [double_owner()]);
    assert!(problems.ensure_flawless().is_err());
}

#[test]
fn who_was_stopped_must_notice_before_anything_else() {
    let first = [("a", Event::Enter(OLD)), ("a", Event::Paused), ("b", Event::Enter(NEW))];
    let judge_then = |event| judge(&[&first[..], &[("a", event)]].concat()).problems;
    assert_eq!(judge_then(Event::Lost(OLD)), []);
    for event in [Event::Leave(OLD), write(OLD, true)] {
        assert_eq!(judge_then(event), [double_owner()], "{event:?}");
    }
}

#[test]
fn readers_overlap_readers_and_no_writer() {
    let (enter, share, leave) = (Event::Enter, Event::EnterShared, Event::Leave);
    let together = [("a", share(NEW)), ("b", share(OLD)), ("a", leave(NEW)), ("b", leave(OLD))];
    assert_eq!(judge(&together).problems, []);
    for both in [[share, enter], [enter, share], [enter, enter]] {
        let problems = judge(&[("a", both[0](OLD)), ("b", both[1](NEW))]).problems;
        assert_eq!(problems, [double_owner()]);
    }
}

#[test]
fn readers_come_behind_the_writers_ahead_of_them() {
    let (enter, share, leave) = (Event::Enter, Event::EnterShared, Event::Leave);
    for both in [[share, enter], [enter, share]] {
        let turns = [("a", both[0](NEW)), ("a", leave(NEW)), ("b", both[1](OLD))];
        let entered = belief("b", OLD);
        assert_eq!(judge(&turns).problems, [Problem::OutOfOrder { newest: NEW, entered }]);
    }
}

#[test]
fn readers_do_not_write() {
    let problems = judge(&[("a", Event::EnterShared(OLD)), ("a", write(OLD, true))]).problems;
    assert_eq!(problems, [Problem::Uninvited(belief("a", OLD))]);
}

#[test]
fn the_end_of_another_belief_changes_nothing() {
    for other in [Event::Leave(NEW), Event::Lost(NEW)] {
        let problems =
            judge(&[("a", Event::Enter(OLD)), ("a", other), ("b", Event::Enter(NEW))]).problems;
        assert_eq!(problems, [Problem::Uninvited(belief("a", NEW)), double_owner()]);
    }
    let problems = judge(&[("a", Event::Enter(OLD)), ("b", Event::Gone), ("b", Event::Enter(NEW))]);
    assert_eq!(problems.problems, [double_owner()]);
}

#[test]
fn an_accepted_older_token_is_unfenced() {
    let events = |accepted| {
        [
            ("a", Event::Enter(OLD)),
            ("b", Event::Enter(NEW)),
            ("b", write(NEW, true)),
            ("a", write(OLD, accepted)),
        ]
    };
    assert_eq!(judge(&events(false)).problems, [double_owner()]);
    let unfenced = Problem::Unfenced { newest: NEW, written: belief("a", OLD) };
    assert_eq!(judge(&events(true)).problems, [double_owner(), unfenced]);
}

#[test]
fn tokens_are_used_once_and_in_order() {
    for (first, second) in [(NEW, OLD), (OLD, OLD)] {
        let problems = judge(&[
            ("a", Event::Enter(first)),
            ("a", Event::Leave(first)),
            ("b", Event::Enter(second)),
        ]);
        let entered = belief("b", second);
        assert_eq!(problems.problems, [Problem::OutOfOrder { newest: first, entered }]);
    }
}

#[test]
fn only_who_has_entered_writes() {
    let problems = judge(&[("a", Event::Enter(OLD)), ("b", write(NEW, true))]).problems;
    assert_eq!(problems, [Problem::Uninvited(belief("b", NEW))]);
}
