//! No deadline: a holder whose server is cut off goes on, while the ensemble has given its lock
//! away.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::sleep;
use zk_client::Error;

use super::queue::{join, wait_for_turn};
use super::scene::{Report, Scene};
use super::{Case, Version};

pub(crate) mod broken;
pub(crate) mod repaired;

pub(crate) const CASE: Case = Case {
    title: "No deadline",
    hazard: Some("H05"),
    reports: "CURATOR-444",
    story: "Ana holds the lock and writes once a second. She stops when her client is \
            disconnected. After 6 seconds the server that she is connected to is cut off from the \
            other servers. Ben waits for the lock.",
    lesson: "The isolated server goes on to answer Ana's pings, so she is connected. But the other \
             servers hear nothing of her session. They end it after the session timeout of 10 \
             seconds, delete her node, and Ben gets in. To be connected is no proof of anything. \
             Her server notices that it is alone when it has heard nothing of its leader for \
             syncLimit times tickTime: 10 seconds with the settings of the sample zoo.cfg. Then it \
             closes its connections, and only then does Ana hear of anything.",
    repair: "Ana needs a proof that only a majority can give: the reply to a write. It proves that \
             her session was alive when she asked, and so for one timeout from that moment; not \
             from the moment of the reply, which may be late. If the next proof does not come \
             before that time is over, she must stop by herself, since nobody can tell her. One \
             thing is left out here: her server may tell the others of her session a little later. \
             zk-client allows for that.",
    handled_in: "zk-client/src/session/deadline.rs",
    folder: "no_deadline",
    sources: [include_str!("broken.rs"), include_str!("repaired.rs")],
    run: |version| Box::pin(run(version)),
};

/// `syncLimit` times `tickTime`, as in the sample `zoo.cfg`.
const NOTICES_AFTER: Duration = Duration::from_secs(10);

async fn run(version: Version) -> Result<Report, Error> {
    let scene = Scene::with_folder().await?;
    let (ana, ben) = (scene.connect().await?, scene.connect().await?);
    let node_of_ana = join(&ana, "lock-").await?;
    scene.enter("Ana");
    let also_ben = Cell::new(0);
    let write = || {
        if scene.is_inside("Ben") {
            if also_ben.get() == 0 {
                scene.note("Ana writes, although Ben holds the lock.");
            }
            also_ben.set(also_ben.get() + 1);
        }
    };
    let ana_works = async {
        match version {
            Version::Broken => broken::work(&ana, write).await?,
            Version::Repaired => repaired::work(&ana, write).await?,
        }
        scene.leave("Ana");
        // A delete without a reply may not have been carried out. Her session may be over.
        while ana.delete(&node_of_ana, None).await.is_err_and(|error| error.is_connection_loss()) {}
        Ok::<_, Error>(())
    };
    let the_network = async {
        sleep(Duration::from_millis(6500)).await;
        let session = Scene::session(&ana);
        scene.server.partition(session);
        scene.note("Ana's server is cut off from the others. It still answers her pings.");
        sleep(NOTICES_AFTER).await;
        scene.note("Ana's server notices that it is alone, and closes its connections.");
        // Of a session that is over, the connection is closed by the end of the partition.
        if !scene.server.disconnect(session) {
            scene.server.heal();
        }
    };
    let ben_waits = async {
        let node = join(&ben, "lock-").await?;
        wait_for_turn(&ben, &node).await?;
        scene.enter("Ben");
        Ok::<_, Error>(())
    };
    let (worked, waited, ()) = tokio::join!(ana_works, ben_waits, the_network);
    worked.and(waited)?;
    let written = also_ben.get();
    let is_broken = written > 0;
    let verdict = match is_broken {
        true => format!("Broken: Ana wrote {written} times while Ben held the lock."),
        false => "It holds: Ana wrote nothing more once Ben held the lock.".to_owned(),
    };
    Ok(scene.report(is_broken, &verdict))
}
