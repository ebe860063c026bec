//! What to do when a request of a contender fails: send it again, create the folder first, create
//! the folder anew because its numbers are used up, or give up.
//!
//! A contender that finds the folder as it should be, on a connection that stays, needs nothing of
//! this.

use tracing::debug;
use zk_client::{
    Client, CreateOptions, Created, Error as ClientError, ErrorCode, Outcome, OwnedNode, Reply,
    Zxid,
};

use crate::error::Error;
pub(crate) use crate::error::is_transient;
use crate::options::Options;
use crate::trace::QUEUE;

/// How many connections may break in a row over the requests of one place, before it is given up. A
/// request that breaks each connection on which it is sent would take all other requests of the
/// session with it.
pub(crate) const MAX_LOSSES: u32 = 5;

/// Waits until the folder is empty, and deletes it. The next contender creates it again, and the
/// numbers begin again.
///
/// `used_up` is a transaction at which the numbers were used up. A folder that was created after it
/// is another contender's work.
pub(crate) async fn rotate(client: &Client, folder: &str, used_up: Zxid) -> Result<(), Error> {
    loop {
        let (deleted, children) =
            client.batch(|| (client.delete(folder, None), client.get_children_and_watch(folder)));
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

/// How missing folders are created.
#[derive(Debug)]
pub(crate) struct Folders {
    pub(crate) options: CreateOptions<'static>,
    /// False until a folder could not be created without its ancestors. They are nearly always
    /// there, and each would cost a write.
    pub(crate) with_ancestors: bool,
}

/// How a create that failed is tried again.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    /// How the folder is created first, if it must be.
    pub(crate) folders: Option<Folders>,
    /// True once the server has refused containers. Then folders are persistent nodes.
    without_containers: bool,
    losses: u32,
}

impl Retry {
    /// Notes that a create in `folder` has failed, behind the creates of its folders. Returns an
    /// error if it is of no use to try again.
    pub(crate) fn after(
        &mut self,
        folder: &str,
        options: &Options,
        error: ClientError,
        made: Made,
    ) -> Result<(), Error> {
        let Made { failed, unknown, has_no_parent } = made;
        let no_containers = unknown.is_some();
        let with_ancestors = self.folders.as_ref().is_some_and(|folders| folders.with_ancestors);
        if let Some(unknown) = unknown {
            if self.without_containers {
                // That was a persistent node: the server is too old for this client.
                return Err(unknown.into());
            }
            debug!(target: QUEUE, "the server has no containers");
            self.without_containers = true;
            self.folders = Some(Folders { options: CreateOptions::persistent(), with_ancestors });
        }
        if error.is_connection_loss() && error.outcome() == Outcome::NotApplied {
            // The client has looked for the node in vain. Should it appear later, the client
            // deletes it.
            self.losses += 1;
            return if self.losses < MAX_LOSSES { Ok(()) } else { Err(error.into()) };
        }
        // The root that this client sees may be missing, and is not ours to create.
        if !error.is_no_node() || folder == "/" {
            return Err(error.into());
        }
        match (&mut self.folders, failed) {
            (None, _) => {
                debug!(target: QUEUE, folder, "making the folder");
                self.folders = Some(Folders { options: options.folders(), with_ancestors: false });
                Ok(())
            }
            (Some(folders), _) if has_no_parent && !with_ancestors => {
                folders.with_ancestors = true;
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
    /// True if the parent of one of them was missing.
    has_no_parent: bool,
}

impl Made {
    pub(crate) async fn of(replies: Vec<Reply<Created>>) -> Self {
        let mut made = Self { failed: None, unknown: None, has_no_parent: false };
        for reply in replies {
            let reply = reply.await;
            made.has_no_parent |= reply.as_ref().is_err_and(ClientError::is_no_node);
            match reply {
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
