//! Going to the end of the queue: one transaction releases the lock and queues up again.

use zk_recipes::Lock;

use crate::text::say;
use crate::{Cast, Error};

pub(crate) async fn tell(Cast { ana, ben, .. }: &Cast, lock_of_ana: Lock) -> Result<(), Error> {
    say("2. TO THE END OF THE QUEUE. Ana takes the lock again, and Ben queues up. She has more \
         work than fits into one turn.");
    let guard = ana.acquire(&lock_of_ana).await?;
    ben.narrator.quiet();
    let ben_waits = ben.queue_up(&ben.lock()?).await?;

    say("ANA REQUEUES. One transaction creates her new node and deletes the old one, so that \
         nobody sees the queue without her. A list behind it tells her who is ahead. The new name \
         has another random part, so an old name can never be mistaken for the new node.");
    let ana_waits = ana.waits(guard.requeue()).await?;
    ben_waits.await??.release().await?;
    ben.narrator.loud();
    ana_waits.await??.release().await?;
    Ok(())
}
