//! The textbook lock on the client alone: the program, and three contenders that use it.

use zk_client::{Client, CreateOptions};

use crate::Error;
use crate::contender::Contender;
use crate::stage::Style;
use crate::textbook_lock::{FOLDER, acquire};
use crate::world::{Cast, LOCK};

const SOURCE: &str = include_str!("../../textbook_lock.rs");

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, cho, world } = cast;
    for folder in [LOCK.to_owned(), format!("{LOCK}{FOLDER}")] {
        world.observer.create(&folder, b"", &CreateOptions::persistent()).await?;
    }
    cast.say(
        "Three parts of the last chapter make a lock: a sequential node gives each contender \
         its place in the queue, an ephemeral node frees the place when its session ends, and a \
         watch tells the next one. This is the whole program, from \
         zk-recipes/examples/textbook_lock.rs:",
    )
    .await?;
    world.stage.line(Style::Text, "");
    for line in program() {
        world.stage.line(Style::Code, format!("  {line}").trim_end());
    }

    cast.say(
        "ANA ACQUIRES THE FREE LOCK. She joins the queue, lists it, and finds nobody ahead of \
         her: the lock is hers.",
    )
    .await?;
    let lock = |of: &Contender| of.client.chroot(LOCK);
    let (client_of_ana, client_of_ben, client_of_cho) = (lock(ana)?, lock(ben)?, lock(cho)?);
    let node_of_ana = acquire(&client_of_ana).await?;
    cast.note("Ana holds the lock.");

    cast.say(
        "BEN AND CHO WANT IT, TOO. Ben finds Ana ahead of him and watches her node. Cho watches \
         Ben's node, not Ana's: she need not wake up when Ana goes, since it will be Ben's \
         turn.",
    )
    .await?;
    let ben_waits = queue_up(cast, ben, client_of_ben.clone()).await?;
    let cho_waits = queue_up(cast, cho, client_of_cho.clone()).await?;

    cast.say(
        "ANA RELEASES. To release the lock is to delete the node. Ben is notified, looks again, \
         and is first.",
    )
    .await?;
    client_of_ana.delete(&node_of_ana, None).await?;
    let node_of_ben = ben_waits.await??;
    cast.note("Ben holds the lock.");

    cast.say("BEN RELEASES, and it is Cho's turn.").await?;
    client_of_ben.delete(&node_of_ben, None).await?;
    let node_of_cho = cho_waits.await??;
    cast.note("Cho holds the lock.");

    cast.say(
        "This lock is right as long as nothing goes wrong, and much can go wrong: replies are \
         lost, connections break, servers are cut off, processes stand still. The next chapters \
         begin with the simplest idea, and add one part after each thing that goes wrong. Then \
         they show what even the textbook has left out.",
    )
    .await?;
    cast.set_quiet(true);
    client_of_cho.delete(&node_of_cho, None).await?;
    Ok(())
}

/// The function, with its documentation.
fn program() -> impl Iterator<Item = &'static str> {
    let lines = SOURCE.lines().skip_while(|line| !line.starts_with("/// Returns the path"));
    let mut is_over = false;
    lines.take_while(move |line| !std::mem::replace(&mut is_over, *line == "}"))
}

/// Starts to acquire, and returns once there is nothing to do but wait.
async fn queue_up(
    cast: &Cast,
    contender: &Contender,
    client: Client,
) -> Result<tokio::task::JoinHandle<Result<String, zk_client::Error>>, Error> {
    let waiting = tokio::spawn(async move { acquire(&client).await });
    contender.narrator.waits().await?;
    cast.note(&format!("{} waits.", contender.name));
    Ok(waiting)
}
