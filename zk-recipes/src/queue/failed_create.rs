//! What to do when a node cannot be created: send the request again, create the folder first,
//! create the folder anew because its numbers are used up, or give up.
//!
//! A contender that finds the folder as it should be, on a connection that stays, needs nothing of
//! this.

use tracing::debug;
use zk_client::{
    Client, CreateOptions, Created, Error as ClientError, ErrorCode, ErrorKind, OpCode, Reply, Zxid,
};

use crate::error::Error;
use crate::options::Settings;
use crate::steady::absent::unless_absent;
use crate::steady::retries::{Retries, was_looked_for_in_vain};
use crate::steady::watch::Awaited;
use crate::trace::QUEUE;

/// Waits until the folder is empty, and deletes it. The next contender creates it again, and the
/// numbers begin again.
///
/// `used_up` is a transaction at which the numbers were used up. A folder that was created after it
/// is another contender's work.
pub(crate) async fn rotate(client: &Client, folder: &str, used_up: Zxid) -> Result<(), Error> {
    let mut retries = Retries::default();
    loop {
        let (deleted, children) =
            client.batch(|| (client.delete(folder, None), client.get_children_and_watch(folder)));
        match unless_absent(deleted.await) {
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NOT_EMPTY) => retries.reset(),
            Err(error) => {
                retries.count(error)?;
                continue;
            }
        }
        match unless_absent(children.await) {
            Ok(Some((children, _))) if children.stat.czxid > used_up => return Ok(()),
            Ok(Some((children, watcher))) if !children.names.is_empty() => {
                Awaited::from(watcher).changed(client).await?;
            }
            Ok(_) => {}
            Err(error) => retries.count(error)?,
        }
    }
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
pub(crate) struct FolderRetries {
    /// How the folder is created first, if it must be.
    pub(crate) folders: Option<Folders>,
    /// True if the servers have no containers, or have refused one. Then folders are persistent.
    without_containers: bool,
    retries: Retries,
}

impl FolderRetries {
    /// Notes that a create in `folder` has failed, behind the creates of its folders. Returns an
    /// error if it is of no use to try again.
    pub(crate) fn count(
        &mut self,
        client: &Client,
        folder: &str,
        options: &Settings,
        error: ClientError,
        made: FolderCreation,
    ) -> Result<(), Error> {
        let FolderCreation { failed, unsupported, has_no_parent } = made;
        if let Some(never) = failed.as_ref().filter(|it| it.kind() == ErrorKind::NeverAnswered) {
            // It tells more than what it has done to the requests behind it.
            return Err(never.clone().into());
        }
        if let Some(unsupported) = unsupported {
            if self.without_containers {
                // That was a persistent node: the server is too old for this client.
                return Err(unsupported.into());
            }
            debug!(target: QUEUE, "the server has no containers");
            let with_ancestors = self.folders.take().is_some_and(|folders| folders.with_ancestors);
            let with_ancestors = with_ancestors || has_no_parent;
            self.without_containers = true;
            self.folders = Some(Folders { options: CreateOptions::persistent(), with_ancestors });
            return Ok(());
        }
        if was_looked_for_in_vain(&error) {
            return Ok(self.retries.count_any(error)?);
        }
        // The root that this client sees may be missing, and is not ours to create.
        if !error.is_no_node() || folder == "/" {
            return Err(error.into());
        }
        match (&mut self.folders, failed) {
            (None, _) => {
                debug!(target: QUEUE, folder, "making the folder");
                self.without_containers = !client.dialect().understands(OpCode::CREATE_CONTAINER);
                let options = match self.without_containers {
                    true => CreateOptions::persistent(),
                    false => options.folders(),
                };
                self.folders = Some(Folders { options, with_ancestors: false });
            }
            (Some(folders), _) if has_no_parent && !folders.with_ancestors => {
                folders.with_ancestors = true;
            }
            // The server may remove an empty container before its child is created, and the root,
            // too.
            (_, Some(failed)) if failed.is_no_node() => self.retries.count_any(failed)?,
            (_, Some(failed)) if !failed.is_connection_loss() => return Err(failed.into()),
            // The reply to the folder's create was lost, or somebody removed it again, or our node
            // before the client has read it.
            (_, failed) => self.retries.count_any(failed.unwrap_or(error))?,
        }
        Ok(())
    }
}

/// The results of the creates of folders.
#[derive(Debug)]
pub(crate) struct FolderCreation {
    /// Why they were not created, if they were not.
    failed: Option<ClientError>,
    /// Why the server cannot create folders of this kind, if it cannot.
    unsupported: Option<ClientError>,
    /// True if the parent of one of them was missing.
    has_no_parent: bool,
}

impl FolderCreation {
    /// Waits for the replies to the creates.
    pub(crate) async fn wait(replies: Vec<Reply<Created>>) -> Self {
        let mut made = Self { failed: None, unsupported: None, has_no_parent: false };
        for reply in replies {
            let reply = reply.await;
            made.has_no_parent |= reply.as_ref().is_err_and(ClientError::is_no_node);
            match reply {
                Ok(_) => {}
                Err(error) if error.is_node_exists() => {}
                Err(error) if error.code() == Some(ErrorCode::UNIMPLEMENTED) => {
                    made.unsupported = Some(error);
                }
                // A child without its parent, or a lost reply, is the consequence of an earlier
                // failure, if there is one.
                Err(error)
                    if error.is_no_node()
                        || error.is_connection_loss()
                        || error.is_session_over() =>
                {
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
