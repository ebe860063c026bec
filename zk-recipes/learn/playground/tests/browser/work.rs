//! What showing a scene costs: the work of a step is bounded, and nothing piles up.

use serde_json::json;

use crate::stage::Stage;

/// Eight contenders that acquire and release by turns, for more than two hundred frames.
fn long_scene() -> String {
    let names = ["Ana", "Ben", "Cho", "Dan", "Eve", "Fay", "Gus", "Hal"];
    let mut actions = Vec::new();
    for round in 0..5 {
        for (place, name) in names.iter().enumerate() {
            let at = 200 + round * 2000 + place * 10;
            actions.push(format!("{at}.{name}.acquire"));
            actions.push(format!("{}.{name}.release", at + 200 + place * 200));
        }
    }
    format!("#7/exclusive/{}/{}/12000", names.join(","), actions.join(","))
}

/// How many frames are drawn.
const FRAMES: &str = "document.querySelectorAll('#lanes .event.frame').length";

/// The most changes of the page at one step of all or one pixel of the slider, and when the
/// slider leaps.
const MOST: &str = "(() => {
    const [time, forward] = ['time', 'forward'].map((id) => document.getElementById(id));
    const observer = new MutationObserver(() => {});
    observer.observe(document.body, {
        attributes: true, characterData: true, childList: true, subtree: true,
    });
    const changes = (move) => {
        move();
        return observer.takeRecords().length;
    };
    const leapTo = (at) => changes(() => {
        time.value = at;
        time.dispatchEvent(new Event('input'));
    });
    const most = [0, 0];
    while (Number(time.value) < Number(time.max)) {
        most[0] = Math.max(most[0], changes(() => forward.click()));
    }
    for (let at = 0; at <= Number(time.max); at += 997) {
        most[1] = Math.max(most[1], leapTo(at));
        most[0] = Math.max(most[0], leapTo(at + 1));
    }
    return most;
})()";

#[test]
fn a_step_of_a_long_scene_changes_little() {
    let mut stage = Stage::open(&long_scene());
    let frames = stage.number(FRAMES);
    assert!(frames > 200, "{frames}");
    let most = stage.browser.evaluate(MOST);
    let [of_a_step, of_a_leap] = [0, 1].map(|of| most[of].as_u64().unwrap());
    // A pixel is one event at the most: what it changes depends on the contenders alone.
    assert!(of_a_step > 0 && of_a_step <= 80, "{of_a_step} changes for a step");
    // A leap renews at most the state, and never the frames.
    assert!(of_a_leap > 0 && of_a_leap <= 250, "{of_a_leap} changes for a leap");
    stage.end();
}

/// Bytes of the heap, nodes and listeners of the page, after garbage was collected.
fn held(stage: &mut Stage) -> [u64; 3] {
    stage.browser.call("HeapProfiler.collectGarbage", json!({}));
    let heap = stage.browser.call("Runtime.getHeapUsage", json!({}));
    let counts = stage.browser.call("Memory.getDOMCounters", json!({}));
    let count = |of: &str| counts[of].as_u64().unwrap();
    [heap["usedSize"].as_f64().unwrap() as u64, count("nodes"), count("jsEventListeners")]
}

#[test]
fn many_scenes_leave_nothing_behind() {
    let mut stage = Stage::open("");
    let mut scenes = stage.offered();
    scenes.truncate(3);
    let play_all = |stage: &mut Stage| {
        for id in &scenes {
            stage.choose(id);
            let (_, last) = stage.step();
            stage.browser.evaluate(&format!(
                "for (let step = 0; step <= {last}; step += 1) {{
                    document.getElementById('forward').click();
                }}"
            ));
            stage.click("[data-do=acquire]");
            stage.until_address("includes('.acquire')");
            stage.click("#undo");
            stage.until_address(&format!("startsWith('#{id}')"));
        }
        // Every round ends with the same scene, so that what is shown does not count.
        stage.choose(&scenes[0]);
    };
    play_all(&mut stage);
    play_all(&mut stage);
    let before = held(&mut stage);
    play_all(&mut stage);
    play_all(&mut stage);
    let after = held(&mut stage);
    let [heap, nodes, listeners] = [0, 1, 2].map(|of| after[of].saturating_sub(before[of]));
    // There were some hundred steps.
    assert!(nodes < 20, "{nodes} more nodes than {}", before[1]);
    assert!(listeners < 10, "{listeners} more listeners than {}", before[2]);
    assert!(heap < 300_000, "the heap grew by {heap} bytes from {}", before[0]);
    stage.end();
}
