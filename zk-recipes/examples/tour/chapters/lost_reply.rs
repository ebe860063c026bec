//! A create that was carried out although its caller never heard so.

use crate::Error;
use crate::world::{Cast, LOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, world, .. } = cast;
    world.make(&[LOCK]).await?;
    cast.say(
        "The server creates Ana's node, and the connection breaks before she gets the reply. If \
         she just tried again, she would queue up behind her own lost node, for as long as her \
         session lives. So she resumes the session on a new connection, and looks. The sync \
         comes first, since the new server may be behind the old one. She recognises her node \
         in the list by its random part, and exists shows that her session owns it.",
    )
    .await?;
    ana.narrator.lose_reply_of_create();
    let guard = ana.acquire(&ana.lock()?).await?;
    ana.hears().await?;

    cast.say("BEN LOOKS: there is one node, the one that was lost and found.").await?;
    ben.client.get_children(LOCK).await?;
    guard.release().await?;
    Ok(())
}
