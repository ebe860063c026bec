//! Measures what the playground costs those who use it, in a headless Chromium:
//!
//! ```text
//! cargo build --release -p zk-playground --examples
//! cargo run --release -p zk-playground --example measure
//! ```
//!
//! How soon it is there, how long a step of the slider takes in a scene of more than two hundred
//! frames, and what an hour of play leaves behind in the program and in the page. The hour takes
//! some minutes: as many moments are shown as in an hour of play, and as many scripts are played as
//! by somebody who changes the scene every five seconds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "it measures, and ends where it cannot"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::json;

#[path = "../tests/browser/chromium.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod chromium;

use chromium::Chromium;

/// How often the start is measured.
const STARTS: usize = 7;

/// An hour of play: frames of a screen, and changes of the script.
const MOMENTS: u64 = 3600 * 60;
const SCRIPTS: u64 = 3600 / 5;

const IS_READY: &str = "document.documentElement.dataset.ready === 'true'";

/// The program, and where its page is.
struct Program {
    process: Child,
    url: String,
}

impl Program {
    fn start() -> Self {
        let own = std::env::current_exe().unwrap();
        let path = own.with_file_name("playground");
        let mut process = Command::new(path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example `playground`, built for release");
        let mut url = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        Self { process, url: url.trim().to_owned() }
    }

    /// The memory of the program, in kilobytes.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn main() {
    start();
    scrub();
    play_for_an_hour();
}

fn number(browser: &mut Chromium, expression: &str) -> f64 {
    browser.evaluate(expression).as_f64().unwrap()
}

/// From the start of the program to the first paint of its page, by a browser that is running.
fn start() {
    let mut browser = Chromium::with_page();
    browser.open("data:text/html,warm");
    let mut all = Vec::new();
    for _ in 0..STARTS {
        let begun = Instant::now();
        let program = Program::start();
        let until_address = begun.elapsed().as_secs_f64() * 1e3;
        browser.open(&program.url);
        browser.until(IS_READY);
        let until_scene = begun.elapsed().as_secs_f64() * 1e3;
        let painted = "performance.getEntriesByType('paint').map((one) => one.startTime)";
        // A page that is not looked at may be painted later: it is asked for until it was.
        let painted = browser.evaluate(&format!(
            "new Promise((resolve) => {{
                const look = () => {{
                    const times = {painted};
                    if (times.length > 0) resolve(Math.max(...times));
                    else requestAnimationFrame(look);
                }};
                look();
            }})"
        ));
        all.push((until_address, painted.as_f64().unwrap(), until_scene));
    }
    println!("start: ms to the address, from there to the first paint, to the whole scene in all");
    for (address, paint, scene) in all {
        println!("  {address:.0}  {paint:.0}  {scene:.0}");
    }
}

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

/// Moves the slider over the whole scene, and tells how long each move takes with its layout.
const SCRUB: &str = "(() => {
    const time = document.getElementById('time');
    const lanes = document.getElementById('lanes');
    const taken = [];
    for (let at = 0; at <= Number(time.max); at += STRIDE) {
        const begun = performance.now();
        time.value = at;
        time.dispatchEvent(new Event('input'));
        lanes.getBoundingClientRect();
        document.getElementById('clients').getBoundingClientRect();
        taken.push(performance.now() - begun);
    }
    taken.sort((a, b) => a - b);
    const of = (part) => taken[Math.floor(part * (taken.length - 1))];
    return [taken.length, of(0.5), of(0.99), of(1)];
})()";

/// The same with a frame of the screen for each move: how long there was none.
const PAINTED: &str = "new Promise((resolve) => {
    const time = document.getElementById('time');
    const taken = [];
    let at = 0;
    let before = performance.now();
    const frame = (now) => {
        taken.push(now - before);
        before = now;
        at += STRIDE;
        if (at > Number(time.max)) {
            taken.shift();
            taken.sort((a, b) => a - b);
            const of = (part) => taken[Math.floor(part * (taken.length - 1))];
            resolve([taken.length, of(0.5), of(0.99), of(1)]);
            return;
        }
        time.value = at;
        time.dispatchEvent(new Event('input'));
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
})";

fn scrub() {
    let program = Program::start();
    let mut browser = Chromium::with_page();
    browser.emulate(1280, 900, &[]);
    browser.open(&format!("{}{}", program.url, long_scene()));
    browser.until(IS_READY);
    let frames = number(&mut browser, "document.querySelectorAll('#lanes .event.frame').length");
    println!("scrub: {frames} frames");
    for (what, script) in [("with layout", SCRUB), ("with paint", PAINTED)] {
        for stride in ["3", "97"] {
            let taken = browser.evaluate(&script.replace("STRIDE", stride));
            let of = |index: usize| taken[index].as_f64().unwrap();
            let (moves, median, most) = (of(0), of(1), of(3));
            println!("  {what}, by {stride} pixels, {moves} moves: median {median:.1} ms,");
            println!("    99% {:.1} ms, most {most:.1} ms", of(2));
        }
    }
}

/// Chooses a scene and shows MOMENTS moments of it, as far as it goes, and then others again.
const PLAY: &str = "(() => {
    const time = document.getElementById('time');
    let left = MOMENTS;
    while (left > 0) {
        for (let at = 0; at <= Number(time.max) && left > 0; at += 0.8) {
            time.value = at;
            time.dispatchEvent(new Event('input'));
            left -= 1;
        }
    }
})()";

/// Kilobytes of the program, and of the page's heap when garbage was collected.
fn held(program: &Program, browser: &mut Chromium) -> (u64, u64) {
    browser.call("HeapProfiler.collectGarbage", json!({}));
    let heap = browser.call("Runtime.getHeapUsage", json!({}));
    (program.memory(), heap["usedSize"].as_f64().unwrap() as u64 / 1024)
}

fn play_for_an_hour() {
    let program = Program::start();
    let mut browser = Chromium::with_page();
    browser.emulate(1280, 900, &[]);
    browser.open(&program.url);
    browser.until(IS_READY);
    let scenes = browser.evaluate(
        "[...document.querySelectorAll('#scene option')].map((option) => option.value)
            .filter((id) => id !== '')",
    );
    let scenes = scenes.as_array().unwrap().clone();
    let begun = Instant::now();
    println!("an hour of play: share, KB of the program, KB of the page's heap");
    for turn in 0..SCRIPTS {
        if turn % (SCRIPTS / 8) == 0 {
            let (memory, heap) = held(&program, &mut browser);
            println!("  {}/8  {memory}  {heap}", turn / (SCRIPTS / 8));
        }
        let id = scenes[turn as usize % scenes.len()].as_str().unwrap();
        browser.evaluate(&format!(
            "{{
                const scene = document.getElementById('scene');
                scene.value = '{id}';
                scene.dispatchEvent(new Event('change'));
            }}"
        ));
        browser.until(&format!("document.getElementById('link').hash.startsWith('#{id}')"));
        browser.evaluate(&PLAY.replace("MOMENTS", &(MOMENTS / SCRIPTS).to_string()));
        browser.evaluate("document.querySelector('[data-do=reset]').click()");
        browser.until("document.getElementById('link').hash.includes('.reset')");
    }
    let (memory, heap) = held(&program, &mut browser);
    println!("  8/8  {memory}  {heap}");
    println!("  driven in {:.0} s", begun.elapsed().as_secs_f64());
}
