//! Everything by the keyboard alone.

use crate::stage::Stage;

/// True if one sees where the focus is: an outline of the element or of its label.
const FOCUS_IS_SEEN: &str = "(() => {
    const focus = document.activeElement;
    return [focus, focus.closest('label')].some((element) => element !== null
        && getComputedStyle(element).outlineStyle !== 'none'
        && parseFloat(getComputedStyle(element).outlineWidth) >= 2);
})()";

/// Presses Tab until the focus is on an element, and demands that it is seen all the way.
fn tab_to(stage: &mut Stage, selector: &str) {
    for _ in 0..100 {
        stage.browser.press("Tab");
        let here = format!("document.activeElement.matches('{selector}')");
        let element = stage.text("document.activeElement.outerHTML.slice(0, 120)");
        let is_seen = stage.browser.evaluate(FOCUS_IS_SEEN) == true;
        assert!(is_seen || element.starts_with("<body"), "the focus is not seen: {element}");
        if stage.browser.evaluate(&here) == true {
            return;
        }
    }
    panic!("Tab does not lead to {selector}");
}

#[test]
fn the_main_road_takes_no_mouse() {
    let mut stage = Stage::open("");
    let scenes = stage.offered();

    // Choose a scene, and go on from there to the diagram.
    tab_to(&mut stage, "#scene");
    stage.browser.press("ArrowDown");
    stage.until_address(&format!("startsWith('#{}')", scenes[1]));
    tab_to(&mut stage, "#lanes");
    for step in 1..=5 {
        stage.browser.press("ArrowRight");
        assert_eq!(stage.step().0, step);
    }
    stage.browser.press("ArrowLeft");
    assert_eq!(stage.step().0, 4);
    stage.browser.press("End");
    let (step, last) = stage.step();
    assert_eq!(step, last);
    stage.browser.press("Home");
    assert_eq!(stage.step().0, 0);

    open_a_frame(&mut stage);
    play_and_pause(&mut stage);

    // Act on the second contender, and take it back.
    tab_to(&mut stage, "#who input");
    stage.browser.press("ArrowRight");
    let second = stage.text("document.querySelector('#who input:checked').value");
    tab_to(&mut stage, "[data-do=crash]");
    stage.browser.press("Enter");
    stage.until_address(&format!("includes('.{second}.crash')"));
    tab_to(&mut stage, "#undo");
    stage.browser.press(" ");
    stage.until_address(&format!("startsWith('#{}')", scenes[1]));
    stage.end();
}

/// Opens the first frame from the diagram, walks over its fields, and closes it.
fn open_a_frame(stage: &mut Stage) {
    let is_frame = "document.getElementById('said').textContent.includes(' sends to ')";
    while stage.browser.evaluate(is_frame) != true {
        stage.browser.press("ArrowRight");
        let (step, last) = stage.step();
        assert!(step < last, "no event is a frame");
    }
    stage.browser.press("Enter");
    stage.browser.until("document.activeElement.id === 'frame-title'");
    tab_to(stage, ".fields");
    let marked = "[...document.querySelectorAll('.bytes .hex .marked')]\
                  .map((cell) => cell.textContent).join('')";
    stage.browser.press("ArrowDown");
    // The first field is the length of all that follows.
    let length = stage.text(marked);
    assert_eq!(length.len(), 8, "{length}");
    let bytes = stage.number("document.querySelectorAll('.bytes .hex span').length");
    assert_eq!(u64::from_str_radix(&length, 16).unwrap() + 4, bytes);
    stage.browser.press("ArrowDown");
    assert_ne!(stage.text(marked), "");
    stage.browser.press("Escape");
    stage.browser.until("document.getElementById('frame').hidden");
    assert_eq!(stage.text("document.activeElement.id"), "lanes");
}

/// Plays by the space bar, and pauses when an event has passed.
fn play_and_pause(stage: &mut Stage) {
    let step = stage.step().0;
    let label = "document.getElementById('play').textContent";
    stage.browser.press(" ");
    assert_eq!(stage.text(label), "Pause");
    stage.browser.until(&format!(
        "Number(document.getElementById('clock').textContent.match(/(\\d+)\\/\\d+$/)[1]) > {step}"
    ));
    stage.browser.press(" ");
    assert_eq!(stage.text(label), "Play");
}

#[test]
fn each_step_is_told_in_a_sentence() {
    let mut stage = Stage::open("");
    stage.browser.evaluate("document.getElementById('lanes').focus()");
    let (_, last) = stage.step();
    let mut before = String::new();
    for _ in 0..last {
        stage.browser.press("ArrowRight");
        let said = stage.text("document.getElementById('said').textContent");
        assert!(said.ends_with('.') && said.contains(": ") && said.len() > 12, "{said}");
        before = said;
    }
    assert_ne!(before, "");
    let live = stage.text("document.getElementById('said').getAttribute('aria-live')");
    assert_eq!(live, "polite");
    stage.end();
}
