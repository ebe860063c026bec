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
        "A process with a thousand tasks that all want one lock could create a thousand nodes, \
         and each release would cost a message to the server. But the tasks live in one process, \
         and can agree without anybody's help. A two-level lock has a queue inside the process, \
         and in the folder one node for all of them. Watch how few frames there are in this \
         chapter.",
    )
    .await?;
    cast.say(
        "ANA'S TASK 1 acquires the lock. Then it acquires it again, as happens when one function \
         calls another and both want the lock. The lock knows its owner, and lets it in again.",
    )
    .await?;
    let options = ana.options().local_handoffs(1).local_handoff_time(Duration::from_secs(3600));
    let lock = ReentrantLock::with_options(&ana.client, STOCK, options)?;
    let owner = Owner::new();
    let outer = told(&world.stage, "Ana's task 1", lock.acquire(&owner)).await?;
    let inner = lock.acquire(&owner).await?;
    cast.note(&format!("Ana's task 1 holds it {} times.", inner.depth()));

    cast.say(
        "BEN QUEUES UP, in another process. For him this is a lock like any other, and he waits \
         in the folder. Ana's tasks 2 and 3 queue up in their own process, without a frame.",
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
        "WHAT IT MEANS. NodeChildrenChanged tells Ana's process that somebody else has joined. \
         From now on it counts how often it hands the lock on among its own tasks, so that Ben is \
         not kept waiting for ever.",
    )
    .await?;
    cast.say(
        "TASK 1 IS DONE, and drops both of its guards. The lock goes to task 2, under the same \
         node.",
    )
    .await?;
    drop(outer);
    drop(inner);
    let guard = second.await??;

    cast.say(
        "WHAT IT MEANS. Not a single frame was sent, and Ben cannot tell. This is what the second \
         part of the token is for: it counts the holders under one node, so that a store can also \
         tell task 2 from task 1.",
    )
    .await?;
    cast.say(
        "TASK 2 IS DONE. While others wait, a process may hand its lock on 32 times or for half a \
         second by default. Here the tour has set it to one time, and that is used up. So Ana's \
         process lets its node go and, in the same packet, queues up with a new one for task 3, \
         behind Ben.",
    )
    .await?;
    drop(guard);
    let guard = ben_waits.await??;
    ana.narrator.waits().await?;

    guard.release().await?;
    let guard = third.await??;

    cast.say(
        "WHAT IT MEANS. Ben has had his turn between tasks 2 and 3. While others wait, a \
         process may hand the lock on only a limited number of times. So it saves the frames, and \
         nobody waits for ever.",
    )
    .await?;
    ana.narrator.quiet();
    guard.release().await?;
    Ok(())
}
