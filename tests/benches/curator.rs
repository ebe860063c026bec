//! The requests and events of Curator's recipes, which stand beside ours on the performance page.
//!
//! ```text
//! cargo bench -p zk-tests --bench curator
//! ```
//!
//! Two processes of Curator's share the embedded server, and go through all operations again and
//! again. Some of its requests are sent in the background and come late, or not each time. So each
//! operation has time to calm down, the first round is not counted, and a row is the median of the
//! others, with the least and the most where they differ. Needs Java and Curator; `tests/run`
//! installs them. Ours are counted by a test: `tests/suites/lock`.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;
use zk_client::{Client, CreateOptions};
use zk_embedded::Server;
use zk_test_support::foreign::Curator;
use zk_test_support::locks::Costs;

const ROUNDS: usize = 15;
/// Curator pings after a third of this, or ten seconds, which takes longer than an operation.
const SESSION: Duration = Duration::from_secs(40);
/// How long the requests in the background of an operation have to come.
const CALM: Duration = Duration::from_millis(150);
const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

/// Two processes of Curator's on one server, and what they cost.
struct Table {
    server: Server,
    one: Curator,
    other: Curator,
    admin: Client,
    /// The costs in each round, by operation.
    rows: Vec<(&'static str, Vec<Costs>)>,
    before: Costs,
}

impl Table {
    async fn new() -> Result<Self> {
        let server = Server::start().await?;
        let one = Curator::connect_for(server.address(), SESSION).await?.within(20 * SESSION);
        let other = Curator::connect_for(server.address(), SESSION).await?.within(20 * SESSION);
        let admin = Client::builder().session_timeout(SESSION).connect(server.address()).await?;
        let before = Costs { requests: 0, events: 0 };
        Ok(Self { server, one, other, admin, rows: Vec::new(), before })
    }

    /// Counts from here on.
    async fn begin(&mut self) -> Result<()> {
        // So nobody has been idle for long enough to ping.
        self.one.does("fence value /fence").await?;
        self.other.does("fence value /fence").await?;
        self.admin.sync("/").await?;
        sleep(CALM).await;
        self.before = self.counts().await?;
        Ok(())
    }

    async fn counts(&self) -> Result<Costs> {
        let words = Client::builder().four_letter_word(self.server.address(), "srvr").await?;
        Ok(Costs::of(&words))
    }

    /// Adds what has been counted.
    async fn row(&mut self, name: &'static str) -> Result<()> {
        sleep(CALM).await;
        let now = self.counts().await?;
        // The four-letter word counts itself, and its answer.
        let requests = now.requests - self.before.requests - 1;
        let costs = Costs { requests, events: now.events.wrapping_sub(self.before.events) };
        match self.rows.iter_mut().find(|row| row.0 == name) {
            Some((_, all)) => all.push(costs),
            None => self.rows.push((name, vec![costs])),
        }
        self.begin().await
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut table = Table::new().await?;
    let folders = ["/election", "/permits", "/permits/locks", "/permits/leases", "/barriers"];
    let others = ["/rounds", "/group", "/value", "/tree", "/tree/a", "/tree/b", "/tree/c"];
    for path in folders.into_iter().chain(others) {
        table.admin.create(path, b"1", &PERSISTENT).await?;
    }
    table.one.does("t add /fence 1 1").await?;
    table.one.does("t add /counter 1 1").await?;
    for round in 0..=ROUNDS {
        if round == 1 {
            table.rows.clear();
        }
        table.begin().await?;
        election_and_semaphore(&mut table).await?;
        barriers(&mut table).await?;
        counter(&mut table).await?;
        group_and_caches(&mut table).await?;
    }
    println!("Curator, the median of {ROUNDS} rounds, and the least and the most");
    println!("{:<46} {:<14} events", "", "requests");
    for (name, costs) in &table.rows {
        let requests = median(costs.iter().map(|costs| costs.requests.cast_signed()));
        let events = median(costs.iter().map(|costs| costs.events.cast_signed()));
        println!("{name:<46} {requests:<14} {events}");
    }
    Ok(())
}

/// The median, and the least and the most if they differ.
fn median(figures: impl Iterator<Item = i64>) -> String {
    let mut figures = figures.collect::<Vec<_>>();
    figures.sort_unstable();
    let (median, first, last) = (figures[figures.len() / 2], figures[0], figures.last());
    match last {
        Some(last) if first < *last => format!("{median} ({first} to {last})"),
        _ => median.to_string(),
    }
}

async fn election_and_semaphore(table: &mut Table) -> Result<()> {
    table.one.does("t latch /election one").await?;
    table.row("Election: to lead, alone").await?;
    table.other.tell("t latch /election other").await?;
    table.row("to become a candidate behind one").await?;
    table.one.does("t unlatch /election").await?;
    table.other.answer("t").await?;
    table.row("the leader resigns, and the next one leads").await?;
    table.other.does("t unlatch /election").await?;
    table.row("the last one resigns, which had waited").await?;

    table.one.does("t take /permits 1").await?;
    table.row("Semaphore: a free permit").await?;
    table.one.does("t give /permits").await?;
    table.row("its release, while nobody waits").await?;
    table.one.does("t take /permits 1").await?;
    table.begin().await?;
    table.other.does("t trytake /permits 1 0").await?;
    table.row("a try that finds none").await?;
    table.other.tell("t take /permits 1").await?;
    table.row("to wait for a permit").await?;
    table.one.does("t give /permits").await?;
    table.other.answer("t").await?;
    table.row("its release, and the next one gets it").await?;
    table.other.does("t give /permits").await?;
    table.begin().await
}

async fn barriers(table: &mut Table) -> Result<()> {
    table.one.does("t close /barriers/one").await?;
    table.row("Barrier: to close it").await?;
    table.other.tell("t pass /barriers/one").await?;
    table.row("to wait at a closed one").await?;
    table.one.does("t open /barriers/one").await?;
    table.other.answer("t").await?;
    table.row("to open it, and one passes").await?;
    table.other.does("t pass /barriers/one").await?;
    table.row("to wait at an open one").await?;

    table.one.tell("t enter /rounds 2").await?;
    table.row("DoubleBarrier of two: the first one enters").await?;
    table.other.does("t enter /rounds 2").await?;
    table.one.answer("t").await?;
    table.row("the second one enters, and both go on").await?;
    table.one.tell("t leave /rounds").await?;
    table.row("the first one leaves").await?;
    table.other.does("t leave /rounds").await?;
    table.one.answer("t").await?;
    table.row("the second one leaves, and both go on").await
}

async fn counter(table: &mut Table) -> Result<()> {
    // Each add is that of a new `DistributedAtomicLong`.
    table.other.does("t add /counter 1 1").await?;
    table.row("Counter: the first add of a process").await?;
    table.other.does("t add /counter 1 1").await?;
    table.row("an add").await?;
    table.one.does("t add /counter 1 1").await?;
    table.begin().await?;
    table.other.does("t add /counter 1 1").await?;
    table.row("an add after another process's").await
}

async fn group_and_caches(table: &mut Table) -> Result<()> {
    table.one.does("t join /group one").await?;
    table.begin().await?;
    table.other.does("t join /group other").await?;
    table.row("Group: a second one joins, and both see it").await?;
    table.other.does("t part /group").await?;
    table.row("it leaves, and the first one sees it").await?;
    table.one.does("t part /group").await?;
    table.begin().await?;

    table.one.does("t cache /value").await?;
    table.row("Cached: the first read").await?;
    table.admin.set_data("/value", b"2", None).await?;
    table.row("a change, the write included").await?;
    table.one.does("t uncache /value").await?;
    table.begin().await?;
    table.one.does("t tree /tree").await?;
    table.row("TreeCache of four nodes: the first read").await?;
    table.admin.set_data("/tree/b", b"2", None).await?;
    table.row("a change in it, the write included").await?;
    table.admin.create("/tree/d", b"1", &PERSISTENT).await?;
    table.row("a new node in it, the create included").await?;
    table.one.does("t uncache /tree").await?;
    table.admin.delete("/tree/d", None).await?;
    table.begin().await
}
