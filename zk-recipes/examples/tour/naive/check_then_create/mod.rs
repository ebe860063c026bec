//! Looking first and creating then: two contenders look before either creates.

use zk_client::{Client, Error};

use super::scene::{Report, Scene};
use super::{Case, Version};

pub(crate) mod broken;
pub(crate) mod repaired;

pub(crate) const CASE: Case = Case {
    title: "Check, then create",
    hazard: None,
    reports: "the constructor of canal's DistributedLock",
    story: "The first idea of everybody: the lock is one node, /lock. Look whether it is there, \
            and create it if it is not. The fault is only bad luck: Ana and Ben look at the same \
            moment.",
    lesson: "Between the look and the create, somebody else can do the same. What a client has \
             read may be out of date by the time it has read it, so no decision about a lock may \
             rest on a read alone. The look decides nothing, so NodeExists is no success: it \
             means that another one has the lock.",
    repair: "Let the server decide. It puts all writes into one order, and of two creates of the \
             same node exactly one succeeds. There is nothing to look at first.",
    handled_in: "zk-recipes/src/queue/mod.rs",
    folder: "check_then_create",
    sources: [include_str!("broken.rs"), include_str!("repaired.rs")],
    run: |version| Box::pin(run(version)),
};

async fn run(version: Version) -> Result<Report, Error> {
    match version {
        Version::Broken => play(broken::try_acquire).await,
        Version::Repaired => play(repaired::try_acquire).await,
    }
}

async fn play(try_acquire: impl AsyncFn(&Client) -> Result<bool, Error>) -> Result<Report, Error> {
    let scene = Scene::new().await?;
    let (ana, ben) = (scene.connect().await?, scene.connect().await?);
    scene.note("Ana and Ben try to acquire the lock at the same moment.");
    let (ana_got_it, ben_got_it) = tokio::join!(try_acquire(&ana), try_acquire(&ben));
    for (name, got_it) in [("Ana", ana_got_it?), ("Ben", ben_got_it?)] {
        if got_it {
            scene.enter(name);
        } else {
            scene.note(&format!("{name} is told that the lock is taken."));
        }
    }
    Ok(scene.report_exclusion())
}
