//! The levels of the gym: solutions pass, broken locks break for their own reasons, each level asks
//! for more than the one before, and the files of students begin unwritten.

#[path = "../../../../examples/tour/naive/mod.rs"]
#[expect(dead_code, reason = "the tour puts the programs to its own tests")]
mod naive;

#[path = "../../solutions/mod.rs"]
mod solutions;

#[path = "../../students/mod.rs"]
mod students;

mod mistakes;

use mistakes::MISTAKES;
use zk_gym::{Effort, LEVELS, Outcomes, examine};

/// So many requests show a mistake at most.
const MOST_REQUESTS: usize = 12;

/// Less than students get: the levels were tried with all of it.
const EFFORT: Effort = Effort::new(600, 600);

#[test]
fn each_broken_lock_of_the_course_fails_at_its_level_in_a_short_run_with_its_reason() {
    for mistake in &MISTAKES {
        let level = &LEVELS[mistake.level - 1];
        let verdict = examine(level, &(mistake.solution)(), Effort::WHOLE);
        let Outcomes::Broken(broken) = verdict.result else {
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
        assert!(matches!(verdict.result, Outcomes::Passed(_)), "{verdict}");
    }
}

#[test]
fn the_solution_of_a_level_does_not_pass_the_next_one() {
    // Levels 7 and 8 want other programs.
    for (level, next) in [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 9)] {
        let solution = solutions::solution(level).unwrap();
        let verdict = examine(&LEVELS[next - 1], &solution, EFFORT);
        assert!(matches!(verdict.result, Outcomes::Broken(_)), "{level}: {verdict}");
    }
}

#[test]
fn each_file_of_students_begins_unwritten() {
    for level in LEVELS {
        let solution = students::solution(level.number).unwrap();
        let verdict = examine(level, &solution, Effort::WHOLE);
        assert!(matches!(verdict.result, Outcomes::Unwritten), "{}", level.number);
    }
}
