//! The read/write lock.

use zk_recipes::RwLock;

use crate::Error;
use crate::contender::Contender;
use crate::world::{CATALOGUE, Cast};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, cho, world } = cast;
    world.make(&[CATALOGUE]).await?;
    cast.say(
        "Readers share a lock, and a writer has it alone. It is the same queue with two kinds \
         of nodes: a reader waits for the writers ahead of it, a writer for everybody ahead. \
         Ana and Ben read.",
    )
    .await?;
    let guard_of_ana = ana.told(lock(ana)?.read()).await?;
    ben.narrator.quiet();
    let guard_of_ben = ben.told(lock(ben)?.read()).await?;
    ben.narrator.loud();

    cast.say("CHO QUEUES UP TO WRITE, and gets in when she has seen both go.").await?;
    let lock_of_cho = lock(cho)?;
    let cho_waits = cho.waits(async move { lock_of_cho.write().await }).await?;

    guard_of_ana.release().await?;
    cho.hears().await?;
    guard_of_ben.release().await?;
    let writing = cho_waits.await??;

    cast.say(
        "CHO BECOMES A READER, while Ana waits to read again. In one transaction a reader's \
         node takes the place of the writer's, with the same number: no writer can get in \
         between, so what Cho wrote is what she reads. Ana waits for writers alone, and now \
         reads, too.",
    )
    .await?;
    ana.narrator.quiet();
    let lock_of_ana = lock(ana)?;
    let ana_waits = ana.waits(async move { lock_of_ana.read().await }).await?;
    ana.narrator.loud();
    let reading = writing.downgrade().await?;
    let guard_of_ana = ana_waits.await??;
    cast.note("Cho reads, too.");
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
