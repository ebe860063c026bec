//! Small windows: the picture and what is to be touched have their place in each.

use serde_json::{Value, json};

use crate::scenes::differing;
use crate::stage::Stage;

/// A laptop, and a phone.
const LAPTOP: (u32, u32) = (1280, 800);
const PHONE: (u32, u32) = (390, 844);

/// True if the present is in the window and in the part of the diagram that is seen, and not behind
/// the bar of the time.
const PRESENT_IS_SEEN: &str = "(() => {
    const now = document.querySelector('#lanes .now').getBoundingClientRect();
    const lanes = document.getElementById('lanes').getBoundingClientRect();
    const bar = document.querySelector('.transport').getBoundingClientRect();
    const isInside = (box) => now.top >= box.top && now.bottom <= box.bottom;
    const isBehind = now.bottom > bar.top && now.top < bar.bottom;
    return isInside(lanes) && now.top >= 0 && now.bottom <= innerHeight && !isBehind;
})()";

#[test]
fn on_a_laptop_an_action_leaves_the_picture_in_view_and_the_next_one_in_reach() {
    let mut stage = Stage::open("#queue");
    stage.browser.emulate(LAPTOP.0, LAPTOP.1, &[]);
    for _ in 0..12 {
        stage.click("#forward");
    }
    for action in ["stop", "cut", "crash"] {
        let button = format!("document.querySelector('[data-do={action}]')");
        stage.browser.evaluate(&format!("{button}.scrollIntoView({{ block: 'nearest' }})"));
        stage.click(&format!("[data-do={action}]"));
        stage.until_address(&format!("includes('.{action}')"));
        assert_eq!(stage.browser.evaluate(PRESENT_IS_SEEN), true, "after {action}");
        let is_near = format!("{button}.getBoundingClientRect().bottom <= innerHeight");
        assert_eq!(stage.browser.evaluate(&is_near), true, "{action} is out of reach");
    }
    stage.end();
}

/// The names of the lanes that are in the window from end to end.
const LANES_SEEN: &str = "[...document.querySelectorAll('#lanes .heads span')].filter((head) => {
    const { left, right } = head.getBoundingClientRect();
    return left >= 0 && right <= innerWidth;
}).map((head) => head.textContent)";

#[test]
fn on_a_phone_both_owners_are_on_the_screen() {
    let mut stage = Stage::open("");
    stage.browser.emulate(PHONE.0, PHONE.1, &[]);
    for (id, lanes) in [
        ("no_deadline", &["Ana", "Ana's server", "majority", "Ben"][..]),
        ("wrong_wake_up", &["Ana", "Ben", "server", "Cho"]),
        ("no_fence", &["Ana", "server", "Ben"]),
    ] {
        stage.choose(id);
        stage.click("#reveal");
        stage.click("#break");
        assert_eq!(stage.browser.evaluate(LANES_SEEN), json!(lanes), "{id}");
        assert_eq!(stage.browser.evaluate(PRESENT_IS_SEEN), true, "{id}");
    }
    stage.end();
}

#[test]
fn on_a_phone_the_bar_is_low_and_what_is_touched_is_as_large_as_a_finger() {
    let mut stage = Stage::open("#no_deadline");
    stage.browser.emulate(PHONE.0, PHONE.1, &[]);
    stage.click("#last");
    let bar = stage
        .browser
        .evaluate("document.querySelector('.transport').getBoundingClientRect().height");
    assert!(bar.as_f64().unwrap() <= 110.0, "the bar is {bar} high");
    let small = |stage: &mut Stage| {
        stage.browser.evaluate(
            "[...document.querySelectorAll('button, select, summary, input[type=number], \
             input[type=range], .who label, .routine')]
                .filter((control) => control.getClientRects().length > 0)
                .filter((control) => {
                    const { width, height } = control.getBoundingClientRect();
                    return height < 44 || width < 44;
                })
                .map((control) => control.outerHTML.slice(0, 120))",
        )
    };
    assert_eq!(small(&mut stage), json!([]));
    stage.click("#reveal");
    // A frame is opened, too.
    stage.click("#events tbody tr:nth-child(8) button");
    assert_eq!(small(&mut stage), json!([]));
    stage.end();
}

/// The labels of the diagram whose contrast is below 4.5 where the veil of the future lies on them,
/// with it.
const FAINT_FUTURE: &str = "(() => {
    const rgb = (colour) => colour.match(/[\\d.]+/g).map(Number).slice(0, 3);
    const part = (byte) => {
        const value = byte / 255;
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    };
    const light = ([red, green, blue]) =>
        0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
    const veil = getComputedStyle(document.querySelector('#lanes .veil'));
    const over = rgb(veil.fill);
    const share = Number(veil.opacity);
    const veiled = (colour, opacity) => colour.map((byte, index) => {
        const shown = byte * opacity + over[index] * (1 - opacity);
        return shown * (1 - share) + over[index] * share;
    });
    const contrast = (one, other) => {
        const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
        return (bright + 0.05) / (dark + 0.05);
    };
    const ground = rgb(getComputedStyle(document.getElementById('lanes')).backgroundColor);
    return [...document.querySelectorAll('#lanes .event text')].map((label) => {
        const opacity = Number(getComputedStyle(label).opacity)
            * Number(getComputedStyle(label.closest('.event')).opacity);
        const ink = veiled(rgb(getComputedStyle(label).fill), opacity);
        return [contrast(ink, veiled(ground, 1)), label.textContent];
    }).filter(([ratio]) => ratio < 4.5);
})()";

#[test]
fn what_is_to_come_can_be_read() {
    let mut stage = Stage::open("");
    stage.click("#routine");
    for id in differing() {
        stage.choose(id);
        for scheme in ["light", "dark"] {
            stage.browser.emulate(LAPTOP.0, LAPTOP.1, &[("prefers-color-scheme", scheme)]);
            let faint = stage.browser.evaluate(FAINT_FUTURE);
            assert_eq!(faint, Value::Array(Vec::new()), "{scheme}, {id}");
        }
    }
    stage.end();
}
