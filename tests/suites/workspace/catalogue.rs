//! The catalogue of hazards and cases is complete: no number is missing, and each test that it
//! names is in the sources.

use std::fs;
use std::path::{Path, PathBuf};

const CATALOGUE: &str = include_str!("../../CATALOGUE.md");

/// The words that stand for a case without a test.
const REASONS: [&str; 2] = ["none", "moot"];

pub(crate) struct Entry<'a> {
    pub(crate) number: &'a str,
    pub(crate) what: &'a str,
    shown_by: &'a str,
}

impl Entry<'_> {
    /// True if the entry names this test.
    pub(crate) fn is_shown_by(&self, test: &str) -> bool {
        tests(self.shown_by).contains(&test)
    }
}

/// The entries of the catalogue.
pub(crate) fn catalogue() -> Vec<Entry<'static>> {
    entries(CATALOGUE)
}

/// The rows of the catalogue's tables.
fn entries(text: &str) -> Vec<Entry<'_>> {
    let rows = text.lines().filter(|line| line.starts_with("| H") || line.starts_with("| D"));
    rows.map(|row| {
        let cells = row.split(" | ").collect::<Vec<_>>();
        let [number, what, shown_by] = cells.as_slice() else {
            panic!("not three cells: {row}");
        };
        Entry { number: number.trim_start_matches("| "), what, shown_by }
    })
    .collect()
}

/// The quoted names that have the form of a test.
fn tests(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).filter(|quoted| quoted.contains("::")).collect()
}

/// The files that `file` in `file::function` may refer to.
fn candidates(file: &str) -> Vec<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    match file.split_once('/') {
        Some(("zk-recipes", module)) => {
            let folder = tests.join("../zk-recipes/src");
            vec![folder.join(format!("{module}.rs")), folder.join(module).join("tests.rs")]
        }
        Some(("claims", _)) => vec![tests.join("support/src").join(format!("{file}.rs"))],
        Some(("simulation", _)) => vec![tests.join("simulation/tests").join(format!("{file}.rs"))],
        _ => vec![tests.join("suites").join(format!("{file}.rs"))],
    }
}

/// The text of the sources that `file` in `file::function` refers to.
fn sources(file: &str) -> Option<String> {
    let candidates = candidates(file);
    let found = candidates.iter().filter_map(|path| fs::read_to_string(path).ok());
    Some(found.collect::<String>()).filter(|text| !text.is_empty())
}

/// True if the file at this path is the one that `file` in `file::function` refers to.
pub(crate) fn is_source(path: &Path, file: &str) -> bool {
    let is_same = |other: &PathBuf| {
        other.canonicalize().is_ok_and(|other| path.canonicalize().is_ok_and(|path| path == other))
    };
    candidates(file).iter().any(is_same)
}

/// The problem with a named test, if there is one.
pub(crate) fn trouble(test: &str) -> Option<String> {
    let (file, function) = test.split_once("::")?;
    let Some(text) = sources(file) else {
        return Some(format!("{test}: there is no such file"));
    };
    let Some(at) = text.find(&format!("fn {function}(")) else {
        return Some(format!("{test}: there is no such function"));
    };
    // A claim becomes a test when it is listed.
    let is_listed = |lists: String| {
        [",\n", ";\n"].iter().any(|end| lists.contains(&format!("    {function}{end}")))
    };
    let is_test = match file.starts_with("claims/") {
        true => sources("claims/mod").is_some_and(is_listed),
        false => text[..at].lines().rev().take(4).any(|line| {
            let line = line.trim();
            line == "#[test]" || line.starts_with("#[tokio::test")
        }),
    };
    if is_test { None } else { Some(format!("{test}: not a test")) }
}

#[test]
fn no_number_is_missing() {
    let numbers = entries(CATALOGUE).into_iter().map(|entry| entry.number.trim_end_matches('*'));
    let hazards = (1..=40).map(|n| format!("H{n:02}"));
    let expected = hazards.chain((1..=80).map(|n| format!("D{n:02}"))).collect::<Vec<_>>();
    assert_eq!(numbers.collect::<Vec<_>>(), expected);
}

#[test]
fn every_entry_names_a_test_or_a_reason() {
    for Entry { number, shown_by, .. } in entries(CATALOGUE) {
        let reason = REASONS.iter().any(|reason| shown_by.starts_with(reason));
        assert!(reason || !tests(shown_by).is_empty(), "{number}: {shown_by}");
    }
}

#[test]
fn every_test_that_is_named_is_there() {
    let named = tests(CATALOGUE).into_iter().filter(|test| *test != "file::function");
    let troubles = named.filter_map(trouble).collect::<Vec<_>>();
    assert!(troubles.is_empty(), "\n{}\n", troubles.join("\n"));
}

#[test]
fn every_mutant_is_in_the_table_of_bugs_and_no_other() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let patches = files.filter(|path| path.extension().is_some_and(|it| it == "patch"));
    let name = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let rows = CATALOGUE.lines().skip_while(|line| !line.starts_with("| Reported as"));
    let cells =
        rows.take_while(|line| line.starts_with('|')).filter_map(|row| row.split('|').nth(3));
    let quoted = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned);
    let (mut named, mut there) =
        (quoted.collect::<Vec<_>>(), patches.map(name).collect::<Vec<_>>());
    named.sort();
    there.sort();
    assert_eq!(named, there);
}

#[test]
fn what_is_not_there_is_found_out() {
    for wrong in
        ["lock/wait::nothing", "nowhere::nothing", "lock/wait::begin", "claims/lock::queue"]
    {
        assert!(trouble(wrong).is_some(), "{wrong}");
    }
    assert_eq!(trouble("workspace/catalogue::what_is_not_there_is_found_out"), None);
}

/// Cases with a star run many times, and state the least number of runs.
#[test]
fn starred_cases_count_their_runs() {
    let starred = entries(CATALOGUE).into_iter().filter(|entry| entry.number.ends_with('*'));
    let mut stars = 0;
    for Entry { number, shown_by, .. } in starred {
        stars += 1;
        let counted = tests(shown_by).into_iter().any(|test| {
            let (file, function) = test.split_once("::").unwrap();
            let text = sources(file).unwrap();
            let body = &text[text.find(&format!("fn {function}(")).unwrap()..];
            let body = &body[..body.find("\n}\n").unwrap()];
            ["runs", "places", "lost >= ", "late >= "].iter().any(|word| body.contains(word))
        });
        assert!(counted, "{number} says nothing of its runs");
    }
    assert_eq!(stars, 14);
}
