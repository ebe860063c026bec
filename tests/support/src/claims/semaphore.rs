//! Claims about the semaphore on a server: what it costs, and that it never gives too much.

#![expect(missing_docs, reason = "the names are the claims")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_client::{Client, EventType, OpCode, StreamEvent, WatchMode};
use zk_recipes::{ErrorKind, Layout, Options, Release, Semaphore};

use crate::claims::lock::connect;
use crate::claims::target::Target;
use crate::fault::{Fault, Faults};

/// Runs every claim of this file on the target that `$start` yields: see
/// [`target_claims!`](crate::target_claims).
#[macro_export]
macro_rules! semaphore_claims {
    ($($given:tt)*) => {
        $crate::target_claims! {
            [$($given)*],
            semaphore:
            a_free_permit_costs_five_requests_and_its_end_one,
            no_more_permits_are_held_than_there_are,
            permits_whose_replies_were_lost_are_found_again,
            a_waiter_gets_the_permit_that_was_given_back_while_it_was_cut_off,
            a_waiter_whose_turn_is_taken_away_is_told,
            in_kazoos_layout_there_are_never_more_nodes_than_permits,
        }
    };
}

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

pub async fn a_free_permit_costs_five_requests_and_its_end_one(target: &Target) -> Result<()> {
    let faults = Faults::new();
    let client = connect(target, &faults).await?;
    let semaphore = Semaphore::new(&client, PATH, 3)?;
    semaphore.acquire_many(2).await?.release().await?;
    faults.take_sent();
    for permits in 1..=3 {
        let permit = semaphore.acquire_many(permits).await?;
        assert_eq!(permit.release().await?, Release::Released);
        let (_, frames) = faults.take_sent();
        let (create, list, delete) = (OpCode::CREATE2, OpCode::GET_CHILDREN2, OpCode::DELETE);
        let mut expected = vec![create, list, OpCode::MULTI, list, delete];
        expected.extend((0..permits).map(|_| delete));
        assert_eq!(frames, expected);
    }
    Ok(())
}

pub async fn no_more_permits_are_held_than_there_are(target: &Target) -> Result<()> {
    const PERMITS: u32 = 3;
    let held = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for number in 0..4 {
        let held = Arc::clone(&held);
        let client = connect(target, &Faults::new()).await?;
        let semaphore = Semaphore::new(&client, PATH, PERMITS)?;
        tasks.spawn(async move {
            for turn in 0..25 {
                let wanted = 1 + (number + turn) % PERMITS;
                let permit = semaphore.acquire_many(wanted).await?;
                let now = held.fetch_add(wanted, Ordering::SeqCst) + wanted;
                ensure!(now <= PERMITS, "{now} are held");
                permit.verify().await?;
                held.fetch_sub(wanted, Ordering::SeqCst);
                drop(permit);
                // Whether it gets one or not.
                if let Some(permit) = semaphore.try_acquire().await? {
                    let now = held.fetch_add(1, Ordering::SeqCst) + 1;
                    ensure!(now <= PERMITS, "{now} are held");
                    tokio::task::yield_now().await;
                    held.fetch_sub(1, Ordering::SeqCst);
                    drop(permit);
                }
            }
            Ok(())
        });
    }
    while let Some(done) = timeout(Duration::from_secs(60), tasks.join_next()).await? {
        done??;
    }
    let client = connect(target, &Faults::new()).await?;
    assert_eq!(nodes(&client, "locks").await?, [""; 0]);
    Ok(())
}

pub async fn permits_whose_replies_were_lost_are_found_again(target: &Target) -> Result<()> {
    let faults = Faults::new();
    let client = connect(target, &faults).await?;
    let semaphore = Semaphore::new(&client, PATH, 2)?;
    semaphore.acquire().await?.release().await?;
    for fault in [Fault::LoseReply(OpCode::MULTI), Fault::LoseRequest(OpCode::MULTI)] {
        faults.arm(fault);
        let permit = semaphore.acquire_many(2).await?;
        assert!(faults.happened());
        let mut held = nodes(&client, "leases").await?;
        held.sort_unstable();
        let mut ours = permit.leases().iter().map(|lease| lease.node()).collect::<Vec<_>>();
        ours.sort_unstable();
        assert_eq!(held, ours);
        permit.release().await?;
    }
    Ok(())
}

pub async fn a_waiter_gets_the_permit_that_was_given_back_while_it_was_cut_off(
    target: &Target,
) -> Result<()> {
    let (holder, faults) = (connect(target, &Faults::new()).await?, Faults::new());
    let client = connect(target, &faults).await?;
    let permit = Semaphore::new(&holder, PATH, 1)?.acquire().await?;
    let semaphore = Semaphore::new(&client, PATH, 1)?;
    let waiting = tokio::spawn(async move { semaphore.acquire().await });
    until(&holder, "leases", 2).await?;
    faults.arm(Fault::LoseRequest(OpCode::SYNC));
    assert!(client.sync("/").await.is_err());
    permit.release().await?;
    let permit = waiting.await??;
    assert_eq!(nodes(&client, "leases").await?, [permit.leases()[0].node()]);
    Ok(())
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
