//! Our semaphore and Curator's `InterProcessSemaphoreV2` share their permits.

use anyhow::Result;
use tempfile::NamedTempFile;
use zk_client::Client;
use zk_recipes::Semaphore;
use zk_tests::foreign::Curator;
use zk_tests::server::Standalone;

use crate::locks::queued;

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
