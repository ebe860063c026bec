//! Going to the end of the queue: one transaction releases the lock and queues up again.

use crate::Error;
use crate::world::{Cast, LOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, world, .. } = cast;
    world.make(&[LOCK]).await?;
    cast.say(
        "Ana has more work than fits into one turn, and Ben waits. It would be fair to let Ben in \
         now and then. She could release the lock and acquire it again. But between the two she \
         would be in no queue: if her connection broke there, she would have lost her place for \
         good. This chapter shows how to do both at once.",
    )
    .await?;
    let guard = ana.acquire(&ana.lock()?).await?;
    ben.narrator.quiet();
    let ben_waits = ben.queue_up(&ben.lock()?).await?;

    cast.say(
        "ANA REQUEUES. One transaction creates her new node at the end of the queue and deletes \
         the old one. The list behind it tells her who is ahead now.",
    )
    .await?;
    let ana_waits = ana.waits(guard.requeue()).await?;
    ben_waits.await??.release().await?;
    ben.narrator.loud();
    let guard = ana_waits.await??;

    cast.say(
        "WHAT IT MEANS. The transaction is carried out as a whole or not at all, so nobody has \
         ever seen the queue without Ana. Her new node has a higher number. Its random digits \
         differ, too, but not in the few that are shown here. So nobody can mistake the old \
         node for the new one. And her token has grown: for the store, each turn is a holder of \
         its own.",
    )
    .await?;
    guard.release().await?;
    Ok(())
}
