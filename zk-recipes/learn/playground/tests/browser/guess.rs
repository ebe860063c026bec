//! What a reader is asked before the result is shown, the moment at which the rule is broken, and
//! the repair beside it.

use serde_json::{Value, json};

use crate::stage::Stage;

/// Whether an element is shown.
pub(crate) fn is_shown(stage: &mut Stage, id: &str) -> bool {
    stage.browser.evaluate(&format!("document.getElementById('{id}').checkVisibility()")) == true
}

/// How many marks of a breach are seen in the diagram.
pub(crate) fn breaches(stage: &mut Stage) -> u64 {
    stage.number(
        "[...document.querySelectorAll('#lanes text.breach')]
            .filter((mark) => mark.getClientRects().length > 0).length",
    )
}

/// The result is hidden until it is guessed or asked for, and the key B gives nothing away.
pub(crate) fn the_result_is_hidden(stage: &mut Stage, scene: &Value) {
    let id = &scene["id"];
    assert!(is_shown(stage, "guess"), "{id}");
    for hidden in ["verdict", "lesson", "guessed", "break"] {
        assert!(!is_shown(stage, hidden), "{id}: {hidden}");
    }
    assert_eq!(breaches(stage), 0, "{id}");
    let verdict = scene["verdict"]["text"].as_str().unwrap();
    assert!(!stage.text("document.body.innerText").contains(verdict), "{id}");
    let before = stage.step();
    stage.browser.press("b");
    assert_eq!(stage.step(), before, "{id}");
}

/// The result is shown when it is guessed right, guessed wrong, or asked for: each in every third
/// scene.
pub(crate) fn the_result_is_told(stage: &mut Stage, scene: &Value, number: usize) {
    let id = &scene["id"];
    let kind = scene["verdict"]["kind"].as_str().unwrap();
    let wrong = if kind == "herd" { "stuck" } else { "herd" };
    let (button, told) = match number % 3 {
        0 => (format!("[data-guess={kind}]"), "You guessed right."),
        1 => (format!("[data-guess={wrong}]"), "You guessed: "),
        _ => ("#reveal".to_owned(), ""),
    };
    stage.click(&button);
    let said = stage.text("document.getElementById('guessed').textContent");
    assert!(said.starts_with(told), "{id}, {button}: {said}");
    assert_eq!(is_shown(stage, "guessed"), !told.is_empty(), "{id}, {button}");
    let verdict = stage.text("document.getElementById('verdict').textContent");
    assert_eq!(verdict, scene["verdict"]["text"], "{id}");
    assert!(is_shown(stage, "verdict") && !is_shown(stage, "guess"), "{id}");
    let has_time = !scene["verdict"]["breach"].is_null();
    assert_eq!(is_shown(stage, "break"), has_time, "{id}");
    assert_eq!(breaches(stage), u64::from(has_time), "{id}");
}

/// The button and the key B go to the moment at which the rule is broken. Returns true if two own
/// the lock there.
pub(crate) fn the_break_is_gone_to(stage: &mut Stage, scene: &Value) -> bool {
    let id = &scene["id"];
    let Some(from_us) = scene["verdict"]["breach"]["from_us"].as_u64() else { return false };
    stage.click("#first");
    stage.browser.press("b");
    let by_key = stage.moment();
    stage.click("#first");
    stage.click("#break");
    assert_eq!(stage.moment(), by_key, "{id}");
    let shown = stage.text("document.getElementById('moment').textContent");
    let expected = stage.text(&format!("Words.time({from_us})"));
    assert_eq!(shown, expected, "{id}");
    let has_two = scene["verdict"]["kind"] == "two_owners";
    if has_two {
        let owners = stage.number(
            "[...document.querySelectorAll('#clients > li')].filter((card) =>
                ['holds the lock', 'believes that it holds the lock', 'may hold the lock']
                    .includes(card.querySelector('.belief').textContent)).length",
        );
        assert_eq!(owners, 2, "{id}");
    }
    has_two
}

#[test]
fn the_repair_is_shown_at_the_same_moment_with_what_differs() {
    let mut stage = Stage::open("");
    let time = "document.getElementById('moment').textContent";
    let marked = "[...document.querySelectorAll('#events tr.only')].map((row) => row.textContent)";
    let difference = "document.getElementById('difference').textContent";
    stage.choose("no_deadline");
    assert!(!is_shown(&mut stage, "difference"));
    stage.click("#reveal");
    stage.click("#break");
    let moment = stage.text(time);
    stage.click("#pair");
    stage.until_address("startsWith('#no_deadline_repaired')");
    assert_eq!(stage.text(time), moment);
    assert!(is_shown(&mut stage, "difference") && is_shown(&mut stage, "verdict"));
    let rows = stage.browser.evaluate(marked);
    let rows = rows.as_array().unwrap();
    assert!(rows.iter().all(|row| row.as_str().unwrap().contains("+ ")), "{rows:?}");
    // Ana's writes, which are her proofs, are what the repair adds.
    assert!(rows[0].as_str().unwrap().contains("setData /lock"), "{rows:?}");
    let said = stage.text(difference);
    assert!(said.starts_with(&format!("{} steps are only here", rows.len())), "{said}");
    assert!(said.contains("only in the broken one.") && said.contains("setData"), "{said}");
    let labels = "[...document.querySelectorAll('#lanes .event.only text')]
                  .map((label) => label.textContent.slice(0, 2))";
    let labels = stage.browser.evaluate(labels);
    assert_eq!(labels, json!(vec!["+ "; rows.len()]));

    // And back, where the other steps are marked.
    stage.click("#pair");
    stage.until_address("match(/^#no_deadline@/) !== null");
    assert_eq!(stage.text(time), moment);
    let rows = stage.browser.evaluate(marked);
    let is_told = |row: &Value| row.as_str().unwrap().contains("rites, although another holds");
    assert!(rows.as_array().unwrap().iter().any(is_told), "{rows}");
    // A scene that is chosen has no pair beside it.
    stage.choose("queue");
    assert!(!is_shown(&mut stage, "difference"));
    assert_eq!(stage.browser.evaluate(marked), json!([]));
    stage.end();
}
