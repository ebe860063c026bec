//! Closed loops: a number of tasks, each with one operation in flight.
//!
//! An operation counts in the phase in which it ends, so that neither the start of the tasks nor
//! their end is measured.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::task::JoinSet;

use crate::meter::{Latencies, Meter, Spent, now};
use crate::options::Options;
use crate::report::{Report, rounded};
use crate::server::Server;

/// The result of an operation in a loop.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The operation that a task repeats.
pub trait Work: Send + 'static {
    /// Runs the operation once.
    fn operate(&self) -> impl Future<Output = Result<()>> + Send;
}

/// The result of a measurement.
#[derive(Debug)]
pub struct Outcome {
    /// The number of operations.
    pub ops: u64,
    /// The cost of these operations.
    pub spent: Spent,
    latencies: Option<Latencies>,
    requests_per_op: Option<f64>,
}

impl Outcome {
    /// Makes the report line.
    pub fn report(&self, workload: &str, options: &Options) -> Report {
        let mut report = Report::new(workload, options, self.ops, self.spent);
        if let Some(latencies) = &self.latencies {
            report.latencies(latencies);
        }
        if let Some(requests) = self.requests_per_op {
            report.put("requests_per_op", rounded(requests));
        }
        report
    }
}

/// Runs as many tasks as the options' depth, for as long as the options say.
///
/// `work` makes the operation for the task of a number.
pub async fn run<W: Work>(
    work: impl Fn(usize) -> W,
    server: &Server,
    options: &Options,
) -> Result<Outcome> {
    let before = server.received();
    let (round, count, spent) = match options.ops {
        Some(ops) => for_count(work, options, ops).await?,
        None => for_time(work, options).await?,
    };
    let after = server.received();
    let requests = |(before, after)| (after - before) as f64 / count.all as f64;
    Ok(Outcome {
        ops: count.measured,
        spent,
        latencies: Arc::into_inner(round).and_then(|round| round.latencies),
        requests_per_op: before.zip(after).map(requests),
    })
}

const WARM_UP: u8 = 0;
const MEASURED: u8 = 1;
const OVER: u8 = 2;

/// The state that the tasks share.
struct Round {
    phase: AtomicU8,
    latencies: Option<Latencies>,
    /// How many measured operations each task makes.
    quota: u64,
}

/// The numbers of operations.
#[derive(Clone, Copy, Default)]
struct Count {
    measured: u64,
    all: u64,
}

async fn for_time<W: Work>(
    work: impl Fn(usize) -> W,
    options: &Options,
) -> Result<(Arc<Round>, Count, Spent)> {
    let (round, tasks) = spawn(work, options, u64::MAX, WARM_UP);
    tokio::time::sleep(options.warm_up).await;
    round.phase.store(MEASURED, Ordering::Relaxed);
    let meter = Meter::start();
    tokio::time::sleep(options.duration).await;
    let spent = meter.stop();
    round.phase.store(OVER, Ordering::Relaxed);
    Ok((round, join(tasks).await?, spent))
}

async fn for_count<W: Work>(
    work: impl Fn(usize) -> W,
    options: &Options,
    ops: u64,
) -> Result<(Arc<Round>, Count, Spent)> {
    let warm = join(spawn(&work, options, ops / 10, MEASURED).1).await?.all;
    let meter = Meter::start();
    let (round, tasks) = spawn(work, options, ops, MEASURED);
    let Count { measured, all } = join(tasks).await?;
    Ok((round, Count { measured, all: warm + all }, meter.stop()))
}

fn spawn<W: Work>(
    work: impl Fn(usize) -> W,
    options: &Options,
    ops: u64,
    phase: u8,
) -> (Arc<Round>, JoinSet<Result<Count>>) {
    let round = Arc::new(Round {
        phase: AtomicU8::new(phase),
        latencies: options.latency.then(Latencies::default),
        quota: ops.div_ceil(options.depth as u64).max(1),
    });
    let mut tasks = JoinSet::new();
    for n in 0..options.depth {
        tasks.spawn(repeat(work(n), Arc::clone(&round)));
    }
    (round, tasks)
}

async fn join(mut tasks: JoinSet<Result<Count>>) -> Result<Count> {
    let mut sum = Count::default();
    while let Some(count) = tasks.join_next().await {
        let count = count??;
        sum.measured += count.measured;
        sum.all += count.all;
    }
    Ok(sum)
}

/// Runs one of the tasks.
async fn repeat(work: impl Work, round: Arc<Round>) -> Result<Count> {
    let mut count = Count::default();
    loop {
        let asked = round.latencies.is_some().then(now);
        work.operate().await?;
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
