//! A create that was carried out although its caller never heard so.

use crate::Error;
use crate::world::{Cast, LOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, world, .. } = cast;
    world.make(&[LOCK]).await?;
    cast.say(
        "A reply that is lost is the most treacherous of all faults. The server has carried out \
         the request, and the client cannot know: it may just as well have been lost on the way. \
         You have seen in the chapter The reply to a create is lost how a simple lock then waits \
         behind its own node. This chapter shows how a real one finds its way out.",
    )
    .await?;
    cast.say(
        "ANA ACQUIRES THE LOCK. The server creates her node, and the connection breaks (xx) \
         before she gets the reply. Watch what she asks on the next connection before she does \
         anything else.",
    )
    .await?;
    ana.narrator.lose_reply_of_create();
    let guard = ana.acquire(&ana.lock()?).await?;
    ana.hears().await?;

    cast.say(
        "WHAT IT MEANS, line by line. With hello she resumes her session, so a node that she may \
         have made is still there. With sync her new server catches up with the old one, so that \
         it shows the node. In the list she recognises her node by its random digits. The \
         reply to exists tells which session owns it: a node of an earlier session of hers would \
         soon be gone, and must not count. Now she knows that the node is hers, and nobody is \
         ahead. Last, a transaction that changes nothing, but needs a majority, proves that her \
         session lives. From this proof her guard computes the time until which the lock is \
         surely hers.",
    )
    .await?;
    cast.say(
        "BEN LOOKS: there is one node, the one that was lost and found. Nobody waits for a ghost.",
    )
    .await?;
    ben.client.get_children(LOCK).await?;
    guard.release().await?;
    Ok(())
}
