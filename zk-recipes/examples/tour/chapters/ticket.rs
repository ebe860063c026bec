//! A lock that is handed to the next process of a program.

use zk_recipes::LockTicket;

use crate::Error;
use crate::contender::Contender;
use crate::world::{Cast, LOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, world, .. } = cast;
    world.make(&[LOCK]).await?;
    cast.say(
        "A program that holds a lock for days is to be restarted with a new version. If it \
         released the lock, somebody else would get it, and all the work would move to another \
         machine, only to come back. This chapter shows how a lock outlives its process. The \
         idea: a lock belongs to a session, and a session is not a process. Whoever has the \
         session's id and password may go on with it.",
    )
    .await?;
    cast.say(
        "ANA LEAVES A TICKET: the session with its password, and the path of her node. Ben waits \
         all the time.",
    )
    .await?;
    let guard = ana.acquire(&ana.lock()?).await?;
    ben.narrator.quiet();
    let ben_waits = ben.queue_up(&ben.lock()?).await?;
    let secret = guard.into_ticket()?.to_secret();
    // From here on the session has no client, and goes on until its timeout.
    ana.client.detach().await;
    cast.note("Ana has written the ticket to a file, and her process has ended.");
    world.set_hasty(true);

    cast.say(
        "THE NEXT PROCESS reads the ticket. Eve resumes the session before its timeout is over, \
         and the lock with it: the node has been there all the time, so nobody else was let in. \
         Two processes with one ticket would both believe in the lock. So Eve marks the node's \
         access list, and only one who has made that mark goes on.",
    )
    .await?;
    let ticket = secret.parse::<LockTicket>()?;
    let eve = Contender::resume("Eve", world, ticket.session()).await?;
    let guard = eve.told(eve.lock()?.resume(&ticket)).await?;
    world.set_hasty(false);

    cast.say("EVE RELEASES as if she had acquired the lock herself, and Ben gets it.").await?;
    guard.release().await?;
    let guard_of_ben = ben_waits.await??;
    eve.narrator.quiet();
    guard_of_ben.release().await?;
    eve.client.close().await;
    Ok(())
}
