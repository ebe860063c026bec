//! How often the tasks of a process should hand a lock on to each other: the tasks of two clients
//! contend for one lock, by the number of passes.
//!
//! ```text
//! cargo bench -p zk-tests --bench two_level
//! ```
//!
//! More passes cost fewer requests and make the other client wait longer. Each line is the median
//! of several rounds in one run, on a real standalone server that does not sync to disk. Needs Java
//! and ZooKeeper; `tests/run` installs them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use zk_client::Client;
use zk_recipes::{Options, Owner, ReentrantLock};
use zk_test_support::server::{Standalone, packets_received};

const CLIENTS: usize = 2;
const TASKS: usize = 32;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;
const PASSES: [u32; 8] = [0, 1, 4, 8, 16, 32, 64, 256];
/// The time that each task works under the lock.
const WORK: [Duration; 2] = [Duration::ZERO, Duration::from_millis(1)];

/// The results of a round.
struct Round {
    /// Acquisitions a second.
    rate: f64,
    /// Packets that the server received for each acquisition.
    packets: f64,
    /// The 99th percentile of the time that acquires took, in milliseconds.
    late: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let server = Standalone::start().await?;
    for work in WORK {
        println!("{CLIENTS} clients with {TASKS} tasks each, {work:?} of work under the lock");
        println!("{:>8} {:>12} {:>12} {:>12}", "passes", "acquires/s", "packets", "99 % in ms");
        for passes in PASSES {
            let mut rounds = Vec::new();
            for round in 0..ROUNDS {
                let path = format!("/bench/{}/{passes}/{round}", work.as_millis());
                rounds.push(measure(&server.address(), &path, passes, work).await?);
            }
            println!(
                "{passes:>8} {:>12.0} {:>12.3} {:>12.1}",
                median(rounds.iter().map(|round| round.rate)),
                median(rounds.iter().map(|round| round.packets)),
                median(rounds.iter().map(|round| round.late)),
            );
        }
    }
    Ok(())
}

async fn measure(address: &str, path: &str, passes: u32, work: Duration) -> Result<Round> {
    // The time limit is long, so that only the number of passes ends a turn.
    let options = Options::new().local_handoffs(passes).local_handoff_time(Duration::from_secs(60));
    let stop = Arc::new(AtomicBool::new(false));
    let count = Arc::new(AtomicU64::new(0));
    let (mut clients, mut tasks) = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        let client = Client::connect(address).await?;
        let lock = ReentrantLock::with_options(&client, path, options.clone())?;
        for _ in 0..TASKS {
            let (lock, stop, count) = (lock.clone(), Arc::clone(&stop), Arc::clone(&count));
            tasks.push(tokio::spawn(async move {
                let me = Owner::new();
                let mut waits = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let asked = now();
                    let guard = lock.acquire(&me).await?;
                    waits.push(asked.elapsed());
                    count.fetch_add(1, Ordering::Relaxed);
                    if !work.is_zero() {
                        tokio::time::sleep(work).await;
                    }
                    drop(guard);
                    tokio::task::yield_now().await;
                }
                anyhow::Ok(waits)
            }));
        }
        clients.push(client);
    }
    let (start, before) = (now(), packets_received(address).await?);
    let warm = count.load(Ordering::Relaxed);
    tokio::time::sleep(ROUND).await;
    let acquired = (count.load(Ordering::Relaxed) - warm) as f64;
    let (took, packets) = (start.elapsed(), packets_received(address).await? - before);
    stop.store(true, Ordering::Relaxed);
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await??);
    }
    for client in clients {
        client.close().await;
    }
    waits.sort_unstable();
    let late = waits.get(waits.len() * 99 / 100).copied().unwrap_or_default();
    Ok(Round {
        rate: acquired / took.as_secs_f64(),
        packets: packets as f64 / acquired,
        late: late.as_secs_f64() * 1000.0,
    })
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
