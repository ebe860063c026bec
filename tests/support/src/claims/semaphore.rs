//! Claims about the semaphore on a server: what it costs, and that it never gives too much.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_client::{Client, EventType, StreamEvent, WatchMode};
use zk_recipes::{ErrorKind, Layout, Options, Semaphore};

use crate::claims::lock::connect;
use crate::claims::target::Target;
use crate::fault::Faults;

/// The semaphore of all claims.
const PATH: &str = "/limits/one";

/// The paths of the nodes in one of its two folders, after everything that `client` has requested.
async fn nodes(client: &Client, folder: &str) -> Result<Vec<String>> {
    let folder = format!("{PATH}/{folder}");
    client.sync("/").await?;
    let children = client.get_children(&folder).await?;
    Ok(children.names.iter().map(|name| format!("{folder}/{name}")).collect())
}

/// Waits until so many nodes are there.
async fn until(client: &Client, folder: &str, n: usize) -> Result<()> {
    loop {
        let path = format!("{PATH}/{folder}");
        let (children, mut watch) = client.get_children_and_watch(&path).await?;
        if children.names.len() == n {
            return Ok(());
        }
        watch.changed().await?;
    }
}

pub async fn a_waiter_whose_turn_is_taken_away_is_told(target: &Target) -> Result<()> {
    let client = connect(target, &Faults::new()).await?;
    let other = connect(target, &Faults::new()).await?;
    let semaphore = Semaphore::new(&client, PATH, 1)?;
    let permit = semaphore.acquire().await?;
    let waiting = tokio::spawn(async move { semaphore.acquire().await });
    until(&other, "leases", 2).await?;
    for turn in nodes(&other, "locks").await? {
        other.delete(&turn, None).await?;
    }
    let error =
        timeout(Duration::from_secs(30), waiting).await??.expect_err("it is no longer first");
    assert_eq!(error.kind(), ErrorKind::NodeVanished);
    until(&other, "leases", 1).await?;
    permit.release().await?;
    Ok(())
}

pub async fn in_kazoos_layout_there_are_never_more_nodes_than_permits(
    target: &Target,
) -> Result<()> {
    const PERMITS: u32 = 3;
    let judge = connect(target, &Faults::new()).await?;
    let mut events = judge.watch(PATH, WatchMode::PersistentRecursive).await?;
    let mut tasks = JoinSet::new();
    for number in 0..4 {
        let client = connect(target, &Faults::new()).await?;
        let options = Options::new().layout(Layout::KAZOO);
        let semaphore = Semaphore::with_options(&client, PATH, PERMITS, options)?;
        tasks.spawn(async move {
            for turn in 0..25 {
                let permit = semaphore.acquire_many(1 + (number + turn) % PERMITS).await?;
                permit.verify().await?;
                drop(permit);
                drop(semaphore.try_acquire().await?);
            }
            client.close().await;
            anyhow::Ok(())
        });
    }
    while let Some(done) = timeout(Duration::from_secs(60), tasks.join_next()).await? {
        done??;
    }
    ensure!(judge.get_data(PATH).await?.data == b"3"[..]);
    judge.delete(PATH, None).await?;
    let (mut now, mut most) = (0_u32, 0);
    loop {
        let StreamEvent::Changed(event) = events.next().await? else {
            anyhow::bail!("events were missed");
        };
        match event.kind {
            EventType::NODE_DELETED if event.path == PATH => break,
            EventType::NODE_CREATED if event.path != PATH => now += 1,
            EventType::NODE_DELETED => now -= 1,
            _ => {}
        }
        most = most.max(now);
    }
    assert_eq!(most, PERMITS);
    Ok(())
}
