//! The nodes of a cached tree, in little memory.
//!
//! A node keeps its own name and not its path. Its children are in a map of their own, which a node
//! without children does not have. Knows no client: it is told what was read.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use zk_client::{Node, SessionId, Zxid};

/// What a node takes beside its name and data, measured with 100,000 children of one node.
pub(super) const NODE_BYTES: usize = 144;

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

    fn is(&self, node: &Node) -> bool {
        let Node { data, stat, .. } = node;
        let is_same = (self.czxid, self.mzxid) == (stat.czxid, stat.mzxid)
            && (self.version, self.ephemeral_owner) == (stat.version, stat.ephemeral_owner);
        // If older data took the place of the ensemble's, a zxid may come twice.
        is_same && self.data[..] == data[..]
    }
}

/// Where a node was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// It was not there before, so none of its children are known.
    New,
    /// It was there before, with its children.
    Known,
    /// Its parent is not there: it was deleted, or may not be read.
    Nowhere,
}

/// A tree of nodes. Paths are relative to its root, without a slash at either end.
#[derive(Debug, Default)]
pub(super) struct Tree {
    root: Option<Box<Entry>>,
    pub(super) nodes: usize,
    /// The bytes that the nodes take, with their names and data.
    pub(super) bytes: usize,
    /// Grows with each change of a node.
    pub(super) changes: u64,
    /// True once all nodes were read. Before that nobody may see a part of them.
    pub(super) is_whole: bool,
    /// The highest zxid of a reply that was put into the tree.
    pub(super) newest: Zxid,
}

#[derive(Debug)]
struct Entry {
    node: TreeNode,
    /// In a box, because most nodes have none.
    children: Option<Box<Children>>,
}

impl Entry {
    fn new(node: &Node) -> Box<Self> {
        Box::new(Self { node: TreeNode::new(node), children: None })
    }

    /// Puts what was read in the place of what was known. Returns the length of the old data if it
    /// differs. A node that was made anew has new children, and events of the old ones.
    fn update(&mut self, node: &Node) -> Option<usize> {
        let differs = !self.node.is(node);
        differs.then(|| std::mem::replace(&mut self.node, TreeNode::new(node)).data.len())
    }
}

#[derive(Debug, Default)]
struct Children(BTreeMap<Box<str>, Box<Entry>>);

impl Tree {
    pub(super) fn node(&self, path: &str) -> Option<&TreeNode> {
        Some(&self.find(path)?.node)
    }

    /// The names of the children, sorted.
    pub(super) fn children(&self, path: &str) -> Option<impl Iterator<Item = &str>> {
        let children = self.find(path)?.children.iter();
        Some(children.flat_map(|children| children.0.keys().map(AsRef::as_ref)))
    }

    /// Puts a node that was read in its place.
    pub(super) fn put(&mut self, path: &str, node: &Node) -> Placed {
        let (name, known) = match split(path) {
            None => match &mut self.root {
                Some(root) => ("", Some(root.update(node))),
                root => {
                    *root = Some(Entry::new(node));
                    ("", None)
                }
            },
            Some((parent, name)) => {
                let Some(parent) = find_mut(&mut self.root, parent) else {
                    return Placed::Nowhere;
                };
                let children = &mut parent.children.get_or_insert_default().0;
                let known = children.get_mut(name).map(|known| known.update(node));
                if known.is_none() {
                    children.insert(name.into(), Entry::new(node));
                }
                (name, known)
            }
        };
        match known {
            None => {
                self.nodes += 1;
                self.bytes += NODE_BYTES + name.len() + node.data.len();
                self.changes += 1;
                Placed::New
            }
            Some(None) => Placed::Known,
            Some(Some(bytes)) => {
                self.bytes = self.bytes - bytes + node.data.len();
                self.changes += 1;
                Placed::Known
            }
        }
    }

    /// Removes a node with everything below it, if it is there.
    pub(super) fn remove(&mut self, path: &str) {
        let (name, removed) = match split(path) {
            None => ("", self.root.take()),
            Some((parent, name)) => {
                let Some(parent) = find_mut(&mut self.root, parent) else {
                    return;
                };
                let Some(children) = &mut parent.children else {
                    return;
                };
                let removed = children.0.remove(name);
                if children.0.is_empty() {
                    parent.children = None;
                }
                (name, removed)
            }
        };
        let Some(mut removed) = removed else {
            return;
        };
        self.changes += 1;
        self.forget(name, &removed.node);
        let mut below = Vec::from_iter(removed.children.take());
        while let Some(children) = below.pop() {
            for (name, mut entry) in children.0 {
                self.forget(&name, &entry.node);
                below.extend(entry.children.take());
            }
        }
    }

    /// Removes the children that are not among these.
    pub(super) fn keep_children<'n>(&mut self, path: &str, names: impl Iterator<Item = &'n str>) {
        let Some(known) = self.children(path) else {
            return;
        };
        let names = names.collect::<HashSet<_>>();
        let gone = known.filter(|name| !names.contains(name));
        let gone = gone.map(|name| join(path, name)).collect::<Vec<_>>();
        for path in gone {
            self.remove(&path);
        }
    }

    /// Drops a tree that is not whole, to free its memory.
    pub(super) fn drop_part(&mut self) {
        if !self.is_whole {
            *self = Self::default();
        }
    }

    fn forget(&mut self, name: &str, node: &TreeNode) {
        self.nodes -= 1;
        self.bytes -= NODE_BYTES + name.len() + node.data.len();
    }

    fn find(&self, path: &str) -> Option<&Entry> {
        let mut entry = self.root.as_deref()?;
        for name in path.split_terminator('/') {
            entry = entry.children.as_ref()?.0.get(name)?;
        }
        Some(entry)
    }
}

fn find_mut<'t>(root: &'t mut Option<Box<Entry>>, path: &str) -> Option<&'t mut Entry> {
    let mut entry = root.as_deref_mut()?;
    for name in path.split_terminator('/') {
        entry = entry.children.as_mut()?.0.get_mut(name)?;
    }
    Some(entry)
}

/// The path of the parent, and the name; `None` for the root.
fn split(path: &str) -> Option<(&str, &str)> {
    match path {
        "" => None,
        path => Some(path.rsplit_once('/').unwrap_or(("", path))),
    }
}

/// The path of a child.
fn join(parent: &str, name: &str) -> String {
    match parent {
        "" => name.to_owned(),
        parent => format!("{parent}/{name}"),
    }
}

/// A path may have half a million levels, which is too deep for a recursion.
impl Drop for Entry {
    fn drop(&mut self) {
        let mut below = Vec::from_iter(self.children.take());
        while let Some(children) = below.pop() {
            below.extend(children.0.into_values().filter_map(|mut entry| entry.children.take()));
        }
    }
}
