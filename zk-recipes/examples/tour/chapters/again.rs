//! The mirror, by which a lock that is used again and again costs two requests each time.

use zk_recipes::Lock;

use crate::text::say;
use crate::{Cast, Error};

pub(crate) async fn tell(Cast { ana, ben, .. }: &Cast, lock_of_ana: Lock) -> Result<(), Error> {
    say("2. COMING AGAIN. Ana has kept her Lock and takes it a second time. Now a mirror of the \
         queue is worth it: a recursive watch on the folder leaves in the same packet. From here \
         on the server tells her of all who come and go, in order, and ahead of its replies.");
    ana.acquire(&lock_of_ana).await?.release().await?;

    say(
        "THE THIRD TIME the create is enough: when it is answered, every older contender has been \
         told of. The numbers prove it. They count the children that the folder ever had: if Ana \
         got another number than her mirror expects, somebody came untold, and she would list. \
         Create and delete, two requests: that is what each acquisition costs from now on.",
    );
    let guard = ana.acquire(&lock_of_ana).await?;

    say("BEN QUEUES UP as before, which is not told again. Ana's mirror hears of him.");
    ben.narrator.quiet();
    let ben_waits = ben.queue_up(&ben.lock()?).await?;
    ana.hears().await?;
    guard.release().await?;
    let guard = ben_waits.await??;

    say(
        "ANA QUEUES UP BEHIND BEN with a create alone. Her mirror knows that he is ahead, and will \
         hear of his end. Then she drops her Lock, and the mirror with it.",
    );
    let ana_waits = ana.queue_up(&lock_of_ana).await?;
    guard.release().await?;
    ben.narrator.loud();
    ana_waits.await??.release().await?;
    drop(lock_of_ana);
    ana.hears().await
}
