//! The guard of a semaphore: so many leases, which count together.

use std::fmt;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use zk_client::{Deletion, Operations, Reply};

use crate::error::{Error, Loss};
use crate::hold::{Hold, LockState, Releasing};
use crate::locks::MultiGuard;
use crate::queue::Place;

/// Proof of holding permits of a [`Semaphore`](crate::Semaphore), until it is dropped or released.
///
/// Each permit is a node, and all of them count together: if one is lost, so is the whole. What
/// [`Guard`](crate::Guard) says about dropping and sharing applies here, too.
///
/// There is no fencing token, because several holders work at a time. A resource that refuses all
/// tokens but the newest would refuse them. What needs protection from a holder that has lost its
/// permit is written by [`fenced`](Self::fenced).
#[must_use = "dropping it gives the permits back: bind it to a name (`_` is none)"]
pub struct Permit {
    leases: MultiGuard,
    /// The reply to the delete of the turn that led to the permits. An acquire does not wait for
    /// it.
    turn: Mutex<Option<Reply<Deletion>>>,
}

impl Permit {
    /// Makes permits of leases for which there is room, and ends the turn.
    pub(super) async fn new(leases: Vec<Place>, turn: Option<Place>) -> Result<Self, Error> {
        let turn = Mutex::new(turn.map(|turn| turn.node.delete()));
        let leases = MultiGuard::hold(leases).await.map_err(Error::while_waiting)?;
        Ok(Self { leases, turn })
    }

    /// Each of the permits.
    pub fn leases(&self) -> &[Hold] {
        self.leases.locks()
    }

    /// The current state of the permits, which is that of the worst of them: see [`Hold::state`].
    pub fn state(&self) -> LockState {
        self.leases.state()
    }

    /// For how long from now the permits are surely still ours: see [`Hold::remaining`].
    pub fn remaining(&self) -> Duration {
        self.leases.remaining()
    }

    /// Waits until one of the permits is lost, and returns how.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. Any number of tasks may wait.
    pub async fn lost(&self) -> Loss {
        self.leases.lost().await
    }

    /// Runs `work` until it is done or one of the permits is lost: see [`Hold::run`].
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost): a permit was lost before `work` was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`, and nothing else.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Error> {
        self.leases.run(work).await
    }

    /// Asks the ensemble whether the permits are ours: see [`Hold::verify`].
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if one of them is not. Other errors leave that open.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn verify(&self) -> Result<(), Error> {
        self.fenced(()).await
    }

    /// Carries out `ops` in one transaction, only if all permits are still ours at that moment.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`MultiGuard::fenced`].
    pub async fn fenced<O: Operations>(&self, ops: O) -> Result<O::Results, Error> {
        self.leases.fenced(ops).await
    }

    /// Gives the permits back and waits until the server has confirmed it.
    ///
    /// This costs one write for each permit. They are sent together.
    ///
    /// # Errors
    ///
    /// As [`MultiGuard::release`]. If the server refused to end our turn in the queue, that is an
    /// error, too: then the permits are given back, and the next acquire waits until the client,
    /// which goes on, has deleted the node of the turn.
    ///
    /// # Cancel safety
    ///
    /// As [`MultiGuard::release`].
    pub fn release(&self) -> Releasing {
        let released = self.leases.release();
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner).take();
        Releasing::new(async move {
            let released = released.await?;
            match turn {
                Some(turn) => match turn.await.map_err(Error::from) {
                    Err(error) if error.is_refusal() => Err(error),
                    _ => Ok(released),
                },
                None => Ok(released),
            }
        })
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Permit").field(&self.leases()).finish()
    }
}
