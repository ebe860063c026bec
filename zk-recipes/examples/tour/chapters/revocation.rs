//! Asking a holder to give the lock back.

use crate::Error;
use crate::world::{Cast, LOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, cho, world } = cast;
    world.make(&[LOCK]).await?;
    cast.say(
        "Nobody can take a lock from its holder: that would be two holders. But one may ask. Ana \
         holds the lock for a long job, and Ben waits. Cho, who knows that Ben is in a hurry, asks \
         for the lock on his behalf: she writes a word to Ana's node, as Curator's Revoker does.",
    )
    .await?;
    let guard = ana.acquire(&ana.lock()?).await?;
    ana.hears().await?;
    ben.narrator.quiet();
    let ben_waits = ben.queue_up(&ben.lock()?).await?;

    cast.say(
        "CHO ASKS. Ana has a watch on her own node, which she needs anyway: it tells her if \
         somebody deletes the node. So she hears of the wish, and it is hers to decide. Here she \
         ends her job early and releases.",
    )
    .await?;
    let asked = cho.lock()?.revoke().await?;
    cast.note(&format!("Holders that were asked: {asked}"));
    guard.revoke_requested().await?;
    cast.note("Ana hears that somebody wants the lock, and ends her job.");
    guard.release().await?;
    ben_waits.await??.release().await?;
    Ok(())
}
