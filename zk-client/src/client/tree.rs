//! Nodes together with the parents that they need.
//!
//! Parents are there nearly always, so the node is created first and they are only when the server
//! says that they are missing: all of them and the node again in one flush, since a create of what
//! is there already changes nothing.

use std::future::Future;

use zk_proto::ErrorCode;

use crate::client::handle::Client;
use crate::error::Error;
use crate::handles::reply::Reply;
use crate::model::node::{CreateOptions, Created};

/// How often the parents are made before somebody who deletes them again has won.
const ATTEMPTS: usize = 8;

impl Client {
    /// Creates a node, and before it those of its parents that do not exist.
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
    /// The first create is sent by the call, in call order; what follows a missing parent is sent
    /// when the future is polled, in one flush, parents first.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) fails, with its [`outcome`](Error::outcome), which tells of the
    /// node alone: parents may have been made in any case. Of a parent that cannot be made, the
    /// server's refusal. `NoNode` means that the parents vanished again, eight times in a row, or
    /// that the chroot does not exist.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes nothing back: the node and its parents may have been made, or
    /// some of the parents alone.
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

    /// Makes sure that a node exists: looks, and creates it and its parents if it does not.
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
    /// As [`create_all`](Self::create_all), but for a node that exists, also one that this client
    /// may not read. After an error, whatever
    /// its outcome, it may just be called again: to ensure twice is to ensure once.
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
                // Of a node that is not there no permission is asked for.
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
        let parents = options.for_parents();
        let mut attempt = 1;
        loop {
            let (making, node) = self.batch(|| {
                let make = |parent| self.create(parent, b"", &parents);
                let making: Vec<Reply<_>> = ancestors(path).map(make).collect();
                (making, self.create(path, data, options))
            });
            let missing = match node.await {
                Err(error) if error.is_no_node() => error,
                created => return created,
            };
            for parent in making {
                // One that is there will do, and one whose parent is missing is not to blame.
                match parent.await {
                    Err(error) if !error.is_node_exists() && !error.is_no_node() => {
                        return Err(error);
                    }
                    _ => {}
                }
            }
            // All of them were there, and one has gone since.
            if attempt == ATTEMPTS {
                return Err(missing);
            }
            attempt += 1;
        }
    }
}

/// The parents of a node below the root, from the top.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(at, _)| path.get(..at)).filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_from_the_top() {
        let check = |path, expected: &[&str]| {
            assert_eq!(ancestors(path).collect::<Vec<_>>(), expected, "{path}");
        };
        check("/", &[]);
        check("/a", &[]);
        check("/a/b/c", &["/a", "/a/b"]);
        check("/a/b/", &["/a", "/a/b"]); // A sequential node with a name of digits alone.
    }
}
