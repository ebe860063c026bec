//! Servers compared: what one answers, the other must answer.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, Result};
use zk_tests::differential::{compare, super_digest};
use zk_tests::server::{ServerConfig, Standalone};

/// Requests of each seed.
const REQUESTS: usize = 410;

/// A server whose sessions and nodes do not go away by themselves while the test runs.
async fn real_server() -> Result<Standalone> {
    let property = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Standalone::with(&ServerConfig {
        min_session_timeout: Some(Duration::from_secs(600)),
        max_session_timeout: Some(Duration::from_secs(3600)),
        properties: vec![
            property("zookeeper.extendedTypesEnabled", "true"),
            property("zookeeper.DigestAuthenticationProvider.superDigest", &super_digest()),
            // The locale, which Java up to 17 reads identities in.
            property("file.encoding", "UTF-8"),
            property("znode.container.checkIntervalMs", "86400000"),
        ],
        ..ServerConfig::default()
    })
    .await
}

/// The seeds to run: `ZK_DIFF_SEED` as `7` or `0..7`, else the first `count`.
fn seeds(count: u64) -> Result<RangeInclusive<u64>> {
    let Ok(chosen) = std::env::var("ZK_DIFF_SEED") else {
        return Ok(0..=count - 1);
    };
    let (first, last) = chosen.split_once("..").unwrap_or((&chosen, &chosen));
    let parse = |text: &str| text.parse().context("ZK_DIFF_SEED is a number, or two as in 0..7");
    Ok(parse(first)?..=parse(last)?)
}

/// What differs between a server and itself is chance, and must not count.
#[tokio::test]
async fn a_real_server_answers_like_another() -> Result<()> {
    let (one, two) = tokio::try_join!(real_server(), real_server())?;
    let summary = compare([&one.address(), &two.address()], seeds(20)?, REQUESTS).await?;
    println!("{} requests\n{:#?}", summary.requests, summary.tally);
    Ok(())
}
