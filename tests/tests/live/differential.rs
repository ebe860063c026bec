//! Servers compared: what one answers, the other must answer.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, Result};
use zk_embedded::{Config, Release, Server};
use zk_tests::differential::{Summary, compare, super_digest};
use zk_tests::server::{ServerConfig, Standalone};

/// Requests of each seed, without those to reconnect and to clean up.
const REQUESTS: usize = 410;
const SEEDS: u64 = 220;

/// What a full run must have come across, whatever the seeds.
const OUTCOMES: [&str; 45] = [
    "handshake: welcome",
    "handshake: expired",
    "auth: Ok",
    "auth: AuthFailed",
    "sasl: Ok",
    "whoAmI: Ok",
    "closeSession: Ok",
    "unknown (50): Unimplemented",
    "create: Ok",
    "create2: Ok",
    "create2: BadArguments",
    "create2: InvalidACL",
    "create2: MarshallingError",
    "create2: NoAuth",
    "create2: NoChildrenForEphemerals",
    "create2: NoNode",
    "create2: NodeExists",
    "createContainer: Ok",
    "createTTL: Ok",
    "delete: Ok",
    "delete: BadVersion",
    "delete: NotEmpty",
    "getACL: NoAuth",
    "setACL: Ok",
    "setACL: BadVersion",
    "multi: Ok",
    "multi: MarshallingError",
    "entry create: Ok",
    "entry delete: Ok",
    "entry setData: Ok",
    "entry check: Ok",
    "entry error: NoNode",
    "entry error: RuntimeInconsistency",
    "entry getChildren: Ok",
    "checkWatches: Ok",
    "checkWatches: NoWatcher",
    "removeWatches: Ok",
    "removeWatches: NoWatcher",
    "addWatch: Ok",
    "setWatches2: Ok",
    "reconfig: ReconfigDisabled",
    "event: NodeCreated",
    "event: NodeDeleted",
    "event: NodeDataChanged",
    "event: NodeChildrenChanged",
];

const TICK: Duration = Duration::from_millis(200);
const MIN_SESSION_TIMEOUT: Duration = Duration::from_secs(600);
const MAX_SESSION_TIMEOUT: Duration = Duration::from_secs(3600);
const CONTAINER_CHECK_INTERVAL: Duration = Duration::from_secs(86_400);

/// A server whose sessions and nodes do not go away by themselves while the test runs.
async fn real_server() -> Result<Standalone> {
    let property = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let check_interval = CONTAINER_CHECK_INTERVAL.as_millis().to_string();
    Standalone::with(&ServerConfig {
        tick_time: TICK,
        min_session_timeout: Some(MIN_SESSION_TIMEOUT),
        max_session_timeout: Some(MAX_SESSION_TIMEOUT),
        properties: vec![
            property("zookeeper.extendedTypesEnabled", "true"),
            property("zookeeper.DigestAuthenticationProvider.superDigest", &super_digest()),
            property("znode.container.checkIntervalMs", &check_interval),
            // Which Java up to 17 reads identities in.
            property("file.encoding", "UTF-8"),
        ],
        ..ServerConfig::default()
    })
    .await
}

/// The embedded server, set up as [`real_server`] is and of the same release.
async fn embedded_server(release: Release) -> Result<Server> {
    let config = Config::new()
        .release(release)
        .tick_time(TICK)
        .min_session_timeout(MIN_SESSION_TIMEOUT)
        .max_session_timeout(MAX_SESSION_TIMEOUT)
        .extended_types(true)
        .super_digest(super_digest())
        .container_check_interval(CONTAINER_CHECK_INTERVAL)
        .max_connections_per_host(0);
    Ok(Server::with(config).await?)
}

/// Which release a real server is.
async fn release(server: &Standalone) -> Result<Release> {
    let answer = server.four_letter("srvr").await?;
    let version = answer.strip_prefix("Zookeeper version: ").context("`srvr` tells no version")?;
    Ok(if version.starts_with("3.8.") { Release::V3_8 } else { Release::V3_9 })
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_server_answers_like_a_real_one() -> Result<()> {
    let real = real_server().await?;
    let embedded = embedded_server(release(&real).await?).await?;
    let count = if std::env::var_os("ZK_SOAK").is_some() { 10 * SEEDS } else { SEEDS };
    let seeds = seeds(count)?;
    let servers = [("embedded", embedded.address()), ("real", &real.address())];
    let whole = seeds.clone().count() as u64 == count;
    let Summary { seeds, requests, tally } = compare(servers, seeds, REQUESTS).await?;
    println!("{requests} requests in {seeds} seeds\n{tally:#?}");
    if whole {
        assert!(seeds >= 200 && requests >= 100_000, "only {requests} requests in {seeds} seeds");
        let missing: Vec<_> = OUTCOMES.iter().filter(|it| !tally.contains_key(**it)).collect();
        assert!(missing.is_empty(), "never seen: {missing:?}");
    }
    Ok(())
}

/// What differs between a server and itself is chance, and must not count.
#[tokio::test]
async fn a_real_server_answers_like_another() -> Result<()> {
    let (one, two) = tokio::try_join!(real_server(), real_server())?;
    let servers = [("first", &*one.address()), ("second", &two.address())];
    compare(servers, seeds(20)?, REQUESTS).await?;
    Ok(())
}
