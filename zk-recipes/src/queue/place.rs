//! Our place in a queue: one ephemeral sequential node, from its create to its release.
//!
//! The node itself is the client's [`OwnedNode`]: whenever a place is dropped, the client deletes
//! it, also if the connection is broken at that moment.

use std::sync::Arc;

use zk_client::{Children, Error as ClientError, OwnedNode, Watcher};

use crate::error::{Error, Fault};
use crate::node::{Contender, Standing};
use crate::queue::wakeups::QuietWatch;
use crate::queue::{Queue, is_transient};

/// Sequence numbers end at 2^31 - 1, and servers differ in what they do there. No place is taken
/// beyond this number. The distance to the end is more contenders than can be under way at once.
const LAST_SEQUENCE: i32 = i32::MAX - 65_536;

/// How many connections may break in a row over the requests of one place, before it is given up. A
/// request that breaks each connection on which it is sent would take all other requests of the
/// session with it.
pub(crate) const MAX_LOSSES: u32 = 5;

/// A contender's place in the queue of one folder.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) queue: Arc<Queue>,
    // Dropped before the watch on it, which then has nothing to report any more.
    pub(crate) node: OwnedNode,
    pub(crate) own: Contender,
    /// Set if the place had to wait.
    pub(crate) own_watch: QuietWatch,
    /// True if a contender was ahead.
    pub(crate) has_waited: bool,
    /// Fires when a contender joins or leaves the queue. Set if the listing found us alone.
    pub(crate) others: QuietWatch,
}

impl Place {
    /// Makes the place whose node this is.
    pub(crate) fn new(queue: &Arc<Queue>, node: OwnedNode) -> Result<Self, Error> {
        let name = queue.name(node.path());
        let own = name.and_then(|name| Contender::parse(queue.naming(), name));
        let own = own.filter(|own| (0..=LAST_SEQUENCE).contains(&own.sequence));
        let Some(own) = own else {
            return Err(Fault::SequenceExhausted(queue.folder().to_owned()).into());
        };
        queue.note_sequence(own.sequence);
        let queue = Arc::clone(queue);
        let own_watch = QuietWatch::default();
        Ok(Self { queue, node, own, own_watch, has_waited: false, others: QuietWatch::default() })
    }

    /// Evaluates the listing that was requested behind the create. `None` if its reply was lost.
    pub(crate) fn listed(
        &mut self,
        answer: Result<(Children, Option<Watcher>), ClientError>,
    ) -> Result<Option<Standing>, Error> {
        match answer {
            Ok((list, watcher)) => {
                let standing = self.standing(&list)?;
                let watch = watcher.map(QuietWatch::from).unwrap_or_default();
                if !standing.has_others {
                    self.others = watch;
                }
                Ok(Some(standing))
            }
            Err(error) if is_transient(&error) => Ok(None),
            Err(error) => Err(self.vanished_or(error)),
        }
    }

    /// Finds who is ahead in a listing. If our node is not in it, it is gone.
    pub(crate) fn standing(&self, list: &Children) -> Result<Standing, Error> {
        self.queue.check_foreign(&list.names)?;
        let standing = Standing::of(&self.own, self.queue.naming(), &list.names);
        standing.ok_or_else(|| self.vanished())
    }

    /// True if nobody is ahead. This does not wait for the turn, but it lists the queue if no
    /// listing is given.
    pub(crate) async fn is_first(&self, standing: Option<&Standing>) -> Result<bool, Error> {
        if let Some(standing) = standing {
            return Ok(standing.is_first());
        }
        let mut losses = 0;
        loop {
            match self.queue.client().get_children(self.queue.folder()).await {
                Ok(list) => return Ok(self.standing(&list)?.is_first()),
                Err(error) if is_transient(&error) && losses < MAX_LOSSES => losses += 1,
                Err(error) => return Err(self.vanished_or(error)),
            }
        }
    }

    /// The error that our own node, or the folder with it, is gone, if that is what `error` means.
    pub(crate) fn vanished_or(&self, error: ClientError) -> Error {
        if error.is_no_node() { self.vanished() } else { error.into() }
    }

    pub(crate) fn vanished(&self) -> Error {
        Fault::NodeVanished(self.node.path().to_owned()).into()
    }
}
