//! A recording of a tap on the page.

use std::fs;
use std::time::Duration;

use zk_playground::{catalogue, page, recorded};
use zk_tap::recording::Entry;
use zk_tap::{Side, hex};

use crate::stage::Stage;

#[test]
fn a_recording_is_shown_frame_by_frame_without_a_state() {
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
    let entries = frames.map(entry).collect::<Vec<_>>();
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
