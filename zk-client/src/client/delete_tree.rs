//! The deletion of whole trees.
//!
//! A node with children cannot be deleted, so nodes are first tried as leaves: many in one
//! transaction, and if that is refused, one by one, which shows the ones with children. A node with
//! children is emptied and tried again, so children that are created meanwhile are found in the
//! same way.

use std::future::Future;

use zk_proto::ErrorCode;

use crate::error::{Error, ErrorKind};
use crate::handles::client::Client;
use crate::model::child_names::Names;
use crate::model::node::Children;
use crate::multi::op::Op;

/// The number of deletes in one transaction, and the total length of their paths: far below the
/// frame limit of any server, and little to repeat if one delete is refused.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 64 * 1024;

/// Nodes whose children are listed at once: each list may be as large as a reply can be.
const LISTS: usize = 16;

/// How often a node is emptied before the call gives up, because another client keeps filling it.
const ATTEMPTS: usize = 8;

/// The servers' own nodes, below their root.
const SYSTEM: &str = "/zookeeper";

impl Client {
    /// Deletes a node and everything below it. Returns the number of deleted nodes.
    ///
    /// That is 0 if the node did not exist. Of `/`, whether it is the root of a chroot or of the
    /// servers, all is deleted but the root itself, and on the servers `/zookeeper` stays as well.
    /// Versions and owners of the nodes do not matter.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// println!("{} nodes deleted", client.delete_all("/jobs/2024").await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is not one transaction: other clients see the tree shrink, children before their parents.
    /// A child that is created meanwhile is deleted, too, while its parent still exists. Only `/`
    /// is listed just once, so a child that is created right below it meanwhile stays.
    ///
    /// # Cost
    ///
    /// One round trip for a node without children. Then one to list up to 16 nodes with children,
    /// and one to delete up to 256 that have none, or two if nodes with children are among them.
    /// The memory for each level holds the names in those 16 lists.
    ///
    /// # Ordering
    ///
    /// The first request is sent by the call, in call order: the delete of `path` itself, or the
    /// listing of the children of `/`. All others are sent when the future is polled.
    ///
    /// # Errors
    ///
    /// The server's refusal of one node, such as `NoAuth`; `NotEmpty` if a node was emptied eight
    /// times and filled again each time; the loss of the connection, even if a delete was lost with
    /// it. Nodes that were deleted stay deleted, and the error does not count them. A repeated call
    /// deletes the rest.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the deletion. Requests made by then are carried out.
    pub fn delete_all(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<u64, Error>> + Send + use<> {
        let root = (path == "/").then(|| self.get_children(path));
        let node = root.is_none().then(|| self.delete(path, None));
        let mut pruning = Pruning { client: self.clone(), deleted: 0, stack: Vec::new() };
        let path = path.to_owned();
        async move {
            let mut step = Step::default();
            if let Some(list) = root {
                step.to_try = pruning.children("/", list.await)?;
            }
            if let Some(deleted) = node
                && pruning.judge(deleted.await)?.is_some()
            {
                step.full.push(path);
            }
            pruning.stack.push(step);
            pruning.run().await?;
            Ok(pruning.deleted)
        }
    }
}

struct Pruning {
    client: Client,
    deleted: u64,
    /// The deepest step is the last.
    stack: Vec<Step>,
}

/// Nodes of which none is below another.
#[derive(Default)]
struct Step {
    /// Perhaps without children.
    to_try: Vec<String>,
    /// Surely with children.
    full: Vec<String>,
    /// How often these were emptied.
    emptied: usize,
}

impl Pruning {
    async fn run(&mut self) -> Result<(), Error> {
        while let Some(step) = self.stack.last_mut() {
            if !step.to_try.is_empty() {
                let emptied = step.emptied;
                let batch = take_batch(&mut step.to_try);
                let (mut full, mut why) = (Vec::new(), None);
                for (path, refused) in self.delete(batch).await? {
                    full.push(path);
                    why = Some(refused);
                }
                if let Some(why) = why.filter(|_| emptied == ATTEMPTS) {
                    return Err(why);
                }
                if let Some(step) = self.stack.last_mut() {
                    step.full.append(&mut full);
                }
            } else if !step.full.is_empty() {
                let full = step.full.split_off(step.full.len().saturating_sub(LISTS));
                let emptied = step.emptied + 1;
                let children = self.list(&full).await?;
                self.stack.push(Step { to_try: full, full: Vec::new(), emptied });
                self.stack.push(Step { to_try: children, ..Step::default() });
            } else {
                self.stack.pop();
            }
        }
        Ok(())
    }

    /// Lists the children of all these nodes, as paths.
    async fn list(&self, parents: &[String]) -> Result<Vec<String>, Error> {
        let lists = self.client.batch(|| {
            let list = |parent: &String| self.client.get_children(parent);
            parents.iter().map(list).collect::<Vec<_>>()
        });
        let mut children = Vec::new();
        for (parent, list) in parents.iter().zip(lists) {
            children.append(&mut self.children(parent, list.await)?);
        }
        Ok(children)
    }

    /// The children of one node, as paths; empty if the node is gone.
    fn children(&self, parent: &str, list: Result<Children, Error>) -> Result<Vec<String>, Error> {
        let names = match list {
            Ok(list) => list.names,
            Err(error) if error.is_no_node() => Names::default(),
            Err(error) => return Err(error),
        };
        let parent = if parent == "/" { "" } else { parent };
        let of_servers = parent.is_empty() && self.client.chroot.as_str().is_none();
        let paths = names.iter().map(|name| format!("{parent}/{name}"));
        Ok(paths.filter(|path| !(of_servers && path == SYSTEM)).collect())
    }

    /// Deletes the nodes without children. Returns the others, each with the server's refusal.
    async fn delete(&mut self, batch: Vec<String>) -> Result<Vec<(String, Error)>, Error> {
        if batch.len() > 1 {
            let ops: Vec<_> = batch.iter().map(|path| Op::delete(path, None)).collect();
            match self.client.multi(&ops).await {
                Ok(_) => {
                    self.deleted += batch.len() as u64;
                    return Ok(Vec::new());
                }
                // One node has children or is gone. The others can still be deleted.
                Err(error) if error.failed_op().is_some() => {}
                // The client's own limit may be set lower than a batch.
                Err(error) if error.kind() == ErrorKind::TooLarge => {}
                Err(error) => return Err(error),
            }
        }
        let deletes = self.client.batch(|| {
            let delete = |path: &String| self.client.delete(path, None);
            batch.iter().map(delete).collect::<Vec<_>>()
        });
        let mut full = Vec::new();
        for (path, delete) in batch.into_iter().zip(deletes) {
            let refused = self.judge(delete.await)?;
            full.extend(refused.map(|error| (path, error)));
        }
        Ok(full)
    }

    /// Counts a deleted node. Returns the error if the node has children.
    fn judge(&mut self, answer: Result<(), Error>) -> Result<Option<Error>, Error> {
        match answer {
            Ok(()) => {
                self.deleted += 1;
                Ok(None)
            }
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) if error.code() == Some(ErrorCode::NOT_EMPTY) => Ok(Some(error)),
            Err(error) => Err(error),
        }
    }
}

/// Takes paths from the end, as many as fit into one transaction.
fn take_batch(paths: &mut Vec<String>) -> Vec<String> {
    let mut bytes = 0;
    let fits = |path: &&String| {
        bytes += path.len();
        bytes <= BATCH_BYTES
    };
    let count = paths.iter().rev().take(BATCH).take_while(fits).count().max(1);
    paths.split_off(paths.len().saturating_sub(count))
}
