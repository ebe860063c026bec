//! A recording of a tap on the page.

use std::fs;
use std::time::Duration;

use zk_playground::{Verdict, catalogue, page, recorded};
use zk_tap::recording::Entry;
use zk_tap::{Side, hex};

use crate::guess::{breaches, is_shown};
use crate::stage::Stage;

/// What Ana says and hears in a scene, as a tap records it.
fn entries() -> Vec<Entry> {
    let ready = catalogue::scenes().into_iter().find(|ready| ready.id == "queue").unwrap();
    let scene = serde_json::to_value(ready.play().unwrap()).unwrap();
    let events = scene["events"].as_array().unwrap().iter();
    let of_ana = |event: &&serde_json::Value| event["from"] == "Ana" || event["to"] == "Ana";
    let frames = events.filter(|event| event["kind"] == "frame").filter(of_ana);
    let entry = |frame: &serde_json::Value| {
        let bytes = hex::decode(frame["bytes"].as_str().unwrap()).unwrap();
        let from = if frame["from"] == "Ana" { Side::Client } else { Side::Server };
        let at = Duration::from_micros(frame["at_us"].as_u64().unwrap());
        Entry::Frame { at, connection: 1, from, payload: bytes[4..].to_vec() }
    };
    frames.map(entry).collect()
}

#[test]
fn a_recording_is_shown_frame_by_frame_without_a_state() {
    let entries = entries();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.html");
    let recorded = recorded("session.jsonl", &entries, Duration::ZERO);
    fs::write(&path, page::of_recording(recorded).unwrap()).unwrap();

    let mut stage = Stage::open_file(&path);
    assert_eq!(stage.offered(), ["recording"]);
    for id in ["state", "verdict", "interfere", "program", "look", "pair"] {
        let is_hidden = format!("document.getElementById('{id}').hidden");
        assert!(stage.browser.evaluate(&is_hidden) == true, "{id}");
    }
    stage.click("#routine");
    stage.click("#forward");
    assert_eq!(stage.step(), (1, entries.len() as u64));
    let said = stage.text("document.getElementById('said').textContent");
    assert!(said.contains("Client 1 sends to the server: connect: a new session"), "{said}");
    stage.click("#last");
    let shown = stage.text("document.getElementById('events').textContent");
    assert!(shown.contains("create2 /lock/") && shown.contains("created /lock/"), "{shown}");
    // The frame of the last event opens.
    stage.browser.evaluate("document.getElementById('lanes').focus()");
    stage.browser.press("Enter");
    let title = stage.text("document.getElementById('frame-title').textContent");
    assert!(title.starts_with("Frame: "), "{title}");
    stage.end();
}

#[test]
fn what_another_judge_has_told_is_shown_at_once_with_the_moment_of_the_break() {
    let mut scene = recorded("a run", &entries(), Duration::ZERO);
    let at_us = scene.events[scene.events.len() / 2].at_us();
    scene.verdict = Verdict::told("Ana asks again and again.".to_owned(), at_us);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.html");
    fs::write(&path, page::of_recording(scene).unwrap()).unwrap();

    let mut stage = Stage::open_file(&path);
    assert!(!is_shown(&mut stage, "guess") && !is_shown(&mut stage, "guessed"));
    for shown in ["verdict", "break"] {
        assert!(is_shown(&mut stage, shown), "{shown}");
    }
    let verdict = stage.text("document.getElementById('verdict').textContent");
    assert_eq!(verdict, "Ana asks again and again.");
    assert_eq!(breaches(&mut stage), 1);
    let mark = stage.text("document.querySelector('#lanes text.breach').textContent");
    let when = stage.text(&format!("Words.time({at_us})"));
    assert_eq!(mark, format!("Broken at {when}"));
    stage.click("#break");
    let (step, last) = stage.step();
    assert!(0 < step && step < last, "{step} of {last}");
    let by_button = stage.moment();
    stage.click("#first");
    stage.browser.press("b");
    assert_eq!(stage.moment(), by_button);
    stage.end();
}
