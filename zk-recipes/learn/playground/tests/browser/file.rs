//! The page as one file, which needs no server.

use std::fs;

use serde_json::json;

use crate::scenes::{self, played};
use crate::stage::Stage;

/// Chooses each scene and goes to its end. Returns the verdicts that are shown then, the numbers of
/// the events in the list, how many have happened, and how many there are.
const SHOWN: &str = "(async () => {
    const byId = (id) => document.getElementById(id);
    const shown = [];
    for (const { value } of document.querySelectorAll('#scene option')) {
        byId('scene').value = value;
        byId('scene').dispatchEvent(new Event('change'));
        while (!byId('link').hash.startsWith(`#${value}`)) await new Promise(setTimeout);
        byId('last').click();
        byId('reveal').click();
        const counts = byId('clock').textContent.split(/\\s+/).pop().split('/').map(Number);
        const rows = [...document.querySelectorAll('#events tbody tr')];
        shown.push([byId('verdict').checkVisibility() && byId('verdict').textContent,
            rows.map((row) => Number(row.dataset.index)), ...counts]);
    }
    return shown;
})()";

#[test]
fn one_file_shows_every_scene_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.html");
    fs::write(&path, zk_playground::page::whole().unwrap()).unwrap();
    let mut served = Stage::open("");
    let offered = served.offered();
    served.end();

    let mut stage = Stage::open_file(&path);
    assert_eq!(stage.offered(), offered);
    // What needs the server is not offered.
    assert!(stage.browser.evaluate("document.getElementById('interfere').hidden") == true);
    let shown = stage.browser.evaluate(SHOWN);
    for (id, shown) in offered.iter().zip(shown.as_array().unwrap()) {
        let scene = played(id);
        let events = scenes::shown(scene);
        let count = events.len();
        assert_eq!(*shown, json!([scene["verdict"]["text"], events, count, count]), "{id}");
    }
    assert_eq!(shown.as_array().unwrap().len(), offered.len());
    // A script of somebody else is told to need a server.
    stage.browser.evaluate("location.hash = '#7/exclusive/Ana/100.Ana.acquire/9000'");
    stage.browser.until("document.getElementById('problem-text').textContent.includes('server')");

    // Loading the file and its parts is all that was asked for.
    let requests = stage.browser.take_events("Network.requestWillBeSent");
    let urls = requests.iter().map(|request| request["request"]["url"].clone());
    let urls = urls.filter(|url| url != "about:blank" && !is_data(url)).collect::<Vec<_>>();
    assert_eq!(urls, [json!(stage.address)]);
    stage.end();
}

fn is_data(url: &serde_json::Value) -> bool {
    url.as_str().is_some_and(|url| url.starts_with("data:"))
}
