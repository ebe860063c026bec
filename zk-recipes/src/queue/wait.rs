//! Waiting until nobody is ahead, without a request at the hand-over.
//!
//! A listing shows the contenders ahead. Later ones queue up behind us, so the contenders ahead can
//! only leave (but a writer may leave a reader in its place). We watch the two nearest of them, and
//! our own node. Once events have told that all of them have left, we are first, and need no other
//! listing. If an event may have been missed, or our own node may be gone, we list the queue again.
//!
//! A server that lags behind may answer that. Our node in its listing proves that the server has
//! what was committed before our create, and so every contender that will ever be ahead. A server
//! without a quorum, which may show a departure that was never committed, serves no session that
//! has a node.
//!
//! All of this rests on nobody joining ahead of us. A lock with priorities, whose contenders do
//! that, cannot be built on it: it would have to list the queue whenever somebody joins.

use std::future::poll_fn;

use tracing::{debug, trace};
use zk_client::{Children, Error as ClientError};

use crate::error::Error;
use crate::node::{Contender, Role, Standing};
use crate::queue::place::Place;
use crate::queue::sight::{Seen, Sight};
use crate::steady::retries::Retries;
use crate::trace::QUEUE;

/// The state of a place that is not first.
#[derive(Default)]
struct Wait {
    /// The contenders ahead in the last listing, without those that have left since then.
    standing: Standing,
    sight: Sight,
    /// True if a contender was ahead.
    has_waited: bool,
    retries: Retries,
}

impl Place {
    /// Waits until nobody is ahead. `standing` comes from the listing behind our create.
    pub(crate) async fn wait(&mut self, standing: Option<Standing>) -> Result<(), Error> {
        let mut wait = Wait::default();
        match standing {
            Some(standing) => wait.learn(standing),
            None => wait.sight.require_listing(),
        }
        while !self.is_over(&mut wait)? {
            if wait.sight.lacks_something(&wait.standing) {
                self.look(&mut wait).await?;
                continue;
            }
            match poll_fn(|cx| wait.sight.poll_seen(self, cx)).await? {
                Seen::Gone(contender) => wait.note_gone(self, &contender),
                Seen::OwnGone => return Err(self.vanished()),
                Seen::Changed => {}
            }
        }
        debug!(target: QUEUE, node = self.node.path(), "first");
        self.has_waited = wait.has_waited;
        self.own_watch = wait.sight.into_own();
        Ok(())
    }

    /// True if all contenders of our last listing were seen to go, and our own node was still there
    /// then.
    ///
    /// On one connection events come in the order of the changes. So if somebody had deleted our
    /// node before, the watch on it would have fired by now. Without a watch on our node the last
    /// listing is the proof: it contained our node and nobody ahead. (If an access list hides our
    /// node, every departure ahead forces such a listing.)
    fn is_over(&self, wait: &mut Wait) -> Result<bool, Error> {
        if wait.sight.needs_listing() || !wait.standing.is_first() {
            return Ok(false);
        }
        let state = self.queue.client().state();
        if let Some(ended) = state.ended() {
            return Err(ClientError::from(ended).into());
        }
        // While the connection is gone nothing shows that the session lives, and after a long wait
        // a lease would lapse at once. The reply to a listing shows that it lives.
        let is_sure = state.is_connected()
            && match wait.sight.look_at_own()? {
                None => true,
                Some(Seen::OwnGone) => return Err(self.vanished()),
                Some(_) => false,
            };
        if !is_sure {
            wait.sight.require_listing();
        }
        Ok(is_sure)
    }

    /// Sets the watches that are missing, and lists the queue again where it is in doubt.
    async fn look(&self, wait: &mut Wait) -> Result<(), Error> {
        let asked = wait.sight.ask(self, &wait.standing);
        match wait.sight.take(self, asked).await {
            Ok((gone, list)) => {
                wait.retries.reset();
                match list {
                    // It is newer than the watches, and shows who is gone.
                    Some(list) => wait.learn_from(self, &list)?,
                    None => gone.iter().for_each(|contender| wait.note_gone(self, contender)),
                }
                Ok(())
            }
            Err(error) => wait.retries.count(error).map_err(|error| self.vanished_or(error)),
        }
    }
}

impl Wait {
    /// Takes the contenders ahead from a new listing.
    fn learn_from(&mut self, place: &Place, list: &Children) -> Result<(), Error> {
        let standing = place.standing(list)?;
        let Standing { nearest, farther, .. } = &standing;
        trace!(target: QUEUE, ?nearest, farther, "listed");
        self.learn(standing);
        Ok(())
    }

    fn learn(&mut self, standing: Standing) {
        self.sight.keep(&standing);
        self.has_waited |= !standing.is_first();
        self.standing = standing;
    }

    /// A contender ahead has gone. It may have been waiting like us, and since the last listing
    /// nothing is known about the contenders in front of the two nearest ones.
    fn note_gone(&mut self, place: &Place, contender: &Contender) {
        self.standing.nearest.retain(|one| one != contender);
        // A writer that downgrades puts a reader in its place. A reader waits for no reader.
        let may_downgrade = contender.role == Role::Exclusive
            && place.own.role == Role::Exclusive
            && place.queue.naming().has_readers();
        if self.standing.farther > 0 || may_downgrade {
            self.sight.require_listing();
        }
    }
}
