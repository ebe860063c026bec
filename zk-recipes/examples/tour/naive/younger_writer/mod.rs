//! A reader waits for a writer that waits for it.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_client::{Client, Error};

use super::queue::{join, wait_for_turn};
use super::scene::{PATIENCE, Report, Scene};
use super::{Case, Version};

pub(crate) mod broken;
pub(crate) mod repaired;

pub(crate) const CASE: Case = Case {
    title: "A reader waits for a younger writer",
    hazard: Some("H24"),
    reports: "kazoo #649",
    story: "A lock for readers and writers is the same queue with two kinds of nodes. A writer \
            waits for everybody ahead of it, and a reader waits while there is a writer. Cho \
            writes. Ana queues up to read, and Ben, behind her, to write. Then Cho is done.",
    lesson: "Ben waits for Ana, who is ahead of him. Ana waits for Ben, who is a writer. Neither \
             will ever get in: this is a deadlock, and no session ends to resolve it.",
    repair: "Whom a contender waits for must always be ahead of it. Then the first in the queue \
             waits for nobody, and there can be no circle.",
    handled_in: "zk-recipes/src/node/contender.rs",
    folder: "younger_writer",
    sources: [include_str!("broken.rs"), include_str!("repaired.rs")],
    run: |version| Box::pin(run(version)),
};

async fn run(version: Version) -> Result<Report, Error> {
    match version {
        Version::Broken => play(broken::wait_to_read).await,
        Version::Repaired => play(repaired::wait_to_read).await,
    }
}

async fn play(
    wait_to_read: impl AsyncFn(&Client, &str) -> Result<(), Error>,
) -> Result<Report, Error> {
    let scene = Scene::with_folder().await?;
    let (ana, ben, cho) = (scene.connect().await?, scene.connect().await?, scene.connect().await?);
    let writer_of_cho = join(&cho, "write-").await?;
    scene.enter("Cho");
    let reader_of_ana = join(&ana, "read-").await?;
    let writer_of_ben = join(&ben, "write-").await?;
    scene.note("Ana queues up to read, and Ben behind her to write.");
    let cho_releases = async {
        sleep(Duration::from_secs(1)).await;
        scene.leave("Cho");
        cho.delete(&writer_of_cho, None).await
    };
    let ana_reads = async {
        wait_to_read(&ana, &reader_of_ana).await?;
        scene.enter("Ana");
        sleep(Duration::from_secs(1)).await;
        scene.leave("Ana");
        ana.delete(&reader_of_ana, None).await
    };
    let ben_writes = async {
        wait_for_turn(&ben, &writer_of_ben).await?;
        scene.enter("Ben");
        Ok::<_, Error>(())
    };
    let (released, read, written) =
        tokio::join!(cho_releases, timeout(PATIENCE, ana_reads), timeout(PATIENCE, ben_writes),);
    released?;
    let is_broken = read.is_err() || written.is_err();
    read.unwrap_or(Ok(()))?;
    written.unwrap_or(Ok(()))?;
    let verdict = match is_broken {
        true => "Broken: the lock is free, and Ana and Ben wait for each other.",
        false => "It holds: Ana has read, and then Ben could write.",
    };
    if is_broken {
        scene.note("Ana and Ben still wait.");
    }
    Ok(scene.report(is_broken, verdict))
}
