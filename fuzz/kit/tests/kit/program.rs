//! The program `zk-fuzz`: what it prints and writes, and its exit statuses.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::server::{embedded, planted};

/// Longer than any of these tests may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// The settings of [`embedded`], as options.
const OURS: [&str; 6] =
    ["--tick", "200", "--max-session-timeout", "3600000", "--extended-types", "--super-digest"];

fn with_ours<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &OURS].concat()
}

/// Runs it in a folder. Returns its exit status, and what it prints.
async fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zk-fuzz"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(DEADLINE, command.output()).await.expect("it hangs").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn a_difference_is_a_file_that_can_be_shown_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let right = embedded().await;
    let mut tasks = tokio::task::JoinSet::new();
    let wrong = planted(right.address().to_owned(), &mut tasks).await;

    let server = ["server", &wrong, "--seeds", "3", "--runs", "50"];
    let (status, output, errors) = run(folder.path(), &with_ours(&server)).await;
    assert_eq!((status, &*errors), (1, ""), "{output}");
    assert!(output.contains("1 kinds of differences"), "{output}");
    // The recordings of the case are inputs for the targets.
    let tapped = std::fs::read_dir(folder.path().join("zk-fuzz-findings")).unwrap();
    let mut tapped = tapped.map(|entry| entry.unwrap().path().display().to_string());
    let tapped = tapped.find(|file| file.ends_with("other.recording.jsonl")).expect("a recording");
    assert_eq!(run(folder.path(), &["seeds", &tapped, "scratch"]).await.0, 0);
    for target in ["any", "frame"] {
        let made = std::fs::read_dir(folder.path().join("scratch").join(target)).unwrap();
        assert!(made.count() > 0, "{target}");
    }
    let again = output.lines().find_map(|line| line.trim().strip_prefix("again: zk-fuzz replay "));
    let file = again.and_then(|rest| rest.strip_suffix(" ADDRESS")).expect("a file").to_owned();

    let (status, shown, _) = run(folder.path(), &["show", &file]).await;
    assert_eq!(status, 0);
    assert!(shown.contains("setData") && shown.contains("frame: "), "{shown}");
    let (status, output, _) = run(folder.path(), &with_ours(&["replay", &file, &wrong])).await;
    assert!(status == 1 && output.contains("version"), "{output}");
    let other = embedded().await;
    let (status, output, _) =
        run(folder.path(), &with_ours(&["replay", &file, other.address()])).await;
    assert!(status == 0 && output.contains("no difference"), "{output}");

    // Two servers of the caller, neither of which is zk-embedded inside the program.
    let against = ["replay", &file, &wrong, "--against", other.address()];
    assert_eq!(run(folder.path(), &against).await.0, 1);
    let (status, output, _) =
        run(folder.path(), &with_ours(&["server", other.address(), "--seeds=3"])).await;
    assert_eq!(status, 0, "{output}");
}

#[tokio::test]
async fn a_report_has_three_formats_and_an_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let right = embedded().await;
    let mut tasks = tokio::task::JoinSet::new();
    // A setData that makes version 2 says that it made version 3.
    let wrong = planted(right.address().to_owned(), &mut tasks).await;
    let on = |server| ["conformance", "--server", server, "--only", "6.14,6.5,18.1"];

    let (status, output, told) = run(folder.path(), &on(right.address())).await;
    assert_eq!(status, 0, "{output}{told}");
    assert!(output.contains("3 as expected, 0 unexpected"), "{output}");
    assert!(told.contains("creates /zk-conformance-"), "{told}");
    let (status, output, _) = run(folder.path(), &on(&wrong)).await;
    assert_eq!(status, 1, "{output}");
    assert!(output.contains("6.14   UNEXPECTED"), "{output}");
    assert!(output.contains("version=3") && output.contains("expected ok version=2"), "{output}");

    let json = [&on(&wrong)[..], &["--format", "json", "--frames"]].concat();
    let (status, output, _) = run(folder.path(), &json).await;
    let report: serde_json::Value = serde_json::from_str(&output).unwrap();
    let verdicts: Vec<_> = report["claims"].as_array().unwrap().iter().collect();
    let verdicts: Vec<_> =
        verdicts.iter().map(|claim| (&claim["number"], &claim["verdict"])).collect();
    let expected =
        serde_json::json!(["6.5", "as-expected", "6.14", "unexpected", "18.1", "as-expected"]);
    let flat: Vec<_> =
        verdicts.into_iter().flat_map(|(number, verdict)| [number, verdict]).collect();
    assert_eq!((status, serde_json::json!(flat)), (1, expected));
    assert!(output.contains("setData Ok"), "the frames: {output}");

    std::fs::write(folder.path().join("known"), "6.14 # <planted>\n").unwrap();
    let page = [&on(&wrong)[..], &["--format", "html", "--allow", "known"]].concat();
    let (status, output, _) = run(folder.path(), &page).await;
    assert_eq!(status, 0, "{output}");
    assert!(
        output.starts_with("<!DOCTYPE html>") && output.contains("&lt;planted&gt;"),
        "{output}"
    );

    let (status, output, _) = run(folder.path(), &["conformance", "--list"]).await;
    assert!(status == 0 && output.lines().any(|line| line.starts_with("  6.14 ")), "{output}");
    assert_eq!(right.children("/"), ["zookeeper"]);
}

#[tokio::test]
async fn a_client_that_fails_is_found() {
    let folder = tempfile::tempdir().unwrap();
    // It speaks no ZooKeeper, and the text that it prints stands for a crash.
    let arguments = ["client", "--seeds", "1", "--crash", "it broke", "--", "sh", "-c"];
    let client = |script| [&arguments[..], &[script]].concat();
    let (status, output, errors) = run(folder.path(), &client("echo it broke {}")).await;
    assert_eq!((status, &*errors), (1, ""), "{output}");
    assert!(output.contains("it broke 127.0.0.1:"), "{output}");
    let (status, output, _) = run(folder.path(), &client("test -n \"$ZK_ADDRESS\"")).await;
    assert_eq!(status, 0, "{output}");
}

#[tokio::test]
async fn what_cannot_run_is_told_apart_from_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["replay", "nowhere.jsonl", "127.0.0.1:1"][..],
        &["server", "127.0.0.1:1", "--seeds", "1"],
        &["conformance", "--server", "127.0.0.1:1"],
        &["conformance"],
        &["conformance", "--server", "127.0.0.1:1", "--like", "zoo"],
        &["client", "--faults", "no-such-fault", "--", "true"],
        &["client", "--", "/nowhere/at/all"],
        &["client"],
    ] {
        let (status, output, errors) = run(folder.path(), arguments).await;
        assert_eq!(status, 2, "{arguments:?}: {output}{errors}");
        assert!(!errors.is_empty(), "{arguments:?}");
    }
}
