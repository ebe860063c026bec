//! Watches: the cost of setting them, of their notifications, and of keeping them.

use std::ops::Range;

use tokio::task::JoinSet;
use zk_bench::meter::{Memory, Meter, Spent};
use zk_bench::options::{Kind, Options};
use zk_bench::report::{Report, rounded};
use zk_bench::server::Server;
use zk_bench::{BURST, BURST_FOLDER, raw};
use zk_client::{Client, StreamEvent, WatchMode, WatchStream, Watcher};

use crate::{PIPELINED, Result, fill};

/// The path of the watch with this number.
fn path(n: usize) -> String {
    format!("{BURST_FOLDER}/{n}")
}

/// Sets data watches at nodes that need not exist.
pub(crate) async fn set(client: &Client, numbers: Range<usize>) -> Result<Vec<Watcher>> {
    let mut watchers = Vec::with_capacity(numbers.len());
    let paths = numbers.map(path).collect::<Vec<_>>();
    for paths in paths.chunks(PIPELINED) {
        let replies = paths.iter().map(|path| client.exists_and_watch(path)).collect::<Vec<_>>();
        for reply in replies {
            watchers.push(reply.await?.1);
        }
    }
    Ok(watchers)
}

/// Makes watches fire.
struct Trigger<'a> {
    client: &'a Client,
    /// Another session that writes, and its request, for a server that does not fire watches by
    /// itself.
    other: Option<(raw::Connection, raw::Request)>,
    events: usize,
}

impl<'a> Trigger<'a> {
    /// Makes a trigger of this many events at once.
    async fn new(client: &'a Client, server: &Server, kind: &Kind, events: usize) -> Result<Self> {
        if *kind == Kind::Null {
            return Ok(Self { client, other: None, events });
        }
        let paths = (0..events).map(path).collect::<Vec<_>>();
        fill(client, BURST_FOLDER, paths.iter().cloned()).await?;
        let other = raw::Connection::open(server.address())?;
        Ok(Self { client, other: Some((other, raw::Request::set_all(&paths))), events })
    }

    async fn fire(&mut self) -> Result<()> {
        match &mut self.other {
            None => {
                let burst = format!("{BURST}/{}", self.events);
                self.client.set_data(&burst, b"", None).await?;
            }
            Some((other, request)) => other.call(request)?,
        }
        Ok(())
    }
}

/// The cost of watches, round after round.
#[derive(Default)]
struct Costs {
    /// The cost of setting them.
    arm: Spent,
    /// The cost of their notifications, with one task that waits for all.
    burst: Spent,
    /// The same, with a task for each.
    tasks: Spent,
}

/// Sets watches and has them fire, in turns, until the time is over.
pub(crate) async fn one_shot(client: &Client, server: &Server, options: &Options) -> Result<()> {
    let watches = count(options);
    let mut trigger = Trigger::new(client, server, &options.server, watches).await?;
    round(client, &mut trigger, &mut Costs::default()).await?;
    let (mut costs, mut events) = (Costs::default(), 0);
    let meter = Meter::start();
    while meter.elapsed() < options.duration {
        round(client, &mut trigger, &mut costs).await?;
        events += watches as u64;
    }
    let options = &Options { watches, ..options.clone() };
    Report::new("watch-arm", options, events, costs.arm).print()?;
    Report::new("watch-burst", options, events, costs.burst).print()?;
    Ok(Report::new("watch-burst-tasks", options, events, costs.tasks).print()?)
}

async fn round(client: &Client, trigger: &mut Trigger<'_>, costs: &mut Costs) -> Result<()> {
    let meter = Meter::start();
    let watchers = arm(client, trigger.events).await?;
    costs.arm += meter.stop();

    let meter = Meter::start();
    trigger.fire().await?;
    for mut watcher in watchers {
        watcher.changed().await?;
    }
    costs.burst += meter.stop();

    let mut tasks = JoinSet::new();
    for mut watcher in arm(client, trigger.events).await? {
        tasks.spawn(async move { watcher.changed().await });
    }
    // Each task begins to wait.
    tokio::task::yield_now().await;
    let meter = Meter::start();
    trigger.fire().await?;
    while let Some(event) = tasks.join_next().await {
        event??;
    }
    costs.tasks += meter.stop();
    Ok(())
}

/// Sets data watches at nodes that exist, and reads them.
async fn arm(client: &Client, watches: usize) -> Result<Vec<Watcher>> {
    let mut watchers = Vec::with_capacity(watches);
    let paths = (0..watches).map(path).collect::<Vec<_>>();
    for paths in paths.chunks(PIPELINED) {
        let replies = paths.iter().map(|path| client.get_data_and_watch(path)).collect::<Vec<_>>();
        for reply in replies {
            watchers.push(reply.await?.1);
        }
    }
    Ok(watchers)
}

/// Receives changes of a tree, burst after burst, until the time is over.
pub(crate) async fn stream(client: &Client, server: &Server, options: &Options) -> Result<()> {
    // A stream drops events above its bound.
    let watches = count(options).min(WatchStream::CAPACITY);
    let mut trigger = Trigger::new(client, server, &options.server, watches).await?;
    let mut changes = client.watch(BURST_FOLDER, WatchMode::PersistentRecursive).await?;
    receive(&mut trigger, &mut changes).await?;
    let meter = Meter::start();
    let mut events = 0;
    while meter.elapsed() < options.duration {
        events += receive(&mut trigger, &mut changes).await?;
    }
    let options = &Options { watches, ..options.clone() };
    Ok(Report::new("stream", options, events, meter.stop()).print()?)
}

/// One burst.
async fn receive(trigger: &mut Trigger<'_>, changes: &mut WatchStream) -> Result<u64> {
    trigger.fire().await?;
    for n in 0..trigger.events {
        match changes.next().await? {
            StreamEvent::Changed(_) => {}
            other => return Err(format!("{other:?} instead of change {n}").into()),
        }
    }
    Ok(trigger.events as u64)
}

/// Keeps watches that never fire.
pub(crate) async fn idle(client: &Client, options: &Options) -> Result<()> {
    let watches = if options.watches == 0 { 100_000 } else { options.watches };
    // Memory that is allocated once, or for requests in flight, is not counted. Only a few requests
    // are sent at a time, since memory that was needed in between is not released.
    let few = 100;
    drop(set(client, watches..watches + few).await?);
    client.sync("/").await?;
    let paths = (0..watches).map(|n| path(n).len()).sum::<usize>();
    let mut kept = Vec::with_capacity(watches);
    let before = Memory::look()?.now;
    let meter = Meter::start();
    for start in (0..watches).step_by(few) {
        kept.extend(set(client, start..watches.min(start + few)).await?);
    }
    let spent = meter.stop();
    let grown = Memory::look()?.now.saturating_sub(before);
    let options = &Options { watches, ..options.clone() };
    let mut report = Report::new("idle", options, watches as u64, spent);
    report.put("bytes_per_watch", rounded(grown as f64 / watches as f64));
    let besides = grown.saturating_sub(paths as u64) as f64 / watches as f64;
    report.put("bytes_per_watch_besides_path", rounded(besides));
    report.print()?;
    drop(kept);
    Ok(())
}

fn count(options: &Options) -> usize {
    if options.watches == 0 { 10_000 } else { options.watches }
}
