//! The lock between processes, on an ensemble of three servers, with and without failures.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use zk_client::Client;
use zk_recipes::Lock;
use zk_test_support::contender::{self, Contender};
use zk_test_support::server::{Ensemble, ServerConfig};

const LOCK: &str = "/locks/processes";
const PROCESSES: u32 = 2;

/// Turns of each process.
fn turns() -> u32 {
    if std::env::var_os("ZK_SOAK").is_some() { 20_000 } else { 300 }
}

/// A number in a file that only the lock protects.
struct Counter {
    _folder: TempDir,
    file: PathBuf,
}

impl Counter {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("number");
        std::fs::write(&file, "0")?;
        Ok(Self { _folder: folder, file })
    }

    fn value(&self) -> Result<u32> {
        Ok(std::fs::read_to_string(&self.file)?.trim().parse()?)
    }
}

fn contender(servers: &str, arguments: &[&str]) -> Result<Contender> {
    let (servers, path) = (format!("servers={servers}"), format!("path={LOCK}"));
    let arguments = [&[&*servers, &*path], arguments].concat();
    contender::start(env!("CARGO_BIN_EXE_contender"), &arguments)
}

async fn fighters(servers: &str, counter: &Counter) -> Result<Vec<Contender>> {
    let counter = format!("counter={}", counter.file.to_str().context("path")?);
    let turns = format!("turns={}", turns());
    let mut all = Vec::new();
    for _ in 0..PROCESSES {
        let mut fighter = contender(servers, &[&counter, &turns])?;
        fighter.says("ready").await?;
        all.push(fighter);
    }
    Ok(all)
}

#[tokio::test]
async fn two_processes_exclude_each_other() -> Result<()> {
    let ensemble = Ensemble::start(3).await?;
    let counter = Counter::new()?;
    for fighter in fighters(&ensemble.connect_string(), &counter).await? {
        fighter.done().await?;
    }
    assert_eq!(counter.value()?, PROCESSES * turns());
    Ok(())
}

#[tokio::test]
async fn two_processes_exclude_each_other_while_leaders_die() -> Result<()> {
    let config = ServerConfig {
        max_session_timeout: Some(Duration::from_secs(20)),
        ..ServerConfig::default()
    };
    let mut ensemble = Ensemble::with(&config, 3).await?;
    let counter = Counter::new()?;
    let mut fighters = fighters(&ensemble.connect_string(), &counter).await?;
    for part in [1, 2] {
        // The leader is killed after a third and after two thirds of the turns, while the
        // contenders are busy.
        let turn = turns() * part / 3 / 50 * 50;
        fighters[0].says(&format!("at {turn}")).await?;
        let leader = ensemble.wait_for_quorum().await?;
        ensemble.members_mut()[leader].kill().await;
        ensemble.members_mut()[leader].restart().await?;
    }
    for fighter in fighters {
        fighter.done().await?;
    }
    assert_eq!(counter.value()?, PROCESSES * turns());
    Ok(())
}

#[tokio::test]
async fn a_waiter_gets_in_when_the_holder_is_killed() -> Result<()> {
    let tick = Duration::from_secs(1);
    let timeout = Duration::from_secs(4);
    let config = ServerConfig { tick_time: tick, ..ServerConfig::default() };
    let ensemble = Ensemble::with(&config, 3).await?;
    let servers = ensemble.connect_string();
    let millis = format!("timeout={}", timeout.as_millis());

    let mut holder = contender(&servers, &["hold=told", &millis])?;
    holder.says("held").await?;
    let client = Client::builder().session_timeout(timeout).connect(&servers).await?;
    let lock = Lock::new(&client, LOCK)?;
    let waiter = tokio::spawn(async move { lock.acquire().await });
    loop {
        let (children, mut watch) = client.get_children_and_watch(LOCK).await?;
        if children.names.len() == 2 {
            break;
        }
        watch.changed().await?;
    }

    holder.kill().await?;
    let guard = tokio::time::timeout(timeout + 2 * tick, waiter).await.context("too late")???;
    guard.release().await?;
    client.close().await;
    Ok(())
}
