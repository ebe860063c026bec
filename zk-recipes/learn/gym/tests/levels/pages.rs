//! The pages for students and teachers name the levels and the mistakes as they are.

use std::fs;
use std::path::Path;

use crate::LEVELS;
use crate::mistakes::MISTAKES;

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The row of the page that begins with these words.
fn row<'p>(page: &'p str, begin: &str) -> &'p str {
    let row = page.lines().find(|line| line.starts_with(begin));
    row.unwrap_or_else(|| panic!("no row begins with {begin:?}"))
}

#[test]
fn every_level_is_on_both_pages_with_what_to_read() {
    let (students, teachers) = (page("README.md"), page("TEACHERS.md"));
    for level in LEVELS {
        let begin = format!("| {} {} |", level.number, level.title);
        let row_of_students = row(&students, &begin);
        assert!(row_of_students.ends_with(&format!("| {} |", level.reading)), "{row_of_students}");
        row(&teachers, &begin);
    }
}

#[test]
fn every_mistake_is_named_at_its_level() {
    let teachers = page("TEACHERS.md");
    for mistake in &MISTAKES {
        let level = &LEVELS[mistake.level - 1];
        let row = row(&teachers, &format!("| {} {} |", level.number, level.title));
        assert!(row.contains(mistake.name), "{}: {row}", mistake.name);
    }
}
