//! What the locks cost: one process alone, several that fight, and several with many tasks each,
//! against an embedded server or a real one. Without arguments a quick tour of everything.
//!
//! An operation is one acquire; its release is on its way when the next one is asked for.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;
use zk_bench::options::{self, Kind, Options};
use zk_bench::pause::Pause;
use zk_bench::race::{self, Turns};
use zk_bench::server::{self, Server};
use zk_client::{Client, CreateOptions};
use zk_recipes::{Lock, Options as LockOptions, Owner, ReentrantLock};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Longer than any measurement.
const LINGER: Duration = Duration::from_secs(3_600);

const WORKLOADS: &str = "\
usage: bench_locks [WORKLOAD] [OPTIONS]

  lock-cycle     take a lock that nobody else wants
  lock-fight     --processes N want the lock (4)
  contend        --processes N want the lock, write once under it, and pause for about --pause US
                 microseconds (4 and 300); each acquire is timed
  two-level      the --tasks N of each of --processes N share a ReentrantLock (2 of 32 tasks)
  linger         take a ReentrantLock again that lingers, unused, in this process
  visit          take a lock that lingers in another session
  serve          be an embedded server, until standard input ends

Each measurement is a line of JSON. Without a workload: some tenths of a second of each.

";

fn main() -> Result<()> {
    let arguments = env::args().skip(1).collect::<Vec<_>>();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{WORKLOADS}{}", options::help(options::RACE));
        return Ok(());
    }
    // What a workload does not say otherwise.
    let (processes, tasks) = match arguments.first().map(String::as_str) {
        Some("lock-fight" | "contend") => (4, 1),
        Some("two-level") => (2, 32),
        _ => (1, 1),
    };
    let workload = arguments.first().map(String::as_str);
    let latency = matches!(workload, Some("contend" | "visit"));
    let pause = Duration::from_micros(if workload == Some("contend") { 300 } else { 0 });
    let defaults = Options { processes, tasks, pause, latency, ..Options::default() };
    let mut options = defaults.with(options::RACE, arguments)?;
    if options.server == Kind::Null {
        // It lets everybody in at once.
        options.server = Kind::Embedded;
    }
    match (options.workload.as_deref(), &options.contender) {
        (Some(server::SERVE), _) => Ok(server::serve(&options)?),
        (Some(workload), Some(folder)) => {
            options.pin_client()?;
            options.runtime()?.block_on(contend(workload, folder, &options))
        }
        (Some(workload), None) => Ok(race::run(workload, &options, &Server::start(&options)?)?),
        (None, _) => tour(&options),
    }
}

fn tour(options: &Options) -> Result<()> {
    let server = Server::start(options)?;
    let (duration, warm_up) = (Duration::from_millis(300), Duration::from_millis(100));
    let options = Options { duration, warm_up, ..options.clone() };
    let pause = Duration::from_micros(300);
    for (workload, options) in [
        ("lock-cycle", options.clone()),
        ("lock-fight", Options { processes: 4, ..options.clone() }),
        ("contend", Options { processes: 4, pause, latency: true, ..options.clone() }),
        ("two-level", Options { processes: 2, tasks: 32, ..options.clone() }),
        ("linger", options.clone()),
        ("visit", Options { latency: true, ..options.clone() }),
    ] {
        race::run(workload, &options, &server)?;
    }
    Ok(())
}

/// Is one of the processes.
async fn contend(workload: &str, folder: &str, options: &Options) -> Result<()> {
    let client = Client::connect(&options.server.to_string()).await?;
    let mut tasks = JoinSet::new();
    match workload {
        "lock-cycle" | "lock-fight" => {
            let lock = Lock::new(&client, folder)?;
            let turns = Turns::start(options)?;
            for _ in 0..options.tasks {
                tasks.spawn(alone(lock.clone(), Arc::clone(&turns)));
            }
        }
        "contend" => {
            let lock = Lock::new(&client, folder)?;
            client.ensure(&result(folder), &CreateOptions::persistent()).await?;
            let turns = Turns::start(options)?;
            for _ in 0..options.tasks {
                let pause = Pause::new(options.pause)?;
                tasks.spawn(serve(client.clone(), lock.clone(), Arc::clone(&turns), pause));
            }
        }
        "two-level" => {
            let lock = ReentrantLock::new(&client, folder)?;
            let turns = Turns::start(options)?;
            for _ in 0..options.tasks {
                tasks.spawn(together(lock.clone(), Arc::clone(&turns)));
            }
        }
        "linger" => {
            let lingers = LockOptions::new().linger(LINGER);
            let lock = ReentrantLock::with_options(&client, folder, lingers)?;
            let turns = Turns::start(options)?;
            tasks.spawn(together(lock, turns));
        }
        "visit" => {
            let host = Client::connect(&options.server.to_string()).await?;
            let lingers = LockOptions::new().linger(LINGER);
            let lingering = ReentrantLock::with_options(&host, folder, lingers)?;
            let lock = Lock::new(&client, folder)?;
            let turns = Turns::start(options)?;
            tasks.spawn(visit(lingering, lock, turns));
        }
        other => return Err(format!("{other} is no workload; try --help").into()),
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    client.close().await;
    Ok(())
}

async fn alone(lock: Lock, turns: Arc<Turns>) -> Result<()> {
    while turns.go_on() {
        let asked = turns.asked();
        let guard = lock.acquire().await?;
        turns.count(asked);
        drop(guard);
    }
    Ok(())
}

/// As a service works: a job under the lock, and then something else for a while.
async fn serve(client: Client, lock: Lock, turns: Arc<Turns>, mut pause: Pause) -> Result<()> {
    let result = result(lock.path());
    while turns.go_on() {
        let asked = turns.asked();
        let guard = lock.acquire().await?;
        turns.count(asked);
        client.set_data(&result, b"done", None).await?;
        drop(guard);
        pause.wait().await?;
    }
    Ok(())
}

/// Takes a lock from a session that used it a moment ago and keeps it.
async fn visit(lingering: ReentrantLock, lock: Lock, turns: Arc<Turns>) -> Result<()> {
    let host = Owner::new();
    while turns.go_on() {
        drop(lingering.acquire(&host).await?);
        let asked = turns.asked();
        let guard = lock.acquire().await?;
        turns.count(asked);
        guard.release().await?;
    }
    Ok(())
}

/// Where the holders of the lock write.
fn result(folder: &str) -> String {
    format!("{folder}-result")
}

async fn together(lock: ReentrantLock, turns: Arc<Turns>) -> Result<()> {
    let me = Owner::new();
    while turns.go_on() {
        let asked = turns.asked();
        let guard = lock.acquire(&me).await?;
        turns.count(asked);
        drop(guard);
        // A single task would never let the driver run.
        consume_budget().await;
    }
    Ok(())
}
