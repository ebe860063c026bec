//! The page for everybody: names for screen readers, contrast, narrow windows, and no motion.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::scenes::differing;
use crate::stage::Stage;

/// Roles that a screen reader announces by a name.
const NAMED: [&str; 15] = [
    "button",
    "checkbox",
    "combobox",
    "DisclosureTriangle",
    "heading",
    "image",
    "link",
    "listbox",
    "option",
    "radio",
    "region",
    "slider",
    "spinbutton",
    "table",
    "textbox",
];

/// The role and the name of everything in the accessibility tree.
fn announced(stage: &mut Stage) -> Vec<(String, String)> {
    let tree = stage.browser.call("Accessibility.getFullAXTree", json!({}));
    let nodes = tree["nodes"].as_array().unwrap().iter();
    let value = |node: &Value, of: &str| node[of]["value"].as_str().unwrap_or_default().to_owned();
    nodes
        .filter(|node| node["ignored"] != true)
        .map(|node| (value(node, "role"), value(node, "name")))
        .collect()
}

#[test]
fn everything_that_can_be_used_has_a_name() {
    let mut stage = Stage::open("");
    stage.browser.evaluate(
        "for (const details of document.querySelectorAll('details')) details.open = true;",
    );
    // The first frame of the list is opened, too.
    stage.browser.evaluate(
        "[...document.querySelectorAll('#events tr')].find((row) => row.cells[2].textContent \
         === 'server').querySelector('button').click()",
    );
    let announced = announced(&mut stage);
    let unnamed = announced.iter().filter(|(role, name)| {
        // A sign is no name.
        NAMED.contains(&role.as_str()) && !name.contains(char::is_alphanumeric)
    });
    let unnamed = unnamed.collect::<Vec<_>>();
    assert!(unnamed.is_empty(), "{unnamed:?}");

    let roles = announced.iter().map(|(role, _)| role.as_str()).collect::<BTreeSet<_>>();
    for role in ["banner", "main", "region", "slider", "listbox", "radio", "table", "status"] {
        assert!(roles.contains(role), "no {role} among {roles:?}");
    }
    stage.end();
}

/// The texts whose contrast is below 4.5, with it. Those of what is to come are washed out on
/// purpose, and so is what is disabled.
const FAINT: &str = "(() => {
    const rgb = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const part = (byte) => {
        const value = byte / 255;
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    };
    const light = ([red, green, blue]) =>
        0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
    const contrast = (one, other) => {
        const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
        return (bright + 0.05) / (dark + 0.05);
    };
    const ground = (element) => {
        for (let here = element; here !== null; here = here.parentElement) {
            const colour = rgb(getComputedStyle(here).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const isText = (node) => node.nodeType === 3 && node.textContent.trim() !== '';
    return [...document.body.querySelectorAll('*')]
        .filter((element) => [...element.childNodes].some(isText))
        .filter((element) => !element.closest('script, :disabled, [hidden], option, title'))
        .filter((element) => element.getClientRects().length > 0)
        .map((element) => {
            const style = getComputedStyle(element);
            const ink = rgb(element.closest('svg') ? style.fill : style.color);
            return [contrast(ink, ground(element)), element.outerHTML.slice(0, 100)];
        })
        .filter(([ratio]) => ratio < 4.5);
})()";

#[test]
fn texts_have_contrast_in_light_and_in_dark() {
    let mut stage = Stage::open("");
    let mut grounds = BTreeSet::new();
    for id in differing() {
        stage.choose(id);
        stage.click("#last");
        for scheme in ["light", "dark"] {
            stage.browser.emulate(1280, 900, &[("prefers-color-scheme", scheme)]);
            let faint = stage.browser.evaluate(FAINT);
            assert_eq!(faint, json!([]), "{scheme}, {id}");
            grounds.insert(stage.text("getComputedStyle(document.body).backgroundColor"));
        }
    }
    assert_eq!(grounds.len(), 2, "{grounds:?}");
    stage.end();
}

/// The width of a narrow window.
pub(crate) const NARROW: u32 = 360;

/// A narrow window shows everything without scrolling sideways.
pub(crate) fn nothing_is_outside_a_narrow_window(stage: &mut Stage, id: &str) {
    let width = stage.number("document.documentElement.scrollWidth");
    assert!(width <= u64::from(NARROW), "{id}: the page is {width} wide");
    let outside = stage.browser.evaluate(&format!(
        "[...document.querySelectorAll('button, select, input')]
            .filter((control) => control.getClientRects().length > 0)
            .filter((control) => !control.closest('.scroll'))
            .filter((control) => {{
                const {{ left, right }} = control.getBoundingClientRect();
                return left < 0 || right > {NARROW};
            }})
            .map((control) => control.outerHTML)"
    ));
    assert_eq!(outside, json!([]), "{id}");
}

#[test]
fn without_motion_playing_goes_from_event_to_event() {
    let mut stage = Stage::open("");
    stage.browser.emulate(1280, 900, &[("prefers-reduced-motion", "reduce")]);
    stage.browser.evaluate(
        "{
            const speed = document.getElementById('speed');
            speed.value = '4';
            speed.dispatchEvent(new Event('change'));
        }",
    );
    // Every change of the clock while it plays, up to the fourth event.
    let shown = stage.browser.evaluate(
        "new Promise((resolve) => {
            const clock = document.getElementById('clock');
            const shown = [];
            new MutationObserver((_, observer) => {
                shown.push(clock.textContent.split(/\\s+/).pop());
                if (shown.length === 4) { observer.disconnect(); resolve(shown); }
            }).observe(clock, { characterData: true, childList: true, subtree: true });
            document.getElementById('play').click();
        })",
    );
    let (_, last) = stage.step();
    let expected = (1..=4).map(|step| format!("{step}/{last}")).collect::<Vec<_>>();
    assert_eq!(shown, json!(expected));
    stage.end();
}
