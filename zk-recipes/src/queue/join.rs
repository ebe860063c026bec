//! Joining a queue: the create of our node and a listing behind it, sent together.
//!
//! One round trip is enough to own a free lock. ZooKeeper carries out the requests of a session in
//! order, so the listing shows at least all contenders that were ahead when our node was created.

use std::sync::Arc;

use tracing::{debug, trace};
use zk_client::{
    CreateOptions, Created, Error as ClientError, ErrorCode, Outcome, OwnedNode, Reply, Zxid,
};

use crate::error::Error;
use crate::node::{Role, Standing};
use crate::queue::place::{MAX_LOSSES, Place};
use crate::queue::{Listing, Queue, is_transient};

/// Whether a contender waits for its turn, or gives up if it would have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Waits,
    Tries,
}

/// A contender whose requests are on their way.
#[derive(Debug)]
pub(crate) struct Join {
    queue: Arc<Queue>,
    role: Role,
    patience: Patience,
    requests: Requests,
}

#[derive(Debug)]
struct Requests {
    folders: Vec<Reply<Created>>,
    created: Reply<OwnedNode>,
    list: Listing,
}

impl Join {
    /// Sends the requests at once. Waits for nothing.
    pub(crate) fn send(queue: &Arc<Queue>, role: Role, patience: Patience) -> Self {
        let requests = queue.client().batch(|| queue.request_place(role, None));
        Self { queue: Arc::clone(queue), role, patience, requests }
    }

    /// Sends them with the delete of the node at `old`, which was released in the same batch. Both
    /// are one transaction then.
    pub(crate) fn send_in_place_of(queue: &Arc<Queue>, role: Role, old: &str) -> Self {
        let (client, options) = (queue.client(), queue.options());
        let requests = client.batch(|| {
            let stem = queue.stem(role);
            match client.replace_owned(old, &stem, &options.data, &options.node()) {
                Some(created) => Requests { folders: Vec::new(), created, list: queue.list() },
                None => queue.request_place(role, None),
            }
        });
        Self { queue: Arc::clone(queue), role, patience: Patience::Waits, requests }
    }

    /// Waits for the place, and for the listing behind it. Creates the folder if it is missing. If
    /// the folder's numbers are used up, a contender that waits also waits for a new folder.
    pub(crate) async fn finish(self) -> Result<(Place, Option<Standing>), Error> {
        let Self { queue, role, patience, mut requests } = self;
        let mut retry = Retry::default();
        loop {
            let made = Made::of(requests.folders).await;
            match requests.created.await {
                Ok(node) => {
                    let czxid = node.czxid();
                    match Place::new(&queue, node) {
                        Ok(mut place) => {
                            let standing = place.listed(requests.list.answer().await)?;
                            return Ok((place, standing));
                        }
                        Err(error) if patience == Patience::Waits && queue.options().rotate => {
                            debug!(%error, "making the folder anew");
                            queue.rotate(czxid).await?;
                        }
                        Err(error) => return Err(error),
                    }
                }
                // The node that was to be replaced was gone already.
                Err(error) if error.failed_op() == Some(1) => {}
                Err(error) => retry.after(&queue, error, made)?,
            }
            let folders = retry.folders.as_ref();
            requests = queue.client().batch(|| queue.request_place(role, folders));
        }
    }
}

impl Queue {
    fn request_place(&self, role: Role, folders: Option<&CreateOptions<'_>>) -> Requests {
        let options = self.options();
        Requests {
            folders: self.make_folders(folders),
            created: self.client().create_owned(&self.stem(role), &options.data, &options.node()),
            list: self.list(),
        }
    }

    /// Creates the folder and its ancestors, if `options` are given.
    pub(crate) fn make_folders(&self, options: Option<&CreateOptions<'_>>) -> Vec<Reply<Created>> {
        let make =
            |options| self.folders().map(move |path| self.client().create(path, b"", options));
        options.into_iter().flat_map(make).collect()
    }

    /// Waits until the folder is empty, and deletes it. The next contender creates it again, and
    /// the numbers begin again. `used_up` is when the folder's numbers had ended: a folder that was
    /// created later is another contender's work.
    async fn rotate(&self, used_up: Zxid) -> Result<(), Error> {
        let client = self.client();
        loop {
            let (deleted, children) = client.batch(|| {
                (client.delete(self.folder(), None), client.get_children_and_watch(self.folder()))
            });
            match deleted.await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_no_node() => return Ok(()),
                Err(error) if is_transient(&error) => continue,
                Err(error) if error.code() == Some(ErrorCode::NOT_EMPTY) => {}
                Err(error) => return Err(error.into()),
            }
            match children.await {
                Ok((children, _)) if children.stat.czxid > used_up => return Ok(()),
                Ok((children, mut watcher)) if !children.names.is_empty() => {
                    watcher.changed().await?;
                }
                Ok(_) => {}
                Err(error) if error.is_no_node() || is_transient(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Waits for the nodes of one transaction. If it failed, an error whose outcome is unknown counts
/// for more than one that says that no node exists.
pub(crate) async fn all_created(
    replies: Vec<Reply<OwnedNode>>,
) -> Result<Vec<OwnedNode>, ClientError> {
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

/// How a create that failed is tried again.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    /// How the folder is created first, if it must be.
    pub(crate) folders: Option<CreateOptions<'static>>,
    /// True once the server has refused containers. Then folders are persistent nodes.
    without_containers: bool,
    losses: u32,
}

impl Retry {
    /// Notes that the create in `queue` has failed, behind the creates of its folders. Returns an
    /// error if it is of no use to try again.
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
                // That was a persistent node: the server is too old for this client.
                return Err(unknown.into());
            }
            debug!("the server has no containers");
            self.without_containers = true;
            self.folders = Some(CreateOptions::persistent());
        }
        if error.is_connection_loss() && error.outcome() == Outcome::NotApplied {
            // The client has checked that nothing is left of this attempt.
            self.losses += 1;
            return if self.losses < MAX_LOSSES { Ok(()) } else { Err(error.into()) };
        }
        // The root that this client sees may be missing, and is not ours to create.
        if !error.is_no_node() || queue.folder() == "/" {
            return Err(error.into());
        }
        match (self.folders, failed) {
            (None, _) => {
                trace!(folder = queue.folder(), "making the folder");
                self.folders = Some(queue.options().folders());
                Ok(())
            }
            // The server may remove an empty container before its child is created, and the root,
            // too.
            (_, Some(failed)) if !no_containers && failed.is_no_node() => {
                self.losses += 1;
                if self.losses < MAX_LOSSES { Ok(()) } else { Err(failed.into()) }
            }
            (_, Some(failed)) if !no_containers && !failed.is_connection_loss() => {
                Err(failed.into())
            }
            // The folder is created in another way now; or the reply to its create was lost, or
            // somebody removed it again.
            _ => Ok(()),
        }
    }
}

/// The results of the creates of folders.
#[derive(Debug)]
pub(crate) struct Made {
    /// Why they were not created, if they were not.
    failed: Option<ClientError>,
    /// Why the server cannot create nodes of this kind, if it cannot.
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
                // A child without its parent, or a lost reply, is the consequence of an earlier
                // failure, if there is one.
                Err(error) if error.is_no_node() || error.is_connection_loss() => {
                    made.failed.get_or_insert(error);
                }
                // The server may refuse to create an ancestor that exists: the last failure is the
                // cause.
                Err(error) => made.failed = Some(error),
            }
        }
        made
    }
}
