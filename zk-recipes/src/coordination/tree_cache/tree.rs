//! The nodes of a cached tree, in one map, in which the children of each node are side by side.
//!
//! Knows no client: it is told what was read.

use std::collections::HashSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use zk_client::{Node, SessionId, Zxid};

/// What a node takes beside its path and data, measured with 100,000 nodes.
pub(super) const NODE_BYTES: usize = 150;

/// A node of a [`TreeCache`](crate::TreeCache).
///
/// Of the node's state only that part is kept which events keep up to date. They do not report
/// changes of access lists, nor what a node's children change in the state of their parent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeNode {
    /// Its data. A clone shares it.
    pub data: Arc<[u8]>,
    /// The transaction that created it.
    pub czxid: Zxid,
    /// The transaction that last changed its data.
    pub mzxid: Zxid,
    /// The number of changes of its data.
    pub version: i32,
    /// The session that owns it, if it is ephemeral, or else 0.
    pub ephemeral_owner: SessionId,
}

impl TreeNode {
    fn new(node: &Node) -> Self {
        let Node { data, stat, .. } = node;
        Self {
            data: Arc::from(&data[..]),
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            version: stat.version,
            ephemeral_owner: stat.ephemeral_owner,
        }
    }

    /// True if it is this node, with the same data. If older data took the place of the ensemble's,
    /// a zxid may come twice.
    fn is(&self, node: &Node) -> bool {
        let Node { data, stat, .. } = node;
        (self.czxid, self.mzxid) == (stat.czxid, stat.mzxid)
            && (self.version, self.ephemeral_owner) == (stat.version, stat.ephemeral_owner)
            && self.data[..] == data[..]
    }
}

/// The tree at one moment: see [`TreeCache::read`](crate::TreeCache::read).
#[derive(Default)]
pub struct TreeView {
    /// By their [keys](key).
    pub(super) nodes: BTreeMap<Box<str>, TreeNode>,
    /// The bytes that the nodes take, with their paths and data.
    pub(super) bytes: usize,
    /// Grows with each change of a node.
    pub(super) changes: u64,
    /// True once all nodes were read. Before that nobody may see a part of them.
    pub(super) is_whole: bool,
    /// The highest zxid of a reply that was put into the tree.
    pub(super) newest: Zxid,
}

impl TreeView {
    /// A node of the tree, or `None` if there is none at this path.
    pub fn get(&self, path: &str) -> Option<&TreeNode> {
        self.node(path).filter(|_| self.is_whole)
    }

    /// The names of a node's children, sorted; `None` if there is no such node.
    pub fn children(&self, path: &str) -> Option<impl Iterator<Item = &str>> {
        self.get(path).map(|_| self.names_below(path))
    }

    /// A node, also of a tree that is not whole.
    pub(super) fn node(&self, path: &str) -> Option<&TreeNode> {
        self.nodes.get(&key(path))
    }

    /// True if the node above this path is there.
    pub(super) fn has_parent_of(&self, path: &str) -> bool {
        let parent = path.rsplit_once('/').map(|(parent, _)| parent);
        let parent = parent.map(|parent| if parent.is_empty() { "/" } else { parent });
        parent.is_some_and(|parent| self.node(parent).is_some())
    }

    /// Puts a node that was read in its place. Returns whether none was there before.
    pub(super) fn put(&mut self, path: &str, node: &Node) -> bool {
        let before = match self.nodes.entry(key(path)) {
            Entry::Occupied(known) if known.get().is(node) => return false,
            Entry::Occupied(mut known) => Some(known.insert(TreeNode::new(node))),
            Entry::Vacant(place) => {
                place.insert(TreeNode::new(node));
                None
            }
        };
        self.bytes += size(path, &node.data);
        self.bytes -= before.as_ref().map_or(0, |before| size(path, &before.data));
        self.changes += 1;
        before.is_none()
    }

    /// Removes a node with everything below it, if it is there.
    pub(super) fn remove(&mut self, path: &str) {
        let mut gone = vec![path.to_owned()];
        while let Some(path) = gone.pop() {
            if let Some(node) = self.nodes.remove(&key(&path)) {
                self.bytes -= size(&path, &node.data);
                self.changes += 1;
                gone.extend(self.names_below(&path).map(|name| child(&path, name)));
            }
        }
    }

    /// Removes the children that are not among these.
    pub(super) fn keep_children<'n>(&mut self, path: &str, names: impl Iterator<Item = &'n str>) {
        let names = names.collect::<HashSet<_>>();
        let gone = self.names_below(path).filter(|name| !names.contains(name));
        for path in gone.map(|name| child(path, name)).collect::<Vec<_>>() {
            self.remove(&path);
        }
    }

    fn names_below(&self, path: &str) -> impl Iterator<Item = &str> {
        let beginning = [path.trim_end_matches('/'), "\0"].concat();
        let nodes = self.nodes.range::<str, _>((Bound::Included(&*beginning), Bound::Unbounded));
        let names = nodes.map_while(move |(key, _)| key.strip_prefix(&*beginning));
        // The root of the servers has the key of a child of its own.
        names.filter(|name| !name.is_empty())
    }
}

impl fmt::Debug for TreeView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeView").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

/// The path with another character for its last slash, which is in no path and lower than all
/// others. So the keys of a node's children, and no other ones, begin alike.
fn key(path: &str) -> Box<str> {
    match path.rsplit_once('/') {
        Some((parent, name)) => [parent, "\0", name].concat().into(),
        None => path.into(),
    }
}

fn size(path: &str, data: &[u8]) -> usize {
    NODE_BYTES + path.len() + data.len()
}

/// The path of a node's child.
pub(super) fn child(parent: &str, name: &str) -> String {
    [parent.trim_end_matches('/'), "/", name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of nodes at these paths, without data.
    fn tree(paths: &[&str]) -> TreeView {
        let node = TreeNode {
            data: Arc::default(),
            czxid: Zxid(1),
            mzxid: Zxid(1),
            version: 0,
            ephemeral_owner: SessionId(0),
        };
        let mut tree = TreeView::default();
        for path in paths {
            tree.nodes.insert(key(path), node.clone());
            tree.bytes += size(path, b"");
        }
        tree
    }

    fn paths(tree: &TreeView) -> Vec<String> {
        tree.nodes.keys().map(|key| key.replace('\0', "/")).collect()
    }

    fn below<'t>(tree: &'t TreeView, path: &str) -> Vec<&'t str> {
        tree.names_below(path).collect()
    }

    #[test]
    fn children_are_those_of_one_node_alone() {
        let tree =
            tree(&["/", "/a", "/a/b", "/a/b/c", "/a-b", "/a.b/d", "/a/b-c", "/ab", "/\u{1}"]);
        assert_eq!(below(&tree, "/"), ["\u{1}", "a", "a-b", "ab"]);
        assert_eq!(below(&tree, "/a"), ["b", "b-c"]);
        assert_eq!(below(&tree, "/a/b"), ["c"]);
        assert_eq!(below(&tree, "/a-b"), [""; 0]);
        assert_eq!(below(&tree, "/a.b"), ["d"]);
    }

    #[test]
    fn a_node_goes_with_all_below_it_and_nothing_else() {
        let mut tree = tree(&["/a", "/a/b", "/a/b/c", "/a-b", "/a-b/c", "/ab"]);
        let bytes = tree.bytes;
        tree.remove("/a");
        assert_eq!(paths(&tree), ["/a-b", "/ab", "/a-b/c"]);
        let gone = ["/a", "/a/b", "/a/b/c"].map(|path| size(path, b""));
        assert_eq!(tree.bytes, bytes - gone.iter().sum::<usize>());
        assert_eq!(tree.changes, 3);
    }

    #[test]
    fn only_the_children_that_are_named_are_kept() {
        let mut tree = tree(&["/", "/a", "/a/b", "/b", "/b-", "/b-/c"]);
        tree.keep_children("/", ["b", "new"].into_iter());
        assert_eq!(paths(&tree), ["/", "/b"]);
    }

    #[test]
    fn a_parent_is_found_up_to_the_root_of_the_servers() {
        let tree = tree(&["/", "/a"]);
        assert!(tree.has_parent_of("/b") && tree.has_parent_of("/a/b"));
        assert!(!tree.has_parent_of("/b/c"));
    }
}
