//! A holder that is stopped for too long, and what fencing is for.

use zk_client::{CreateOptions, Op};
use zk_recipes::{FencingToken, Guard};

use crate::Error;
use crate::contender::Contender;
use crate::world::{BALANCE, Cast, LOCK};

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ben, cho, world, .. } = cast;
    world.make(&[LOCK]).await?;
    world.observer.create(BALANCE, b"", &CreateOptions::persistent()).await?;
    cast.say(
        "A holder can lose its lock and not know it. This chapter shows how that looks from all \
         sides: from the ensemble, from the next holder, from the store that the lock protects, \
         and from the one who has lost it. If you remember one chapter of this course, let it be \
         this one.",
    )
    .await?;
    cast.say(
        "DAN IS STOPPED while he holds the lock and Ben waits: his whole process stands still, as \
         in a debugger or on a paused machine. The ensemble receives nothing from him for a \
         session timeout, and ends his session. His node goes with his session, and Ben is woken \
         as if Dan had released.",
    )
    .await?;
    cast.say(
        "HOW IT IS DONE HERE. The tour does not wait for the timeout. Eve is no contender, but a \
         second client to which the tour has given the id and the password of Dan's session. \
         Whoever has these two may resume a session, and close it. So Eve closes Dan's session \
         from outside, as the timeout would have ended it, and he does not hear of it.",
    )
    .await?;
    let dan = Contender::connect("Dan", world).await?;
    ben.narrator.quiet();
    dan.narrator.quiet();
    let guard_of_dan = dan.acquire(&dan.lock()?).await?;
    let ben_waits = ben.queue_up(&ben.lock()?).await?;
    dan.narrator.loud();
    ben.narrator.loud();
    dan.narrator.stop();
    // On a real server the clock runs, and Dan's client would notice that it does.
    world.set_hasty(true);
    let session = dan.client.session().ok_or("a session that nobody knows")?;
    let eve = Contender::resume("Eve", world, session).await?;
    eve.client.close().await;
    let guard_of_ben = ben_waits.await??;

    cast.say(
        "WHAT IT MEANS. For the ensemble all is in order: a session has ended, and its lock has \
         gone to the next in the queue. Ben's token is greater than Dan's, since his node was \
         created later. And Dan does not know of any of this.",
    )
    .await?;
    cast.say(
        "BEN WRITES, with proof of his right, to two kinds of stores. One is outside of \
         ZooKeeper. It receives his token with each write, and remembers the greatest that it has \
         seen. The other is a node in ZooKeeper. It is written in one transaction with a check \
         that Ben's own node is there: either both happen or neither.",
    )
    .await?;
    let mut store = Store { greatest: guard_of_dan.token() };
    cast.note(&store.write("Ben", &guard_of_ben));
    guard_of_ben.fenced(Op::set_data(BALANCE, b"Ben's", None)).await?;

    cast.say("DAN GOES ON in the middle of his work. The first thing he does is to write.").await?;
    dan.narrator.go_on();
    cast.note(&format!("Dan's guard: {:?}", guard_of_dan.state()));
    cast.note(&store.write("Dan", &guard_of_dan));
    world.set_hasty(false);

    cast.say(
        "WHAT IT MEANS. Dan's guard still says Held. Eve has ended his session at once; had he \
         been stopped for a whole session timeout, his guard would say Lost at the first look, \
         since it looks at the clock. But a look does not help him if he is stopped behind it and \
         before he writes. No check on his side can close this gap. The store can: his token is \
         less than one that it has seen, and it refuses him.",
    )
    .await?;
    cast.say(
        "SO DOES THE ENSEMBLE. Dan tries the transaction, too. His connection is closed, and when \
         he wants to resume his session he is told that it is over.",
    )
    .await?;
    let late = Op::set_data(BALANCE, b"Dan's", None);
    let Err(refused) = guard_of_dan.fenced(late).await else {
        return Err("a holder that lost the lock was let through".into());
    };
    cast.note(&format!("Dan's transaction: {:?}, {:?}", refused.kind(), refused.outcome()));
    cast.note(&format!("Dan's guard: {:?}", guard_of_dan.state()));

    cast.say(
        "WHAT IT MEANS. The error says Lost, and NotApplied: he may be sure that nothing was \
         written. Now his guard knows.",
    )
    .await?;
    cast.say(
        "CHO WORKS FOR DAN. A transaction need not come from the holder itself. In her own \
         session, which is alive and well, Cho carries one out on Dan's behalf, too late. It asks \
         for the node that held the lock, not for who sends. That node is gone, so it is refused \
         as well.",
    )
    .await?;
    let check = Op::check(guard_of_dan.node(), None);
    let late = cho.client.multi((check, Op::set_data(BALANCE, b"Cho's", None)));
    if late.await.is_ok() {
        return Err("work for a holder that lost the lock was let through".into());
    }
    ben.narrator.quiet();
    guard_of_ben.release().await?;
    ben.narrator.loud();
    Ok(())
}

/// Something outside of ZooKeeper that the lock protects.
struct Store {
    greatest: FencingToken,
}

impl Store {
    /// Returns what the store says.
    fn write(&mut self, name: &str, guard: &Guard) -> String {
        let token = guard.token();
        if token < self.greatest {
            return format!("The store: {name}'s {token} is less than {}: refused", self.greatest);
        }
        self.greatest = token;
        format!("The store: {name}'s {token} is the greatest so far: written")
    }
}
