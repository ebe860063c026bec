//! How long a `TreeCache` takes to read 100,000 nodes, beside the bare reads of the same nodes.
//!
//! ```text
//! cargo bench -p zk-tests --bench tree_cache
//! ```
//!
//! The bare reads know all paths before, have as many requests in flight as the tree has, and keep
//! nothing. The tree also sets its watch, lists the folders and keeps what it reads. The embedded
//! server has a process of its own, so the time and the processor time are those of the client.
//! Needs Linux.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use zk_client::{Client, CreateOptions, Op};
use zk_embedded::Server;
use zk_recipes::{Freshness, TreeCache, TreeLimits};

const FOLDERS: usize = 100;
const CHILDREN: usize = 999;
const DATA: [u8; 100] = [7; 100];
const ROOT: &str = "/tree";
/// Requests in flight at once, as a tree has them.
const AT_ONCE: usize = 128;
const ROUNDS: usize = 11;

/// The time that a reading took, and the processor time of this process.
#[derive(Clone, Copy)]
struct Round {
    wall: Duration,
    processor: Duration,
}

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
    let paths = make(address.trim()).await?;
    let (mut bare, mut tree) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let both = match round % 2 {
            0 => (read_bare(address.trim(), &paths).await?, read_tree(address.trim()).await?),
            _ => {
                let tree = read_tree(address.trim()).await?;
                (read_bare(address.trim(), &paths).await?, tree)
            }
        };
        // The first round is not counted.
        if round > 0 {
            bare.push(both.0);
            tree.push(both.1);
        }
    }
    println!("{} nodes of {} bytes, medians of {ROUNDS} rounds in turns", paths.len(), DATA.len());
    println!("{:<20} {:>10} {:>10} {:>10}", "", "bare, ms", "tree, ms", "ratio");
    let figures: [(&str, fn(&Round) -> Duration); 2] =
        [("time", |round| round.wall), ("processor time", |round| round.processor)];
    for (name, figure) in figures {
        let millis = |round: &Round| figure(round).as_secs_f64() * 1000.0;
        let ratios = bare.iter().zip(&tree).map(|(bare, tree)| millis(tree) / millis(bare));
        let (bare, tree) = (median(bare.iter().map(millis)), median(tree.iter().map(millis)));
        println!("{name:<20} {bare:>10.1} {tree:>10.1} {:>10.3}", median(ratios));
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
    anyhow::ensure!(status.borrow().nodes == FOLDERS * (CHILDREN + 1) + 1);
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
    let stat = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanos = stat.split_whitespace().next().context("a field")?.parse()?;
    Ok(Duration::from_nanos(nanos))
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures = figures.collect::<Vec<_>>();
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
