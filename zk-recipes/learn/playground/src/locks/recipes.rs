//! The locks of zk-recipes.

use std::rc::Rc;
use std::time::Duration;

use zk_client::Client;
use zk_recipes::{Error, Lock, Options, Owner, ReentrantLock, RwLock};

use crate::kind::{FOLDER, Kind};
use crate::locks::holding::{Acquired, AnyGuard, Holding};
use crate::locks::seat::Seat;
use crate::script::Mode;

/// How long a two-level lock keeps a node that nobody uses.
const LINGER: Duration = Duration::from_secs(5);

/// A two-level lock, which has to outlive its guards.
pub(crate) fn two_level(client: &Client, name: &str) -> Result<ReentrantLock, Error> {
    ReentrantLock::with_options(client, FOLDER, Options::new().data(name).linger(LINGER))
}

pub(crate) async fn acquire(seat: &Seat, kept: Option<ReentrantLock>) -> Result<Acquired, Error> {
    let Seat { kind, client, name, mode, .. } = seat;
    let options = Options::new().data(&**name);
    let guard = match (kind, kept) {
        (Kind::ReadWrite, _) => {
            let lock = RwLock::with_options(client, FOLDER, options)?;
            match mode {
                Mode::Read => AnyGuard::Read(lock.read().await?),
                Mode::Write => AnyGuard::Write(lock.write().await?),
            }
        }
        (Kind::Reentrant, Some(lock)) => AnyGuard::Reentrant(lock.acquire(&Owner::new()).await?),
        _ => {
            let lock = Lock::with_options(client, FOLDER, options)?;
            AnyGuard::Exclusive(lock.acquire().await?)
        }
    };
    Ok(Acquired::Holds(Holding::Guard(Rc::new(guard))))
}
