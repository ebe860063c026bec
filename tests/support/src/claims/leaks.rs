//! Claims about leaks: clients, watches and calls that are gone leave nothing behind, here and on
//! the server. And everything that is still in use survives a reconnect.
//!
//! The state of a server is read with four-letter words.

#![expect(missing_docs, reason = "the names are the claims")]

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use zk_client::{
    Client, CreateOptions, EventType, StreamEvent, WatchMode, WatchStream, WatchedEvent,
};

use crate::relay::Relay;
use crate::server::four_letter;

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();
const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

/// How long a server may take to notice that something is gone.
const DEADLINE: Duration = Duration::from_secs(60);

/// How many calls are in flight at once.
const FLIGHT: usize = 5_000;

fn builder() -> zk_client::ClientBuilder {
    Client::builder().session_timeout(Duration::from_secs(15))
}

/// What `mntr` counts: connections, ephemeral nodes, watches and nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts([u64; 4]);

impl Counts {
    async fn of(address: &str) -> Result<Self> {
        let answer = four_letter(address, "mntr").await?;
        let lines = answer.lines().filter_map(|line| line.split_once('\t'));
        let counts = lines.collect::<BTreeMap<_, _>>();
        let mut found = [0; 4];
        let keys = ["num_alive_connections", "ephemerals_count", "watch_count", "znode_count"];
        for (found, key) in found.iter_mut().zip(keys) {
            let count = counts.get(&*format!("zk_{key}"));
            *found = count.with_context(|| format!("no {key}: {answer}"))?.trim().parse()?;
        }
        Ok(Self(found))
    }

    fn watches(&self) -> u64 {
        self.0[2]
    }

    /// Asks until the counts are these, and fails with the last counts otherwise.
    async fn come_to(&self, address: &str) -> Result<()> {
        let mut last = Self::of(address).await?;
        let same = async {
            while last != *self {
                sleep(Duration::from_millis(20)).await;
                last = Self::of(address).await?;
            }
            anyhow::Ok(())
        };
        let came = timeout(DEADLINE, same).await;
        came.with_context(|| format!("{self:?} became {last:?}"))?
    }
}

/// Waits until this runtime has only this many tasks.
async fn tasks_come_to(count: usize) -> Result<()> {
    let alive = || Handle::current().metrics().num_alive_tasks();
    let ended = async {
        while alive() > count {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, ended).await.with_context(|| format!("{} tasks, not {count}", alive()))
}

/// Checks that no request waits and nothing is watched.
fn at_rest(client: &Client) -> Result<()> {
    let stats = client.stats();
    let none = stats.in_flight + stats.queued + stats.queued_bytes + stats.owned_nodes;
    ensure!(none + stats.watches + stats.streams == 0, "{stats:?}");
    ensure!(stats.totals.connections == 1, "{stats:?}");
    Ok(())
}

pub async fn a_thousand_clients_leave_nothing(address: &str) -> Result<()> {
    let before = Counts::of(address).await?;
    let tasks = Handle::current().metrics().num_alive_tasks();
    for _ in 0..50 {
        let mut clients = Vec::new();
        for at in 0..20 {
            let client = builder().connect(address).await?;
            let (_, watcher) = client.exists_and_watch("/none").await?;
            let owned = client.create_owned("/own-", b"", &OWNED).await?;
            clients.push((client, watcher, owned, at));
        }
        for (client, watcher, owned, at) in clients {
            match at % 3 {
                0 => client.close().await,
                // The last handle closes the session in the background.
                1 => drop((client, watcher, owned)),
                _ => {
                    let closing = client.close();
                    drop((watcher, owned, client));
                    closing.await;
                }
            }
        }
    }
    before.come_to(address).await?;
    tasks_come_to(tasks).await
}

pub async fn ten_thousand_dropped_watchers_leave_no_watch(address: &str) -> Result<()> {
    let client = builder().connect(address).await?;
    client.create("/w", b"", &PERSISTENT).await?;
    let before = Counts::of(address).await?;
    // Half of them are on paths of their own, the other half share one.
    let mut asked = Vec::new();
    for n in 0..5_000 {
        asked.push(client.exists_and_watch(&format!("/w/none-{n}")));
    }
    let mut watchers = Vec::new();
    for reply in asked {
        watchers.push(reply.await?.1);
    }
    for _ in 0..2_500 {
        let (data, children) =
            (client.get_data_and_watch("/w"), client.get_children_and_watch("/w"));
        watchers.extend([data.await?.1, children.await?.1]);
    }
    let mut streams = Vec::new();
    for n in 0..1_000 {
        let mode = [WatchMode::Persistent, WatchMode::PersistentRecursive][n % 2];
        streams.push(client.watch(&format!("/w/stream-{n}"), mode).await?);
    }
    ensure!(client.stats().watches == 10_000 && client.stats().streams == 1_000);
    let held = Counts::of(address).await?;
    ensure!(held.watches() > before.watches() + 6_000, "{held:?}");
    drop((watchers, streams));
    client.sync("/").await?;
    at_rest(&client)?;
    before.come_to(address).await?;
    client.close().await;
    Ok(())
}

pub async fn a_hundred_thousand_dropped_calls_leave_nothing(address: &str) -> Result<()> {
    let client = builder().connect(address).await?;
    client.create("/c", b"", &PERSISTENT).await?;
    let before = Counts::of(address).await?;
    let tasks = Handle::current().metrics().num_alive_tasks();
    for _ in 0..100_000 / FLIGHT {
        for n in 0..FLIGHT {
            match n % 50 {
                0 => drop(client.create_owned("/c/own-", b"", &OWNED)),
                1 | 2 => drop(client.exists_and_watch(&format!("/c/none-{n}"))),
                3 => drop(client.watch("/c", WatchMode::PersistentRecursive)),
                _ => drop(client.get_data("/c")),
            }
        }
        client.sync("/").await?;
    }
    // The follow-up requests are ahead of that sync: deletes, and removals of watches.
    client.sync("/").await?;
    at_rest(&client)?;
    before.come_to(address).await?;
    tasks_come_to(tasks).await?;
    client.close().await;
    Ok(())
}

/// How many watches there are of each kind.
const KIND: usize = 10_000;

/// One in this many of them changes while the client is disconnected.
const CHANGED: usize = 10;

/// Changes the watched nodes, from this one on and with the same distance between them.
async fn change(by: &Client, first: usize) -> Result<()> {
    for kind in ["/d", "/e", "/c", "/p", "/r"] {
        let at = |n| format!("{kind}/{}", first + n * CHANGED);
        let create = |path: String| by.create(&path, b"", &PERSISTENT);
        match kind {
            "/d" | "/p" => drop(all(KIND / CHANGED, |n| by.set_data(&at(n), b"x", None)).await?),
            "/e" => drop(all(KIND / CHANGED, |n| create(at(n))).await?),
            _ => drop(all(KIND / CHANGED, |n| create(at(n) + "/x")).await?),
        }
    }
    Ok(())
}

pub async fn fifty_thousand_watches_come_through_a_reconnect(address: &str) -> Result<()> {
    let other = builder().connect(address).await?;
    for kind in ["/d", "/e", "/c", "/p", "/r"] {
        other.create(kind, b"", &PERSISTENT).await?;
        if kind != "/e" {
            all(KIND, |n| other.create(&format!("{kind}/{n}"), b"", &PERSISTENT)).await?;
        }
    }
    let mut relay = Relay::to(address)?;
    let client = builder().connect(&relay.address()?).await?;
    let before = Counts::of(address).await?;
    let data = all(KIND, |n| client.get_data_and_watch(&format!("/d/{n}"))).await?;
    let exist = all(KIND, |n| client.exists_and_watch(&format!("/e/{n}"))).await?;
    let child = all(KIND, |n| client.get_children_and_watch(&format!("/c/{n}"))).await?;
    let persistent = WatchMode::Persistent;
    let mut one = all(KIND, |n| client.watch(&format!("/p/{n}"), persistent)).await?;
    let recursive = WatchMode::PersistentRecursive;
    let mut tree = all(KIND, |n| client.watch(&format!("/r/{n}"), recursive)).await?;
    let armed = Counts::of(address).await?;
    // A persistent watch is on data and children, and counts for both. Before 3.9 a recursive one
    // does too.
    let tables = [6, 7].map(|tables| before.watches() + tables * KIND as u64);
    ensure!(tables.contains(&armed.watches()), "{armed:?}");

    relay.cut();
    let mut states = client.states();
    states.wait_for(|state| !state.is_connected()).await?;
    change(&other, 0).await?;
    relay.mend();
    states.wait_for(|state| state.is_connected()).await?;
    client.sync("/").await?;
    let stats = client.stats();
    ensure!(stats.totals.connections == 2, "armed at the first attempt: {stats:?}");

    // The changes in between are reported, as far as servers report them; else that is reported.
    let [set, created] = [EventType::NODE_DATA_CHANGED, EventType::NODE_CREATED];
    let children = EventType::NODE_CHILDREN_CHANGED;
    let mut rest = Vec::new();
    for (watchers, folder, kind) in [
        (data.into_iter().map(|it| it.1).collect::<Vec<_>>(), "/d", set),
        (exist.into_iter().map(|it| it.1).collect(), "/e", created),
        (child.into_iter().map(|it| it.1).collect(), "/c", children),
    ] {
        for (n, mut watcher) in watchers.into_iter().enumerate() {
            if n % CHANGED == 0 {
                let event = timeout(DEADLINE, watcher.changed()).await??;
                let expected = (kind, format!("{folder}/{n}"), true);
                ensure!((event.kind, event.path, event.missed) == expected, "{expected:?}");
            } else {
                rest.push((watcher, n, folder, kind));
            }
        }
    }
    for stream in one.iter_mut().chain(&mut tree) {
        let event = timeout(DEADLINE, stream.next()).await??;
        ensure!(event == StreamEvent::Rearmed, "{stream:?}: {event:?}");
    }

    // All the other watches are set, on the server as well, and see later changes.
    let fired = 3 * (KIND / CHANGED);
    let mut now = Counts::of(address).await?;
    now.0[2] = armed.watches() - fired as u64;
    now.come_to(address).await?;
    ensure!(client.stats().watches == 3 * KIND - fired && client.stats().streams == 2 * KIND);
    change(&other, CHANGED - 1).await?;
    for (watcher, n, folder, kind) in &mut rest {
        if *n % CHANGED == CHANGED - 1 {
            let event = timeout(DEADLINE, watcher.changed()).await??;
            let expected = (*kind, format!("{folder}/{n}"), false);
            ensure!((event.kind, event.path, event.missed) == expected, "{expected:?}");
        }
    }
    for n in (CHANGED - 1..KIND).step_by(CHANGED) {
        let event = live(&mut one[n]).await?;
        ensure!((event.kind, event.path) == (set, format!("/p/{n}")));
        let event = live(&mut tree[n]).await?;
        ensure!((event.kind, event.path) == (created, format!("/r/{n}/x")));
    }
    client.close().await;
    other.close().await;
    Ok(())
}

/// The next event of a stream, seen by its connection.
async fn live(stream: &mut WatchStream) -> Result<WatchedEvent> {
    match timeout(DEADLINE, stream.next()).await?? {
        StreamEvent::Changed(event) if !event.missed => Ok(event),
        other => anyhow::bail!("{stream:?}: {other:?}"),
    }
}

/// Makes this many calls, some thousands at a time, and waits for all of them.
async fn all<R>(count: usize, call: impl Fn(usize) -> zk_client::Reply<R>) -> Result<Vec<R>> {
    let mut results = Vec::new();
    while results.len() < count {
        let flight = results.len()..count.min(results.len() + FLIGHT);
        let calls = flight.map(&call).collect::<Vec<_>>();
        for reply in calls {
            results.push(reply.await?);
        }
    }
    Ok(results)
}
