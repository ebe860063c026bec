//! Asking a holder to give the lock back.

use crate::Error;
use crate::world::{Cast, LOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, cho, world } = cast;
    world.make(&[LOCK]).await?;
    cast.say(
        "No contender should take a lock from a holder at work: then two would work at once. But \
         one may ask. Ana holds the lock for a long job, and Ben waits. Cho knows that Ben is in \
         a hurry, and asks for the lock on his behalf. This chapter shows that asking takes no \
         more than a write to Ana's node.",
    )
    .await?;
    let guard = ana.acquire(&ana.lock()?).await?;
    ana.hears().await?;
    ben.narrator.quiet();
    let ben_waits = ben.queue_up(&ben.lock()?).await?;

    cast.say(
        "CHO ASKS. She writes a word to the node of the holder, the word that Curator's Revoker \
         uses, so this works between programs in both languages. Ana's program listens for such \
         wishes while it works: it watches its own node. So it is notified, reads the word, and \
         decides. Here Ana ends her job early and releases.",
    )
    .await?;
    let lock_of_cho = cho.lock()?;
    let cho_asks = async {
        // Until Ana's watch is set.
        ana.hears().await?;
        Ok::<_, Error>(lock_of_cho.revoke().await?)
    };
    let (heard, asked) = tokio::join!(guard.revoke_requested(), cho_asks);
    heard?;
    cast.note(&format!("Holders that were asked: {}", asked?));
    cast.note("Ana hears that somebody wants the lock, and ends her job.");
    guard.release().await?;
    ben_waits.await??.release().await?;
    Ok(())
}
