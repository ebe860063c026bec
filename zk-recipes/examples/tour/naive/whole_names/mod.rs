//! Sorting by whole names: a contender whose name sorts early gets in beside the holder.

use tokio::time::timeout;
use zk_client::{Client, Error};

use super::scene::{PATIENCE, Report, Scene};
use super::{Case, Version};

pub(crate) mod broken;
pub(crate) mod repaired;

pub(crate) const CASE: Case = Case {
    title: "The list is sorted by whole names",
    hazard: Some("H23"),
    reports: "ZOOKEEPER-2931",
    story: "To see who waits, each contender puts its name in front of the number. The list comes \
            in no order, so it is sorted. No fault is needed: Ben holds the lock when Ana comes.",
    lesson: "ana-lock-0000000001 sorts before ben-lock-0000000000, so Ana finds nobody ahead of \
             her. Random digits in front of the number would do the same if the list were \
             sorted by whole names.",
    repair: "Only the number says who came first. The server gives it out, so it is the one order \
             on which everybody agrees. Compare the numbers, as numbers.",
    handled_in: "zk-recipes/src/node/contender.rs",
    folder: "whole_names",
    sources: [include_str!("broken.rs"), include_str!("repaired.rs")],
    run: |version| Box::pin(run(version)),
};

async fn run(version: Version) -> Result<Report, Error> {
    match version {
        Version::Broken => play(broken::acquire).await,
        Version::Repaired => play(repaired::acquire).await,
    }
}

async fn play(
    acquire: impl AsyncFn(&Client, &str) -> Result<String, Error>,
) -> Result<Report, Error> {
    let scene = Scene::with_folder().await?;
    let (ana, ben) = (scene.connect().await?, scene.connect().await?);
    acquire(&ben, "ben").await?;
    scene.enter("Ben");
    scene.note("Ana wants the lock.");
    match timeout(PATIENCE, acquire(&ana, "ana")).await {
        Ok(acquired) => acquired.map(|_| scene.enter("Ana"))?,
        Err(_) => scene.note("Ana still waits, for Ben is still at work."),
    }
    Ok(scene.report_exclusion())
}
