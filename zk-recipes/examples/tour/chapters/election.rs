//! A leader among the processes of a service.

use zk_recipes::Election;

use crate::Error;
use crate::contender::Contender;
use crate::world::{Cast, LOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, cho, world } = cast;
    world.make(&[LOCK]).await?;
    cast.say(
        "An election is the same queue once more: whoever is first leads. What is new is that \
         others want to know who leads. Each candidate's node has its address as data, here a \
         name. Ana and Ben take part.",
    )
    .await?;
    let leading = ana.told(election(ana)?.campaign()).await?;
    ben.narrator.quiet();
    let election_of_ben = election(ben)?;
    let ben_waits = ben.waits(async move { election_of_ben.campaign().await }).await?;

    cast.say(
        "CHO OBSERVES. She takes no part: she lists the candidates, reads the data of the first \
         one, and watches.",
    )
    .await?;
    let mut leaders = election(cho)?.observe();
    let leader = leaders.next().await?.ok_or("an election without a leader")?;
    cast.note(&format!("Cho: the leader is {}.", String::from_utf8_lossy(&leader.data)));

    cast.say(
        "ANA STEPS DOWN. Ben leads, and Cho sees it. His fencing token is greater than Ana's, \
         so what Ana may still send can be told apart. A leader may be cut off like any holder \
         of a lock, so Election::lead stops the leader's work when its leadership is in doubt.",
    )
    .await?;
    leading.release().await?;
    let leading = ben_waits.await??;
    let leader = leaders.next().await?.ok_or("an election without a leader")?;
    cast.note(&format!("Cho: the leader is {}.", String::from_utf8_lossy(&leader.data)));
    cast.set_quiet(true);
    leading.release().await?;
    Ok(())
}

fn election(of: &Contender) -> Result<Election, Error> {
    Ok(Election::with_options(&of.client, LOCK, of.options())?)
}
