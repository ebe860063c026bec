//! The lock between processes, on an ensemble of three servers, with and without disasters.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use zk_client::Client;
use zk_recipes::Lock;
use zk_tests::server::{Ensemble, ServerConfig};

const LOCK: &str = "/locks/processes";
const PROCESSES: u32 = 2;

/// Turns of each process: 2,000 in all, or more in a soak.
fn turns() -> u32 {
    if std::env::var_os("ZK_SOAK").is_some() { 20_000 } else { 1_000 }
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

/// A process that fights for the lock; killed when dropped.
struct Contender {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Contender {
    async fn start(servers: &str, arguments: &[&str], first_line: &str) -> Result<Self> {
        let mut process = Command::new(env!("CARGO_BIN_EXE_contender"))
            .args([servers, LOCK])
            .args(arguments)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = process.stdout.take().context("stdout")?;
        let mut contender = Self { process, lines: BufReader::new(stdout).lines() };
        contender.wait_for(first_line).await?;
        Ok(contender)
    }

    async fn wait_for(&mut self, line: &str) -> Result<()> {
        while let Some(said) = self.lines.next_line().await? {
            if said == line {
                return Ok(());
            }
        }
        anyhow::bail!("a contender ended without saying {line:?}")
    }

    async fn done(mut self) -> Result<()> {
        self.wait_for("done").await?;
        ensure!(self.process.wait().await?.success(), "a contender failed");
        Ok(())
    }
}

async fn fighters(servers: &str, counter: &Counter) -> Result<Vec<Contender>> {
    let (file, times) = (counter.file.to_str().context("path")?, turns().to_string());
    let mut all = Vec::new();
    for _ in 0..PROCESSES {
        all.push(Contender::start(servers, &[file, &times, "10000"], "ready").await?);
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
        // Each fights until a third and two thirds of its turns, so the leader dies in the thick.
        let turn = turns() * part / 3 / 50 * 50;
        fighters[0].wait_for(&format!("at {turn}")).await?;
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
    let millis = timeout.as_millis().to_string();

    let mut holder = Contender::start(&servers, &["hold", &millis], "held").await?;
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

    holder.process.kill().await?;
    let guard = tokio::time::timeout(timeout + 2 * tick, waiter).await.context("too late")???;
    guard.release().await?;
    client.close().await;
    Ok(())
}
