//! What a scene says where a lock breaks: who is wrong, when, and what has come of it; and which of
//! its actions found nothing to act on.

use zk_playground::{Action, Do, Event, Scene, SpanKind, VerdictKind, catalogue, play};

use crate::scenes::{notes, ready, scene};

/// The place of the first note of a contender that begins like this.
fn place(scene: &Scene, name: &str, beginning: &str) -> usize {
    let found = scene.events.iter().position(|event| {
        matches!(event, Event::Note { who, text, .. } if who == name && text.starts_with(beginning))
    });
    found.unwrap()
}

#[test]
fn only_who_does_not_own_the_node_is_accused_of_writing() {
    let scene = scene("no_deadline");
    assert!(!notes(&scene, "Ana", "writes, although").is_empty());
    assert_eq!(notes(&scene, "Ben", "writes, although"), [0; 0]);
}

#[test]
fn a_holder_that_goes_on_writes_before_it_knows_that_its_session_is_over() {
    let scene = scene("no_fence");
    let written = place(&scene, "Ana", "takes 20: written. Balance: 80");
    let known = place(&scene, "Ana", "knows that the session is over");
    assert!(written < known, "{written}, {known}");
    assert!(place(&scene, "Ben", "is first in the queue: reads the balance, 100,") < written);
}

#[test]
fn a_lost_update_lasts_until_it_has_done_harm_and_is_told_with_the_balance() {
    let scene = scene("no_fence");
    let breach = scene.verdict.breach.unwrap();
    assert_eq!(scene.events[place(&scene, "Ana", "takes 20")].at_us(), breach.to_us);
    assert_eq!(notes(&scene, "Ben", "is first in the queue"), [breach.from_us]);
    for number in ["50 were paid out of 100", "the balance is 80"] {
        assert!(scene.verdict.text.contains(number), "{}", scene.verdict.text);
    }
}

#[test]
fn a_verdict_on_notifications_counts_notifications() {
    let (broken, repaired) = (scene("herd").verdict, scene("herd_repaired").verdict);
    assert_eq!(repaired.text, "It holds: 7 notifications for 8 turns.");
    // 7 + 6 + ... + 1, as everybody waits from the beginning.
    assert_eq!(broken.text, "Broken: 28 notifications for 8 turns.");
}

/// Who gets in too early has a node all the time, and it is not the first one.
#[test]
fn a_span_is_stale_if_another_node_has_the_lock() {
    for (id, wrong) in [("wrong_wake_up", "Cho"), ("whole_names", "Ana"), ("no_deadline", "Ana")] {
        let scene = scene(id);
        let stale = scene.spans.iter().filter(|span| span.kind == SpanKind::Stale);
        let stale = stale.map(|span| span.who.as_str()).collect::<Vec<_>>();
        assert_eq!(stale, [wrong], "{id}");
    }
    for ready in catalogue::scenes().iter().filter(|ready| ready.claim == VerdictKind::Holds) {
        let spans = ready.play().unwrap().spans;
        let stale = spans.iter().filter(|span| span.kind == SpanKind::Stale).count();
        // A session that is ended by hand takes its holder by surprise, and so does a stop.
        let is_surprise = |action: &Action| matches!(action.what, Do::Expire | Do::Stop);
        let most = usize::from(ready.script.actions.iter().any(is_surprise));
        assert!(stale <= most, "{}", ready.id);
    }
}

/// A scene of the lock in which this happens to Ana.
fn disturbed(actions: &[(u64, Do)]) -> Scene {
    let mut script = ready("queue").script;
    let one = script.actions[0].clone();
    let action = |(at_ms, what): &(u64, Do)| {
        let mut action = one.clone();
        (action.at_ms, action.what) = (*at_ms, *what);
        action
    };
    script.actions = actions.iter().map(action).collect::<Vec<Action>>();
    play(&script).unwrap()
}

#[test]
fn every_action_of_a_ready_made_scene_finds_something_to_act_on() {
    for ready in catalogue::scenes() {
        assert_eq!(ready.play().unwrap().unfired, [""; 0], "{}", ready.id);
    }
}

#[test]
fn an_action_that_finds_nothing_to_act_on_is_told_of() {
    let crash = (200, Do::Crash);
    for (before, without_effect) in [
        (None, Do::Heal),
        (None, Do::Resume),
        (Some((200, Do::Cut)), Do::Cut),
        (Some((200, Do::Stop)), Do::Stop),
        (Some(crash), Do::Crash),
        (Some(crash), Do::Stop),
        (Some(crash), Do::Release),
        (Some(crash), Do::Reset),
        (Some(crash), Do::Isolate),
    ] {
        let actions = before.into_iter().chain([(1000, without_effect)]).collect::<Vec<_>>();
        let unfired = disturbed(&actions).unfired;
        assert_eq!(unfired.len(), 1, "{without_effect:?}: {unfired:?}");
        assert!(unfired[0].ends_with(", at 1000 ms."), "{}", unfired[0]);
    }
}

#[test]
fn a_reply_that_was_to_be_lost_and_never_came_is_told_of() {
    let unfired = |actions: &[(u64, Do)]| disturbed(actions).unfired;
    let told = |at_ms: u64| {
        format!("Ana will not get the next reply: the connection breaks, at {at_ms} ms.")
    };
    assert_eq!(unfired(&[(100, Do::LoseReply), (200, Do::Acquire)]), [""; 0]);
    assert_eq!(unfired(&[(100, Do::Acquire), (1000, Do::LoseReply)]), [told(1000)]);
    // Asked twice before there is a reply, it happens once.
    let twice = [(100, Do::LoseReply), (150, Do::LoseReply), (200, Do::Acquire)];
    assert_eq!(unfired(&twice), [told(100)]);
}
