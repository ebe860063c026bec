//! A server that is cut off from the others: its lane, the cut, and its end.

use serde_json::json;

use crate::stage::Stage;

const HEADS: &str = "[...document.querySelectorAll('#lanes .heads span')]
    .map((head) => head.textContent)";

#[test]
fn a_server_that_is_cut_off_has_a_lane_of_its_own_and_a_cut_while_it_is_alone() {
    let mut stage = Stage::open("#no_deadline");
    assert_eq!(stage.browser.evaluate(HEADS), json!(["Ana", "Ana's server", "majority", "Ben"]));
    // The cut is as long as the action is away from the notice.
    let [from, to] = [0, 1].map(|end| {
        stage.number(&format!(
            "Math.round(document.querySelector('#lanes .cut').getAttribute('d')
                .match(/^M[\\d.]+,([\\d.]+)V([\\d.]+)/)[{end} + 1])"
        ))
    });
    assert!(from < to, "{from} {to}");
    let rows = stage.browser.evaluate(
        "[...document.querySelectorAll('#events tbody tr')].map((row) =>
            [...row.cells].slice(1).map((cell) => cell.textContent))",
    );
    let rows = rows.as_array().unwrap();
    let place = |party: &str, what: &str| {
        let is_it =
            |row: &serde_json::Value| row[0] == party && row[2].as_str().unwrap().starts_with(what);
        rows.iter().position(is_it).unwrap_or_else(|| panic!("{party}: {what}"))
    };
    let isolated = place("Ana", "Isolate");
    let ended = place("majority", "Ends the session of Ana");
    let noticed = place("Ana's server", "Notices that it is alone");
    let known = place("Ana", "Knows that the session is over");
    assert!(isolated < ended && ended < noticed && noticed < known, "{rows:?}");
    stage.end();
}

#[test]
fn without_a_cut_all_servers_are_one_lane() {
    let mut stage = Stage::open("#queue");
    assert_eq!(stage.browser.evaluate(HEADS), json!(["Ana", "Ben", "server", "Cho"]));
    assert_eq!(stage.number("document.querySelectorAll('#lanes .cut').length"), 0);
    stage.end();
}
