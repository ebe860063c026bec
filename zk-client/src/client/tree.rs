//! Nodes together with the parents that they need.
//!
//! The parents nearly always exist, so the node is created first. Only when the server replies that
//! parents are missing, all of them and the node are created in one flush. A create of a node that
//! exists changes nothing.

use std::future::Future;

use zk_proto::{ErrorCode, OpCode};

use crate::error::Error;
use crate::handles::client::{Client, Reply};
use crate::model::node::{CreateOptions, Created};

/// How often the parents are created before the call gives up, because another client keeps
/// deleting them.
const ATTEMPTS: usize = 8;

impl Client {
    /// Creates a node, after those of its parents that do not exist.
    ///
    /// The parents are persistent nodes without data, or
    /// [containers](CreateOptions::container_parents), with the same access list as the node. The
    /// root of a chroot is not created if it does not exist.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use zk_client::CreateOptions;
    ///
    /// let job = CreateOptions::ephemeral().sequential().container_parents();
    /// let created = client.create_all("/jobs/eu/job-", b"42", &job).await?;
    /// assert!(created.path.starts_with("/jobs/eu/job-"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// One round trip if the parent exists, else two, whatever the depth.
    ///
    /// # Ordering
    ///
    /// The first create is sent by the call, in call order. If parents are missing, they and the
    /// node are created when the future is polled, in one flush, parents first.
    ///
    /// # Errors
    ///
    /// The errors of [`create`](Self::create). The [`outcome`](Error::outcome) is that of the node
    /// alone: parents may have been created in any case. If a parent cannot be created, the
    /// server's refusal. `NoNode` means that the parents vanished again, eight times in a row, or
    /// that the chroot does not exist.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future undoes nothing: the node and its parents, or some of the parents alone,
    /// may have been created.
    pub fn create_all<'a>(
        &self,
        path: &'a str,
        data: &'a [u8],
        options: &CreateOptions<'a>,
    ) -> impl Future<Output = Result<Created, Error>> + Send + use<'a> {
        let (client, options) = (self.clone(), *options);
        let first = client.create(path, data, &options);
        async move {
            match first.await {
                Err(error) if error.is_no_node() => {
                    client.create_missing(path, data, &options).await
                }
                created => created,
            }
        }
    }

    /// Makes sure that a node exists: reads it, and creates it and its parents if it does not.
    ///
    /// They are created without data and with the access list of `kind`: as containers if `kind`
    /// is a container, as persistent nodes if it is anything else.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use zk_client::CreateOptions;
    ///
    /// client.ensure("/services/web", &CreateOptions::persistent()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// One round trip, which is a read, if the node exists, else two.
    ///
    /// # Errors
    ///
    /// Those of [`create_all`](Self::create_all), except that a node that exists is no error, even
    /// if this client may not read it. After an error with any outcome the call can be repeated: it
    /// is idempotent.
    ///
    /// # Cancel safety
    ///
    /// As that of [`create_all`](Self::create_all).
    pub fn ensure<'a>(
        &self,
        path: &'a str,
        kind: &CreateOptions<'a>,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<'a> {
        let (client, kind) = (self.clone(), kind.as_parent());
        let look = client.exists(path);
        async move {
            match look.await {
                Ok(None) => {}
                // The server asks for no permission to a node that does not exist.
                Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => return Ok(()),
                there => return there.map(drop),
            }
            match client.create_missing(path, b"", &kind).await {
                Err(error) if error.is_node_exists() => Ok(()),
                created => created.map(drop),
            }
        }
    }

    /// Creates a node whose parents may all be missing.
    async fn create_missing(
        &self,
        path: &str,
        data: &[u8],
        options: &CreateOptions<'_>,
    ) -> Result<Created, Error> {
        let op = OpCode::CREATE_CONTAINER;
        let has_containers = !self.shared().read(|core| core.is_unsupported(op));
        let parents = options.for_parents(has_containers);
        let mut attempt = 1;
        loop {
            let (making, node) = self.batch(|| {
                let make = |parent| self.create(parent, b"", &parents);
                let making: Vec<Reply<_>> = parents_top_down(path).map(make).collect();
                (making, self.create(path, data, options))
            });
            let missing = match node.await {
                Err(error) if error.is_no_node() => error,
                created => return created,
            };
            let mut orphan = None;
            for parent in making {
                match parent.await {
                    Err(error) if error.is_no_node() => drop(orphan.get_or_insert(error)),
                    Err(error) if !error.is_node_exists() => return Err(error),
                    _ => {}
                }
            }
            // A parent has been deleted meanwhile. If it is always so, the topmost node that lacks
            // its parent tells the cause, which may be the chroot.
            if attempt == ATTEMPTS {
                return Err(orphan.unwrap_or(missing));
            }
            attempt += 1;
        }
    }
}

/// The parents of a node below the root, from the top.
fn parents_top_down(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(at, _)| path.get(..at)).filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_from_the_top() {
        let check = |path, expected: &[&str]| {
            assert_eq!(parents_top_down(path).collect::<Vec<_>>(), expected, "{path}");
        };
        check("/", &[]);
        check("/a", &[]);
        check("/a/b/c", &["/a", "/a/b"]);
        check("/a/b/", &["/a", "/a/b"]); // A sequential node with a name of digits alone.
    }
}
