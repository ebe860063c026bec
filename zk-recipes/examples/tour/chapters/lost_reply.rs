//! A create that was carried out although its caller never heard so.

use crate::text::say;
use crate::{Cast, Error, LOCK};

pub(crate) async fn tell(Cast { ana, ben, .. }: &Cast) -> Result<(), Error> {
    say("3. A REPLY IS LOST. The server creates Ana's node, and the connection breaks before she \
         gets the reply. If she just tried again, she would queue up behind her own lost node, for \
         as long as her session lives. So she resumes the session on a new connection, and looks. \
         The sync comes first, since the new server may be behind the old one. She recognises her \
         node in the list by its random part, and exists shows that her session owns it.");
    ana.narrator.lose_reply_of_create();
    let guard = ana.acquire(&ana.lock()?).await?;
    ana.hears().await?;

    say("BEN LOOKS: there is one node, the one that was lost and found.");
    ben.client.get_children(LOCK).await?;
    guard.release().await?;
    Ok(())
}
