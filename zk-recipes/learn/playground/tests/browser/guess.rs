//! What a reader is asked before the result is shown, the moment at which the rule is broken, and
//! the repair beside it.

use serde_json::{Value, json};

use crate::scenes::played;
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

#[test]
fn the_result_is_hidden_until_it_is_guessed_or_asked_for() {
    let mut stage = Stage::open("");
    for (number, id) in stage.offered().into_iter().enumerate() {
        stage.choose(&id);
        stage.click("#last");
        let scene = played(&mut stage, &id);
        let verdict = scene["verdict"]["text"].as_str().unwrap();
        assert!(is_shown(&mut stage, "guess"), "{id}");
        for hidden in ["verdict", "lesson", "guessed", "break"] {
            assert!(!is_shown(&mut stage, hidden), "{id}: {hidden}");
        }
        assert_eq!(breaches(&mut stage), 0, "{id}");
        assert!(!stage.text("document.body.innerText").contains(verdict), "{id}");

        // Of every two scenes, one is guessed right and one wrong.
        let kind = scene["verdict"]["kind"].as_str().unwrap();
        let wrong = if kind == "herd" { "stuck" } else { "herd" };
        let (guess, told) = match number % 2 {
            0 => (kind, "You guessed right."),
            _ => (wrong, "You guessed: "),
        };
        stage.click(&format!("[data-guess={guess}]"));
        let said = stage.text("document.getElementById('guessed').textContent");
        assert!(said.starts_with(told), "{id}, {guess}: {said}");
        assert_eq!(stage.text("document.getElementById('verdict').textContent"), verdict);
        assert!(is_shown(&mut stage, "verdict") && !is_shown(&mut stage, "guess"), "{id}");
        let has_time = !scene["verdict"]["breach"].is_null();
        assert_eq!(is_shown(&mut stage, "break"), has_time, "{id}");
        assert_eq!(breaches(&mut stage), u64::from(has_time), "{id}");
    }
    stage.end();
}

#[test]
fn a_button_and_a_key_go_to_the_moment_at_which_the_rule_is_broken() {
    let mut stage = Stage::open("");
    let mut both = 0;
    for id in stage.offered() {
        stage.choose(&id);
        let scene = played(&mut stage, &id);
        let Some(from_us) = scene["verdict"]["breach"]["from_us"].as_u64() else { continue };
        // Before the result is shown, the key gives nothing away.
        stage.browser.press("b");
        assert_eq!(stage.step().0, 0, "{id}");
        stage.click("#reveal");
        stage.browser.press("b");
        let by_key = stage.moment();
        stage.click("#first");
        stage.click("#break");
        assert_eq!(stage.moment(), by_key, "{id}");
        let shown = stage.text("document.getElementById('moment').textContent");
        let expected = stage.text(&format!("Words.time({from_us})"));
        assert_eq!(shown, expected, "{id}");
        if scene["verdict"]["kind"] == "two_owners" {
            let owners = stage.number(
                "[...document.querySelectorAll('#clients > li')].filter((card) =>
                    ['holds the lock', 'believes that it holds the lock', 'may hold the lock']
                        .includes(card.querySelector('.belief').textContent)).length",
            );
            assert_eq!(owners, 2, "{id}");
            both += 1;
        }
    }
    assert!(both >= 4, "{both}");
    stage.end();
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
