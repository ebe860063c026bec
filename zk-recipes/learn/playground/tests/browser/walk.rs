//! One walk through every scene, for all that is claimed of each: what costs is to choose a scene
//! and to step through it. Each claim is a function beside the tests of its kind.

use crate::scenes::played;
use crate::stage::Stage;
use crate::{access, beliefs, guess, scenes};

/// Steps forward to the end. Returns for the begin, after each step and at the end the number of
/// the event that is current, or null, and the class of each card; and the numbers of the list.
const WALK: &str = "(() => {
    const now = () => {
        const row = document.querySelector('#events [aria-current]');
        const cards = [...document.querySelectorAll('#clients > li')];
        return [row === null ? null : Number(row.dataset.index),
            cards.map((card) => [card.querySelector('.name').textContent, card.className])];
    };
    const rows = [...document.querySelectorAll('#events tbody tr')];
    const seen = [now()];
    for (const row of rows) {
        document.getElementById('forward').click();
        seen.push(now());
    }
    document.getElementById('last').click();
    seen.push(now());
    return [seen, rows.map((row) => Number(row.dataset.index))];
})()";

#[test]
fn every_scene_keeps_what_is_claimed_of_all() {
    let mut stage = Stage::open("");
    // Where there is the least room.
    stage.browser.emulate(access::NARROW, 740, &[]);
    let offered = stage.offered();
    assert!(offered.len() > 4, "{offered:?}");
    let (mut green, mut red, mut pairs) = (0, 0, 0);
    for (number, id) in offered.iter().enumerate() {
        stage.choose(id);
        let scene = played(id);
        guess::the_result_is_hidden(&mut stage, scene);
        let walked = stage.browser.evaluate(WALK);
        let seen = walked[0].as_array().unwrap();
        let steps = seen[1..seen.len() - 1].iter().map(|moment| moment[0].as_u64().unwrap());
        let steps = steps.collect::<Vec<_>>();
        scenes::each_event_is_stepped_on(scene, &steps, &walked[1]);
        let last = steps.len() as u64;
        assert_eq!(stage.step(), (last, last), "{id}");
        scenes::nothing_is_without_effect(&mut stage, scene);
        let colours = beliefs::who_is_green_owns_the_lock(scene, seen);
        (green, red) = (green + colours.0, red + colours.1);
        guess::the_result_is_hidden(&mut stage, scene);
        access::nothing_is_outside_a_narrow_window(&mut stage, id);
        guess::the_result_is_told(&mut stage, scene, number);
        access::nothing_is_outside_a_narrow_window(&mut stage, id);
        pairs += u32::from(guess::the_break_is_gone_to(&mut stage, scene));
    }
    assert!(green > 100 && red > 50, "{green} green, {red} red");
    assert!(pairs >= 4, "two own the lock in {pairs} scenes");
    stage.end();
}
