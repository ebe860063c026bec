//! The command line, as students and teachers use it.

use std::process::{Command, Output};

fn gym(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zk-gym")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_level_that_is_not_written_says_where_to_write_it_and_fails() {
    let output = gym(&["1"]);
    let text = said(&output);
    assert!(!output.status.success());
    assert!(text.contains("this level is not written yet"), "{text}");
    assert!(text.contains("zk-recipes/learn/gym/students/level_1.rs"), "{text}");
}

#[test]
fn all_levels_are_reported_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("class.json");
    let output = gym(&["--all", "--report", file.to_str().unwrap()]);
    assert!(!output.status.success());
    let report = std::fs::read(file).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let levels = report["levels"].as_array().unwrap();
    let listed = said(&gym(&["--list"]));
    assert_eq!(levels.len(), listed.lines().count());
    for level in levels {
        assert_eq!(level["result"], "unwritten");
        assert!(listed.contains(level["title"].as_str().unwrap()), "{level}");
    }
}

#[test]
fn what_is_not_known_is_refused() {
    for arguments in [&[][..], &["0"], &["10"], &["--lever"], &["--report"]] {
        let output = gym(arguments);
        assert!(!output.status.success() && said(&output).is_empty(), "{arguments:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("Usage: zk-gym"), "{arguments:?}: {text}");
    }
    assert!(said(&gym(&["--help"])).starts_with("Usage: zk-gym"));
}
