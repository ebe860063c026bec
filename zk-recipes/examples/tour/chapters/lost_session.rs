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
        "Dan holds the lock, and Ben waits. Then Dan is stopped, as processes are by a paused \
         machine or a debugger. The ensemble receives nothing from him for a session timeout, \
         and ends his session. The tour does not wait for that: Eve resumes Dan's session and \
         closes it. His node goes with it, and Ben is woken as if Dan had released.",
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
        "BEN WRITES, with proof of his right. A store outside of ZooKeeper receives his token \
         with each write, and remembers the greatest. A node is written in one transaction with \
         a check that Ben's own node is there.",
    )
    .await?;
    let mut store = Store { greatest: guard_of_dan.token() };
    cast.note(&store.write("Ben", &guard_of_ben));
    guard_of_ben.fenced(Op::set_data(BALANCE, b"Ben's", None)).await?;

    cast.say(
        "DAN GOES ON, and cannot know what he missed: his guard still says that he holds the \
         lock. No check on his side can close this gap. But the store refuses his token.",
    )
    .await?;
    dan.narrator.go_on();
    cast.note(&format!("Dan's guard: {:?}", guard_of_dan.state()));
    cast.note(&store.write("Dan", &guard_of_dan));
    world.set_hasty(false);

    cast.say(
        "SO DOES THE ENSEMBLE: Dan's transaction finds his connection closed, and the next one \
         is refused. Now his guard knows.",
    )
    .await?;
    let late = Op::set_data(BALANCE, b"Dan's", None);
    let Err(refused) = guard_of_dan.fenced(late).await else {
        return Err("a holder that lost the lock was let through".into());
    };
    cast.note(&format!("Dan's transaction: {:?}, {:?}", refused.kind(), refused.outcome()));
    cast.note(&format!("Dan's guard: {:?}", guard_of_dan.state()));

    cast.say(
        "CHO WORKS FOR DAN. In her own session she carries out a transaction on his behalf, too \
         late. It is refused, too: the check asks for the node that held the lock, not for who \
         sends.",
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
