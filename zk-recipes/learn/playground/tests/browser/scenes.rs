//! Ready-made scenes, and scenes that are shared by their addresses.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Value, json};
use zk_playground::catalogue;

use crate::stage::Stage;

/// All ready-made scenes, as they are played without the page.
static SCENES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let scenes = catalogue::scenes().into_iter().map(|ready| ready.play().unwrap());
    scenes.map(|scene| serde_json::to_value(scene).unwrap()).collect()
});

/// A ready-made scene, as it is played without the page.
pub(crate) fn played(id: &str) -> &'static Value {
    SCENES.iter().find(|scene| scene["id"] == id).unwrap_or_else(|| panic!("no scene {id}"))
}

/// Scenes that differ: each shows what none before it does, by its lanes, the kinds of its
/// events, and what its clients are at the end.
pub(crate) fn differing() -> Vec<&'static str> {
    let mut known = BTreeSet::new();
    let mut shows_more = |scene: &&Value| {
        let before = known.len();
        known.insert(format!("{} lanes", scene["lanes"].as_array().unwrap().len()));
        let events = scene["events"].as_array().unwrap().iter();
        known.extend(events.map(|event| {
            format!("{} {} {} {}", event["kind"], event["role"], event["tone"], event["fate"])
        }));
        let states = scene["states"].as_array().unwrap().iter().rev();
        let clients = states.flat_map(|state| state["clients"].as_array().into_iter().flatten());
        let mut told = BTreeSet::new();
        known.extend(clients.filter(|client| told.insert(client["who"].as_str())).map(|client| {
            let facts = ["lock", "owns", "connection", "running", "link"].map(|of| &client[of]);
            let is_over =
                |end: &str| client[end].as_u64().map(|at| Some(at) <= scene["ended_us"].as_u64());
            format!("{facts:?} {:?} {:?}", is_over("lease_until_us"), is_over("deadline_us"))
        }));
        known.len() > before
    };
    let scenes = SCENES.iter().filter(|scene| shows_more(scene));
    scenes.map(|scene| scene["id"].as_str().unwrap()).collect()
}

/// The numbers of the events that are shown: all that are no routine.
pub(crate) fn shown(scene: &Value) -> Vec<usize> {
    let is_routine = |event: &Value| event["role"] == "ping" || event["role"] == "connect";
    let events = scene["events"].as_array().unwrap().iter().enumerate();
    events.filter(|(_, event)| !is_routine(event)).map(|(index, _)| index).collect()
}

/// Every event that is no routine is a step, and is in the list.
pub(crate) fn each_event_is_stepped_on(scene: &Value, steps: &[u64], listed: &Value) {
    let (id, shown) = (&scene["id"], shown(scene));
    assert!(shown.len() > 5, "{id}");
    assert_eq!(*listed, json!(shown), "{id}");
    assert_eq!(json!(steps), *listed, "{id}");
}

/// All actions have an effect, and there is something to look at.
pub(crate) fn nothing_is_without_effect(stage: &mut Stage, scene: &Value) {
    let id = &scene["id"];
    assert_eq!(scene["unfired"], json!([]), "{id}");
    assert_eq!(stage.browser.evaluate("document.getElementById('unfired').hidden"), true, "{id}");
    let look = "document.getElementById('look-text').innerText.length";
    assert!(stage.number(look) > 20, "{id}");
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
