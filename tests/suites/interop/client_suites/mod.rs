//! The own tests of clients in Python: all that pass on one real server that keeps its data must
//! pass on the embedded server, which runs as the program `zk-embedded`.
//!
//! By default only kazoo's run, and only against the embedded server; its table lists the tests
//! that do not pass on a real one. With `ZK_SOAK=1` the tests of all clients run, also against a
//! real server, where each must end as its table says and as on the embedded server.

mod run;
mod table;

use std::collections::BTreeSet;
use std::env;

use anyhow::{Result, ensure};

use self::run::{Outcomes, Run};
use self::table::{AIOZK, ClientSuite, KAZOO, TOOZ, ZK_SHELL};

#[tokio::test]
async fn what_kazoo_tests_passes_on_the_embedded_server_as_on_a_real_one() -> Result<()> {
    if is_soak() {
        return compare(&KAZOO).await;
    }
    embedded(&KAZOO, "3.9").await?;
    Ok(())
}

#[tokio::test]
async fn what_aiozk_tests_ends_alike_on_both_servers() -> Result<()> {
    if is_soak() { compare(&AIOZK).await } else { Ok(()) }
}

#[tokio::test]
async fn what_tooz_tests_ends_alike_on_both_servers() -> Result<()> {
    if is_soak() { compare(&TOOZ).await } else { Ok(()) }
}

#[tokio::test]
async fn what_zk_shell_tests_ends_alike_on_both_servers() -> Result<()> {
    if is_soak() { compare(&ZK_SHELL).await } else { Ok(()) }
}

fn is_soak() -> bool {
    env::var_os("ZK_SOAK").is_some()
}

fn is_listed(test: &str, list: &[(&str, &str)]) -> bool {
    list.iter().any(|(name, _)| test.starts_with(name))
}

/// Runs the tests against the embedded server, in both releases, and a real one.
async fn compare(suite: &ClientSuite) -> Result<()> {
    let real = real(suite).await?;
    let may_differ =
        [suite.slow_on_a_real_server, suite.not_on_the_embedded_server, suite.races].concat();
    for release in ["3.9", "3.8"] {
        let embedded = embedded(suite, release).await?;
        let tests: BTreeSet<_> = real.keys().chain(embedded.keys()).collect();
        let different: Vec<_> = tests
            .into_iter()
            .filter(|test| real.get(*test) != embedded.get(*test) && !is_listed(test, &may_differ))
            .map(|test| (test, real.get(test), embedded.get(test)))
            .collect();
        ensure!(different.is_empty(), "real and embedded as {release} differ: {different:#?}");
    }
    Ok(())
}

async fn embedded(suite: &ClientSuite, release: &str) -> Result<Outcomes> {
    let excused =
        [suite.not_on_a_real_server, suite.not_on_the_embedded_server, suite.races].concat();
    let outcomes = Run::find(suite, release).await?.outcomes(&excused).await?;
    // A failure on a real server says nothing about the embedded one.
    check(suite, release, &outcomes, &excused, suite.not_on_the_embedded_server)?;
    Ok(outcomes)
}

async fn real(suite: &ClientSuite) -> Result<Outcomes> {
    let excused = [suite.not_on_a_real_server, suite.slow_on_a_real_server].concat();
    let outcomes = Run::find(suite, "real").await?.outcomes(&excused).await?;
    check(suite, "real", &outcomes, &excused, suite.not_on_a_real_server)?;
    Ok(outcomes)
}

/// Fails unless every test passed that is not `excused`, and every `different` test did not.
fn check(
    suite: &ClientSuite,
    server: &str,
    outcomes: &Outcomes,
    excused: &[(&str, &str)],
    different: &[(&str, &str)],
) -> Result<()> {
    let passed = |test: &str| outcomes.get(test).is_some_and(|outcome| outcome == "passed");
    let failures: Vec<_> = outcomes
        .iter()
        .filter(|(test, outcome)| *outcome != "passed" && !is_listed(test, excused))
        .collect();
    ensure!(failures.is_empty(), "on the {server} server: {failures:#?}");
    let outdated: Vec<_> = different
        .iter()
        .filter(|(name, _)| {
            let mut tests = outcomes.keys().filter(|test| test.starts_with(name)).peekable();
            tests.peek().is_none() || tests.any(|test| passed(test))
        })
        .collect();
    ensure!(outdated.is_empty(), "these do pass on the {server} server: {outdated:#?}");
    let count = outcomes.keys().filter(|test| passed(test)).count();
    ensure!(count >= suite.passing, "only {count} tests passed on the {server} server");
    Ok(())
}
