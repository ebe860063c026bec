//! What a reader tries out: actions, another lock, more contenders, and the way back.

use crate::stage::Stage;

/// The text of all events.
const EVENTS: &str = "document.getElementById('events').textContent";

/// Which action has just happened, by the list of events.
const CURRENT: &str = "document.querySelector('#events [aria-current] button').textContent";

#[test]
fn each_action_changes_the_scene_and_undo_brings_it_back() {
    let mut stage = Stage::open("");
    let actions = stage.browser.evaluate(
        "[...document.querySelectorAll('[data-do]:enabled')].map((button) => button.dataset.do)",
    );
    let actions = actions.as_array().unwrap().clone();
    assert!(actions.len() >= 12, "{actions:?}");
    let start = stage.shared();
    for _ in 0..10 {
        stage.click("#forward");
    }
    let (before, moment) = (stage.text(EVENTS), stage.moment());
    for action in actions {
        let action = action.as_str().unwrap();
        stage.click(&format!("[data-do={action}]"));
        stage.until_address(&format!("match(/\\.{action}(\\.\\d+)?[,/]/) !== null"));
        assert_ne!(stage.text(EVENTS), before, "{action}");
        let current = stage.text(CURRENT);
        assert_eq!(current.to_lowercase().replace(' ', "_"), action);
        stage.click("#undo");
        stage.until_address(&format!("startsWith('{start}')"));
        assert_eq!(stage.text(EVENTS), before, "{action}");
        assert_eq!(stage.moment(), moment, "{action}");
    }
    stage.end();
}

#[test]
fn an_action_happens_at_the_shown_time_and_takes_the_place_of_what_its_contender_did_later() {
    let script = "100.Ana.acquire,400.Ben.acquire,900.Ana.release,1000.Ana.cut";
    let mut stage = Stage::open(&format!("#7/exclusive/Ana,Ben/{script}/15000"));
    let place = "[...document.querySelectorAll('#events tr')].findIndex((row) => \
                 row.textContent.includes('Ana') && row.textContent.includes('olds the lock'))";
    let place = stage.number(place);
    for _ in 0..place {
        stage.click("#forward");
    }
    let rows = "[...document.querySelectorAll('#events tbody tr')].map((row) => row.textContent)";
    let before = stage.browser.evaluate(rows);
    stage.click("[data-do=write]");
    stage.until_address("includes('.write')");
    let address = stage.shared();
    assert!(address.contains("Ana.acquire") && !address.contains("Ana.release"), "{address}");
    for kept in ["400.Ben.acquire", "1000.Ana.cut"] {
        assert!(address.contains(kept), "{kept} is not what she does: {address}");
    }
    let said = stage.moment()[0].as_str().unwrap().to_owned();
    assert!(said.contains("One later action of Ana is cut off"), "{said}");
    // What had been seen is still so.
    let after = stage.browser.evaluate(rows);
    let seen = |rows: &serde_json::Value| rows.as_array().unwrap()[..place as usize].to_vec();
    assert_eq!(seen(&before), seen(&after));
    stage.end();
}

/// Isolates Ana at her first event that is told like this. Returns the address, and all events
/// behind that.
fn isolated(stage: &mut Stage, when: &str) -> (String, String) {
    let is_then = format!("document.getElementById('said').textContent.includes('{when}')");
    while stage.browser.evaluate(&is_then) != true {
        stage.click("#forward");
    }
    stage.click("[data-do=isolate]");
    stage.until_address("includes('.isolate')");
    let events = stage.text(EVENTS);
    let (_, after) = events.split_once("Isolate").unwrap();
    (stage.shared(), after.to_owned())
}

#[test]
fn a_holder_that_is_isolated_in_the_queue_goes_on_with_what_it_does_and_is_told_how_it_ends() {
    let mut stage = Stage::open("#queue");
    let (address, events) = isolated(&mut stage, "Ana holds the lock");
    for action in ["1500.Ana.fenced_write", "2000.Ana.release", "3000.Ben.release"] {
        assert!(address.contains(action), "{action}: {address}");
    }
    let mut rest = events.as_str();
    for event in ["Fenced write", "Release", "Knows that the lock is lost", "Notices that it is"] {
        let found = rest.split_once(event);
        (_, rest) = found.unwrap_or_else(|| panic!("no {event} in {events}"));
    }
    assert!(rest.contains("Holds the lock"), "{rest}");
    stage.click("#reveal");
    let verdict = stage.text("document.getElementById('verdict').textContent");
    assert!(verdict.contains("It holds: "), "{verdict}");
    assert!(verdict.contains("Ana has lost it at ") && verdict.contains("Ben has it from "));
    stage.end();
}

#[test]
fn a_holder_that_is_isolated_and_does_nothing_more_gives_the_lock_back() {
    let script = "100.Ana.acquire,400.Ben.acquire";
    let mut stage = Stage::open(&format!("#7/exclusive/Ana,Ben/{script}/5000"));
    let (_, events) = isolated(&mut stage, "Ana holds the lock");
    let (_, after) = events.split_once("Knows that the lock is lost").unwrap();
    let (_, after) = after.split_once("Notices that it is alone").unwrap();
    assert!(after.contains("Holds the lock"), "{after}");
    stage.end();
}

#[test]
fn each_action_that_takes_a_time_has_a_field_of_its_own() {
    let mut stage = Stage::open("");
    for (action, ms) in [("work", 700), ("delay", 30)] {
        stage.browser.evaluate(&format!(
            "document.querySelector('[data-do={action}] + [data-ms={action}]').value = {ms}"
        ));
    }
    for (action, ms) in [("work", 700), ("delay", 30)] {
        stage.click(&format!("[data-do={action}]"));
        stage.until_address(&format!("includes('.{action}.{ms}')"));
    }
    stage.end();
}

#[test]
fn a_scene_of_ones_own_begins_with_nothing_and_is_acted_on() {
    let mut stage = Stage::open("#lost_lease");
    stage.browser.evaluate(
        "{
            const scene = document.getElementById('scene');
            scene.value = '';
            scene.dispatchEvent(new Event('change'));
        }",
    );
    stage.until_address("startsWith('#7/exclusive/Ana,Ben//')");
    assert_eq!(stage.text("document.getElementById('title').textContent"), "A scene of your own");
    stage.click("[data-do=heal]");
    stage.until_address("includes('.heal')");
    let unfired = "document.getElementById('unfired').checkVisibility() \
                   && document.getElementById('unfired').textContent";
    let unfired = stage.text(unfired);
    assert!(unfired.contains("Without effect: Ana is reachable again"), "{unfired}");
    stage.end();
}

#[test]
fn seed_lock_and_contenders_are_changed() {
    let mut stage = Stage::open("");
    stage.browser.evaluate(
        "{
            document.getElementById('seed').value = 4242;
            document.getElementById('contenders').value = 5;
            document.querySelector('#setup [type=submit]').click();
        }",
    );
    stage.until_address("startsWith('#4242/')");
    assert_eq!(stage.number("document.querySelectorAll('#lanes .heads span').length"), 6);
    assert_eq!(stage.number("document.querySelectorAll('#clients > li').length"), 5);
    let lock = stage.text(
        "(() => {
            const lock = document.getElementById('lock');
            lock.selectedIndex = lock.selectedIndex === 0 ? 1 : 0;
            document.querySelector('#setup [type=submit]').click();
            return lock.value;
        })()",
    );
    stage.until_address(&format!("includes('/{lock}/')"));
    stage.end();
}
