//! A contender's place in a queue: its node, and what the listings say about it.

use std::sync::Arc;

use tracing::debug;
use zk_client::{Children, Error as ClientError, OwnedNode};

use crate::error::{Cause, Error};
use crate::node::{Contender, Standing};
use crate::queue::queue::{Listing, Queue};
use crate::steady::retries::with_retries;
use crate::steady::watch::QuietWatch;
use crate::trace::QUEUE;

/// From this sequence number on a warning is written: half of the folder's numbers are used up.
const MANY_SEQUENCES: i32 = 1 << 30;

/// Sequence numbers end at 2^31 - 1, and servers differ in what they do there. No place is taken
/// beyond this number. The distance to the end is more contenders than can be under way at once.
const LAST_SEQUENCE: i32 = i32::MAX - 65_536;

/// A contender's place in the queue of one folder.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) queue: Arc<Queue>,
    /// Our node. Dropping it deletes the node, also if the connection is broken at that moment. It
    /// is dropped before the watch on it.
    pub(crate) node: OwnedNode,
    /// What the name of our node says.
    pub(crate) own: Contender,
    /// The watch on our node, which was set if we had to wait.
    pub(crate) own_watch: QuietWatch,
    /// True if a contender was ahead of us.
    pub(crate) has_waited: bool,
    /// Fires when a contender joins the queue. It is set if the lock wants to know that, and if
    /// there was no other contender when we joined.
    pub(crate) others: QuietWatch,
}

impl Place {
    /// Makes the place whose node this is.
    pub(crate) fn new(queue: &Arc<Queue>, node: OwnedNode) -> Result<Self, Error> {
        let name = queue.name(node.path());
        let own = name.and_then(|name| Contender::parse(queue.naming(), name));
        let own = own.filter(|own| (0..=LAST_SEQUENCE).contains(&own.sequence));
        let Some(own) = own else {
            return Err(Cause::SequenceExhausted(queue.folder().to_owned()).into());
        };
        if own.sequence >= MANY_SEQUENCES {
            queue.warn_of_exhaustion(own.sequence);
        }
        let queue = Arc::clone(queue);
        let own_watch = QuietWatch::default();
        Ok(Self { queue, node, own, own_watch, has_waited: false, others: QuietWatch::default() })
    }

    /// Finds who is ahead in the listing that was requested behind the create. `None` if its reply
    /// was lost.
    pub(crate) async fn listed(&mut self, listing: Listing) -> Result<Option<Standing>, Error> {
        match listing.answer().await {
            Ok((list, watcher)) => {
                // Dropped quietly if it is not needed.
                let watch = watcher.map(QuietWatch::from).unwrap_or_default();
                let standing = self.standing(&list)?;
                self.note_joined(Some(&standing));
                if !standing.has_others {
                    self.others = watch;
                }
                Ok(Some(standing))
            }
            Err(error) if error.is_transient() => {
                self.note_joined(None);
                Ok(None)
            }
            Err(error) => Err(self.vanished_or(error)),
        }
    }

    fn note_joined(&self, standing: Option<&Standing>) {
        let ahead = standing.map(|standing| (standing.nearest.len() + standing.farther) as u64);
        debug!(target: QUEUE, node = self.node.path(), ahead, "joined");
        let ahead = ahead.unwrap_or_default();
        self.queue.options().count(|stats| {
            stats.joined += 1;
            stats.waited += u64::from(ahead > 0);
            stats.ahead += ahead;
            stats.max_ahead = stats.max_ahead.max(ahead);
        });
    }

    /// Finds who is ahead in a listing. If our node is not in it, it is gone.
    pub(crate) fn standing(&self, list: &Children) -> Result<Standing, Error> {
        let standing = Standing::of(&self.own, self.queue.naming(), &list.names);
        let standing = standing.ok_or_else(|| self.vanished())?;
        if let Some(name) = &standing.foreign {
            self.queue.note_foreign(name)?;
        }
        Ok(standing)
    }

    /// True if nobody is ahead. This does not wait for the turn, but it lists the queue if no
    /// listing is given.
    pub(crate) async fn is_first(&self, standing: Option<&Standing>) -> Result<bool, Error> {
        if let Some(standing) = standing {
            return Ok(standing.is_first());
        }
        let list = with_retries(|| self.queue.client().get_children(self.queue.folder())).await;
        let list = list.map_err(|error| self.vanished_or(error))?;
        Ok(self.standing(&list)?.is_first())
    }

    /// The error that our own node, or the folder with it, is gone, if that is what `error` means.
    pub(crate) fn vanished_or(&self, error: ClientError) -> Error {
        if error.is_no_node() { self.vanished() } else { error.into() }
    }

    pub(crate) fn vanished(&self) -> Error {
        Cause::NodeVanished(self.node.path().to_owned()).into()
    }
}
