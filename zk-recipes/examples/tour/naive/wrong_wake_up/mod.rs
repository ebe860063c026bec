//! The wrong wake-up: a waiter that leaves lets its successor in.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_client::{Client, Error};

use super::queue::join;
use super::scene::{PATIENCE, Report, Scene};
use super::{Case, Version};

pub(crate) mod broken;
pub(crate) mod repaired;

pub(crate) const CASE: Case = Case {
    title: "Every wake-up is taken for the lock",
    hazard: Some("H22"),
    reports: "ZOOKEEPER-3162",
    story: "A contender that is woken has the lock: the one ahead of it is gone, and everybody \
            waits for the one ahead. Ana holds the lock, Ben waits for Ana, and Cho waits for Ben. \
            Then Ben changes his mind and leaves.",
    lesson: "A notification says what has happened, and not why. Ben's node is gone because he \
             left, and not because he had his turn. Cho gets in beside Ana.",
    repair: "One notification alone is a reason to look, and nothing more. One word changes: if \
             becomes while. It is the answer only to those who know that all others are gone. \
             zk-recipes saves the second look where it can: it remembers everybody who was ahead, \
             and needs no list once it has seen all of them go.",
    handled_in: "zk-recipes/src/queue/wait.rs",
    folder: "wrong_wake_up",
    sources: [include_str!("broken.rs"), include_str!("repaired.rs")],
    run: |version| Box::pin(run(version)),
};

async fn run(version: Version) -> Result<Report, Error> {
    match version {
        Version::Broken => play(broken::wait).await,
        Version::Repaired => play(repaired::wait).await,
    }
}

async fn play(wait: impl AsyncFn(&Client, &str) -> Result<(), Error>) -> Result<Report, Error> {
    let scene = Scene::with_folder().await?;
    let (ana, ben, cho) = (scene.connect().await?, scene.connect().await?, scene.connect().await?);
    let node_of_ana = join(&ana, "lock-").await?;
    wait(&ana, &node_of_ana).await?;
    scene.enter("Ana");
    let node_of_ben = join(&ben, "lock-").await?;
    let node_of_cho = join(&cho, "lock-").await?;
    scene.note("Ben queues up behind Ana, and Cho behind Ben.");
    let ben_leaves = async {
        sleep(Duration::from_secs(1)).await;
        scene.note("Ben changes his mind, and deletes his node.");
        ben.delete(&node_of_ben, None).await
    };
    let (waited, left) = tokio::join!(timeout(PATIENCE, wait(&cho, &node_of_cho)), ben_leaves);
    left?;
    match waited {
        Ok(waited) => waited.map(|()| scene.enter("Cho"))?,
        Err(_) => scene.note("Cho still waits, for Ana is still at work."),
    }
    Ok(scene.report_exclusion())
}
