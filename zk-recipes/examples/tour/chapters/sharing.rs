//! The read/write lock.

use zk_recipes::RwLock;

use crate::Error;
use crate::contender::Contender;
use crate::world::{CATALOGUE, Cast};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, cho, world } = cast;
    world.make(&[CATALOGUE]).await?;
    cast.say(
        "Ten programs that only read something do not disturb each other, so it would be a waste \
         to let them in one by one. But while one writes, nobody else may read or write. A \
         read/write lock does this. It is the same queue with two kinds of nodes, and one rule: a \
         reader waits for the writers ahead of it, a writer waits for everybody ahead.",
    )
    .await?;
    cast.say(
        "ANA AND BEN READ. Their nodes say READ. No writer is ahead, so both get in; Ben's frames \
         look like Ana's and are left out.",
    )
    .await?;
    let guard_of_ana = ana.told(lock(ana)?.read()).await?;
    ben.narrator.quiet();
    let guard_of_ben = ben.told(lock(ben)?.read()).await?;
    ben.narrator.loud();

    cast.say(
        "CHO QUEUES UP TO WRITE. Her node says WRIT. She waits for both readers, and watches \
         both. Then they leave, one after the other.",
    )
    .await?;
    let lock_of_cho = lock(cho)?;
    let cho_waits = cho.waits(async move { lock_of_cho.write().await }).await?;

    guard_of_ana.release().await?;
    cho.hears().await?;
    guard_of_ben.release().await?;
    let writing = cho_waits.await??;

    cast.say(
        "WHAT IT MEANS. Cho was woken twice, and got in when she had seen both go. Nobody waits \
         for somebody behind, so the first in the queue waits for nobody, and there can be no \
         circle of contenders that wait for each other.",
    )
    .await?;
    cast.say(
        "CHO BECOMES A READER, while Ana waits to read again. She has written something and wants \
         to read it undisturbed, but need not keep other readers out any more. In one transaction \
         a reader's node takes the place of her writer's node, with the same number.",
    )
    .await?;
    ana.narrator.quiet();
    let lock_of_ana = lock(ana)?;
    let ana_waits = ana.waits(async move { lock_of_ana.read().await }).await?;
    ana.narrator.loud();
    let reading = writing.downgrade().await?;
    let guard_of_ana = ana_waits.await??;
    cast.note("Cho reads, too.");

    cast.say(
        "WHAT IT MEANS. A node with Cho's number was there all the time, first her writer's and \
         then her reader's. So no other writer could get in between, and what Cho has written is \
         what she reads. Ana waited for the writer alone. Its node is gone, so she is in. The \
         other way round, from reader to writer, does not exist: Cho would wait for all readers, \
         and be one of them.",
    )
    .await?;
    ana.narrator.quiet();
    cho.narrator.quiet();
    reading.release().await?;
    guard_of_ana.release().await?;
    ana.narrator.loud();
    cho.narrator.loud();
    Ok(())
}

fn lock(of: &Contender) -> Result<RwLock, Error> {
    Ok(RwLock::with_options(&of.client, CATALOGUE, of.options())?)
}
