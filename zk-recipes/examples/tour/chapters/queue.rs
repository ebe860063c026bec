//! The queue, the hand-over, and how to leave.

use crate::Error;
use crate::world::Cast;

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, cho, .. } = cast;
    cast.say(
        "Now the lock of zk-recipes, which has all the repairs of the last chapters. One would \
         expect that it is slower than the textbook lock. It is not, and this chapter shows why. \
         Count the requests: each costs a round trip to the server, and in a busy service that is \
         what users wait for.",
    )
    .await?;
    cast.say(
        "ANA ACQUIRES THE FREE LOCK. Her first try finds no folder, which happens only to the \
         very first contender. She makes it and tries again. Create and list leave together: she \
         does not wait for the reply to the one before she sends the other. Her node's name has \
         random digits, by which she would recognise it after a lost reply, and the number from \
         the server.",
    )
    .await?;
    let guard = ana.acquire(&ana.lock()?).await?;

    cast.say(
        "WHAT IT MEANS. The server answers in order, so the list is newer than Ana's node. If \
         nobody with a lower number is in it, nobody ever will be. So the lock is hers after one \
         round trip. The textbook lock takes two. Her fencing token is the zxid of her create; \
         what stands behind the dot is for the chapter Two levels.",
    )
    .await?;
    cast.say(
        "BEN AND CHO QUEUE UP. Each joins in the same way, and finds somebody ahead. One request, \
         setWatches, then sets all the watches that a waiter needs: one on the contender right \
         ahead, which it waits for; one on the contender before that, so that it need not ask \
         again if the one right ahead gives up; and one on its own node, to hear if somebody \
         deletes it.",
    )
    .await?;
    let ben_waits = ben.queue_up(&ben.lock()?).await?;
    let cho_waits = cho.queue_up(&cho.lock()?).await?;

    cast.say("ANA RELEASES: she deletes her node, and those who watch it are told.").await?;
    guard.release().await?;
    let guard = ben_waits.await??;
    cho.hears().await?;

    cast.say(
        "WHAT IT MEANS. Ben has now seen everybody go who was ahead of him in his list, and his \
         own node is still there. So the lock is his, and he has sent nothing for it: the \
         notification is the grant. Cho knows from her second watch that one further ahead has \
         gone, and goes on waiting for Ben. However long the queue is, exactly one contender gets \
         in.",
    )
    .await?;
    cast.say(
        "CHO CHANGES HER MIND, AND BEN DROPS HIS GUARD. In Rust, a value that is not needed any \
         more is dropped, and that is all it takes here: the delete is on its way at once, \
         without an await. Nobody waits behind a contender that has left. If the connection broke \
         now, the delete would be the first request on the next one.",
    )
    .await?;
    cho_waits.abort();
    drop(cho_waits.await);
    cho.hears().await?;
    drop(guard);
    ben.hears().await
}
