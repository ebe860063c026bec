//! The pages for students and teachers name the levels and the mistakes as they are.

use std::collections::BTreeSet;
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
        let shown = level.watch.iter().map(|it| format!("{} (`#{}`)", it.chapter, it.scene));
        let shown = shown.collect::<Vec<_>>().join(", ");
        let end = format!("| {} | {shown} |", level.reading);
        assert!(row_of_students.ends_with(&end), "{row_of_students}");
        row(&teachers, &begin);
    }
}

/// The numbers in a text, but for those of hazards, which have a letter in front.
fn numbers(text: &str) -> BTreeSet<usize> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn book_and_levels_name_each_other() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/chapters");
    let mut named = 0;
    for file in fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        let chapter =
            file.file_name().unwrap().to_str().unwrap().get(..2).unwrap().parse::<usize>().unwrap();
        // The first part of a chapter leaves that to the last one.
        if file.ends_with("05-hazards-of-one.md") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let references = text.split("`cargo run -p zk-gym -- ").skip(1);
        let levels = references.map(|reference| {
            let (number, rest) = reference.split_once("`,").unwrap();
            let title = rest.trim_start().strip_prefix('*').unwrap().split('*').next().unwrap();
            let level = &LEVELS[number.parse::<usize>().unwrap() - 1];
            assert_eq!(title.split_whitespace().collect::<Vec<_>>().join(" "), level.title);
            level.number
        });
        let levels = levels.collect::<BTreeSet<_>>();
        let back = LEVELS.iter().filter(|level| numbers(level.reading).contains(&chapter));
        assert_eq!(levels, back.map(|level| level.number).collect(), "{}", file.display());
        named += levels.len();
    }
    assert!(named >= LEVELS.len(), "{named}");
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

#[test]
fn lost_is_counted_at_the_levels_whose_programs_have_it() {
    let has_lost =
        |number: &usize| page(&format!("students/level_{number}.rs")).contains("fn lost(");
    let levels = LEVELS.iter().map(|level| level.number).filter(has_lost).collect::<Vec<_>>();
    let [first, second] = levels[..] else {
        panic!("{levels:?}");
    };
    let told = format!("At levels {first} and {second} `lost` is counted");
    assert!(page("README.md").contains(&told), "{told}");
}
