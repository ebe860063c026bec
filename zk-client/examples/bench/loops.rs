//! Closed loops: so many tasks, each with one request in flight.
//!
//! An operation counts in the phase in which it ends, so that neither the beginning of the tasks
//! nor their end is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::task::JoinSet;
use zk_bench::meter::{Latencies, Meter, Spent, now};
use zk_bench::options::Options;
use zk_bench::report::{Report, rounded};
use zk_bench::server::Server;
use zk_client::{Client, CreateOptions, Error};

use crate::{CROWD, NODE, Result, watch};

/// What each task does again and again.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Get,
    Set(Vec<u8>),
    Children,
    CreateDelete,
}

const WARM_UP: u8 = 0;
const MEASURED: u8 = 1;
const OVER: u8 = 2;

/// What the tasks share.
struct Round {
    phase: AtomicU8,
    latencies: Option<Latencies>,
    /// Operations of each task, of those that are measured.
    quota: u64,
}

/// How many operations there were.
#[derive(Clone, Copy, Default)]
struct Count {
    measured: u64,
    all: u64,
}

pub(crate) async fn run(
    work: Work,
    client: &Client,
    server: &Server,
    options: &Options,
) -> Result<()> {
    let watchers = watch::set(client, 0..options.watches).await?;
    let before = server.received();
    let warm = match options.ops {
        Some(ops) => join(spawn(&work, client, options, ops / 10, MEASURED).1).await?.all,
        None => 0,
    };
    let (round, count, spent) = match options.ops {
        Some(ops) => for_count(&work, client, options, ops).await?,
        None => for_time(&work, client, options).await?,
    };
    let after = server.received();
    drop(watchers);

    let name = match work {
        Work::Get => "get",
        Work::Set(_) => "set",
        Work::Children => "children",
        Work::CreateDelete => "create-delete",
    };
    let mut report = Report::new(name, options, count.measured, spent);
    if let Some(latencies) = &round.latencies {
        report.latencies(latencies);
    }
    if let (Some(before), Some(after)) = (before, after) {
        let requests = (after - before) as f64 / (warm + count.all) as f64;
        report.put("requests_per_op", rounded(requests));
    }
    if let Work::Children = work {
        let names = (count.measured.max(1) * options.children.max(1) as u64) as f64;
        report.put("children", options.children);
        report.put("cpu_ns_per_name", rounded(spent.cpu.as_secs_f64() * 1e9 / names));
    }
    Ok(report.print()?)
}

async fn for_time(
    work: &Work,
    client: &Client,
    options: &Options,
) -> Result<(Arc<Round>, Count, Spent)> {
    let (round, tasks) = spawn(work, client, options, u64::MAX, WARM_UP);
    tokio::time::sleep(options.warm_up).await;
    round.phase.store(MEASURED, Ordering::Relaxed);
    let meter = Meter::start();
    tokio::time::sleep(options.duration).await;
    let spent = meter.stop();
    round.phase.store(OVER, Ordering::Relaxed);
    Ok((round, join(tasks).await?, spent))
}

async fn for_count(
    work: &Work,
    client: &Client,
    options: &Options,
    ops: u64,
) -> Result<(Arc<Round>, Count, Spent)> {
    let meter = Meter::start();
    let (round, tasks) = spawn(work, client, options, ops, MEASURED);
    let count = join(tasks).await?;
    Ok((round, count, meter.stop()))
}

fn spawn(
    work: &Work,
    client: &Client,
    options: &Options,
    ops: u64,
    phase: u8,
) -> (Arc<Round>, JoinSet<std::result::Result<Count, Error>>) {
    let round = Arc::new(Round {
        phase: AtomicU8::new(phase),
        latencies: options.latency.then(Latencies::default),
        quota: ops.div_ceil(options.depth as u64).max(1),
    });
    let mut tasks = JoinSet::new();
    for n in 0..options.depth {
        let (work, client, round) = (work.clone(), client.clone(), Arc::clone(&round));
        tasks.spawn(async move { repeat(&work, &client, n, &round).await });
    }
    (round, tasks)
}

async fn join(mut tasks: JoinSet<std::result::Result<Count, Error>>) -> Result<Count> {
    let mut sum = Count::default();
    while let Some(count) = tasks.join_next().await {
        let count = count??;
        sum.measured += count.measured;
        sum.all += count.all;
    }
    Ok(sum)
}

/// One of the tasks.
async fn repeat(
    work: &Work,
    client: &Client,
    n: usize,
    round: &Round,
) -> std::result::Result<Count, Error> {
    let own = format!("{NODE}/{n}");
    let mut count = Count::default();
    loop {
        let asked = round.latencies.is_some().then(now);
        match work {
            Work::Get => drop(client.get_data(NODE).await?),
            Work::Set(data) => drop(client.set_data(NODE, data, None).await?),
            Work::Children => drop(client.get_children(CROWD).await?),
            Work::CreateDelete => {
                client.create(&own, b"", &CreateOptions::persistent()).await?;
                client.delete(&own, None).await?;
            }
        }
        count.all += 1;
        match round.phase.load(Ordering::Relaxed) {
            WARM_UP => {}
            MEASURED => {
                count.measured += 1;
                if let (Some(latencies), Some(asked)) = (&round.latencies, asked) {
                    latencies.record(asked.elapsed());
                }
                if count.measured == round.quota {
                    return Ok(count);
                }
            }
            _ => return Ok(count),
        }
    }
}
