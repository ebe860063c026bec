//! A server that is cut off from the others: where frames go, how long it goes on, and what then.

use std::collections::BTreeSet;

use zk_playground::{Action, Do, Event, Role, Scene, VerdictKind, play};

use crate::scenes::{notes, ready, scene};

const APART: &str = "Ana's server";

/// A scene of the lock in which Ana holds it, Ben waits for it, and this happens to Ana.
fn disturbed(actions: &[(u64, Do)]) -> Scene {
    let mut script = ready("lost_lease").script;
    script.actions.truncate(2);
    let one = script.actions[0].clone();
    let action = |(at_ms, what): &(u64, Do)| {
        let mut action = one.clone();
        (action.at_ms, action.what) = (*at_ms, *what);
        action
    };
    script.actions.extend(actions.iter().map(action).collect::<Vec<Action>>());
    script.until_ms = 40_000;
    play(&script).unwrap()
}

/// The servers with which Ana has exchanged frames in this time, without pings.
fn servers(scene: &Scene, from_us: u64, to_us: u64) -> BTreeSet<&str> {
    let ends = scene.events.iter().filter_map(|event| match event {
        Event::Frame(frame) if (from_us..to_us).contains(&frame.at_us) => {
            [(&frame.from, &frame.to), (&frame.to, &frame.from)]
                .into_iter()
                .find_map(|(who, server)| (who == "Ana").then_some(server.as_str()))
        }
        _ => None,
    });
    ends.collect()
}

#[test]
fn a_server_that_is_cut_off_answers_pings_for_ten_seconds_and_then_serves_nobody() {
    let scene = scene("no_deadline");
    let (isolated, noticed) = (6_500_000, 16_500_000);
    assert_eq!(notes(&scene, APART, "notices that it is alone"), [noticed]);
    let pongs = scene.events.iter().filter(|event| {
        matches!(event, Event::Frame(frame) if frame.from == APART
            && frame.content.role == Role::Ping && frame.at_us > isolated)
    });
    assert!(pongs.count() >= 2);
    assert_eq!(servers(&scene, 0, noticed), BTreeSet::from([APART]));
    assert_eq!(servers(&scene, noticed, u64::MAX), BTreeSet::from(["server"]));
    // The other servers have ended her session long before, and she hears of it only now.
    let ended = notes(&scene, "server", "ends the session of Ana")[0];
    let known = notes(&scene, "Ana", "knows that the session is over")[0];
    assert!(isolated < ended && ended < noticed && noticed < known, "{ended} {known}");
}

#[test]
fn a_server_that_is_back_before_it_notices_goes_on() {
    let back = disturbed(&[(3000, Do::Isolate), (8000, Do::Heal)]);
    assert_eq!(notes(&back, APART, "notices"), [0; 0]);
    assert_eq!(servers(&back, 0, u64::MAX), BTreeSet::from([APART]));
    // Cut off again, it has as long as the first time.
    let again = disturbed(&[(3000, Do::Isolate), (8000, Do::Heal), (9000, Do::Isolate)]);
    assert_eq!(notes(&again, APART, "notices"), [19_000_000]);
}

#[test]
fn a_lock_that_was_lost_while_its_session_lived_is_given_back() {
    // Her last ping is younger than the time that her server takes to notice.
    let scene = disturbed(&[(3500, Do::Isolate)]);
    let lost = notes(&scene, "Ana", "knows that the lock is lost")[0];
    assert_eq!(notes(&scene, "server", "ends the session of Ana"), [0; 0]);
    let next = notes(&scene, "Ben", "holds the lock")[0];
    assert!(lost < next && next < 14_000_000, "{lost} {next}");
    assert_eq!(scene.verdict.kind, VerdictKind::Holds);
    let told = format!("Ana has lost it at {:.3} s", lost as f64 / 1e6);
    assert!(scene.verdict.text.contains(&told), "{}", scene.verdict.text);
}

#[test]
fn only_a_server_that_is_cut_off_has_a_lane_of_its_own() {
    for ready in zk_playground::catalogue::scenes() {
        let lanes = ready.play().unwrap().lanes;
        let apart = lanes.iter().filter_map(|lane| lane.of.as_deref()).collect::<Vec<_>>();
        let is_isolated = ready.script.actions.iter().any(|action| action.what == Do::Isolate);
        assert_eq!(apart, if is_isolated { vec!["Ana"] } else { vec![] }, "{}", ready.id);
    }
}
