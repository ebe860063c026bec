//! The herd: a release wakes everybody, and one gets in.

use std::time::Duration;

use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep;
use zk_client::{Client, Error};

use super::scene::{Report, Scene};
use super::{Case, Version};

pub(crate) mod broken;
pub(crate) mod repaired;

const CONTENDERS: u64 = 50;

pub(crate) const CASE: Case = Case {
    title: "Everybody watches the lock",
    hazard: None,
    reports: "the herd effect of ZooKeeper's own page on recipes",
    story: "Now the create decides. Who does not get the lock watches its node, and tries again \
            when the node is gone. Nothing goes wrong here but the number of contenders, each of \
            whom wants the lock once.",
    lesson: "Each release wakes everybody who waits. All of them send a create and a read, and all \
             but one wait again. The work grows with the square of the contenders, and it is done \
             at the worst moment, when the lock is handed over. There is also no order: whoever \
             is slow may wait for ever.",
    repair: "Let the contenders queue up. A sequential node gives each of them a number, and each \
             watches the node directly ahead. A release wakes one contender.",
    handled_in: "zk-recipes/src/queue/wait.rs",
    folder: "herd",
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
    acquire: impl AsyncFn(&Client) -> Result<String, Error> + Copy + 'static,
) -> Result<Report, Error> {
    let scene = Scene::with_folder().await?;
    let mut clients = Vec::new();
    for _ in 0..CONTENDERS {
        clients.push(scene.connect().await?);
    }
    scene.note(&format!("{CONTENDERS} contenders want the lock, each for 10 ms."));
    let mut tasks = JoinSet::new();
    let everybody = LocalSet::new();
    for client in clients.clone() {
        let turn = async move {
            let node = acquire(&client).await?;
            sleep(Duration::from_millis(10)).await;
            client.delete(&node, None).await
        };
        tasks.spawn_local_on(turn, &everybody);
    }
    let turns = everybody.run_until(async {
        let mut turns = 0;
        while let Some(turn) = tasks.join_next().await {
            // A task that panics is reported by the runtime.
            turns += u64::from(turn.is_ok_and(|turn| turn.is_ok()));
        }
        turns
    });
    scene.note(&format!("{} of them had their turn.", turns.await));
    let stats = clients.iter().map(Client::stats).collect::<Vec<_>>();
    let notified = stats.iter().map(|stats| stats.totals.events_received).sum::<u64>();
    let sent = stats.iter().map(|stats| stats.totals.frames_sent).sum::<u64>();
    scene.note(&format!("The server sent {notified} notifications and got {sent} requests."));
    let is_broken = notified > 2 * CONTENDERS;
    let verdict = match is_broken {
        true => format!("Broken: {notified} notifications for {CONTENDERS} turns."),
        false => format!("It holds: {notified} notifications for {CONTENDERS} turns."),
    };
    Ok(scene.report(is_broken, &verdict))
}
