//! A place in a queue: one ephemeral sequential node, from its create to the moment it is let go.
//!
//! Joining is one flight: the create, and a list unless the queue is known without. The node itself
//! is the client's [`OwnedNode`]: whatever is dropped here, whenever, leaves nothing behind.

use std::sync::Arc;

use tracing::{debug, trace};
use zk_client::{
    Children, CreateOptions, Created, Error as ClientError, ErrorCode, Outcome, OwnedNode, Reply,
};

use crate::chain::{Chain, Forging};
use crate::contender::Contender;
use crate::error::{Error, Fault};
use crate::flight::Flight;
use crate::layout::Role;
use crate::own::OwnWatch;
use crate::queue::{Asked, Patience, Queue, passes};

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
    /// Whether somebody was ahead.
    pub(crate) waited: bool,
    /// Whether the mirror has told of the node: then it tells of its end.
    pub(crate) followed: bool,
    /// Whether its number tells that nobody is ahead.
    pub(crate) succeeds: bool,
    /// What tells of the one ahead alone, if the queue goes round.
    pub(crate) chain: Option<Chain>,
    /// Whether that was asked for in the place of a list.
    pub(crate) forged: bool,
}

/// A contender whose requests are on their way.
#[derive(Debug)]
pub(crate) struct Joining {
    queue: Arc<Queue>,
    role: Role,
    patience: Patience,
    flight: Flight,
}

impl Joining {
    /// Sends what it takes to join, all at once and now.
    pub(crate) fn begin(queue: &Arc<Queue>, role: Role, patience: Patience) -> Self {
        let flight = queue.fly(role, patience, None);
        Self { queue: Arc::clone(queue), role, patience, flight }
    }

    /// Waits for the place. Returns the list that was read behind the create, if there was one. Who
    /// waits does so also until a folder that is used up can be made anew.
    pub(crate) async fn seat(self) -> Result<(Tenure, Option<Children>), Error> {
        let Self { queue, role, patience, mut flight } = self;
        let mut retry = Retry::default();
        loop {
            if let Some(arming) = flight.arming {
                arming.finish().await;
            }
            let made = Made::of(flight.folders).await;
            match flight.created.await {
                Ok(node) => match Tenure::new(&queue, node) {
                    Ok(mut tenure) => {
                        tenure.replaces(flight.replaced);
                        let list = tenure.listed(flight.list).await?;
                        tenure.chained(flight.forging).await;
                        return Ok((tenure, list));
                    }
                    Err(error) if patience == Patience::Waits && queue.options().rotate => {
                        debug!(%error, "making the folder anew");
                        queue.rotate().await?;
                    }
                    Err(error) => return Err(error),
                },
                // The place that was let go before had gone already.
                Err(error) if error.failed_op() == Some(1) => {}
                Err(error) => retry.after(&queue, error, made)?,
            }
            flight = queue.fly(role, patience, retry.folders.as_ref());
        }
    }
}

/// What a create is tried with again.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    /// How the folder is made first, if it must be.
    pub(crate) folders: Option<CreateOptions<'static>>,
    /// The server has refused containers, so that folders are plain nodes.
    without_containers: bool,
    losses: u32,
}

impl Retry {
    /// The create in `queue` has failed, behind the creates of its folders. An error if it is no
    /// use to try again.
    pub(crate) fn after(
        &mut self,
        queue: &Queue,
        error: ClientError,
        made: Made,
    ) -> Result<(), Error> {
        let Made { failed, unknown } = made;
        let no_containers = unknown.is_some();
        if let Some(unknown) = unknown {
            if self.without_containers {
                // It was a plain node: the server is too old for this client.
                return Err(unknown.into());
            }
            debug!("the server has no containers");
            self.without_containers = true;
            self.folders = Some(CreateOptions::persistent());
        }
        if error.is_connection_loss() && error.outcome() == Outcome::NotApplied {
            // The client has looked: nothing is left of this attempt.
            self.losses += 1;
            return if self.losses < MAX_LOSSES { Ok(()) } else { Err(error.into()) };
        }
        // The root that this client sees may be missing, and is not ours to make.
        if !error.is_no_node() || queue.folder() == "/" {
            return Err(error.into());
        }
        match (self.folders, failed) {
            (None, _) => {
                trace!(folder = queue.folder(), "making the folder");
                self.folders = Some(queue.options().folders());
                Ok(())
            }
            // A container that stands empty may go before its child comes; so may the root.
            (_, Some(failed)) if !no_containers && failed.is_no_node() => {
                self.losses += 1;
                if self.losses < MAX_LOSSES { Ok(()) } else { Err(failed.into()) }
            }
            (_, Some(failed)) if !no_containers && !failed.is_connection_loss() => {
                Err(failed.into())
            }
            // Made otherwise now; or its create was lost, or somebody removed it again.
            _ => Ok(()),
        }
    }
}

/// What became of the creates of folders.
#[derive(Debug)]
pub(crate) struct Made {
    /// Why they were not made, if they were not.
    failed: Option<ClientError>,
    /// Why the server cannot make nodes of this kind, if it cannot.
    unknown: Option<ClientError>,
}

impl Made {
    pub(crate) async fn of(replies: Vec<Reply<Created>>) -> Self {
        let mut made = Self { failed: None, unknown: None };
        for reply in replies {
            match reply.await {
                Ok(_) => {}
                Err(error) if error.is_node_exists() => {}
                Err(error) if error.code() == Some(ErrorCode::UNIMPLEMENTED) => {
                    made.unknown = Some(error);
                }
                // A child without its parent, or a lost answer, is the consequence of an earlier
                // failure, if there is one.
                Err(error) if error.is_no_node() || error.is_connection_loss() => {
                    made.failed.get_or_insert(error);
                }
                // An ancestor that is there may refuse to be made: the last failure is the cause.
                Err(error) => made.failed = Some(error),
            }
        }
        made
    }
}

impl Tenure {
    /// The place that `node` is.
    pub(crate) fn new(queue: &Arc<Queue>, node: OwnedNode) -> Result<Self, Error> {
        let name = queue.name(node.path());
        let own = name.and_then(|name| Contender::parse(queue.names(), name));
        let own = own.filter(|own| (0..=LAST_SEQUENCE).contains(&own.sequence));
        let Some(own) = own else {
            return Err(Fault::SequenceExhausted(queue.folder().to_owned()).into());
        };
        let followed = queue.seated(&own);
        Ok(Self {
            queue: Arc::clone(queue),
            node,
            own,
            watch: OwnWatch::default(),
            waited: false,
            followed,
            succeeds: false,
            chain: None,
            forged: false,
        })
    }

    /// The place was taken in one transaction with letting go of this one.
    fn replaces(&mut self, replaced: Option<Contender>) {
        self.succeeds = replaced.is_some_and(|first| self.own.succeeds(&first));
        self.queue.succeeded(self.succeeds);
    }

    /// Waits for the watches behind the create, if it is the place that was expected.
    async fn chained(&mut self, forging: Option<Forging>) {
        if let Some(forging) = forging {
            self.forged = true;
            self.chain = forging.done(&self.own).await;
            if self.chain.is_none() {
                self.queue.broken();
            }
        }
    }

    /// Waits for the list behind the create.
    pub(crate) async fn listed(
        &self,
        list: Option<(Asked, Reply<Children>)>,
    ) -> Result<Option<Children>, Error> {
        let Some((asked, reply)) = list else {
            return Ok(None);
        };
        match reply.await {
            Ok(list) => {
                asked.answered(&list);
                Ok(Some(list))
            }
            Err(error) if passes(&error) => Ok(None),
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
