//! Claims about the client on one server with the default settings and no other clients.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::{sleep, timeout};
use zk_client::{Client, CreateOptions, ErrorCode, EventType, Op, Reply, StreamEvent, WatchMode};

use crate::claims::target::Target;
use crate::relay::Relay;
use crate::server::four_letter;

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

pub async fn a_time_to_live_takes_a_server_that_allows_it(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let brief = PERSISTENT.ttl(Duration::from_secs(1));
    // Another server may allow it, so each call sends a request; and the connection stays.
    for _ in 0..2 {
        let alone = client.create("/t", b"", &brief).await.expect_err("not here");
        let ops = (Op::create("/t", b"", &brief), Op::check("/", None));
        let in_multi = client.multi(ops).await.expect_err("not here");
        for (error, failed) in [(alone, None), (in_multi, Some(0))] {
            assert_eq!((error.code(), error.failed_op()), (Some(ErrorCode::UNIMPLEMENTED), failed));
            assert!(error.to_string().contains("extendedTypesEnabled"), "{error}");
        }
    }
    let sent = client.stats().totals;
    assert_eq!((sent.connections, sent.frames_sent - sent.pings_sent), (1, 1 + 4));
    Ok(())
}

/// How many watches there are of each kind.
const KIND: usize = 10_000;

/// One in this many of them changes while the client is disconnected.
const CHANGED: usize = 10;

/// How long a server may take to tell of a change.
const DEADLINE: Duration = Duration::from_secs(60);

pub async fn fifty_thousand_watches_come_through_a_reconnect(target: &Target) -> Result<()> {
    let address = &*target.servers();
    let other = target.connect().await?;
    for kind in ["/d", "/e", "/c", "/p", "/r"] {
        other.create(kind, b"", &PERSISTENT).await?;
        if kind != "/e" {
            all(KIND, |n| other.create(&format!("{kind}/{n}"), b"", &PERSISTENT)).await?;
        }
    }
    let mut relay = Relay::to(address)?;
    let client = target.builder().connect(&relay.address()?).await?;
    let data = all(KIND, |n| client.get_data_and_watch(&format!("/d/{n}"))).await?;
    let exist = all(KIND, |n| client.exists_and_watch(&format!("/e/{n}"))).await?;
    let child = all(KIND, |n| client.get_children_and_watch(&format!("/c/{n}"))).await?;
    let mut streams = Vec::new();
    for (kind, mode) in [("/p", WatchMode::Persistent), ("/r", WatchMode::PersistentRecursive)] {
        streams.extend(all(KIND, |n| client.watch(&format!("{kind}/{n}"), mode)).await?);
    }
    let armed = watches(address).await?;
    // A persistent watch is on data and children, and counts for both. Before 3.9 a recursive one
    // does too.
    ensure!([6, 7].map(|tables| tables * KIND).contains(&armed), "{armed}");

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
    let mut one_shot = [
        (data.into_iter().map(|it| it.1).collect::<Vec<_>>(), "/d", EventType::NODE_DATA_CHANGED),
        (exist.into_iter().map(|it| it.1).collect(), "/e", EventType::NODE_CREATED),
        (child.into_iter().map(|it| it.1).collect(), "/c", EventType::NODE_CHILDREN_CHANGED),
    ];
    for (watchers, folder, kind) in &mut one_shot {
        for (n, watcher) in watchers.iter_mut().enumerate().step_by(CHANGED) {
            let event = timeout(DEADLINE, watcher.changed()).await??;
            let expected = (*kind, format!("{folder}/{n}"), true);
            ensure!((event.kind, event.path, event.missed) == expected, "{expected:?}");
        }
    }
    for stream in &mut streams {
        let event = timeout(DEADLINE, stream.next()).await??;
        ensure!(event == StreamEvent::Rearmed, "{stream:?}: {event:?}");
    }

    // All the other watches are set, on the server as well, until nobody waits for them.
    let fired = KIND / CHANGED;
    watches_come_to(armed - 3 * fired, address).await?;
    let stats = client.stats();
    ensure!(stats.watches == 3 * (KIND - fired) && stats.streams == 2 * KIND, "{stats:?}");

    // They see later changes.
    change(&other, CHANGED - 1).await?;
    let later = || (CHANGED - 1..KIND).step_by(CHANGED);
    for (watchers, folder, kind) in &mut one_shot {
        for n in later() {
            let event = timeout(DEADLINE, watchers[n].changed()).await??;
            let expected = (*kind, format!("{folder}/{n}"), false);
            ensure!((event.kind, event.path, event.missed) == expected, "{expected:?}");
        }
    }
    for n in later() {
        for (at, path) in [(n, format!("/p/{n}")), (KIND + n, format!("/r/{n}/x"))] {
            let event = timeout(DEADLINE, streams[at].next()).await??;
            let is_meant = matches!(&event, StreamEvent::Changed(event) if event.path == path);
            ensure!(is_meant, "{path}: {event:?}");
        }
    }
    drop((one_shot, streams));
    watches_come_to(0, address).await
}

/// Changes one in [`CHANGED`] of the nodes of each kind, from this one on.
async fn change(client: &Client, first: usize) -> Result<()> {
    let (count, number) = (KIND / CHANGED, |n| first + n * CHANGED);
    for kind in ["/d", "/p"] {
        let path = |n| format!("{kind}/{}", number(n));
        all(count, |n| client.set_data(&path(n), b"x", None)).await?;
    }
    for (kind, child) in [("/e", ""), ("/c", "/x"), ("/r", "/x")] {
        let path = |n| format!("{kind}/{}{child}", number(n));
        all(count, |n| client.create(&path(n), b"", &PERSISTENT)).await?;
    }
    Ok(())
}

/// Makes this many calls, some thousands at a time, and waits for all of them.
async fn all<R>(count: usize, call: impl Fn(usize) -> Reply<R>) -> Result<Vec<R>> {
    let mut results = Vec::new();
    while results.len() < count {
        let flight = results.len()..count.min(results.len() + 5_000);
        for reply in flight.map(&call).collect::<Vec<_>>() {
            results.push(reply.await?);
        }
    }
    Ok(results)
}

/// How many watches a server has.
async fn watches(address: &str) -> Result<usize> {
    let answer = four_letter(address, "mntr").await?;
    let count = answer.lines().find_map(|line| line.strip_prefix("zk_watch_count\t"));
    Ok(count.context("`mntr` tells no count of watches")?.parse()?)
}

async fn watches_come_to(count: usize, address: &str) -> Result<()> {
    let come = async {
        while watches(address).await? != count {
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    };
    timeout(DEADLINE, come).await.with_context(|| format!("there are never {count} watches"))?
}
