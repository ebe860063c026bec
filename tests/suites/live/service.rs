//! The example of a whole service in several processes that are killed, stopped, cut off, expired
//! and robbed of their locks every second. The servers' own counters judge: no job is done twice,
//! and none is lost.
//!
//! Each job is a node with a number. Whoever does it replaces it by a node with the result, in one
//! transaction. ZooKeeper counts how often the children of a folder were created and deleted, and
//! how often a node was written, so that even a result that was replaced leaves a trace.
//! `ZK_SOAK` makes the scenes last for ten minutes.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use tokio::time::{sleep, timeout};
use zk_client::Client;
use zk_test_support::contender::{self, Contender};
use zk_test_support::relay::Relay;
use zk_test_support::server::{Ensemble, Server, ServerConfig, Standalone};

const WORKERS: usize = 4;
/// How long a disturbance lasts, in seconds: longer than the second for which sessions live.
const LASTS: u32 = 2;
/// How long the service may take to go on once all is well.
const PATIENCE: Duration = Duration::from_secs(60);

/// For how many seconds the processes are disturbed.
fn seconds() -> u32 {
    if std::env::var_os("ZK_SOAK").is_some() { 600 } else { 20 }
}

fn config() -> ServerConfig {
    ServerConfig {
        tick_time: Duration::from_millis(200),
        max_session_timeout: Some(PATIENCE),
        ..ServerConfig::default()
    }
}

/// What happens to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Disturbance {
    /// It is killed, and another one takes its place at once.
    Kill,
    /// It stands still for longer than its session lives, and goes on.
    Stop,
    /// It hears nothing for longer than its session lives.
    CutOff,
    /// Its connection breaks.
    Break,
    /// The ensemble ends its session.
    Expire,
}

const ALL: [Disturbance; 5] = [
    Disturbance::Kill,
    Disturbance::Stop,
    Disturbance::CutOff,
    Disturbance::Break,
    Disturbance::Expire,
];

/// A process of the service, with relays to all servers of its own.
struct Worker {
    process: Contender,
    relays: Vec<Relay>,
    disturbed: Option<(Disturbance, u32)>,
}

impl Worker {
    fn start(servers: &[Server]) -> Result<Self> {
        let relays = servers.iter().map(|server| Relay::to(&server.address()));
        let relays = relays.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { process: process(&relays)?, relays, disturbed: None })
    }

    async fn disturb(&mut self, disturbance: Disturbance) -> Result<()> {
        match disturbance {
            Disturbance::Kill => {
                self.process.kill().await?;
                self.process = process(&self.relays)?;
            }
            Disturbance::Stop => self.process.pause().await?,
            Disturbance::CutOff => self.relays.iter().for_each(Relay::freeze),
            Disturbance::Break => {
                self.relays.iter_mut().for_each(Relay::cut);
                self.relays.iter_mut().for_each(Relay::mend);
            }
            Disturbance::Expire => self.process.tell("expire").await?,
        }
        self.disturbed = Some((disturbance, LASTS));
        Ok(())
    }

    /// Lets a second pass, or all that are left.
    fn pass(&mut self, is_over: bool) -> Result<()> {
        let Some((disturbance, left)) = &mut self.disturbed else {
            return Ok(());
        };
        *left = if is_over { 0 } else { *left - 1 };
        if *left > 0 {
            return Ok(());
        }
        match disturbance {
            Disturbance::Stop => self.process.resume()?,
            Disturbance::CutOff => self.relays.iter().for_each(Relay::thaw),
            Disturbance::Kill | Disturbance::Break | Disturbance::Expire => {}
        }
        self.disturbed = None;
        Ok(())
    }
}

fn process(relays: &[Relay]) -> Result<Contender> {
    let servers = relays.iter().map(Relay::address).collect::<Result<Vec<_>, _>>()?.join(",");
    contender::start(env!("CARGO_BIN_EXE_service"), &[&*servers, "100"])
}

/// How many jobs were written until now.
async fn written(admin: &Client) -> Result<i32> {
    Ok(admin.get_data("/service/next").await?.stat.version)
}

/// Waits until all jobs below this number are done.
async fn done_below(admin: &Client, number: i32) -> Result<()> {
    loop {
        let (jobs, mut watch) = admin.get_children_and_watch("/service/jobs").await?;
        let numbers = jobs.names.iter().map(str::parse::<i32>).collect::<Result<Vec<_>, _>>()?;
        if written(admin).await? >= number && numbers.iter().all(|open| *open >= number) {
            return Ok(());
        }
        watch.changed().await?;
    }
}

/// Judges what is in the store once nobody works any more. Returns how many jobs were done.
async fn judge(admin: &Client) -> Result<i32> {
    admin.sync("/service").await?;
    let written = written(admin).await?;
    let open = admin.get_children("/service/jobs").await?;
    let done = admin.get_children("/service/done").await?;
    let mut jobs = open.names.iter().chain(done.names.iter()).collect::<Vec<_>>();
    jobs.sort_unstable();
    let expected = (0..written).map(|number| format!("{number:010}")).collect::<Vec<_>>();
    ensure!(jobs == expected, "{written} were written, and there are {jobs:?}");
    let count = i32::try_from(done.names.len())?;
    ensure!(done.stat.cversion == count, "{count} are done, in {} steps", done.stat.cversion);
    let steps = open.stat.cversion;
    ensure!(steps == written + count, "{written} written, {count} done, in {steps} steps");
    for names in done.names.iter().collect::<Vec<_>>().chunks(500) {
        let path = |name: &&str| format!("/service/done/{name}");
        let reads = admin
            .batch(|| names.iter().map(|name| admin.get_data(&path(name))).collect::<Vec<_>>());
        for (name, read) in names.iter().zip(reads) {
            let version = read.await?.stat.version;
            ensure!(version == 0, "{name} was done {} times", version + 1);
        }
    }
    Ok(count)
}

/// Deletes the node of whoever leads or works, as an operator's mistake would. The session of that
/// one lives on, so nothing but the fence stands between its work and that of the next one.
async fn rob(admin: &Client, folder: &str) -> Result<()> {
    let robbed = async {
        let nodes = admin.get_children(folder).await?;
        let number = |name: &&str| name.rsplit('-').next().map(str::to_owned);
        match nodes.names.iter().min_by_key(number) {
            Some(first) => admin.delete(&format!("{folder}/{first}"), None).await,
            None => Ok(()),
        }
    };
    match robbed.await {
        // Nobody has come yet, or is there any more; or a leader has died.
        Err(error) if !error.is_no_node() && !error.is_connection_loss() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Disturbs four processes every second, and `more` beside them; then lets them go on, ends them,
/// and judges.
async fn disturbed<S: AsMut<[Server]>>(
    what: &str,
    mut servers: S,
    connect: &str,
    more: impl AsyncFn(&mut S, u32) -> Result<()>,
) -> Result<()> {
    let seed = fastrand::u64(..);
    println!("service, {what}: seed {seed}");
    let mut chance = Rng::with_seed(seed);
    let builder = Client::builder().session_timeout(PATIENCE);
    let admin = builder.connect(connect).await?;
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        let mut worker = Worker::start(servers.as_mut())?;
        worker.process.says("ready").await?;
        workers.push(worker);
    }
    let mut counts = BTreeMap::<_, u32>::new();
    for second in 0..seconds() {
        workers.iter_mut().try_for_each(|worker| worker.pass(false))?;
        let idle = workers.iter_mut().filter(|worker| worker.disturbed.is_none());
        let mut idle = idle.collect::<Vec<_>>();
        let chosen = chance.usize(..idle.len());
        // The first ones are one of each.
        let disturbance = ALL.get(second as usize).copied();
        let disturbance = disturbance.unwrap_or_else(|| ALL[chance.usize(..ALL.len())]);
        idle[chosen].disturb(disturbance).await?;
        *counts.entry(disturbance).or_default() += 1;
        rob(&admin, ["/service/worker", "/service/leader"][second as usize % 2]).await?;
        tokio::join!(more(&mut servers, second), sleep(Duration::from_secs(1))).0?;
    }
    workers.iter_mut().try_for_each(|worker| worker.pass(true))?;
    let now = written(&admin).await?;
    timeout(PATIENCE, done_below(&admin, now + 10)).await.context("the service stands still")??;
    for mut worker in workers {
        worker.process.tell("stop").await?;
        timeout(PATIENCE, worker.process.done()).await.context("a process does not end")??;
    }
    let done = judge(&admin).await?;
    println!("service, {what}: {done} jobs; {counts:?}");
    ensure!(now > i32::try_from(seconds())?, "hardly a job was written: {now}");
    admin.close().await;
    Ok(())
}

/// One server, which the scene can use like several.
struct One(Standalone);

impl AsMut<[Server]> for One {
    fn as_mut(&mut self) -> &mut [Server] {
        std::slice::from_mut(&mut self.0)
    }
}

#[tokio::test]
async fn a_service_in_trouble_does_each_job_once() -> Result<()> {
    let server = Standalone::with(&config()).await?;
    let address = server.address();
    disturbed("one server", One(server), &address, async |_, _| Ok(())).await
}

#[tokio::test]
async fn a_service_in_trouble_does_each_job_once_while_leaders_die() -> Result<()> {
    /// The seconds between the ends of two leaders.
    const EVERY: u32 = 7;
    let ensemble = Ensemble::with(&config(), 3).await?;
    let servers = ensemble.connect_string();
    disturbed("three servers", ensemble, &servers, async |ensemble, second| {
        if second % EVERY == EVERY - 1 {
            let leader = ensemble.wait_for_quorum().await?;
            ensemble.members_mut()[leader].kill().await;
            ensemble.members_mut()[leader].restart().await?;
        }
        Ok(())
    })
    .await
}
