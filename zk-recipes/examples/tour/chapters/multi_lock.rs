//! Several locks at once, without a deadlock.

use zk_recipes::{Lock, MultiLock};

use crate::Error;
use crate::contender::Contender;
use crate::world::{CATALOGUE, Cast, STOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, cho, world } = cast;
    world.make(&[CATALOGUE, STOCK]).await?;
    for contender in [ana, ben, cho] {
        contender.narrator.name_folders();
    }
    cast.say(
        "Some work needs two locks at once: whoever moves goods changes the catalogue and the \
         stock. If one program takes them in one order and another in the other order, each may \
         get one and wait for the other's, for ever. That is a deadlock, and no timeout repairs \
         it well. A MultiLock takes all its locks at once if all are free. If not, it queues for \
         them in the order of their paths.",
    )
    .await?;
    cast.say(
        "BOTH ARE FREE. Ana's create is one transaction with a node in each folder, which is \
         named in front of the node from here on. The two lists show that she is alone in both.",
    )
    .await?;
    let both = lock(ana, [STOCK, CATALOGUE])?.acquire().await?;
    cast.note("Ana holds both.");
    cast.set_quiet(true);
    both.release().await?;

    cast.say(
        "ONE OF THEM IS TAKEN. Ben holds the stock, and Ana wants both again. Now all or none \
         would mean: none. But then she would have no place in a queue, and others could overtake \
         her for ever. So she falls back on an order that everybody keeps: the order of the \
         paths. She keeps the catalogue, which comes first, and waits for the stock.",
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
        "CHO WANTS BOTH, and names them in the other order. Her transaction makes a node in both \
         folders, too. But the catalogue, the first in the order of the paths, is Ana's. So she \
         gives back the place behind it, in the stock, and waits for the catalogue.",
    )
    .await?;
    ana.narrator.quiet();
    cho.narrator.loud();
    let lock_of_cho = lock(cho, [CATALOGUE, STOCK])?;
    let cho_waits = tokio::spawn(async move { lock_of_cho.acquire().await });
    cho.narrator.waits().await?;
    cast.note("Cho waits.");

    cast.say(
        "WHAT IT MEANS. Whoever waits holds only locks with smaller paths than the one it waits \
         for. So whoever waits for the greatest of all paths waits for a holder at work, and \
         there can be no circle. If Cho had kept her place in the stock, somebody who takes both \
         locks one by one might hold the catalogue and wait for the stock behind Cho, while she \
         waits for the catalogue.",
    )
    .await?;
    cast.say(
        "BEN RELEASES. Now Ana has both, and when she is done, Cho has both. Cho needs a new node \
         in the stock for that. At the end, one transaction checks that both of her nodes are \
         there at the same moment.",
    )
    .await?;
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
    Ok(MultiLock::with_options(&of.client, paths, of.options())?)
}
