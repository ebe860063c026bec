//! The claims of `zk-fuzz conformance` on real servers, which shows where they come from.

use std::collections::BTreeSet;
use std::future::pending;

use anyhow::{Context, Result};
use zk_fuzz_kit::conformance::{Format, Line, Options, Plan, Verdict};
use zk_test_support::server::{Ensemble, ServerConfig, Standalone, four_letter};

/// How many claims there are at least.
const CLAIMS: usize = 750;

/// Nothing is unexpected, with nodes that have a time to live and without. Each claim that says it
/// was seen on this release is tried on one of the two servers.
#[tokio::test]
async fn all_claims_hold_and_those_that_were_seen_are_seen_again() -> Result<()> {
    let extended = ("zookeeper.extendedTypesEnabled".to_owned(), "true".to_owned());
    let mut unseen = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for properties in [vec![], vec![extended]] {
        let server = Standalone::with(&ServerConfig { properties, ..Default::default() }).await?;
        let report = Plan::new(Options::new(&server.address())).await?.run(pending()).await?;
        println!("{}", report.summary());
        assert!(report.is_good(), "{}", report.print(Format::Text)?);
        assert!(report.count(Verdict::AsExpected) >= CLAIMS, "{}", report.summary());
        let release = report.like.trim_start_matches("apache-");
        let claims = |is_meant: fn(&Line) -> bool| {
            report.claims.iter().filter(move |line| is_meant(line)).collect::<Vec<_>>()
        };
        let tried = claims(|line| line.verdict == Verdict::AsExpected);
        seen.extend(tried.iter().map(|line| line.number));
        let said = claims(|_| true);
        let said = said.iter().filter(|line| line.evidence.contains(release));
        unseen.extend(said.map(|line| line.number));
        // What is left is what was there before: four nodes, and the root twice.
        let told = four_letter(&server.address(), "srvr").await?;
        assert!(told.contains("Node count: 5"), "{told}");
        let told = four_letter(&server.address(), "dump").await?;
        let sessions = told.lines().find(|line| line.starts_with("Session Sets"));
        assert!(sessions.is_some_and(|line| line.ends_with("/(0):")), "{told}");
    }
    let unseen: Vec<_> = unseen.difference(&seen).map(ToString::to_string).collect();
    assert!(unseen.is_empty(), "{unseen:?}");
    Ok(())
}

/// A server of an ensemble answers like one that is alone, and what could stop it is left out.
#[tokio::test]
async fn all_claims_hold_on_each_server_of_an_ensemble() -> Result<()> {
    let ensemble = Ensemble::start(3).await?;
    ensemble.wait_for_all().await?;
    let leader = ensemble.leader().await.context("no leader")?;
    for member in [leader, (leader + 1) % 3] {
        let address = ensemble.members()[member].address();
        let report = Plan::new(Options::new(&address)).await?.run(pending()).await?;
        println!("{}", report.summary());
        assert!(report.is_good(), "{}", report.print(Format::Text)?);
        assert!(report.count(Verdict::AsExpected) >= CLAIMS, "{}", report.summary());
    }
    Ok(())
}
