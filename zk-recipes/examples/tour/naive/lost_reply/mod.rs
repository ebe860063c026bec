//! The reply to a create is lost: the node is there, and its owner does not know.

use tokio::time::timeout;
use zk_client::{Client, Error};
use zk_embedded::{Fault, OpCode};

use super::queue::FOLDER;
use super::scene::{PATIENCE, Report, Scene};
use super::{Case, Version};

pub(crate) mod broken;
pub(crate) mod repaired;

pub(crate) const CASE: Case = Case {
    title: "The reply to a create is lost",
    hazard: Some("H01"),
    reports: "CURATOR-45, CURATOR-79; samuel/go-zookeeper #229, #237",
    story: "The lock is a queue now. Ana's create is carried out, and then her connection breaks, \
            before the reply has arrived. Her client connects again and resumes the session, so \
            the session lives on. Nobody else wants the lock.",
    lesson: "A lost connection does not say whether the request was carried out. Ana's first node \
             is in the queue, and her second one waits behind it. As her session lives, the server \
             keeps the first node, and she waits for herself, for ever; so does everybody behind \
             her.",
    repair: "Make the name unique, so that Ana can recognise her node whatever its number is. \
             After a lost connection she looks for it before she creates another one. The sync \
             comes first, since the new server may not have heard of the create yet.",
    handled_in: "zk-client/src/session/owned_nodes/mod.rs",
    folder: "lost_reply",
    sources: [include_str!("broken.rs"), include_str!("repaired.rs")],
    run: |version| Box::pin(run(version)),
};

async fn run(version: Version) -> Result<Report, Error> {
    match version {
        Version::Broken => play(broken::acquire).await,
        Version::Repaired => play(repaired::acquire).await,
    }
}

async fn play(acquire: impl AsyncFn(&Client) -> Result<String, Error>) -> Result<Report, Error> {
    let scene = Scene::with_folder().await?;
    let ana = scene.connect().await?;
    scene.server.inject(Fault::lose_reply().op(OpCode::CREATE2));
    scene.note("Ana acquires the free lock, and the reply to her create is lost.");
    let acquired = timeout(PATIENCE, acquire(&ana)).await;
    match acquired {
        Ok(acquired) => acquired.map(|_| scene.enter("Ana"))?,
        Err(_) => scene.note("Ana still waits."),
    }
    let nodes = scene.server.children(FOLDER).len();
    scene.note(&format!("Nodes in the queue, all of Ana's session: {nodes}"));
    let is_broken = !scene.is_inside("Ana");
    let verdict = match is_broken {
        true => "Broken: Ana waits for her own node, and will not stop.",
        false => "It holds: Ana has found her node, and the free lock is hers.",
    };
    Ok(scene.report(is_broken, verdict))
}
