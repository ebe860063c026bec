//! The reentrant lock, which the tasks of a process hand on among themselves.

use std::time::Duration;

use tokio::task::yield_now;
use zk_recipes::{Lock, Owner, ReentrantLock};

use crate::Error;
use crate::contender::told;
use crate::world::{Cast, STOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, world, .. } = cast;
    world.make(&[STOCK]).await?;
    cast.say(
        "Ana's process has three tasks. With a ReentrantLock they queue up among themselves \
         first, and in the folder once for all of them. Task 1 acquires the lock, and acquires \
         it again in a nested call: no frame.",
    )
    .await?;
    let options = ana.options().local_handoffs(1).local_handoff_time(Duration::from_secs(3600));
    let lock = ReentrantLock::with_options(&ana.client, STOCK, options)?;
    let owner = Owner::new();
    let outer = told(&world.stage, "Ana's task 1", lock.acquire(&owner)).await?;
    let inner = lock.acquire(&owner).await?;
    cast.note(&format!("Ana's task 1 holds it {} times.", inner.depth()));

    cast.say(
        "BEN QUEUES UP, in the folder: for him this is a Lock like any other. Ana's tasks 2 and \
         3 queue up in their process: no frame.",
    )
    .await?;
    let lock_of_ben = Lock::with_options(&ben.client, STOCK, ben.options())?;
    ben.narrator.quiet();
    let ben_waits = ben.queue_up(&lock_of_ben).await?;
    ben.narrator.loud();
    let [second, third] = ["Ana's task 2", "Ana's task 3"].map(|name| {
        let (lock, stage) = (lock.clone(), world.stage.clone());
        let acquire = async move { lock.acquire(&Owner::new()).await };
        tokio::spawn(async move { told(&stage, name, acquire).await })
    });
    yield_now().await;
    cast.note("Ana's tasks 2 and 3 wait.");

    cast.say(
        "TASK 1 IS DONE. When its last guard is gone the lock is task 2's, under the same node: \
         no frame, and Ben, who is next in the folder, cannot tell. The second part of the \
         token counts these passes.",
    )
    .await?;
    drop(outer);
    drop(inner);
    let guard = second.await??;

    cast.say(
        "TASK 2 IS DONE. While others wait, a process may keep the lock for 32 passes or half a \
         second by default, and here for one pass. So Ana's process lets its node go and, in \
         the same packet, queues up behind Ben with a new one, for task 3. It is Ben's turn \
         before that.",
    )
    .await?;
    drop(guard);
    let guard = ben_waits.await??;
    ana.narrator.waits().await?;

    guard.release().await?;
    let guard = third.await??;
    ana.narrator.quiet();
    guard.release().await?;
    Ok(())
}
