//! A two-level lock that stays with its process when nobody uses it.

use std::time::Duration;

use zk_recipes::{Lock, Owner, ReentrantLock};

use crate::Error;
use crate::world::{Cast, STOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, world, .. } = cast;
    world.make(&[STOCK]).await?;
    cast.say(
        "Ana's process wants the lock again and again, and others rarely do. With \
         Options::linger it keeps its node for some time after the last guard has gone. When \
         she joins, the list comes with a watch that reports anybody who joins later.",
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
        "SHE ACQUIRES IT AGAIN: no frame. Her session is proved, and no watch has fired, so the \
         lock is surely still hers. Otherwise she would delete the node and queue up anew.",
    )
    .await?;
    drop(ana.told(lock.acquire(&owner)).await?);
    cast.note("Ana has dropped her guard.");

    cast.say(
        "BEN WANTS IT. His node fires Ana's watch, and her process deletes the node that nobody \
         uses. The price: Ben waits for one notification and one delete longer. If Ana's \
         process had died, he would wait for the end of its session, although nobody used the \
         lock.",
    )
    .await?;
    let lock_of_ben = Lock::with_options(&ben.client, STOCK, ben.options())?;
    let guard = ben.acquire(&lock_of_ben).await?;
    ana.narrator.quiet();
    guard.release().await?;
    Ok(())
}
