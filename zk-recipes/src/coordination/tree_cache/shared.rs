//! What the future of a cached tree and its readers share.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;
use zk_client::Zxid;

use crate::coordination::tree_cache::tree::Tree;

/// The most that a tree in memory may take: see [`TreeCache::follow`](crate::TreeCache::follow).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeLimits {
    /// The number of nodes. By default a million.
    pub max_nodes: usize,
    /// The bytes of all names and data, with 144 more for each node. By default 256 MiB.
    pub max_bytes: usize,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self { max_nodes: 1_000_000, max_bytes: 256 * 1024 * 1024 }
    }
}

/// What the future and the readers of its tree share.
pub(super) struct Shared {
    pub(super) root: String,
    pub(super) limits: TreeLimits,
    pub(super) tree: RwLock<Tree>,
    /// The highest zxid that somebody waits for.
    pub(super) wanted: watch::Sender<Zxid>,
}

impl Shared {
    pub(super) fn tree(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tree_mut(&self) -> RwLockWriteGuard<'_, Tree> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path from the root of the tree on, or `None` if it is not in the tree.
    pub(super) fn relative<'p>(&self, path: &'p str) -> Option<&'p str> {
        let below = path.strip_prefix(self.root.trim_end_matches('/'))?;
        match below.strip_prefix('/') {
            None if below.is_empty() => Some(""),
            // The root of the servers has a slash of its own.
            Some("") if self.root != "/" => None,
            inside => inside,
        }
    }

    pub(super) fn absolute(&self, relative: &str) -> String {
        match relative {
            "" => self.root.clone(),
            relative => format!("{}/{relative}", self.root.trim_end_matches('/')),
        }
    }

    /// The most nodes and bytes that the tree may have while it is read.
    ///
    /// A node that moves meanwhile is counted at both places, until the read of what has changed
    /// removes the old one. The limits themselves are for a tree without changes to be read.
    pub(super) fn ceiling(&self) -> (usize, usize) {
        let TreeLimits { max_nodes, max_bytes } = self.limits;
        (max_nodes.saturating_mul(2), max_bytes.saturating_mul(2))
    }
}
