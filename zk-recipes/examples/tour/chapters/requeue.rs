//! Going to the end of the queue: one transaction releases the lock and queues up again.

use crate::Error;
use crate::world::{Cast, LOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, world, .. } = cast;
    world.make(&[LOCK]).await?;
    cast.say("Ana holds the lock, and Ben queues up. She has more work than fits into one turn.")
        .await?;
    let guard = ana.acquire(&ana.lock()?).await?;
    ben.narrator.quiet();
    let ben_waits = ben.queue_up(&ben.lock()?).await?;

    cast.say(
        "ANA REQUEUES. One transaction creates her new node and deletes the old one, so that \
         nobody sees the queue without her. A list behind it tells her who is ahead. The new \
         name has another random part, so an old name can never be mistaken for the new node.",
    )
    .await?;
    let ana_waits = ana.waits(guard.requeue()).await?;
    ben_waits.await??.release().await?;
    ben.narrator.loud();
    ana_waits.await??.release().await?;
    Ok(())
}
