//! What a contender has once it holds a lock, and how it lets go.

use std::rc::Rc;
use std::time::Duration;

use zk_client::{Client, Op, Zxid};
use zk_recipes::{Guard, Hold, LockState as RecipeState, ReadGuard, ReentrantGuard, Release};
use zk_recipes::{ReentrantLock, WriteGuard};

use crate::kind::{DATA, Kind};
use crate::locks::seat::Seat;
use crate::naive::{Version, release_by_name};
use crate::scene::{LockState, Tone};

/// The end of an acquire.
pub(crate) enum Acquired {
    Holds(Holding),
    /// Somebody else has the lock, and the program does not wait.
    Taken,
    /// The program has done its work under the lock, and ended.
    Finished,
}

/// What stands for the lock.
#[derive(Clone)]
pub(crate) enum Holding {
    Guard(Rc<AnyGuard>),
    /// The path of a node: for programs on the client alone.
    Node {
        path: Rc<str>,
        token: Zxid,
    },
}

/// A guard of any lock.
pub(crate) enum AnyGuard {
    Exclusive(Guard),
    Read(ReadGuard),
    Write(WriteGuard),
    Reentrant(ReentrantGuard),
}

/// What outlives an acquire.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    /// A two-level lock, which keeps its node while nobody uses it.
    pub(crate) lock: Option<ReentrantLock>,
    /// The node that the last holder had, for a program that releases by its name.
    pub(crate) node: Option<Rc<str>>,
}

impl Memory {
    /// What an earlier process of this name has held, if its program releases that.
    pub(crate) fn remembered(&self, seat: &Seat) -> Option<Holding> {
        let path = self.node.clone().filter(|_| seat.kind.is_case("release_by_name"))?;
        Some(Holding::Node { path, token: Zxid(0) })
    }
}

impl AnyGuard {
    pub(crate) fn hold(&self) -> &Hold {
        match self {
            Self::Exclusive(guard) => guard,
            Self::Read(guard) => guard,
            Self::Write(guard) => guard,
            Self::Reentrant(guard) => guard,
        }
    }

    async fn release(&self) -> Result<Release, zk_recipes::Error> {
        match self {
            Self::Exclusive(guard) => guard.release().await,
            Self::Read(guard) => guard.release().await,
            Self::Write(guard) => guard.release().await,
            Self::Reentrant(guard) => guard.release().await,
        }
    }
}

impl Holding {
    pub(crate) fn token(&self) -> String {
        match self {
            Self::Guard(guard) => guard.hold().token().to_string(),
            Self::Node { token, .. } => format!("{:#x}", token.0),
        }
    }

    /// What the guard knows: its state, and for how long from now the lock is surely held.
    pub(crate) fn state(&self) -> Option<(LockState, Duration, String)> {
        let Self::Guard(guard) = self else {
            return None;
        };
        let state = guard.hold().state();
        Some(match state {
            RecipeState::Held => (LockState::Held, guard.hold().remaining(), String::new()),
            RecipeState::Suspended { .. } => {
                (LockState::Maybe, guard.hold().remaining(), String::new())
            }
            RecipeState::Lost(loss) => (LockState::Lost, Duration::ZERO, loss.to_string()),
            _ => return None,
        })
    }

    /// Releases the lock. Returns how that went.
    pub(crate) async fn release(&self, seat: &Seat) -> (Tone, String) {
        let released = match self {
            Self::Guard(guard) => match guard.release().await {
                Ok(Release::Released) => Ok(true),
                Ok(_) => Ok(false),
                Err(error) => Err(error.to_string()),
            },
            Self::Node { path, .. } => release(seat, path).await,
        };
        match released {
            Ok(true) => (Tone::Plain, "has released the lock".to_owned()),
            Ok(false) => (Tone::Plain, "had nothing left to release".to_owned()),
            Err(error) => (Tone::Bad, format!("cannot tell whether it has released: {error}")),
        }
    }

    /// Writes the data if the lock is still held at that moment.
    pub(crate) async fn write_fenced(&self, client: &Client, data: &str) -> (Tone, String) {
        let set = Op::set_data(DATA, data.as_bytes(), None);
        let written = match self {
            Self::Guard(guard) => guard.hold().fenced(set).await.map_err(|error| error.to_string()),
            Self::Node { path, .. } => {
                let ops = (Op::check(path, None), set);
                client.multi(ops).await.map(|(_, set)| set).map_err(|error| error.to_string())
            }
        };
        told(written.map(drop), data)
    }
}

/// Writes the data whoever holds the lock.
pub(crate) async fn write(client: &Client, data: &str) -> (Tone, String) {
    let written = client.set_data(DATA, data.as_bytes(), None).await;
    told(written.map(drop).map_err(|error| error.to_string()), data)
}

fn told(written: Result<(), String>, data: &str) -> (Tone, String) {
    match written {
        Ok(()) => (Tone::Plain, format!("has written {data:?}")),
        Err(error) => (Tone::Bad, format!("has not written {data:?}: {error}")),
    }
}

/// Releases the lock of a node. Returns true if there was something to release.
async fn release(seat: &Seat, path: &str) -> Result<bool, String> {
    let client = &seat.client;
    let released = match (seat.kind, seat.kind.is_case("release_by_name")) {
        (Kind::Case(_, Version::Broken), true) => {
            release_by_name::broken::release(client, path).await
        }
        (_, true) => release_by_name::repaired::release(client, path).await,
        _ => client.delete(path, None).await,
    };
    match released {
        Ok(()) => Ok(true),
        Err(error) if error.is_no_node() => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}
