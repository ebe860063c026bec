//! Why a wall clock that is set an hour back or ahead does not affect a session or a lock.
//!
//! Clients: these tests show that no code of the client or the locks reads the wall clock. Time is
//! that of the monotonic clock, plus the time that the machine was suspended. Servers: the wall
//! clock appears only in nodes' `ctime` and `mtime`, which no lock reads, but to show them. Holders
//! are ordered by transactions, and sessions end by the servers' monotonic clocks (ZOOKEEPER-1366,
//! since 3.5.1).

use std::fs;
use std::path::{Path, PathBuf};

/// All sources of a library crate.
pub(crate) fn sources(name: &str) -> Vec<(PathBuf, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src")];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                sources.push((path, text));
            }
        }
    }
    assert!(sources.len() > 5, "{name}: where are its sources?");
    sources
}

/// The lines of code that contain one of these words.
fn found(name: &str, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in sources(name) {
        for (index, line) in text.lines().enumerate() {
            let is_code = !line.trim_start().starts_with("//");
            if is_code && words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{}: {}", path.display(), index + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn no_library_reads_the_wall_clock() {
    for name in ["zk-proto", "zk-client", "zk-recipes"] {
        let found =
            found(name, &["SystemTime", "UNIX_EPOCH", "CLOCK_REALTIME", "ClockId::Realtime"]);
        assert!(found.is_empty(), "{found:#?}");
    }
}

#[test]
fn no_lock_looks_at_the_times_of_servers() {
    let mut found = found("zk-recipes", &["ctime", "mtime"]);
    // A queue is shown to people with the time since when each contender is there.
    let shown = ["pub ctime: i64,", "ctime: node.stat.ctime,"];
    found.retain(|line| {
        let is_shown = shown.iter().any(|end| line.ends_with(end));
        !(line.contains("zk-recipes/src/locks/inspect.rs:") && is_shown)
    });
    assert!(found.is_empty(), "{found:#?}");
}
