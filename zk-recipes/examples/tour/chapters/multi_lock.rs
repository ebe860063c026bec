//! Several locks at once, without a deadlock.

use zk_recipes::{Lock, MultiLock};

use crate::Error;
use crate::contender::Contender;
use crate::world::{CATALOGUE, Cast, STOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, cho, world } = cast;
    world.make(&[CATALOGUE, STOCK]).await?;
    cast.say(
        "Some work needs two locks, here those of the catalogue and of the stock. If one \
         program takes them in one order and another in the other order, each may get one and \
         wait for the other's: a deadlock. A MultiLock takes all or none. Ana's create is one \
         transaction with a node in each folder. Both are free, so both are hers.",
    )
    .await?;
    let both = lock(ana, [STOCK, CATALOGUE])?.acquire().await?;
    cast.note("Ana holds both.");
    cast.set_quiet(true);
    both.release().await?;

    cast.say(
        "ONE OF THEM IS TAKEN. Ben holds the stock, and Ana wants both again. She keeps what \
         comes first in the order of the paths, the catalogue, and waits for the stock. \
         Whatever comes behind a lock that is not free, she gives back at once. So whoever \
         waits holds only locks with smaller paths, and there can be no circle.",
    )
    .await?;
    let lock_of_ben = Lock::with_options(&ben.client, STOCK, ben.options())?;
    let guard_of_ben = ben.acquire(&lock_of_ben).await?;
    ana.narrator.loud();
    let lock_of_ana = lock(ana, [STOCK, CATALOGUE])?;
    let ana_waits = tokio::spawn(async move { lock_of_ana.acquire().await });
    ana.narrator.waits().await?;
    cast.note("Ana waits.");

    cast.say(
        "CHO WANTS BOTH, in the other order. She waits for the catalogue, and her node in the \
         queue of the stock is gone again.",
    )
    .await?;
    ana.narrator.quiet();
    cho.narrator.loud();
    let lock_of_cho = lock(cho, [CATALOGUE, STOCK])?;
    let cho_waits = tokio::spawn(async move { lock_of_cho.acquire().await });
    cho.narrator.waits().await?;
    cast.note("Cho waits.");

    cast.say("BEN RELEASES. Now Ana has both, and when she is done, Cho has both.").await?;
    guard_of_ben.release().await?;
    let both = ana_waits.await??;
    cast.note("Ana holds both.");
    both.release().await?;
    let both = cho_waits.await??;
    cast.note("Cho holds both.");
    cho.narrator.quiet();
    both.release().await?;
    Ok(())
}

fn lock(of: &Contender, paths: [&str; 2]) -> Result<MultiLock, Error> {
    Ok(MultiLock::with_options(&of.client, paths, &of.options())?)
}
