//! The children of a node, and the nodes of a session, in the order in which real servers list
//! them.

use zk_proto::{SessionId, Zxid};

use crate::listing;
use crate::node::Node;
use crate::tree::Tree;

impl Tree {
    /// The names of the children of `path`, in the order in which a real server lists them.
    pub(crate) fn listed(&self, path: &str) -> Vec<&str> {
        let buckets = self.get(path).map_or(0, |node| node.buckets);
        let children = self.child_nodes(path);
        let keyed = children.map(|(name, node)| (listing::bucket(name, buckets), age(node), name));
        in_order(keyed.collect())
    }

    /// The ephemeral nodes of a session, in the order in which a real server has them: in `dump`,
    /// and if they are `copied`, as the answer to getEphemerals.
    pub(crate) fn listed_ephemerals(&self, session: SessionId, copied: bool) -> Vec<&str> {
        let count = self.ephemerals(session).count();
        let buckets = listing::grown_from(listing::EPHEMERALS, count);
        let copy = if copied { listing::copied(count) } else { buckets };
        let keyed = self.ephemerals(session).filter_map(|path| {
            let (first, then) = (listing::bucket(path, copy), listing::bucket(path, buckets));
            Some(((first, then), age(self.get(path)?), &**path))
        });
        in_order(keyed.collect())
    }
}

/// The order in which nodes were created.
fn age(node: &Node) -> (Zxid, u16) {
    (node.czxid, node.place)
}

/// The names by their buckets, and by their age within each.
fn in_order<B: Ord>(mut keyed: Vec<(B, (Zxid, u16), &str)>) -> Vec<&str> {
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, _, name)| name).collect()
}
