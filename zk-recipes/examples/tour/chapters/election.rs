//! A leader among the processes of a service.

use zk_recipes::Election;

use crate::Error;
use crate::contender::Contender;
use crate::world::{Cast, LOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, cho, world } = cast;
    world.make(&[LOCK]).await?;
    cast.say(
        "Several processes of a service could lead it, and one of them should. When it is gone, \
         another one should lead. That is a lock: whoever is first in the queue leads. What is \
         new is that others want to know who leads, for instance to send it their requests. So \
         each candidate's node has its address as data, here a name.",
    )
    .await?;
    cast.say("ANA AND BEN TAKE PART. Ana is first.").await?;
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

    cast.say("ANA STEPS DOWN. Ben leads, and Cho sees it.").await?;
    leading.release().await?;
    let leading = ben_waits.await??;
    let leader = leaders.next().await?.ok_or("an election without a leader")?;
    cast.note(&format!("Cho: the leader is {}.", String::from_utf8_lossy(&leader.data)));
    cast.say(
        "WHAT IT MEANS. Ben's token is greater than Ana's, so whoever gets a request of a leader \
         can tell an old one from the present one. That is needed: Cho knows who led a moment \
         ago, not who leads. And a leader may be cut off like any holder of a lock, so \
         Election::lead stops its work when its leadership is in doubt.",
    )
    .await?;
    cast.set_quiet(true);
    leading.release().await?;
    Ok(())
}

fn election(of: &Contender) -> Result<Election, Error> {
    Ok(Election::with_options(&of.client, LOCK, of.options())?)
}
