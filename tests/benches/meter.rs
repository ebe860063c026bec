//! What a `LockMeter` costs: acquires and releases with one and without, in turns in one run.
//!
//! ```text
//! cargo bench -p zk-tests --bench meter
//! ```
//!
//! A two-level lock that lingers is taken without a request, and an exclusive lock by three
//! requests to the embedded server, in memory and on the same thread. Nothing is cheaper than that,
//! so the meter's part of a real acquire is smaller. Needs nothing but Rust.

use std::time::Duration;

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};
use zk_client::Client;
use zk_embedded::{Config, Server};
use zk_recipes::{Lock, LockMeter, Options, Owner, ReentrantLock};

const ROUNDS: usize = 31;
/// Acquires in a round.
const LOCAL: u32 = 200_000;
const REMOTE: u32 = 4_000;
const LINGER: Duration = Duration::from_secs(3600);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let server = Server::in_memory(Config::new());
    let client = Client::builder().connector(server.connector()).connect("zk").await?;
    let meter = LockMeter::new();
    let lingers = || Options::new().linger(LINGER);
    let (plain, counted) = (lingers(), lingers().meter(&meter));
    let local = [
        ReentrantLock::with_options(&client, "/local/plain", plain)?,
        ReentrantLock::with_options(&client, "/local/counted", counted)?,
    ];
    let (plain, counted) = (Options::new(), Options::new().meter(&meter));
    let remote = [
        Lock::with_options(&client, "/remote/plain", plain)?,
        Lock::with_options(&client, "/remote/counted", counted)?,
    ];

    let (mut of_local, mut of_remote) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..ROUNDS {
        // The order alternates, so that neither has an advantage.
        for at in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let (lock, me) = (&local[at], Owner::new());
            let start = processor_time()?;
            for _ in 0..LOCAL {
                drop(lock.acquire(&me).await?);
            }
            of_local[at].push((processor_time()? - start) / LOCAL);
            let lock = &remote[at];
            let start = processor_time()?;
            for _ in 0..REMOTE {
                lock.acquire().await?.release().await?;
            }
            of_remote[at].push((processor_time()? - start) / REMOTE);
        }
    }
    println!("acquire and release, nanoseconds of processor time, medians of {ROUNDS} rounds");
    println!("{:<28} {:>10} {:>10} {:>12}", "", "no meter", "meter", "difference");
    report("two-level, without a request", &of_local);
    report("exclusive, embedded server", &of_remote);
    println!("{} acquires were counted", meter.stats().acquired);
    Ok(())
}

/// Prints medians. That of the differences is of pairs that ran one after the other.
fn report(name: &str, [plain, counted]: &[Vec<Duration>; 2]) {
    let nanos = |time: &Duration| time.as_nanos() as i64;
    let differences = plain.iter().zip(counted).map(|(one, other)| nanos(other) - nanos(one));
    let (without, with) = (plain.iter().map(nanos), counted.iter().map(nanos));
    let (without, with, more) = (median(without), median(with), median(differences));
    println!("{name:<28} {without:>10} {with:>10} {more:>12}");
}

fn median(figures: impl Iterator<Item = i64>) -> i64 {
    let mut figures = figures.collect::<Vec<_>>();
    figures.sort_unstable();
    figures[figures.len() / 2]
}

/// The processor time that this process has used.
fn processor_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::ProcessCPUTime).try_into()?)
}
