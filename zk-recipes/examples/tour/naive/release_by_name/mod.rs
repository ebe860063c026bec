//! A late release deletes the node of another, since the numbers have begun anew.

use tokio::time::timeout;
use zk_client::{Client, Error};

use super::scene::{PATIENCE, Report, Scene};
use super::{Case, Version};

pub(crate) mod broken;
pub(crate) mod repaired;

pub(crate) const CASE: Case = Case {
    title: "The lock is released by name",
    hazard: Some("H12"),
    reports: "zk-ruby #34",
    story: "The folder is a container now, which the server removes while it is empty; the next \
            contender makes it again. Ana holds the lock when her session ends. Ben gets the lock. \
            Then Ana's process has a new session, and ends its work as it always does: it deletes \
            the node that it remembers. Cho is next.",
    lesson: "A new folder counts from zero again. So Ben's node has the very name that Ana's had, \
             and her late release deletes it. Cho sees nobody ahead of her, while Ben still works.",
    repair: "A name that nobody else can have: 128 random bits, as after the lost reply. Then a \
             late release finds nothing to delete.",
    handled_in: "zk-recipes/src/node/layout.rs",
    folder: "release_by_name",
    sources: [include_str!("broken.rs"), include_str!("repaired.rs")],
    run: |version| Box::pin(run(version)),
};

async fn run(version: Version) -> Result<Report, Error> {
    match version {
        Version::Broken => play(broken::acquire, broken::release).await,
        Version::Repaired => play(repaired::acquire, repaired::release).await,
    }
}

async fn play(
    acquire: impl AsyncFn(&Client) -> Result<String, Error>,
    release: impl AsyncFn(&Client, &str) -> Result<(), Error>,
) -> Result<Report, Error> {
    let scene = Scene::new().await?;
    let (ana, ben, cho) = (scene.connect().await?, scene.connect().await?, scene.connect().await?);
    let node_of_ana = acquire(&ana).await?;
    scene.enter("Ana");
    scene.server.expire(Scene::session(&ana));
    scene.server.reap();
    scene.note("Ana's session ends, and her node with it. The empty folder is removed.");
    scene.leave("Ana");
    acquire(&ben).await?;
    scene.enter("Ben");
    let ana_again = scene.connect().await?;
    release(&ana_again, &node_of_ana).await?;
    scene.note(&format!("Ana releases {}.", short(&node_of_ana)));
    match timeout(PATIENCE, acquire(&cho)).await {
        Ok(acquired) => acquired.map(|_| scene.enter("Cho"))?,
        Err(_) => scene.note("Cho still waits, for Ben is still at work."),
    }
    Ok(scene.report_exclusion())
}

/// A path without most of its random digits.
fn short(path: &str) -> String {
    match path.split_once("-lock-") {
        Some((stem, number)) => format!("{}..-lock-{number}", stem.get(..10).unwrap_or(stem)),
        None => path.to_owned(),
    }
}
