//! A place in a queue: one ephemeral sequential node, from its create to the moment it is let go.
//!
//! Joining is one flight: the create, and a list unless the queue is known without. The node itself
//! is the client's [`OwnedNode`]: whatever is dropped here, whenever, leaves nothing behind.

use std::sync::Arc;

use tracing::{debug, trace};
use zk_client::{
    Children, CreateOptions, Error as ClientError, Outcome, OwnedNode, Reply, Watcher,
};

use crate::contender::Contender;
use crate::error::{Error, Fault};
use crate::layout::Role;
use crate::queue::{Asked, Flight, Queue, made_folders, passes};

/// Sequence numbers end at 2^31 - 1, and what servers do there differs. This far before it no
/// place is taken any more; the distance is more contenders than can be under way at once.
const LAST_SEQUENCE: i32 = i32::MAX - 65_536;

/// Connections that may break in a row over what a place asks, before it is given up: a request
/// that breaks each connection it is sent on would take all others of the session with it.
pub(crate) const MAX_LOSSES: u32 = 5;

/// A contender's place in the queue of one folder.
#[derive(Debug)]
pub(crate) struct Tenure {
    pub(crate) queue: Arc<Queue>,
    // Dropped before the watch on it, which then has nothing to tell any more.
    pub(crate) node: OwnedNode,
    pub(crate) own: Contender,
    pub(crate) watch: OwnWatch,
}

/// A watch on the own node, which goes when the node does.
#[derive(Debug, Default)]
pub(crate) struct OwnWatch(pub(crate) Option<Watcher>);

impl Drop for OwnWatch {
    fn drop(&mut self) {
        if let Some(watcher) = self.0.take() {
            watcher.forget();
        }
    }
}

/// A contender whose requests are on their way.
#[derive(Debug)]
pub(crate) struct Joining {
    queue: Arc<Queue>,
    role: Role,
    flight: Flight,
}

impl Joining {
    /// Sends what it takes to join, all at once and now.
    pub(crate) fn begin(queue: &Arc<Queue>, role: Role) -> Self {
        let flight = queue.fly(role, None);
        Self { queue: Arc::clone(queue), role, flight }
    }

    /// Waits for the place. Returns the list that was read behind the create, if there was one.
    pub(crate) async fn seat(self) -> Result<(Tenure, Option<Children>), Error> {
        let Self { queue, role, mut flight } = self;
        let mut folders: Option<CreateOptions<'_>> = None;
        let mut losses = 0;
        loop {
            if let Some(arming) = flight.arming {
                arming.finish().await;
            }
            let (failed, no_containers) = made_folders(flight.folders).await;
            if no_containers {
                debug!("the server has no containers");
                folders = Some(CreateOptions::persistent());
            }
            match flight.created.await {
                Ok(node) => match Tenure::new(&queue, node) {
                    Ok(tenure) => return tenure.seated(flight.list).await,
                    Err(error) if queue.options().rotate => {
                        debug!(%error, "making the folder anew");
                        queue.rotate().await?;
                    }
                    Err(error) => return Err(error),
                },
                // The root that this client sees is missing, and not ours to make.
                Err(error) if error.is_no_node() && queue.folder() == "/" => {
                    return Err(error.into());
                }
                Err(error) if error.is_no_node() => match (folders, failed) {
                    (None, _) => {
                        trace!(folder = queue.folder(), "making the folder");
                        folders = Some(queue.options().folders());
                    }
                    (_, Some(failed)) if !no_containers && !failed.is_connection_loss() => {
                        return Err(failed.into());
                    }
                    // Made otherwise now; or its create was lost, or somebody removed it again.
                    _ => {}
                },
                // The client has looked: nothing is left of this attempt.
                Err(error) if error.is_connection_loss() => {
                    losses += 1;
                    if error.outcome() != Outcome::NotApplied || losses >= MAX_LOSSES {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
            flight = queue.fly(role, folders.as_ref());
        }
    }
}

impl Tenure {
    fn new(queue: &Arc<Queue>, node: OwnedNode) -> Result<Self, Error> {
        let name = node.path().rsplit('/').next().unwrap_or_default();
        let own = Contender::parse(queue.names(), name);
        let own = own.filter(|own| (0..=LAST_SEQUENCE).contains(&own.sequence));
        let Some(own) = own else {
            return Err(Fault::SequenceExhausted(queue.folder().to_owned()).into());
        };
        queue.numbered(own.sequence);
        Ok(Self { queue: Arc::clone(queue), node, own, watch: OwnWatch::default() })
    }

    /// A place that is taken over from somebody who had it.
    pub(crate) fn resumed(queue: &Arc<Queue>, node: OwnedNode) -> Result<Self, Error> {
        Self::new(queue, node)
    }

    /// Waits for the list behind the create.
    async fn seated(
        self,
        list: Option<(Asked, Reply<Children>)>,
    ) -> Result<(Self, Option<Children>), Error> {
        let Some((asked, reply)) = list else {
            return Ok((self, None));
        };
        match reply.await {
            Ok(list) => {
                asked.answered(&list);
                Ok((self, Some(list)))
            }
            Err(error) if passes(&error) => Ok((self, None)),
            Err(error) => Err(self.vanished_or(error)),
        }
    }

    /// Our own node, or the folder with it, is gone.
    pub(crate) fn vanished_or(&self, error: ClientError) -> Error {
        if error.is_no_node() { self.vanished() } else { error.into() }
    }

    pub(crate) fn vanished(&self) -> Error {
        Fault::NodeVanished(self.node.path().to_owned()).into()
    }
}
