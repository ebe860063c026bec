//! The queue, the hand-over, and how to leave.

use crate::Error;
use crate::world::Cast;

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, cho, .. } = cast;
    cast.say(
        "Now the lock of zk-recipes, which has all the repairs, and sends less than the \
         textbook lock. Ana acquires the free lock. It costs one round trip: the create and the \
         list of the folder leave together, and the server answers them in order. So the list \
         is newer than Ana's node, and if nobody with a lower number is in it, nobody ever will \
         be. The very first contender finds no folder and makes it: another round trip, this \
         once.",
    )
    .await?;
    let guard = ana.acquire(&ana.lock()?).await?;

    cast.say(
        "BEN AND CHO QUEUE UP. Each lists who is ahead and waits for the one right ahead: \
         however long the queue is, when the holder goes, exactly one contender gets the lock. \
         The same request sets two more watches, which make the wait safe and the hand-over \
         cheap: one on its own node, and one on the contender before the one right ahead.",
    )
    .await?;
    let ben_waits = ben.queue_up(&ben.lock()?).await?;
    let cho_waits = cho.queue_up(&cho.lock()?).await?;

    cast.say(
        "ANA RELEASES: she deletes her node. Ben's watch fires, and as he has now seen \
         everybody ahead of him go, the lock is his. He sends nothing.",
    )
    .await?;
    guard.release().await?;
    let guard = ben_waits.await??;
    cho.hears().await?;

    cast.say(
        "CHO CHANGES HER MIND, AND BEN DROPS HIS GUARD. Dropping is all it takes: the delete is \
         on its way at once, without an await, and nobody waits behind a contender that has \
         left. If the connection broke now, the delete would be the first request of the next \
         one.",
    )
    .await?;
    cho_waits.abort();
    drop(cho_waits.await);
    cho.hears().await?;
    drop(guard);
    ben.hears().await
}
