//! The levels of the gym: solutions pass, broken locks break for their own reasons, each level asks
//! for more than the one before, and the files of students begin unwritten.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../../../../examples/tour/naive/mod.rs"]
#[expect(dead_code, reason = "the tour puts the programs to its own tests")]
mod naive;

#[path = "../../solutions/mod.rs"]
mod solutions;

#[path = "../../students/mod.rs"]
mod students;

mod command;
mod mistakes;
mod pages;
mod verdicts;

use mistakes::MISTAKES;
use zk_client::Client;
use zk_gym::{Break, Effort, FOLDER, Finding, LEVELS, Lock, Result, Solution, examine};
use zk_recipes::Guard;

/// So many requests show a mistake at most.
const MOST_REQUESTS: usize = 12;

/// Less than students get: the levels were tried with all of it.
const EFFORT: Effort = Effort::new(28, 300, 300);

#[test]
fn each_broken_lock_of_the_course_fails_at_its_level_in_a_short_run_with_its_reason() {
    for mistake in &MISTAKES {
        let level = &LEVELS[mistake.level - 1];
        let verdict = examine(level, &(mistake.solution)(), Effort::WHOLE);
        let Finding::Broken(broken) = verdict.result else {
            panic!("{}: {verdict}", mistake.name);
        };
        assert_eq!(broken.kind, mistake.kind, "{}", mistake.name);
        assert!(broken.reason.contains(mistake.reason), "{}: {}", mistake.name, broken.reason);
        assert!(broken.requests <= MOST_REQUESTS, "{}: {}", mistake.name, broken.requests);
    }
}

#[test]
fn each_solution_passes_its_level() {
    for level in LEVELS {
        let solution = solutions::solution(level.number).unwrap();
        let verdict = examine(level, &solution, EFFORT);
        assert!(matches!(verdict.result, Finding::Passed(_)), "{verdict}");
        assert_eq!(verdict.never_fired(), [""; 0], "{verdict}");
    }
}

#[test]
fn the_solution_of_a_level_does_not_pass_the_next_one() {
    // Levels 7 and 8 want other programs.
    for (level, next) in [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 9)] {
        let solution = solutions::solution(level).unwrap();
        let verdict = examine(&LEVELS[next - 1], &solution, EFFORT);
        assert!(matches!(verdict.result, Finding::Broken(_)), "{level}: {verdict}");
    }
}

#[test]
fn each_file_of_students_begins_unwritten() {
    for level in LEVELS {
        let solution = students::solution(level.number).unwrap();
        let verdict = examine(level, &solution, Effort::WHOLE);
        assert!(matches!(verdict.result, Finding::Unwritten), "{}", level.number);
    }
}

#[test]
fn the_last_solution_passes_every_level_of_its_kind() {
    for level in 1..=6 {
        let solution = solutions::solution(9).unwrap();
        let verdict = examine(&LEVELS[level - 1], &solution, Effort::new(28, 100, 100));
        assert!(matches!(verdict.result, Finding::Passed(_)), "{verdict}");
    }
}

#[test]
fn the_textbook_lock_holds_while_processes_die_and_breaks_when_a_reply_is_lost() {
    let textbook = Solution::textbook();
    for level in &LEVELS[..3] {
        let verdict = examine(level, &textbook, EFFORT);
        assert!(matches!(verdict.result, Finding::Passed(_)), "{verdict}");
    }
    // A reply is lost, and its node blocks everybody.
    for level in [&LEVELS[3], &LEVELS[8]] {
        match examine(level, &textbook, EFFORT).result {
            Finding::Broken(broken) => assert_eq!(broken.kind, Break::Stuck, "{broken}"),
            other => panic!("{other:?}"),
        }
    }
}

/// The lock of `zk-recipes`.
struct Recipes;

impl Lock for Recipes {
    type Held = Guard;

    async fn acquire(&self, client: &Client) -> Result<Guard> {
        Ok(zk_recipes::Lock::new(client, FOLDER)?.acquire().await?)
    }

    async fn release(&self, _: &Client, held: Guard) -> Result<()> {
        held.release().await?;
        Ok(())
    }

    async fn lost(&self, _: &Client, held: &Guard) {
        held.lost().await;
    }
}

#[test]
fn the_lock_of_the_library_passes_the_last_level_and_watches_more_than_the_second_allows() {
    let recipes = Solution::lock(|_| Recipes);
    let verdict = examine(&LEVELS[8], &recipes, EFFORT);
    assert!(matches!(verdict.result, Finding::Passed(_)), "{verdict}");
    match examine(&LEVELS[1], &recipes, EFFORT).result {
        Finding::Broken(broken) => assert_eq!(broken.kind, Break::Herd, "{broken}"),
        other => panic!("{other:?}"),
    }
}
