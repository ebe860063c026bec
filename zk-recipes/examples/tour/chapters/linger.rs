//! A two-level lock that stays with its process when nobody uses it.

use std::time::Duration;

use zk_recipes::{Lock, Owner, ReentrantLock};

use crate::Error;
use crate::world::{Cast, STOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, world, .. } = cast;
    world.make(&[STOCK]).await?;
    cast.say(
        "Often one process needs a lock again and again, and others hardly ever do. Then each \
         release is followed by an acquire of the same process, and both are for nothing. With \
         Options::linger the process keeps its node for a while although nobody uses the lock. \
         This chapter shows what that saves, why it is safe, and what it costs.",
    )
    .await?;
    cast.say(
        "ANA ACQUIRES THE LOCK AND DROPS HER GUARD. The list of the folder has set a watch, too, \
         which would report anybody who joins later. And when the guard is gone, her process \
         watches its own node.",
    )
    .await?;
    let options = ana.options().linger(Duration::from_secs(3600));
    let lock = ReentrantLock::with_options(&ana.client, STOCK, options)?;
    let owner = Owner::new();
    drop(ana.told(lock.acquire(&owner)).await?);
    // Until the watch on her own node is set.
    ana.hears().await?;
    cast.note("Ana has dropped her guard, and her process watches the node.");

    cast.say(
        "WHAT IT MEANS. Nobody uses the lock, and Ana's process has kept it: no delete was sent.",
    )
    .await?;
    cast.say("SHE ACQUIRES IT AGAIN.").await?;
    drop(ana.told(lock.acquire(&owner)).await?);
    cast.note("Ana has dropped her guard.");

    cast.say(
        "WHAT IT MEANS. No frame at all. The lock is surely still hers, for three reasons: the \
         time for which her session is proved is not over, nobody has joined, and nobody has \
         deleted her node, since the two watches would have told. If one of the three were in \
         doubt, she would delete the node and queue up like everybody.",
    )
    .await?;
    cast.say(
        "BEN WANTS IT. His node fires the watch on the folder, and Ana's process deletes the node \
         that nobody uses.",
    )
    .await?;
    let lock_of_ben = Lock::with_options(&ben.client, STOCK, ben.options())?;
    let guard = ben.acquire(&lock_of_ben).await?;

    cast.say(
        "WHAT IT MEANS, and what it costs. Ben had to wait for one notification and one delete, \
         although nobody used the lock. And if Ana's process had died, he would have waited until \
         its session ended. So linger is for locks that one process uses most of the time.",
    )
    .await?;
    ana.narrator.quiet();
    guard.release().await?;
    Ok(())
}
