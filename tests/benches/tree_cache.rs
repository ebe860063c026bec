//! How long a `TreeCache` takes to read 100,000 nodes, beside the bare reads of the same nodes.
//!
//! ```text
//! cargo bench -p zk-tests --bench tree_cache
//! ```
//!
//! The bare reads know all paths before, have as many requests in flight as the tree has, and keep
//! nothing. The tree also sets its watch, lists the folders and keeps what it reads. The embedded
//! server has a process of its own, so the processor time is that of the client. The least time is
//! the one that other programs disturbed least. Needs Java and ZooKeeper; `tests/run` installs
//! them.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use zk_client::{Client, CreateOptions, Op};
use zk_embedded::Server;
use zk_recipes::{Freshness, TreeCache, TreeLimits};
use zk_test_support::server::Standalone;

const FOLDERS: usize = 100;
/// In each folder.
const CHILDREN: usize = 999;
const NODES: usize = 1 + FOLDERS * (1 + CHILDREN);
const DATA: [u8; 100] = [7; 100];
const ROOT: &str = "/tree";
/// Requests in flight at once, as a tree has them.
const AT_ONCE: usize = 128;
const ROUNDS: usize = 11;
/// Unmeasured rounds, for Java's compiler.
const WARM_UP: usize = 4;

/// The time that a reading took, and the processor time of this process.
#[derive(Clone, Copy)]
struct Round {
    wall: Duration,
    processor: Duration,
}

type Figure = fn(&Round) -> Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    if std::env::args().any(|argument| argument == "--serve") {
        return serve().await;
    }
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let result = compare(&mut child).await;
    // The child ends when its input ends.
    drop(child.stdin.take());
    child.wait()?;
    result
}

/// Serves until the standard input ends.
async fn serve() -> Result<()> {
    let server = Server::start().await?;
    println!("{}", server.address());
    std::io::stdout().flush()?;
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
        .await??;
    Ok(())
}

async fn compare(child: &mut Child) -> Result<()> {
    let mut address = String::new();
    BufReader::new(child.stdout.take().context("stdout")?).read_line(&mut address)?;
    let real = Standalone::start().await?;
    println!("{NODES} nodes of {} bytes, {ROUNDS} rounds, in milliseconds", DATA.len());
    println!("{:<10} {:<20} {:>8} {:>8} {:>8}", "server", "", "bare", "tree", "ratio");
    for (name, address) in [("embedded", address.trim()), ("real", &real.address())] {
        let paths = make(address).await?;
        let (mut bare, mut tree) = (Vec::new(), Vec::new());
        for round in 0..WARM_UP + ROUNDS {
            // The order alternates, so that neither has an advantage.
            for is_tree in if round % 2 == 0 { [false, true] } else { [true, false] } {
                let (rounds, done) = match is_tree {
                    true => (&mut tree, read_tree(address).await?),
                    false => (&mut bare, read_bare(address, &paths).await?),
                };
                if round >= WARM_UP {
                    rounds.push(done);
                }
            }
        }
        let figures: [(&str, Figure); 2] =
            [("time", |round| round.wall), ("processor time", |round| round.processor)];
        for (what, figure) in figures {
            let sorted = |rounds: &[Round]| {
                let mut times = rounds.iter().map(figure).collect::<Vec<_>>();
                times.sort_unstable();
                times
            };
            let (bare, tree) = (sorted(&bare), sorted(&tree));
            for (kind, at) in [("median", ROUNDS / 2), ("least", 0)] {
                let [bare, tree] = [&bare, &tree].map(|times| times[at].as_secs_f64() * 1000.0);
                let (what, ratio) = (format!("{what}, {kind}"), tree / bare);
                println!("{name:<10} {what:<20} {bare:>8.1} {tree:>8.1} {ratio:>8.2}");
            }
        }
    }
    Ok(())
}

/// Makes the tree. Returns the paths of all nodes.
async fn make(address: &str) -> Result<Vec<String>> {
    let persistent = CreateOptions::persistent();
    let client = Client::connect(address).await?;
    client.create(ROOT, &DATA, &persistent).await?;
    let mut paths = vec![ROOT.to_owned()];
    for folder in 0..FOLDERS {
        let folder = format!("{ROOT}/folder-{folder:03}");
        let children = (0..CHILDREN).map(|child| format!("{folder}/node-{child:06}"));
        let nodes = [folder.clone()].into_iter().chain(children).collect::<Vec<_>>();
        let creates = nodes.iter().map(|path| Op::create(path, &DATA, &persistent));
        client.multi(creates.collect::<Vec<_>>()).await?;
        paths.extend(nodes);
    }
    client.close().await;
    Ok(paths)
}

/// Reads all nodes whose paths are known.
async fn read_bare(address: &str, paths: &[String]) -> Result<Round> {
    let client = Client::connect(address).await?;
    let clock = Clock::start()?;
    let (mut next, mut asked) = (paths.iter(), VecDeque::new());
    loop {
        if asked.len() <= AT_ONCE / 2 {
            client.batch(|| {
                while asked.len() < AT_ONCE
                    && let Some(path) = next.next()
                {
                    asked.push_back(client.get_data(path));
                }
            });
        }
        match asked.pop_front() {
            Some(reply) => drop(reply.await?),
            None => break,
        }
    }
    let round = clock.stop()?;
    client.close().await;
    Ok(round)
}

/// Reads all nodes into a tree.
async fn read_tree(address: &str) -> Result<Round> {
    let keeper = Client::builder().keep(address).await?;
    keeper.client().await?.get_data("/").await?;
    let clock = Clock::start()?;
    let (tree, following) = TreeCache::follow(&keeper, ROOT, TreeLimits::default())?;
    let following = tokio::spawn(following);
    let mut status = tree.status();
    status.wait_for(|status| status.freshness == Freshness::Current).await?;
    let round = clock.stop()?;
    anyhow::ensure!(status.borrow().nodes == NODES);
    following.abort();
    keeper.close().await;
    Ok(round)
}

/// The two clocks of a round, when it begins.
struct Clock {
    wall: Instant,
    processor: Duration,
}

impl Clock {
    fn start() -> Result<Self> {
        Ok(Self { processor: processor_time()?, wall: now() })
    }

    fn stop(self) -> Result<Round> {
        let wall = now() - self.wall;
        Ok(Round { wall, processor: processor_time()?.saturating_sub(self.processor) })
    }
}

/// The processor time that this process has used, in user and system mode.
fn processor_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::ProcessCPUTime).try_into()?)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
