//! Every example of the client, and the benchmark of the locks, run as readers run them.

use std::fs;
use std::path::Path;

use zk_test_support::tour;

#[tokio::test]
async fn each_example_of_the_client_runs_to_its_end() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zk-client/examples");
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names = files
        .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect::<Vec<_>>();
    names.sort();
    assert!(names.iter().any(|name| name == "basics"), "{names:?}");
    for name in names {
        let said = tour::run(&name, &[]).await.unwrap();
        assert!(!said.is_empty(), "{name} says nothing");
    }
}

#[tokio::test]
async fn a_service_leads_again_behind_the_end_of_its_session() {
    let said = tour::run("leader", &[]).await.unwrap();
    assert_eq!(said.matches("leading, with token").count(), 2, "{said}");
    assert_eq!(said.matches("the ensemble ends the session").count(), 1, "{said}");
    assert!(said.ends_with("the service is stopped\n"), "{said}");
}

#[tokio::test]
async fn a_service_does_three_jobs_and_tells_its_metrics() {
    let said = tour::run("service", &[]).await.unwrap();
    assert_eq!(said, "jobs_done_total 3\nreconnects_total 0\n");
}

#[tokio::test]
async fn a_service_with_errors_of_its_own_ends_only_by_one_that_does_not_pass() {
    let said = tour::run("own_errors", &[]).await.unwrap();
    assert!(said.contains("the service ends: cannot fetch the price: status 404\n"), "{said}");
    assert!(said.contains("stored: {\"milk\": 2, \"tea\": 3}\n"), "{said}");
    assert!(!said.contains("attempts: 1\n"), "{said}");
}

#[tokio::test]
async fn a_service_serves_its_metrics() {
    let said = tour::run("metrics", &[]).await.unwrap();
    let lines = [
        "# TYPE zk_lock_acquired_total counter",
        "zk_lock_acquired_total{lock=\"invoices\"} 3",
        "zk_lock_wait_seconds_count{lock=\"invoices\"} 3",
    ];
    for line in lines {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
}

/// If it served its page, it would not end.
#[tokio::test]
async fn the_playground_says_how_it_is_used_and_refuses_what_it_does_not_know() {
    let said = tour::run("playground", &["--help"]).await.unwrap();
    assert!(said.contains("usage: playground [--port PORT]"), "{said}");
    for wrong in [&["--prot", "8080"][..], &["--port", "many"], &["--port"]] {
        assert!(tour::run("playground", wrong).await.is_err(), "{wrong:?}");
    }
}

#[tokio::test]
async fn the_textbook_lock_excludes() {
    let said = tour::run("textbook_lock", &[]).await.unwrap();
    assert!(said.ends_with("4 times 25 is 100\n"), "{said}");
}

#[tokio::test]
async fn the_locks_are_measured_by_processes_that_all_get_their_turns() {
    let said = tour::run("bench_locks", &[]).await.unwrap();
    for workload in ["lock-cycle", "lock-fight", "contend", "two-level"] {
        let line = said.lines().find(|line| line.contains(workload));
        let line = line.unwrap_or_else(|| panic!("nothing of {workload}: {said}"));
        assert!(!line.contains("\"ops\":0,"), "{line}");
    }
}

/// The command that the simulation prints for a run that fails.
#[tokio::test]
async fn a_run_of_the_simulation_becomes_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html").display().to_string();
    let arguments = ["Lock", "Apache", "2", "CutBehind@7 Late@9", &page];
    let said = tour::run("simulated", &arguments).await.unwrap();
    assert!(said.ends_with("no rule is broken\n"), "{said}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("!!! CutBehind at net") && page.contains("create2"), "{said}");
    assert!(tour::run("simulated", &["Lock", "Apache", "2", "Cut@x", "page"]).await.is_err());
}
