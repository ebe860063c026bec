//! The deletion of whole trees.
//!
//! A node with children cannot be deleted, so leaves are tried first: many in one transaction, and
//! one by one if that is refused, which tells which of them have children. A node that has some is
//! emptied and tried again, so children that appear meanwhile are found in the same way.

use std::future::Future;

use zk_proto::ErrorCode;

use crate::client::handle::Client;
use crate::error::{Error, ErrorKind};
use crate::model::child_names::Names;
use crate::model::node::Children;
use crate::multi::op::Op;

/// Deletes in one transaction, and what their paths may take: far below the frame limit of any
/// server, and little to repeat if one of them is refused.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 64 * 1024;

/// Nodes whose children are listed at once: each list may be as large as a reply can be.
const LISTS: usize = 16;

/// How often a node is emptied before somebody who fills it again has won.
const ATTEMPTS: usize = 8;

/// The servers' own, below their root.
const SYSTEM: &str = "/zookeeper";

impl Client {
    /// Deletes a node and everything below it. Returns how many nodes that were; 0 if there was
    /// none.
    ///
    /// Of `/` all goes but the root itself, be it that of a chroot or of the servers, where
    /// `/zookeeper` stays as well. Versions do not matter, nor who owns the nodes.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// println!("{} nodes deleted", client.delete_all("/jobs/2024").await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is not one transaction: others see the tree shrink, children before their parents. A
    /// child that somebody creates meanwhile is deleted, too, if its parent is still there; but
    /// what stays is listed once, and what is created right below `/` then stays.
    ///
    /// # Cost
    ///
    /// One round trip for a node without children. Then one to list up to 16 nodes with children,
    /// and one to delete up to 256 that have none, or two if others with children are among them.
    /// In memory, for each level the names in those 16 lists.
    ///
    /// # Ordering
    ///
    /// The first request is sent by the call, in call order: the delete of `path` itself, or the
    /// list of the children of `/`. All others are sent when the future is polled.
    ///
    /// # Errors
    ///
    /// The server's refusal of one node, such as `NoAuth`; `NotEmpty` if a node was emptied eight
    /// times and filled again each time; the loss of the connection, also of one that a delete was
    /// lost with. What was deleted stays so and is not counted; called again, it goes on with the
    /// rest.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops it; what was asked for by then is deleted.
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
    /// The deepest last.
    stack: Vec<Step>,
}

/// Nodes that stand in no other's way.
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

    /// The children of all these, as paths.
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

    /// The children of one of them. None if it is gone.
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

    /// Deletes what has no children. Gives back what has, with the server's word.
    async fn delete(&mut self, batch: Vec<String>) -> Result<Vec<(String, Error)>, Error> {
        if batch.len() > 1 {
            let ops: Vec<_> = batch.iter().map(|path| Op::delete(path, None)).collect();
            match self.client.multi(&ops).await {
                Ok(_) => {
                    self.deleted += batch.len() as u64;
                    return Ok(Vec::new());
                }
                // One of them has children or is gone, which concerns the others no further.
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

    /// Counts what is deleted. Gives the error back that tells of children.
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

/// Some from the end: as many as one transaction takes.
fn take_batch(paths: &mut Vec<String>) -> Vec<String> {
    let mut bytes = 0;
    let fits = |path: &&String| {
        bytes += path.len();
        bytes <= BATCH_BYTES
    };
    let count = paths.iter().rev().take(BATCH).take_while(fits).count().max(1);
    paths.split_off(paths.len().saturating_sub(count))
}
