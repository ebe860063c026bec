//! What goes wrong is told, and a reader can go on from there.

use serde_json::json;

use crate::stage::Stage;

/// The text of the problem that is shown.
const PROBLEM: &str = "document.getElementById('problem-text').textContent";

/// True while a problem is shown.
const IS_SHOWN: &str = "!document.getElementById('problem').hidden";

fn set_offline(stage: &mut Stage, offline: bool) {
    let network = json!({
        "offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1,
    });
    stage.browser.call("Network.emulateNetworkConditions", network);
}

#[test]
fn a_server_that_is_gone_is_told_of_and_asked_again() {
    let mut stage = Stage::open("");
    let title = stage.text("document.getElementById('title').textContent");
    set_offline(&mut stage, true);
    stage.click("[data-do=acquire]");
    stage.browser.until(IS_SHOWN);
    assert!(stage.text(PROBLEM).contains("does not answer"));
    // The scene that was shown can still be stepped through.
    assert_eq!(stage.text("document.getElementById('title').textContent"), title);
    stage.click("#forward");
    assert_eq!(stage.step().0, 1);

    set_offline(&mut stage, false);
    stage.click("#retry");
    stage.browser.until(&format!("!({IS_SHOWN})"));
    // The failed request is an error that the browser logs by itself.
    stage.browser.errors();
    stage.end();
}

#[test]
fn a_script_that_the_server_refuses_is_told_of_in_its_words() {
    let mut stage = Stage::open("");
    for (fragment, word) in [
        ("#7/no_such_lock/Ana/100.Ana.acquire/9000", "lock"),
        ("#7/exclusive/Ana/100.Zoe.acquire/9000", "Zoe"),
        ("#7/exclusive/Ana/100.Ana.fly/9000", "fly"),
        ("#no-such-scene", "no-such-scene"),
        ("#7/exclusive", "address"),
        ("#%E0%A4%A", "address"),
    ] {
        stage.browser.evaluate(&format!("location.hash = {}", json!(fragment)));
        stage.browser.until(&format!("{IS_SHOWN} && ({PROBLEM}).includes('{word}')"));
        // Another scene takes the message away.
        let first = stage.offered().remove(0);
        stage.choose(&first);
        stage.browser.until(&format!("!({IS_SHOWN})"));
    }
    // A refusal has the status 400, which the browser logs.
    stage.browser.errors();
    stage.end();
}
