//! Our semaphore shares its permits with Curator's `InterProcessSemaphoreV2`, and with kazoo's
//! `Semaphore` by its layout.

use anyhow::{Context, Result, ensure};
use tempfile::NamedTempFile;
use zk_client::{Client, EventType, StreamEvent, WatchMode, WatchStream};
use zk_recipes::{ErrorKind, Layout, Options, Semaphore};
use zk_test_support::foreign::Curator;
use zk_test_support::server::Standalone;

use crate::locks::{kazoo, queued};

const PATH: &str = "/limits/one";
const LEASES: &str = "/limits/one/leases";
const LOCKS: &str = "/limits/one/locks";

/// Each waits for the other one's permits, and gets one when it is given back.
#[tokio::test]
async fn curators_semaphore_and_ours_wait_for_each_other() -> Result<()> {
    let server = Standalone::start().await?;
    let mut curator = Curator::connect(&server.address()).await?;
    let client = Client::connect(&server.address()).await?;
    let semaphore = Semaphore::new(&client, PATH, 3)?;

    let two = semaphore.acquire_many(2).await?;
    curator.does(&format!("a take {PATH} 3")).await?;
    assert_eq!(curator.does(&format!("a trytake {PATH} 3 300")).await?, "timeout");
    assert!(semaphore.try_acquire().await?.is_none());

    // Ours waits for Curator's, and keeps its turn while Curator waits behind it.
    let waiting = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().await }
    });
    queued(&client, LEASES, 4).await?;
    curator.tell(&format!("b take {PATH} 3")).await?;
    queued(&client, LOCKS, 2).await?;
    curator.does(&format!("a give {PATH}")).await?;
    let one = waiting.await??;

    // Curator's is first now, and waits for ours.
    queued(&client, LEASES, 4).await?;
    two.verify().await?;
    two.release().await?;
    curator.answer("b").await?;
    queued(&client, LEASES, 2).await?;

    // Ours wants all, and waits for the last one of Curator's.
    drop(one);
    let waiting = tokio::spawn(async move { semaphore.acquire_many(3).await });
    queued(&client, LEASES, 4).await?;
    assert!(!waiting.is_finished());
    curator.does(&format!("a give {PATH}")).await?;
    waiting.await??.release().await?;
    queued(&client, LEASES, 0).await?;
    queued(&client, LOCKS, 0).await?;
    client.close().await;
    curator.quit().await
}

/// One permit protects a number in a file.
#[tokio::test]
async fn curators_semaphore_and_ours_never_hold_the_only_permit_together() -> Result<()> {
    const TURNS: u32 = 100;
    let server = Standalone::start().await?;
    let mut curator = Curator::connect(&server.address()).await?;
    let file = NamedTempFile::new()?;
    std::fs::write(&file, "0")?;
    let path = file.path().to_string_lossy().into_owned();
    curator.tell(&format!("a counttake {PATH} {path} {TURNS}")).await?;
    let mut ours = Vec::new();
    for _ in 0..2 {
        let client = Client::connect(&server.address()).await?;
        let (semaphore, path) = (Semaphore::new(&client, PATH, 1)?, path.clone());
        ours.push(tokio::spawn(async move {
            for turn in 0..TURNS {
                let permit = match semaphore.try_acquire().await? {
                    Some(permit) => permit,
                    None => semaphore.acquire().await?,
                };
                let number = std::fs::read_to_string(&path)?.trim().parse::<u32>()?;
                tokio::task::yield_now().await;
                std::fs::write(&path, (number + 1).to_string())?;
                if turn % 2 == 0 {
                    permit.release().await?;
                }
            }
            anyhow::Ok(())
        }));
    }
    for turns in ours {
        turns.await??;
    }
    curator.answer("a").await?;
    assert_eq!(std::fs::read_to_string(&file)?.trim(), (3 * TURNS).to_string());
    curator.quit().await
}

/// Our semaphore of so many permits in kazoo's layout.
fn like_kazoo(client: &Client, permits: u32) -> Result<Semaphore> {
    let options = Options::new().layout(Layout::KAZOO).data("ours");
    Ok(Semaphore::with_options(client, PATH, permits, options)?)
}

/// Follows the events of the folder until it is deleted. Returns how many permits there were at one
/// moment at most, and in all.
async fn judge(mut events: WatchStream) -> Result<(usize, usize)> {
    let (mut now, mut most, mut all) = (0_usize, 0, 0);
    loop {
        let StreamEvent::Changed(event) = events.next().await? else {
            anyhow::bail!("events were missed");
        };
        let is_folder = event.path == PATH;
        match event.kind {
            EventType::NODE_DELETED if is_folder => return Ok((most, all)),
            EventType::NODE_CREATED if !is_folder => (now, all) = (now + 1, all + 1),
            EventType::NODE_DELETED => now -= 1,
            _ => {}
        }
        most = most.max(now);
    }
}

#[tokio::test]
async fn kazoos_semaphore_and_ours_never_hold_more_than_all_permits() -> Result<()> {
    const PERMITS: u32 = 3;
    const TURNS: u32 = 60;
    let server = Standalone::start().await?;
    let admin = Client::connect(&server.address()).await?;
    let judging = tokio::spawn(judge(admin.watch(PATH, WatchMode::PersistentRecursive).await?));
    let mut theirs = Vec::new();
    for seed in ["1", "2", "3"] {
        let (permits, turns) = (PERMITS.to_string(), TURNS.to_string());
        theirs.push(kazoo(&server, &["takes", PATH, &permits, &turns, seed])?);
    }
    let mut ours = Vec::new();
    for wanted in [1, 2] {
        let client = Client::connect(&server.address()).await?;
        let semaphore = like_kazoo(&client, PERMITS)?;
        ours.push(tokio::spawn(async move {
            for _ in 0..TURNS {
                drop(semaphore.try_acquire().await?);
                let permit = semaphore.acquire_many(wanted).await?;
                tokio::task::yield_now().await;
                permit.release().await?;
            }
            client.close().await;
            anyhow::Ok(())
        }));
    }
    for turns in ours {
        turns.await??;
    }
    for program in theirs {
        program.finish().await?;
    }
    ensure!(admin.get_data(PATH).await?.data == b"3"[..]);
    admin.delete(PATH, None).await?;
    let (most, all) = judging.await??;
    assert_eq!(most, PERMITS as usize);
    // Those of the tries besides.
    assert!(all >= (3 + 1 + 2) * TURNS as usize, "{all} permits");
    admin.close().await;
    Ok(())
}

#[tokio::test]
async fn kazoos_semaphore_and_ours_see_each_other_and_refuse_another_number() -> Result<()> {
    let server = Standalone::start().await?;
    let client = Client::connect(&server.address()).await?;
    let refused = async |permits| -> Result<ErrorKind> {
        let error = like_kazoo(&client, permits)?.acquire().await.err();
        Ok(error.context("it has a permit")?.kind())
    };
    // We make the folder.
    let semaphore = like_kazoo(&client, 3)?;
    let two = semaphore.acquire_many(2).await?;
    kazoo(&server, &["finds", PATH, "3", "ours", "ours"])?.finish().await?;
    let third = semaphore.try_acquire().await?.context("one is left")?;
    kazoo(&server, &["finds", PATH, "3", "ours", "ours", "ours"])?.finish().await?;
    kazoo(&server, &["disagrees", PATH, "4"])?.finish().await?;
    assert_eq!(refused(4).await?, ErrorKind::OtherPermits);
    two.release().await?;
    third.release().await?;

    // kazoo makes it.
    client.delete(PATH, None).await?;
    kazoo(&server, &["finds", PATH, "2"])?.finish().await?;
    assert_eq!(refused(3).await?, ErrorKind::OtherPermits);
    drop(like_kazoo(&client, 2)?.acquire_many(2).await?);
    client.close().await;
    Ok(())
}
