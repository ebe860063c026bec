//! Ready-made scenes, and scenes that are shared by their addresses.

use serde_json::{Value, json};

use crate::stage::Stage;

/// Plays the script of a ready-made scene, in the page.
pub(crate) fn played(stage: &mut Stage, id: &str) -> Value {
    stage.browser.evaluate(&format!(
        "(async () => {{
            const catalogue = await (await fetch('catalogue.json')).json();
            const {{ script }} = catalogue.scenes.find((scene) => scene.id === '{id}');
            const options = {{ method: 'POST', body: JSON.stringify(script),
                headers: {{ 'Content-Type': 'application/json' }} }};
            return (await fetch('scene', options)).json();
        }})()"
    ))
}

/// Steps forward to the end. Returns the number of each event that was current on the way, and of
/// each that is in the list.
const STEPS: &str = "(() => {
    const forward = document.getElementById('forward');
    const indexOf = (row) => Number(row.dataset.index);
    const rows = [...document.querySelectorAll('#events tbody tr')];
    const seen = rows.map(() => {
        forward.click();
        return indexOf(document.querySelector('#events [aria-current]'));
    });
    return [seen, rows.map(indexOf)];
})()";

#[test]
fn every_scene_is_stepped_through_to_its_end_and_its_verdict_is_shown() {
    let mut stage = Stage::open("");
    let offered = stage.offered();
    assert!(offered.len() > 4, "{offered:?}");
    for id in offered {
        stage.choose(&id);
        let scene = played(&mut stage, &id);
        let steps = stage.browser.evaluate(STEPS);
        assert_eq!(steps[0], steps[1], "{id}");
        let (step, last) = stage.step();
        assert!(step == last && last > 5, "{id}: {step} of {last}");
        let routine = |event: &&Value| event["role"] != "ping" && event["role"] != "connect";
        let events = scene["events"].as_array().unwrap();
        assert_eq!(last as usize, events.iter().filter(routine).count(), "{id}");

        stage.click("#reveal");
        let verdict = &scene["verdict"];
        let shown = "document.getElementById('verdict').checkVisibility() \
                     && document.getElementById('verdict').textContent";
        assert_eq!(stage.text(shown), verdict["text"], "{id}");
        assert_eq!(scene["unfired"], json!([]), "{id}");
        assert_eq!(stage.browser.evaluate("document.getElementById('unfired').hidden"), true);
        let marked = "document.querySelectorAll('#lanes text.breach').length";
        assert_eq!(stage.number(marked), u64::from(!verdict["breach"].is_null()), "{id}");
        let look = "document.getElementById('look-text').innerText.length";
        assert!(stage.number(look) > 20, "{id}");
    }
    stage.end();
}

#[test]
fn tasks_of_a_process_have_lanes_with_bars_and_without_frames() {
    let mut stage = Stage::open("#tasks");
    let lanes = stage.browser.evaluate(
        "[...document.querySelectorAll('#lanes .heads span')].map((lane) => lane.textContent)",
    );
    assert_eq!(lanes, json!(["Ana", "Ana2", "Ana3", "server", "Ben", "Ben2", "Ben3"]));
    stage.click("#last");
    // The colours of the lanes are those of the contenders in the order of the script.
    for (lane, is_process) in [true, false, false, true, false, false].into_iter().enumerate() {
        let count =
            |of: &str| format!("document.querySelectorAll('#lanes {of}.lane-{lane}').length");
        assert_eq!(stage.number(&count(".belief.held")), 1, "lane {lane}");
        assert_eq!(stage.number(&count(".event.frame")) > 0, is_process, "lane {lane}");
    }
    let cards = "[...document.querySelectorAll('#clients .link')].map((link) => link.textContent)";
    let cards = stage.browser.evaluate(cards);
    assert_eq!(cards[1], "a task of Ana · connected");
    // The address of a script keeps them.
    stage.click("[data-do=acquire]");
    stage.until_address("includes('.acquire')");
    let address = stage.shared();
    assert!(address.contains("/Ana,Ana2~Ana,Ana3~Ana,Ben,Ben2~Ben,Ben3~Ben/"), "{address}");
    stage.go(&address);
    assert_eq!(stage.number("document.querySelectorAll('#lanes .heads span').length"), 7);
    stage.end();
}

#[test]
fn handshakes_and_pings_are_shown_when_asked_for_and_the_moment_stays() {
    let mut stage = Stage::open("");
    for _ in 0..8 {
        stage.click("#forward");
    }
    let said = stage.moment()[0].clone();
    let (_, without) = stage.step();
    stage.click("#routine");
    let (step, with) = stage.step();
    assert!(with > without, "{with} events with pings, {without} without");
    assert!(step > 8, "{step}");
    assert_eq!(stage.moment()[0], said);
    stage.end();
}

#[test]
fn a_shared_address_restores_the_same_scene_at_the_same_moment() {
    let mut stage = Stage::open("");
    for _ in 0..9 {
        stage.click("#forward");
    }
    stage.click("[data-do=stop]");
    stage.until_address("includes('.stop')");
    for _ in 0..6 {
        stage.click("#forward");
    }
    let events = "document.getElementById('events').textContent";
    let (before, moment) = (stage.text(events), stage.moment());
    let address = stage.shared();

    stage.go("");
    assert_ne!(stage.text(events), before);
    stage.go(&address);
    assert_eq!(stage.text(events), before);
    assert_eq!(stage.moment(), moment);
    stage.end();
}

#[test]
fn the_way_back_of_the_browser_shows_the_scene_before() {
    let mut stage = Stage::open("");
    let offered = stage.offered();
    stage.choose(&offered[1]);
    let second = stage.text("document.getElementById('title').textContent");
    stage.choose(&offered[2]);
    stage.browser.evaluate("history.back()");
    stage.until_address(&format!("startsWith('#{}')", offered[1]));
    assert_eq!(stage.text("document.getElementById('title').textContent"), second);
    stage.end();
}
