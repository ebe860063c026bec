//! The guard of a semaphore: so many leases, which count together.

use std::ops::Deref;
use std::sync::Mutex;

use zk_client::{Deletion, Reply};

use crate::error::Error;
use crate::hold::{Hold, Releasing};
use crate::locks::MultiGuard;
use crate::queue::Place;
use crate::steady::mutex::lock;

/// Proof of holding permits of a [`Semaphore`](crate::Semaphore), until it is dropped or released.
///
/// Each permit is a node, and all of them count together: if one is lost, so is the whole. What
/// [`Guard`](crate::Guard) says about dropping and sharing applies here, too.
///
/// There is no fencing token, because several holders work at a time. A resource that refuses all
/// tokens but the newest would refuse them. What needs protection from a holder that has lost its
/// permit is written by [`fenced`](MultiGuard::fenced).
#[derive(Debug)]
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
        let leases = MultiGuard::hold(leases).await?;
        Ok(Self { leases, turn })
    }

    /// Each of the permits.
    pub fn leases(&self) -> &[Hold] {
        self.leases.locks()
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
        let turn = lock(&self.turn).take();
        Releasing::new(async move {
            let released = released.await?;
            if let Some(turn) = turn
                && let Err(error) = turn.await.map_err(Error::from)
                && error.is_refusal()
            {
                return Err(error);
            }
            Ok(released)
        })
    }
}

impl Deref for Permit {
    type Target = MultiGuard;

    fn deref(&self) -> &MultiGuard {
        &self.leases
    }
}
