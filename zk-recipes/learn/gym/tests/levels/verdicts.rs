//! What the gym says beside "passed": errors of the program itself, what never fired, the page, and
//! the report.

use zk_client::Client;
use zk_gym::{Break, Broken, Lock, Outcomes, Result, Solution, examine, report};

use crate::mistakes::MISTAKES;
use crate::{EFFORT, LEVELS, solutions};

fn broken(level: usize, solution: &Solution) -> Broken {
    match examine(&LEVELS[level - 1], solution, EFFORT).result {
        Outcomes::Broken(broken) => *broken,
        other => panic!("{other:?}"),
    }
}

/// Does something else than to acquire a lock.
struct Instead(fn());

impl Lock for Instead {
    type Held = ();

    async fn acquire(&self, client: &Client) -> Result<()> {
        (self.0)();
        client.get_data("/missing").await?;
        Ok(())
    }

    async fn release(&self, _: &Client, (): ()) -> Result<()> {
        Ok(())
    }
}

/// Asks whether the lock is free, again and again.
struct Polls;

impl Lock for Polls {
    type Held = ();

    async fn acquire(&self, client: &Client) -> Result<()> {
        while client.exists("/missing").await?.is_none() {}
        Ok(())
    }

    async fn release(&self, _: &Client, (): ()) -> Result<()> {
        Ok(())
    }
}

#[test]
fn an_error_of_the_program_itself_is_told() {
    let broken = broken(1, &Solution::lock(|_| Instead(|| ())));
    assert_eq!(broken.kind, Break::Error);
    assert!(broken.text.contains("NoNode"), "{}", broken.text);
}

#[test]
fn a_panic_is_told() {
    let broken = broken(1, &Solution::lock(|_| Instead(|| panic!("a program of a student"))));
    assert_eq!(broken.kind, Break::Panic);
}

#[test]
fn a_program_that_polls_is_told_so() {
    let broken = broken(1, &Solution::lock(|_| Polls));
    assert_eq!((broken.kind, broken.contenders), (Break::Busy, 1));
}

#[test]
fn every_run_is_a_page_with_its_frames_and_a_report() {
    for mistake in &MISTAKES {
        let verdict = examine(&LEVELS[mistake.level - 1], &(mistake.solution)(), EFFORT);
        let page = verdict.page().unwrap();
        let report: serde_json::Value = serde_json::from_str(&report(&[verdict])).unwrap();
        let level = &report["levels"][0];
        assert_eq!(level["result"], "broken");
        let why = &level["broken"];
        assert_eq!(why["faults_not_fired"], serde_json::json!([]), "{}", mistake.name);
        // What the lines say is in the data of the page.
        for text in [&why["text"], &serde_json::json!("create2")] {
            assert!(page.contains(text.as_str().unwrap()), "{}: {text}", mistake.name);
        }
        let requests = page.matches("\"role\":\"request\"").count() as u64;
        assert_eq!(why["requests"].as_u64(), Some(requests), "{}", mistake.name);
    }
}

#[test]
fn the_report_of_a_level_that_is_passed_has_its_costs() {
    let solution = solutions::solution(2).unwrap();
    let verdict = examine(&LEVELS[1], &solution, EFFORT);
    let report: serde_json::Value = serde_json::from_str(&report(&[verdict])).unwrap();
    let level = &report["levels"][0];
    assert_eq!((&level["level"], &level["result"]), (&2.into(), &"passed".into()));
    // A create, a look and a delete.
    assert_eq!(level["requests_per_turn"]["yours"]["alone"], 3.0);
}
