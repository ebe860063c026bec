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

/// Counts the changes of the page when the slider moves by STEP, at each STRIDE of its places.
const SCRUB: &str = "(() => {
    const time = document.getElementById('time');
    const observer = new MutationObserver(() => {});
    observer.observe(document.body, {
        attributes: true, characterData: true, childList: true, subtree: true,
    });
    const counts = [];
    const move = (at) => {
        time.value = at;
        time.dispatchEvent(new Event('input'));
        return observer.takeRecords().length;
    };
    for (let at = STEP; at <= Number(time.max); at += STRIDE) {
        move(at - STEP);
        counts.push(move(at));
    }
    return counts;
})()";

#[test]
fn a_step_of_a_long_scene_changes_little() {
    let mut stage = Stage::open(&long_scene());
    let frames = stage.number(FRAMES);
    assert!(frames > 200, "{frames}");
    let mut most = |step: &str, stride: &str| {
        let script = SCRUB.replace("STEP", step).replace("STRIDE", stride);
        let counts = stage.browser.evaluate(&script);
        let counts = counts.as_array().unwrap().clone();
        counts.iter().map(|count| count.as_u64().unwrap()).max().unwrap()
    };
    // A pixel is one event at the most: what it changes depends on the contenders alone.
    let of_a_pixel = most("1", "19");
    assert!(of_a_pixel <= 80, "{of_a_pixel} changes for a pixel");
    // A leap renews at most the state, and never the frames.
    let of_a_leap = most("997", "997");
    assert!(of_a_leap <= 250, "{of_a_leap} changes for a leap");
    stage.end();
}

/// Bytes of the heap and nodes of the page, after garbage was collected.
fn held(stage: &mut Stage) -> (u64, u64) {
    stage.browser.call("HeapProfiler.collectGarbage", json!({}));
    let heap = stage.browser.call("Runtime.getHeapUsage", json!({}));
    let counts = stage.browser.call("Memory.getDOMCounters", json!({}));
    (heap["usedSize"].as_f64().unwrap() as u64, counts["nodes"].as_u64().unwrap())
}

#[test]
fn many_scenes_leave_nothing_behind() {
    let mut stage = Stage::open("");
    let mut scenes = stage.offered();
    scenes.truncate(8);
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
    for _ in 0..4 {
        play_all(&mut stage);
    }
    let after = held(&mut stage);
    let (heap, nodes) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    assert!(heap < 300_000, "the heap grew by {heap} bytes from {}", before.0);
    assert!(nodes < 100, "{nodes} more nodes than {}", before.1);
    stage.end();
}
