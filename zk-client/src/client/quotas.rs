//! Quotas: nodes below `/zookeeper/quota`, which servers act on.
//!
//! They are outside of every chroot, so this module works through a view of the whole tree.

use zk_proto::{ErrorCode, OpCode};

use crate::error::{Error, Failure};
use crate::handles::client::Client;
use crate::model::node::{CreateOptions, Node};
use crate::model::path::{self, Chroot};
use crate::model::quota::{Quota, Usage};

/// Where servers look for quotas, each below the path of its tree.
const QUOTAS: &str = "/zookeeper/quota";

/// The names of the nodes in which servers look for limits and keep their counts.
const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

impl Client {
    /// Limits the size of a node and of everything below it, or changes its limits.
    ///
    /// `zkCli.sh setquota` does the same. Servers count only for the nearest quota above a node, so
    /// do not put one quota inside another.
    ///
    /// # Errors
    ///
    /// [`NoNode`](Error::is_no_node) if the node does not exist; a refusal of the server; the loss
    /// of the connection, after which the call can safely be repeated.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave limits without a count. Call again then. Nothing is sent
    /// before it is first polled.
    pub async fn set_quota(&self, path: &str, quota: &Quota) -> Result<(), Error> {
        let (whole, node) = self.quota_node(path)?;
        if self.exists(path).await?.is_none() {
            let missing = Failure::Refused(ErrorCode::NO_NODE);
            return Err(Error::failed(OpCode::EXISTS, path, missing));
        }
        let (limits, stats) = (format!("{node}/{LIMITS}"), format!("{node}/{STATS}"));
        let data = quota.to_string();
        match whole.create_all(&limits, data.as_bytes(), &PERSISTENT).await {
            Err(error) if error.is_node_exists() => {
                whole.set_data(&limits, data.as_bytes(), None).await?;
            }
            made => drop(made?),
        }
        // Servers count the nodes that exist when this node is created, and keep counting.
        match whole.create(&stats, Usage::NONE, &PERSISTENT).await {
            Err(error) if error.is_node_exists() => Ok(()),
            made => made.map(drop),
        }
    }

    /// The limits of a tree and its usage; `None` if it has no quota of its own.
    ///
    /// Nothing is sent before the future is first polled.
    pub async fn get_quota(&self, path: &str) -> Result<Option<(Quota, Usage)>, Error> {
        let (whole, node) = self.quota_node(path)?;
        let (limits, stats) = whole.batch(|| {
            let read = |name| whole.get_data(&format!("{node}/{name}"));
            (read(LIMITS), read(STATS))
        });
        let data = |read: Result<Node, Error>| match read {
            Ok(node) => Ok(Some(node.data)),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error),
        };
        let (limits, stats) = (data(limits.await)?, data(stats.await)?);
        let usage = stats.map(|stats| Usage::parse(&stats)).unwrap_or_default();
        Ok(limits.map(|limits| (Quota::parse(&limits), usage)))
    }

    /// Removes the limits of a tree. Returns true if there were any.
    ///
    /// # Cancel safety
    ///
    /// The first request deletes the limits. It is sent when the future is first polled.
    pub async fn delete_quota(&self, path: &str) -> Result<bool, Error> {
        let (whole, node) = self.quota_node(path)?;
        let (limits, stats, folder) = whole.batch(|| {
            let delete = |path: String| whole.delete(&path, None);
            (delete(format!("{node}/{LIMITS}")), delete(format!("{node}/{STATS}")), delete(node))
        });
        let had = match limits.await {
            Ok(()) => true,
            Err(error) if error.is_no_node() => false,
            Err(error) => return Err(error),
        };
        for rest in [stats.await, folder.await] {
            match rest {
                // The folder stays if quotas of nodes further down are in it.
                Err(error) if error.code().is_none() => return Err(error),
                _ => {}
            }
        }
        Ok(had)
    }

    /// A view of the whole tree, and the path in it of the node's quota.
    fn quota_node(&self, path: &str) -> Result<(Self, String), Error> {
        path::check(path)?;
        let mut whole = self.clone();
        whole.chroot = Chroot::default();
        let tree = self.chroot.apply(path);
        Ok((whole, format!("{QUOTAS}{}", tree.strip_suffix('/').unwrap_or(&tree))))
    }
}
