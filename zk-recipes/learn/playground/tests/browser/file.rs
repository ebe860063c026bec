//! The page as one file, which needs no server.

use std::fs;

use serde_json::json;

use crate::stage::Stage;

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
    for id in &offered {
        stage.choose(id);
        stage.click("#last");
        let (step, last) = stage.step();
        assert!(step == last && last > 5, "{id}: {step} of {last}");
        stage.click("#reveal");
        assert!(stage.browser.evaluate("!document.getElementById('verdict').hidden") == true);
    }
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
