//! The embedded server against a real one, under the same load in one run.
//!
//! ```text
//! cargo bench -p zk-tests --bench embedded
//! ```
//!
//! Each server has a process of its own, so its cost is read from that process: requests per second
//! of processor time, which is the throughput per core. Requests per second of wall time are the
//! joint throughput of the client and its server on this machine. The real server does not sync to
//! disk, but it writes its log, which the embedded server does not have. Needs Linux, Java and
//! ZooKeeper; `tests/run` installs the latter two.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use zk_client::{Client, CreateOptions};
use zk_embedded::Server;
use zk_test_support::server::Standalone;

const CLIENTS: usize = 4;
/// Requests in flight at once on one connection.
const DEPTH: usize = 64;
const BATCHES: usize = 100;
const ROUNDS: usize = 7;
/// Unmeasured rounds, for Java's compiler.
const WARM_UP: usize = 12;
const STARTS: usize = 21;
const DATA: [u8; 100] = [7; 100];

/// One kind of request.
#[derive(Clone, Copy)]
enum Load {
    GetData,
    SetData,
    CreateAndDelete,
}

/// A server and how to reach it.
struct Target {
    name: &'static str,
    address: String,
    pid: u32,
    clients: Vec<Client>,
}

/// The time that one round took.
struct Round {
    wall: Duration,
    processor: Duration,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    if std::env::args().any(|argument| argument == "--serve") {
        return serve().await;
    }
    starts().await?;

    let mut child = Command::new(std::env::current_exe()?)
        .arg("--serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let result = loads(&mut child).await;
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

/// Measures a start up to the first reply: the server, a session and a read.
async fn starts() -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let start = now();
        let server = Server::start().await?;
        let client = Client::connect(server.address()).await?;
        client.get_data("/").await?;
        times.push(now() - start);
        client.close().await;
    }
    times.sort();
    println!(
        "start to first answer, {STARTS} times: median {:?}, longest {:?}\n",
        times[STARTS / 2],
        times[STARTS - 1]
    );
    Ok(())
}

async fn loads(child: &mut Child) -> Result<()> {
    let mut address = String::new();
    BufReader::new(child.stdout.take().context("stdout")?).read_line(&mut address)?;
    let real = Standalone::start().await?;
    let pid = real.pid().context("a running server")?;
    let mut targets = [
        Target::new("embedded", address.trim().to_owned(), child.id()).await?,
        Target::new("real", real.address(), pid).await?,
    ];

    println!("{CLIENTS} connections, {DEPTH} requests under way on each, 100 bytes of data");
    println!("medians of {ROUNDS} rounds, the servers in turn\n");
    println!(
        "{:<18} {:<9} {:>12} {:>22}",
        "load", "server", "requests/s", "requests/s of its core"
    );
    for (name, load) in [
        ("getData", Load::GetData),
        ("setData", Load::SetData),
        ("create + delete", Load::CreateAndDelete),
    ] {
        for _ in 0..WARM_UP {
            for target in &mut targets {
                target.round(load).await?;
            }
        }
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            // The order alternates, so that neither server has an advantage.
            for index in if rounds[0].len() % 2 == 0 { [0, 1] } else { [1, 0] } {
                rounds[index].push(targets[index].round(load).await?);
            }
        }
        let requests = (CLIENTS * BATCHES * DEPTH) as f64;
        let mut per_core = Vec::new();
        for (target, rounds) in targets.iter().zip(&rounds) {
            let median = |time: fn(&Round) -> Duration| {
                let mut times: Vec<Duration> = rounds.iter().map(time).collect();
                times.sort();
                requests / times[times.len() / 2].as_secs_f64()
            };
            let (wall, core) = (median(|round| round.wall), median(|round| round.processor));
            println!("{name:<18} {:<9} {wall:>12.0} {core:>22.0}", target.name);
            per_core.push(core);
        }
        println!("{:<18} {:<9} {:>12} {:>22.1}\n", "", "ratio", "", per_core[0] / per_core[1]);
    }
    Ok(())
}

impl Target {
    async fn new(name: &'static str, address: String, pid: u32) -> Result<Self> {
        let mut clients = Vec::new();
        for index in 0..CLIENTS {
            let client = Client::connect(&address).await?;
            let path = format!("/bench{index}");
            client.create(&path, &DATA, &CreateOptions::persistent()).await?;
            clients.push(client);
        }
        Ok(Self { name, address, pid, clients })
    }

    async fn round(&mut self, load: Load) -> Result<Round> {
        let before = processor_time(self.pid)?;
        let start = now();
        for _ in 0..BATCHES {
            // All connections have their batch in flight before the first reply is awaited.
            let mut replies = Vec::new();
            for (index, client) in self.clients.iter().enumerate() {
                let path = format!("/bench{index}");
                client.batch(|| match load {
                    Load::GetData => replies.extend(
                        (0..DEPTH).map(|_| Box::pin(discard(client.get_data(&path))) as Discarded),
                    ),
                    Load::SetData => replies.extend((0..DEPTH).map(|_| {
                        Box::pin(discard(client.set_data(&path, &DATA, None))) as Discarded
                    })),
                    Load::CreateAndDelete => replies.extend((0..DEPTH / 2).flat_map(|number| {
                        let path = format!("{path}/{number}");
                        let created = client.create(&path, &DATA, &CreateOptions::persistent());
                        let deleted = client.delete(&path, None);
                        [Box::pin(discard(created)) as Discarded, Box::pin(discard(deleted))]
                    })),
                });
            }
            for reply in replies {
                reply.await.with_context(|| format!("{} at {}", self.name, self.address))?;
            }
        }
        let wall = now() - start;
        let processor = processor_time(self.pid)?.saturating_sub(before);
        Ok(Round { wall, processor })
    }
}

type Discarded = std::pin::Pin<Box<dyn Future<Output = Result<()>>>>;

async fn discard<T>(reply: zk_client::Reply<T>) -> Result<()>
where
    zk_client::Reply<T>: Future<Output = Result<T, zk_client::Error>>,
{
    reply.await?;
    Ok(())
}

/// The processor time that the threads of a process have used, in user and system mode.
fn processor_time(pid: u32) -> Result<Duration> {
    let mut time = Duration::ZERO;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // The first field is in nanoseconds. The time of threads that have ended is missing, which
        // can only make Java look cheaper.
        if let Ok(stat) = std::fs::read_to_string(task?.path().join("schedstat")) {
            let nanos = stat.split_whitespace().next().context("a field")?.parse()?;
            time += Duration::from_nanos(nanos);
        }
    }
    Ok(time)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
