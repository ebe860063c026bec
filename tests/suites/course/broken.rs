//! Each broken lock of the course breaks under its fault, and holds under it once repaired.

use std::path::Path;

use zk_embedded::{Fault, OpCode};

use crate::naive::diff::{Line, changes};
use crate::naive::queue::join;
use crate::naive::scene::{Report, Scene};
use crate::naive::{CASES, Case, Version};

const CATALOGUE: &str = include_str!("../../CATALOGUE.md");

/// Runs both programs of a case, and checks what happened to them besides the verdicts.
async fn check(title: &str, broken: &[&str], repaired: &[&str]) {
    let case = CASES.into_iter().find(|case| case.title == title).unwrap();
    for (version, events) in [(Version::Broken, broken), (Version::Repaired, repaired)] {
        let Report { log, is_broken, verdict } = case.run(version).await.unwrap();
        let log = log.join("\n");
        assert_eq!(is_broken, version == Version::Broken, "{version:?}: {verdict}\n{log}");
        assert!(!log.contains("never happened"), "{version:?}: {log}");
        let mut rest = log.as_str();
        for event in events {
            let found = rest.split_once(event);
            (_, rest) = found.unwrap_or_else(|| panic!("{version:?}: no {event:?} in\n{log}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_get_in_by_looking_first_and_one_by_the_create_alone() {
    let broken = ["Ana holds the lock.", "Ben gets in, too"];
    check("Check, then create", &broken, &["Ana holds the lock.", "Ben is told"]).await;
}

#[tokio::test(start_paused = true)]
async fn fifty_contenders_get_1225_notifications_as_a_herd_and_49_in_a_queue() {
    // 49 + 48 + ... + 1, as everybody waits from the beginning.
    let broken = ["50 of them had their turn.", " 1225 notifications"];
    let repaired = ["50 of them had their turn.", " 49 notifications"];
    check("Everybody watches the lock", &broken, &repaired).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_lets_in_who_does_not_look_again() {
    let broken = ["Ana holds", "Ben changes his mind", "Ana and Cho hold the lock"];
    let repaired = ["Ana holds", "Ben changes his mind", "Cho still waits"];
    check("Every wake-up is taken for the lock", &broken, &repaired).await;
}

#[tokio::test(start_paused = true)]
async fn who_loses_the_reply_to_a_create_waits_for_itself_or_finds_its_node() {
    let broken = ["60.", "Ana still waits.", "Ana's session: 2"];
    let repaired = ["Ana holds the lock.", "Ana's session: 1"];
    check("The reply to a create is lost", &broken, &repaired).await;
}

#[tokio::test(start_paused = true)]
async fn an_early_name_gets_in_and_a_late_number_does_not() {
    let broken = ["Ben holds", "Ben and Ana hold the lock"];
    let repaired = ["Ben holds", "Ana still waits"];
    check("The list is sorted by whole names", &broken, &repaired).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_release_deletes_the_same_name_and_no_unique_one() {
    let broken = ["Ben holds", "Ana releases", "Ben and Cho hold the lock"];
    let repaired = ["Ben holds", "Ana releases", "Cho still waits"];
    check("The lock is released by name", &broken, &repaired).await;
}

#[tokio::test(start_paused = true)]
async fn who_trusts_its_connection_writes_beside_the_next_holder_and_a_deadline_stops_it() {
    let broken = ["is cut off", "Ana and Ben hold the lock", "Ana writes, although", "notices"];
    let repaired = ["is cut off", "Ana does not hold", "notices", "Ben holds the lock"];
    check("No deadline", &broken, &repaired).await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_holder_overwrites_the_balance_or_is_refused_by_its_token() {
    let broken = ["Ben takes 30: written. Balance: 70", "takes 20: written. Balance: 80"];
    let repaired = ["Ben takes 30: written. Balance: 70", "takes 20: refused. Balance: 70"];
    check("No fence", &broken, &repaired).await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_and_a_younger_writer_wait_for_each_other_or_take_turns() {
    let broken = ["Cho does not hold", "Ana and Ben still wait."];
    let repaired = ["Cho does not hold", "Ana holds the lock", "Ben holds the lock"];
    check("A reader waits for a younger writer", &broken, &repaired).await;
}

/// So that no case is forgotten above.
#[test]
fn there_are_nine_ways_to_get_a_lock_wrong() {
    assert_eq!(CASES.len(), 9);
}

/// A fault of a request that nobody sends.
#[tokio::test(start_paused = true)]
async fn a_fault_that_has_never_happened_is_told_of() {
    let scene = Scene::with_folder().await.unwrap();
    scene.server.inject(Fault::lose_reply().op(OpCode::CREATE));
    let client = scene.connect().await.unwrap();
    join(&client, "lock-").await.unwrap();
    let log = scene.report(false, "").log.join("\n");
    assert!(log.contains("Faults that were set and have never happened: 1."), "{log}");
}

/// What the row of the catalogue that a case refers to is about.
const HAZARDS: [(&str, &str); 7] = [
    ("wrong_wake_up", "A wake-up is taken for the lock"),
    ("lost_reply", "The answer to a create is lost"),
    ("whole_names", "Contenders are ordered by their whole names"),
    ("release_by_name", "an old handle deletes the node of another"),
    ("no_deadline", "A server answers pings after the ensemble has ended the session"),
    ("no_fence", "A holder is frozen for longer than its session lives"),
    ("younger_writer", "A reader waits for a younger writer"),
];

#[test]
fn each_case_names_its_hazard_its_reports_and_the_file_that_handles_it() {
    for case in CASES {
        let Case { title, hazard, reports, handled_in, folder, .. } = case;
        for text in [case.story, case.lesson, case.repair] {
            assert!(text.ends_with('.') && !text.contains("  "), "{title}: {text}");
            // The playground shows them, too, on a page of its own.
            for elsewhere in ["below", "above", "chapter", "fifty"] {
                assert!(!text.contains(elsewhere), "{title}: {elsewhere} in {text}");
            }
        }
        let about = HAZARDS.iter().find(|(of, _)| of == folder).map(|(_, about)| *about);
        assert_eq!(hazard.is_some(), about.is_some(), "{title}: {hazard:?}");
        let row = hazard.map(|hazard| format!("| {hazard} ")).unwrap_or_default();
        let row = CATALOGUE.lines().find(|line| !row.is_empty() && line.starts_with(&row));
        let row = row.unwrap_or_default();
        assert!(row.contains(about.unwrap_or_default()), "{title}: {hazard:?} is {row:?}");
        let words = reports.split([' ', ',', ';']);
        for number in words.filter(|word| word.ends_with(|last: char| last.is_ascii_digit())) {
            assert!(row.contains(number), "{title}: {number} is not in {row:?}");
        }
        let program = format!("zk-recipes/examples/tour/naive/{folder}/broken.rs");
        for file in [*handled_in, program.as_str()] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
            assert!(path.is_file(), "{title}: {file}");
        }
    }
}

#[test]
fn each_program_is_short_and_its_repair_is_smaller() {
    for case in CASES {
        let [broken, repaired] = [Version::Broken, Version::Repaired].map(|of| case.source(of));
        for source in [broken, repaired] {
            assert!(source.contains("pub(crate) async fn "), "{}", case.title);
            assert!((8..=45).contains(&source.lines().count()), "{}:\n{source}", case.title);
        }
        let added = changes(broken, repaired, 0);
        let added = added.iter().filter(|line| matches!(line, Line::Added(_))).count();
        assert!((1..=20).contains(&added), "{}: {added} lines", case.title);
    }
}

#[test]
fn a_comparison_shows_what_changed_and_where() {
    let changes = changes("a\nb\nc\nd\ne\nf", "a\nb\nC\nd\ne\nf", 1);
    let expected = [
        Line::Gap,
        Line::Both("b"),
        Line::Removed("c"),
        Line::Added("C"),
        Line::Both("d"),
        Line::Gap,
    ];
    assert_eq!(changes, expected);
}

#[test]
fn a_comparison_of_anything_gives_both_texts_back() {
    let texts = ["", "a", "a\nb", "b\na", "x\na\ny\nb\nz", "a\na\nb\nb"];
    for old in texts {
        for new in texts.into_iter().filter(|new| *new != old) {
            let lines = changes(old, new, usize::MAX / 2);
            let of = |is_old: bool| {
                let kept = lines.iter().filter_map(|line| match *line {
                    Line::Both(line) => Some(line),
                    Line::Removed(line) => is_old.then_some(line),
                    Line::Added(line) => (!is_old).then_some(line),
                    Line::Gap => panic!("a gap in {lines:?}"),
                });
                kept.collect::<Vec<_>>().join("\n")
            };
            assert_eq!((of(true).as_str(), of(false).as_str()), (old, new));
        }
    }
}
