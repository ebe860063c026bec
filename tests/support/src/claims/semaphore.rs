//! Claims about the semaphore on a server: what it costs, and that it never gives too much.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_client::{EventType, StreamEvent, WatchMode};
use zk_recipes::{Layout, Options, Semaphore};

use crate::claims::lock::connect;
use crate::claims::target::Target;
use crate::fault::Faults;

/// The semaphore of all claims.
const PATH: &str = "/limits/one";

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
