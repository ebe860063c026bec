//! How long `zk load` takes for 100,000 nodes on a real server, beside the same creates by hand.
//!
//! ```text
//! cargo build --release -p zk-cli && cargo bench -p zk-tests --bench load
//! ```
//!
//! The creates have the same paths, data and access lists, and as many requests in flight as
//! `zk load` has. They know the nodes before, where `zk load` also starts a process, reads the dump
//! and looks whether the tree is there. Both connect, and close their session. Each round has a new
//! server with an empty folder. The bound for the ratio of the medians is 1.3. Needs Java and
//! ZooKeeper; `tests/run` installs them. Another `zk` than the one beside this program is named by
//! the variable `ZK`.

use std::collections::VecDeque;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use zk_client::{Acl, Client, CreateOptions};
use zk_test_support::server::{ServerConfig, Standalone};

const ROOT: &str = "/tree";
const FOLDERS: usize = 100;
/// In each folder.
const CHILDREN: usize = 999;
const NODES: usize = 1 + FOLDERS * (1 + CHILDREN);
/// A hundred bytes.
const DATA: &str = "0123456789012345678901234567890123456789012345678901234567890123456789\
                    012345678901234567890123456789";
/// Requests in flight at once, as in `zk load`.
const AT_ONCE: usize = 1024;
const ROUNDS: usize = 7;

/// A node: its path below the root, and whether it is readable alone.
struct Node {
    path: String,
    is_fixed: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (zk, nodes) = (program()?, nodes());
    let folder = tempfile::tempdir()?;
    let dump = folder.path().join("dump.jsonl");
    std::fs::write(&dump, lines(&nodes)?)?;
    println!("{NODES} nodes of {} bytes, {ROUNDS} rounds, in milliseconds", DATA.len());
    let (mut creates, mut loads) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // The order alternates, so that neither has an advantage.
        for is_load in if round % 2 == 0 { [false, true] } else { [true, false] } {
            let config = ServerConfig { java_as_in_production: true, ..ServerConfig::default() };
            let server = Standalone::with(&config).await?;
            let before = now();
            match is_load {
                true => load(&zk, &server.address(), &dump).await?,
                false => create(&server.address(), &nodes).await?,
            }
            let times = if is_load { &mut loads } else { &mut creates };
            times.push(now() - before);
            check(&server.address()).await?;
        }
    }
    println!("{:<8} {:>8} {:>8} {:>8}", "", "creates", "zk load", "ratio");
    creates.sort_unstable();
    loads.sort_unstable();
    for (kind, at) in [("least", 0), ("median", ROUNDS / 2), ("most", ROUNDS - 1)] {
        let [creates, loads] = [&creates, &loads].map(|times| millis(times[at]));
        println!("{kind:<8} {creates:>8.0} {loads:>8.0} {:>8.2}", loads / creates);
    }
    Ok(())
}

fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("ZK") {
        return Ok(path.into());
    }
    let own = std::env::current_exe()?;
    let beside = own.ancestors().nth(2).context("a folder")?.join("zk");
    ensure!(beside.exists(), "{} is not built", beside.display());
    Ok(beside)
}

/// All nodes, parents first.
fn nodes() -> Vec<Node> {
    let mut nodes = vec![Node { path: String::new(), is_fixed: false }];
    for folder in 0..FOLDERS {
        let folder = format!("/folder-{folder:03}");
        nodes.push(Node { path: folder.clone(), is_fixed: false });
        nodes.extend((0..CHILDREN).map(|child| Node {
            path: format!("{folder}/node-{child:06}"),
            is_fixed: child % 2 == 1,
        }));
    }
    nodes
}

/// The dump of these nodes.
fn lines(nodes: &[Node]) -> Result<String> {
    let mut lines = String::new();
    for Node { path, is_fixed } in nodes {
        let path = if path.is_empty() { "/" } else { path };
        let perms = if *is_fixed { "r" } else { "cdrwa" };
        write!(lines, r#"{{"path":"{path}","kind":"persistent","data":"{DATA}","#)?;
        writeln!(lines, r#""acl":["world:anyone:{perms}"]}}"#)?;
    }
    writeln!(lines, r#"{{"end":true,"nodes":{}}}"#, nodes.len())?;
    Ok(lines)
}

/// Creates all nodes, one request for each.
async fn create(address: &str, nodes: &[Node]) -> Result<()> {
    let client = Client::connect(address).await?;
    let persistent = CreateOptions::persistent();
    let options = [persistent, persistent.with_acl(Acl::READ_ONLY)];
    let mut asked = VecDeque::new();
    for Node { path, is_fixed } in nodes {
        if asked.len() == AT_ONCE
            && let Some(reply) = asked.pop_front()
        {
            reply.await?;
        }
        let path = format!("{ROOT}{path}");
        asked.push_back(client.create(&path, DATA.as_bytes(), &options[usize::from(*is_fixed)]));
    }
    for reply in asked {
        reply.await?;
    }
    client.close().await;
    Ok(())
}

async fn load(zk: &Path, address: &str, dump: &Path) -> Result<()> {
    let mut command = Command::new(zk);
    command.args(["load", "--connect", address, ROOT]).arg(dump);
    let output = command.output().await?;
    ensure!(output.status.success(), "{output:?}");
    Ok(())
}

/// Checks that the tree is there.
async fn check(address: &str) -> Result<()> {
    let client = Client::connect(address).await?;
    let last = format!("{ROOT}/folder-{:03}", FOLDERS - 1);
    ensure!(client.get_children(ROOT).await?.names.len() == FOLDERS);
    ensure!(client.get_children(&last).await?.names.len() == CHILDREN);
    let child = client.get_data(&format!("{last}/node-000001")).await?;
    ensure!(child.data == DATA && child.stat.version == 0);
    client.close().await;
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
