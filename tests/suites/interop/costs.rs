//! The requests and events of Curator's recipes: those that stand beside ours on the performance
//! page. Ours are counted in `tests/locks`.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::yield_now;
use tokio::time::timeout;
use zk_client::{Client, CreateOptions};
use zk_embedded::Server;
use zk_tests::foreign::Curator;
use zk_tests::locks::Costs;

/// Curator pings after a third of this, which takes longer than the test.
const SESSION: Duration = Duration::from_secs(40);
/// How long an operation may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Two processes of Curator's on one server, and what they cost.
struct Table {
    server: Server,
    one: Curator,
    other: Curator,
    expected: Vec<(String, Costs)>,
    rows: Vec<(String, Costs)>,
    before: Costs,
}

impl Table {
    async fn new() -> Result<Self> {
        let server = Server::start().await?;
        let one = Curator::connect_for(server.address(), SESSION).await?;
        let other = Curator::connect_for(server.address(), SESSION).await?;
        let mut expected = Costs::documented();
        expected.retain(|(_, _, curators)| curators.is_some());
        let expected = expected.into_iter().filter_map(|(name, _, costs)| Some((name, costs?)));
        let (expected, rows) = (expected.collect(), Vec::new());
        let before = Costs { requests: 0, events: 0 };
        Ok(Self { server, one, other, expected, rows, before })
    }

    async fn counts(&self) -> Result<Costs> {
        let words = Client::builder().four_letter_word(self.server.address(), "srvr").await?;
        Ok(Costs::of(&words))
    }

    /// Counts from here on, once both processes have had an answer to what they sent.
    async fn begin(&mut self) -> Result<()> {
        self.one.does("fence value /fence").await?;
        self.other.does("fence value /fence").await?;
        self.before = self.counts().await?;
        Ok(())
    }

    /// Adds a row once the counts are as documented, or when it takes too long.
    async fn row(&mut self, name: &str) -> Result<()> {
        let documented = self.expected.iter().find(|row| row.0 == name).context("a row")?.1;
        let mut last = documented;
        let mut words = 0;
        let arrives = async {
            while words == 0 || last != documented {
                yield_now().await;
                words += 1;
                let now = self.counts().await?;
                // Each four-letter word counts itself, and its answer.
                last.requests = now.requests - self.before.requests - words;
                last.events = now.events.wrapping_sub(self.before.events);
            }
            anyhow::Ok(())
        };
        // What differs is shown with the whole table.
        if let Ok(arrived) = timeout(DEADLINE, arrives).await {
            arrived?;
        }
        let before = self.before;
        self.begin().await?;
        // Nothing has come behind that but two reads, and a four-letter word.
        last.requests = self.before.requests - before.requests - words - 2 - 1;
        last.events = self.before.events.wrapping_sub(before.events);
        self.rows.push((name.to_owned(), last));
        Ok(())
    }
}

#[tokio::test]
async fn curators_recipes_cost_what_the_performance_page_says() -> Result<()> {
    let mut table = Table::new().await?;
    let admin = Client::builder().session_timeout(SESSION);
    let admin = admin.connect(table.server.address()).await?;
    let persistent = CreateOptions::persistent();
    let folders = ["/election", "/permits", "/permits/locks", "/permits/leases", "/barriers"];
    let others = ["/rounds", "/group", "/value", "/tree", "/tree/a", "/tree/b", "/tree/c"];
    for path in folders.into_iter().chain(others) {
        admin.create(path, b"1", &persistent).await?;
    }
    table.one.does("t add /fence 1 1").await?;
    table.one.does("t add /counter 1 1").await?;
    table.begin().await?;

    table.one.does("t latch /election one").await?;
    table.row("Election: to lead, alone").await?;
    table.other.tell("t latch /election other").await?;
    table.row("to become a candidate behind one").await?;
    table.one.does("t unlatch /election").await?;
    table.other.answer("t").await?;
    table.row("the leader resigns, and the next one leads").await?;
    table.other.does("t unlatch /election").await?;
    table.row("the last one resigns").await?;

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
    table.row("the second one leaves, and both go on").await?;

    table.other.does("t add /counter 1 1").await?;
    table.row("Counter: the first add of a process").await?;
    table.other.does("t add /counter 1 1").await?;
    table.row("an add").await?;
    table.one.does("t add /counter 1 1").await?;
    table.begin().await?;
    table.other.does("t add /counter 1 1").await?;
    table.row("an add after another process's").await?;

    table.one.does("t join /group one").await?;
    while table.server.children("/group").is_empty() {
        yield_now().await;
    }
    table.begin().await?;
    table.other.does("t join /group other").await?;
    table.row("Group: a second one joins, and both see it").await?;
    table.other.does("t part /group").await?;
    table.row("it leaves, and the first one sees it").await?;

    table.one.does("t cache /value").await?;
    table.row("Cached: the first read").await?;
    admin.set_data("/value", b"2", None).await?;
    table.row("a change, the write included").await?;
    table.one.does("t tree /tree").await?;
    table.row("TreeCache of four nodes: the first read").await?;
    admin.set_data("/tree/b", b"2", None).await?;
    table.row("a change in it, the write included").await?;
    admin.create("/tree/d", b"1", &persistent).await?;
    table.row("a new node in it, the create included").await?;

    for (measured, documented) in table.rows.iter().zip(&table.expected) {
        if measured != documented {
            println!("{} {} {}", measured.0, measured.1.requests, measured.1.events);
        }
    }
    assert_eq!(table.rows, table.expected);
    admin.close().await;
    Ok(())
}
