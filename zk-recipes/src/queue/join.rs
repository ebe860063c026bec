//! How a contender joins a queue: its nodes, and what is asked behind them, in one round trip.
//!
//! ZooKeeper carries out the requests of a session in order. So a listing that is sent behind the
//! create of a node shows that node, and all contenders that are ahead of it.

use std::slice::from_ref;
use std::sync::Arc;

use tracing::debug;
use zk_client::{Client, Created, Error as ClientError, Outcome, OwnedNode, Reply};

use crate::error::{Cause, Error};
use crate::node::{Role, Standing};
use crate::queue::failed_create::{FolderCreation, FolderRetries, Folders, rotate};
use crate::queue::place::Place;
use crate::queue::queue::{Listing, Queue};
use crate::trace::QUEUE;

/// Nodes of our own that are being created, and what was asked behind them.
pub(crate) type Asked<L> = (Vec<Reply<OwnedNode>>, L);

/// Nodes of our own in one or several queues, all of them or none, whose requests are on their way.
#[derive(Debug)]
pub(crate) struct Attempt<L> {
    /// The creates of folders that were missing.
    folders: Vec<Reply<Created>>,
    created: Vec<Reply<OwnedNode>>,
    behind: L,
}

impl<L> Attempt<L> {
    /// Sends what `ask` asks, together.
    pub(crate) fn send(client: &Client, ask: impl FnOnce() -> Asked<L>) -> Self {
        Self::send_with(client, &[], None, ask)
    }

    fn send_with(
        client: &Client,
        queues: &[Arc<Queue>],
        folders: Option<&Folders>,
        ask: impl FnOnce() -> Asked<L>,
    ) -> Self {
        client.batch(|| {
            let make = |queue: &Arc<Queue>| queue.make_folders(folders);
            let folders = queues.iter().flat_map(make).collect();
            let (created, behind) = ask();
            Self { folders, created, behind }
        })
    }

    /// Waits for the replies. Returns the nodes, and what was asked behind them.
    ///
    /// If a folder is missing, it is created, and everything is sent again: first the folder alone,
    /// and with its ancestors if the parent is missing, too. `foreseen` says what a failure means
    /// that only this kind of contender can have: with `Ok` everything is sent again, an error ends
    /// the join, and with `None` it is a failure as any contender may have it.
    pub(crate) async fn finish(
        mut self,
        queues: &[Arc<Queue>],
        ask: impl Fn() -> Asked<L>,
        foreseen: impl Fn(&ClientError) -> Option<Result<(), Error>>,
    ) -> Result<(Vec<OwnedNode>, L), Error> {
        let mut retry = FolderRetries::default();
        loop {
            let made = FolderCreation::wait(self.folders).await;
            let error = match all_created(self.created).await {
                Ok(nodes) => return Ok((nodes, self.behind)),
                Err(error) => error,
            };
            let failed = error.failed_op().and_then(|index| queues.get(index));
            let Some(queue) = failed.or(queues.first()) else { return Err(error.into()) };
            match foreseen(&error) {
                Some(meaning) => meaning?,
                None => {
                    retry.count(queue.client(), queue.folder(), queue.options(), error, made)?;
                }
            }
            self = Self::send_with(queue.client(), queues, retry.folders.as_ref(), &ask);
        }
    }

    /// As [`finish`](Self::finish), for one node in one queue.
    pub(crate) async fn finish_one(
        self,
        queue: &Arc<Queue>,
        ask: impl Fn() -> Asked<L>,
        foreseen: impl Fn(&ClientError) -> Option<Result<(), Error>>,
    ) -> Result<(OwnedNode, L), Error> {
        let (mut nodes, behind) = self.finish(from_ref(queue), ask, foreseen).await?;
        match nodes.pop() {
            Some(node) => Ok((node, behind)),
            // One was asked for, so there is one.
            None => Err(Cause::NodeVanished(queue.folder().to_owned()).into()),
        }
    }
}

/// Waits for the nodes of one transaction. If it failed, an error whose outcome is unknown counts
/// for more than one that says that no node exists.
async fn all_created(replies: Vec<Reply<OwnedNode>>) -> Result<Vec<OwnedNode>, ClientError> {
    let mut nodes = Vec::new();
    let mut failed: Option<ClientError> = None;
    for reply in replies {
        match reply.await {
            Ok(node) => nodes.push(node),
            Err(error) if error.outcome() == Outcome::Unknown => failed = Some(error),
            Err(error) => drop(failed.get_or_insert(error)),
        }
    }
    failed.map_or(Ok(nodes), Err)
}

/// What the caller will do if somebody is ahead: see [`Hold::when_first`](crate::hold::Hold) and
/// `if_first`. A join itself asks only whether it may wait until an exhausted folder is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Waits,
    Tries,
}

/// The operation of [`Client::replace_owned`] that deletes the old node.
const REPLACED: usize = 1;

/// A contender of one lock whose requests are on their way.
#[derive(Debug)]
pub(crate) struct Join {
    queue: Arc<Queue>,
    role: Role,
    patience: Patience,
    attempt: Attempt<Listing>,
}

impl Join {
    /// Sends the create of our node and a listing of the folder, together.
    pub(crate) fn send(queue: &Arc<Queue>, role: Role, patience: Patience) -> Self {
        let attempt = Attempt::send(queue.client(), || ask_for_place(queue, role));
        Self { queue: Arc::clone(queue), role, patience, attempt }
    }

    /// The same for a contender whose node at `old` was released in the same batch: the delete and
    /// the create become one transaction.
    pub(crate) fn send_in_place_of(queue: &Arc<Queue>, role: Role, old: &str) -> Self {
        let (client, options) = (queue.client(), queue.options());
        let attempt = Attempt::send(client, || {
            let stem = queue.stem(role);
            match client.replace_owned(old, &stem, &options.data, &options.node()) {
                Some(created) => (vec![created], queue.list()),
                None => ask_for_place(queue, role),
            }
        });
        Self { queue: Arc::clone(queue), role, patience: Patience::Waits, attempt }
    }

    /// Waits for the replies. Returns our place, and who is ahead unless the reply to the listing
    /// was lost.
    pub(crate) async fn finish(self) -> Result<(Place, Option<Standing>), Error> {
        let Self { queue, role, patience, mut attempt } = self;
        let ask = || ask_for_place(&queue, role);
        // The node that was to be replaced was gone already, so now we just join.
        let is_gone =
            |error: &ClientError| error.failed_op() == Some(REPLACED) && error.is_no_node();
        let foreseen = |error: &ClientError| is_gone(error).then_some(Ok(()));
        loop {
            let (node, listing) = attempt.finish_one(&queue, ask, foreseen).await?;
            let czxid = node.czxid();
            match Place::new(&queue, node) {
                Ok(mut place) => {
                    let standing = place.listed(listing).await?;
                    return Ok((place, standing));
                }
                Err(error) if patience == Patience::Waits && queue.options().rotate => {
                    debug!(target: QUEUE, %error, "making the folder anew");
                    rotate(queue.client(), queue.folder(), czxid).await?;
                }
                Err(error) => return Err(error),
            }
            attempt = Attempt::send(queue.client(), ask);
        }
    }
}

fn ask_for_place(queue: &Queue, role: Role) -> Asked<Listing> {
    let options = queue.options();
    let created = queue.client().create_owned(&queue.stem(role), &options.data, &options.node());
    (vec![created], queue.list())
}
