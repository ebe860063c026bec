//! A create that was carried out although its caller never heard so.

use crate::text::say;
use crate::{Cast, Error, LOCK};

pub(crate) async fn tell(Cast { ana, ben, .. }: &Cast) -> Result<(), Error> {
    say("3. A REPLY IS LOST. The server makes Ana's node, and the connection breaks before she \
         hears of it. If she just tried again, she would queue up behind her own lost node, for as \
         long as her session lives. So she takes up the session on a new connection, and looks. \
         The sync comes first, since the new server may be behind the old one. In the list she \
         knows her node by its random part, and exists tells that it is her session's.");
    ana.narrator.lose_reply_of_create();
    let guard = ana.acquire(&ana.lock()?).await?;
    ana.hears().await?;

    say("BEN LOOKS: there is one node, the one that was lost and found.");
    ben.client.get_children(LOCK).await?;
    guard.release().await?;
    Ok(())
}
