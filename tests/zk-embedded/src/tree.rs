//! The tree of nodes: the stored data, and how each operation changes it.
//!
//! The tree is a flat map from whole paths to nodes, as in ZooKeeper. The permission checks are
//! elsewhere. Changes of one transaction leave a trail by which they can be undone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use zk_proto::{ErrorCode, SessionId, Stat, Zxid};

use crate::access::AccessList;

/// Nodes that every server has and that no client can delete.
pub(crate) const SYSTEM: [&str; 3] = ["/zookeeper", "/zookeeper/quota", "/zookeeper/config"];

/// The kind of a node, which decides when the node is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Persistent,
    Ephemeral(SessionId),
    Container,
    /// Time to live: milliseconds after the last write.
    Ttl(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) data: Option<Bytes>,
    pub(crate) acl: AccessList,
    pub(crate) kind: Kind,
    pub(crate) czxid: Zxid,
    pub(crate) mzxid: Zxid,
    pub(crate) pzxid: Zxid,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    pub(crate) aversion: i32,
    /// How many children were ever created; sequential children are numbered by it. It stays at the
    /// largest `i32`.
    pub(crate) created: i32,
    pub(crate) children: BTreeSet<Box<str>>,
}

/// The zxid and the time of a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) zxid: Zxid,
    /// Wall clock, in milliseconds since 1970.
    pub(crate) millis: i64,
}

/// How to undo one change.
#[derive(Debug)]
enum Undo {
    Create { path: Arc<str>, pzxid: Zxid, created: i32 },
    Delete { path: Arc<str>, node: Box<Node>, pzxid: Zxid },
    SetData { path: Arc<str>, data: Option<Bytes>, version: i32, mzxid: Zxid, mtime: i64 },
}

#[derive(Debug)]
pub(crate) struct Tree {
    /// The nodes are boxed, since up to half of the map is empty.
    nodes: HashMap<Arc<str>, Box<Node>>,
    ephemerals: BTreeMap<i64, BTreeSet<Arc<str>>>,
    /// Containers and nodes with a time to live.
    expiring: BTreeSet<Arc<str>>,
    trail: Vec<Undo>,
}

impl Node {
    fn new(data: Option<Bytes>, acl: AccessList, kind: Kind, now: Stamp) -> Self {
        let Stamp { zxid, millis } = now;
        Self {
            data,
            acl,
            kind,
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: millis,
            mtime: millis,
            version: 0,
            aversion: 0,
            created: 0,
            children: BTreeSet::new(),
        }
    }

    pub(crate) fn stat(&self) -> Stat {
        let children = self.children.len() as i32;
        let owner = match self.kind {
            Kind::Ephemeral(session) => session,
            _ => SessionId::default(),
        };
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.created.wrapping_mul(2).wrapping_sub(children),
            aversion: self.aversion,
            ephemeral_owner: owner,
            data_length: self.data.as_ref().map_or(0, Bytes::len) as i32,
            num_children: children,
            pzxid: self.pzxid,
        }
    }
}

impl Tree {
    /// Creates a tree of the system nodes alone. `config` is the access list of
    /// `/zookeeper/config`.
    pub(crate) fn new(open: &AccessList, config: &AccessList) -> Self {
        let mut tree = Self {
            nodes: HashMap::new(),
            ephemerals: BTreeMap::new(),
            expiring: BTreeSet::new(),
            trail: Vec::new(),
        };
        let now = Stamp { zxid: Zxid(0), millis: 0 };
        let system = |acl: &AccessList| {
            Box::new(Node::new(Some(Bytes::new()), Arc::clone(acl), Kind::Persistent, now))
        };
        tree.nodes.insert("/".into(), system(open));
        for path in SYSTEM {
            let acl = if path.ends_with("config") { config } else { open };
            let mut node = system(acl);
            if path.ends_with("config") {
                node.aversion = -1;
            }
            tree.nodes.insert(path.into(), node);
            let (parent, name) = split(path);
            if let Some(parent) = tree.get_mut(parent) {
                parent.children.insert(name.into());
            }
        }
        tree
    }

    /// The node at `path`; the empty string is another name of the root, as it is on real servers.
    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(if path.is_empty() { "/" } else { path }).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, path: &str) -> Option<&mut Node> {
        self.nodes.get_mut(if path.is_empty() { "/" } else { path }).map(Box::as_mut)
    }

    /// [`Tree::get`] with the error that servers answer.
    pub(crate) fn node(&self, path: &str) -> Result<&Node, ErrorCode> {
        self.get(path).ok_or(ErrorCode::NO_NODE)
    }

    /// All paths and nodes, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Node)> {
        self.nodes.iter().map(|(path, node)| (path, &**node))
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The ephemeral nodes of a session, in path order.
    pub(crate) fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = &Arc<str>> {
        self.ephemerals.get(&session.0).into_iter().flatten()
    }

    /// Every session that owns nodes, with these nodes.
    pub(crate) fn owners(&self) -> impl Iterator<Item = (SessionId, &BTreeSet<Arc<str>>)> {
        self.ephemerals.iter().map(|(session, paths)| (SessionId(*session), paths))
    }

    /// The number of the next sequential child of `parent`.
    ///
    /// Within a transaction the numbers go on beyond the end of their range, because real servers
    /// name all nodes of a transaction before they create the first. The counter itself stays at
    /// its end.
    pub(crate) fn next_number(&self, parent: &str) -> Option<i32> {
        let created = self.get(parent)?.created;
        let is_beyond = |undo: &&Undo| match undo {
            Undo::Create { path, created: i32::MAX, .. } => split(path).0 == parent,
            _ => false,
        };
        let beyond = match created {
            i32::MAX => self.trail.iter().filter(is_beyond).count(),
            _ => 0,
        };
        Some(created.wrapping_add(beyond as i32))
    }

    /// Adds a node below a parent that exists.
    pub(crate) fn create(
        &mut self,
        path: &Arc<str>,
        data: Option<Bytes>,
        mut acl: AccessList,
        kind: Kind,
        now: Stamp,
    ) {
        let (parent, name) = split(path);
        if let Some(parent) = self.get_mut(parent) {
            // Most nodes have their parent's list. They share it.
            if acl == parent.acl {
                acl = Arc::clone(&parent.acl);
            }
            let undo = Undo::Create {
                path: Arc::clone(path),
                pzxid: parent.pzxid,
                created: parent.created,
            };
            parent.children.insert(name.into());
            // A counter at its end stays there, and pzxid with it (since 3.6).
            if let Some(created) = parent.created.checked_add(1) {
                parent.created = created;
                parent.pzxid = now.zxid;
            }
            self.trail.push(undo);
        }
        self.insert(path, Node::new(data, acl, kind, now));
    }

    /// Adds a node of a snapshot as it is, or replaces one that every server has. The parent is
    /// there, and its counters do not change.
    pub(crate) fn put(&mut self, path: &str, mut node: Node) {
        if let Some(old) = self.get_mut(path) {
            node.children = std::mem::take(&mut old.children);
        }
        let (parent, name) = split(path);
        if path != "/"
            && let Some(parent) = self.get_mut(parent)
        {
            parent.children.insert(name.into());
        }
        self.insert(&path.into(), node);
    }

    /// Removes a node that has no children.
    pub(crate) fn delete(&mut self, path: &Arc<str>, now: Stamp) {
        let Some(node) = self.take(path) else {
            return;
        };
        let (parent, name) = split(path);
        if let Some(parent) = self.get_mut(parent) {
            let pzxid = parent.pzxid;
            parent.children.remove(name);
            parent.pzxid = now.zxid;
            self.trail.push(Undo::Delete { path: Arc::clone(path), node: Box::new(node), pzxid });
        }
    }

    /// Replaces the data of a node and returns its state after it.
    pub(crate) fn set_data(
        &mut self,
        path: &Arc<str>,
        data: Option<Bytes>,
        now: Stamp,
    ) -> Option<Stat> {
        let node = self.get_mut(path)?;
        let undo = Undo::SetData {
            path: Arc::clone(path),
            data: std::mem::replace(&mut node.data, data),
            version: node.version,
            mzxid: node.mzxid,
            mtime: node.mtime,
        };
        node.version = node.version.wrapping_add(1);
        node.mzxid = now.zxid;
        node.mtime = now.millis;
        let stat = node.stat();
        self.trail.push(undo);
        Some(stat)
    }

    /// Makes the changes since the last commit permanent.
    pub(crate) fn commit(&mut self) {
        self.trail.clear();
    }

    /// Undoes the changes since the last commit.
    pub(crate) fn roll_back(&mut self) {
        while let Some(undo) = self.trail.pop() {
            match undo {
                Undo::Create { path, pzxid, created } => {
                    self.take(&path);
                    let (parent, name) = split(&path);
                    if let Some(parent) = self.get_mut(parent) {
                        parent.children.remove(name);
                        parent.pzxid = pzxid;
                        parent.created = created;
                    }
                }
                Undo::Delete { path, node, pzxid } => {
                    self.insert(&path, *node);
                    let (parent, name) = split(&path);
                    if let Some(parent) = self.get_mut(parent) {
                        parent.children.insert(name.into());
                        parent.pzxid = pzxid;
                    }
                }
                Undo::SetData { path, data, version, mzxid, mtime } => {
                    if let Some(node) = self.get_mut(&path) {
                        (node.data, node.version) = (data, version);
                        (node.mzxid, node.mtime) = (mzxid, mtime);
                    }
                }
            }
        }
    }

    /// True if there is any container or node with a time to live.
    pub(crate) fn has_expiring(&self) -> bool {
        !self.expiring.is_empty()
    }

    /// Containers that once had a child and have none now, and childless nodes whose last write is
    /// longer ago than their time to live.
    pub(crate) fn outlived(&self, millis: i64) -> Vec<Arc<str>> {
        let dead = |path: &&Arc<str>| {
            self.get(path).filter(|node| node.children.is_empty()).is_some_and(|node| {
                match node.kind {
                    Kind::Container => node.created > 0,
                    Kind::Ttl(ttl) => millis.saturating_sub(node.mtime) > ttl,
                    Kind::Persistent | Kind::Ephemeral(_) => false,
                }
            })
        };
        self.expiring.iter().filter(dead).cloned().collect()
    }

    /// Checks what must hold between transactions; `last` is the last transaction.
    pub(crate) fn audit(&self, last: Zxid) {
        assert!(self.trail.is_empty(), "a transaction is half done");
        let mut ephemerals = BTreeMap::<i64, BTreeSet<Arc<str>>>::new();
        let mut expiring = BTreeSet::new();
        let mut listed = 0;
        for (path, node) in &self.nodes {
            match node.kind {
                Kind::Persistent => {}
                Kind::Ephemeral(session) => {
                    assert!(node.children.is_empty(), "{path} is ephemeral and has children");
                    ephemerals.entry(session.0).or_default().insert(Arc::clone(path));
                }
                Kind::Container | Kind::Ttl(_) => {
                    expiring.insert(Arc::clone(path));
                }
            }
            if **path != *"/" {
                let (parent, name) = split(path);
                let parent = self.get(parent);
                assert!(parent.is_some_and(|it| it.children.contains(name)), "{path} is lost");
            }
            listed += node.children.len();
            assert!(node.czxid <= node.mzxid && node.mzxid <= last, "{path}: {node:?}");
            assert!(node.czxid <= node.pzxid && node.pzxid <= last, "{path}: {node:?}");
        }
        assert_eq!(listed + 1, self.nodes.len(), "children that are no nodes");
        assert_eq!(ephemerals, self.ephemerals);
        assert_eq!(expiring, self.expiring);
        assert!(SYSTEM.iter().all(|path| self.nodes.contains_key(*path)));
    }

    fn insert(&mut self, path: &Arc<str>, node: Node) {
        match node.kind {
            Kind::Persistent => {}
            Kind::Ephemeral(session) => {
                self.ephemerals.entry(session.0).or_default().insert(Arc::clone(path));
            }
            Kind::Container | Kind::Ttl(_) => {
                self.expiring.insert(Arc::clone(path));
            }
        }
        self.nodes.insert(Arc::clone(path), Box::new(node));
    }

    fn take(&mut self, path: &str) -> Option<Node> {
        let node = *self.nodes.remove(path)?;
        match node.kind {
            Kind::Persistent => {}
            Kind::Ephemeral(session) => {
                if let Some(paths) = self.ephemerals.get_mut(&session.0) {
                    paths.remove(path);
                    if paths.is_empty() {
                        self.ephemerals.remove(&session.0);
                    }
                }
            }
            Kind::Container | Kind::Ttl(_) => {
                self.expiring.remove(path);
            }
        }
        Some(node)
    }
}

/// The parent's path and the name, of a path with a slash. The root's children have the parent "".
pub(crate) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let open: AccessList = Arc::new([]);
        Tree::new(&open, &open)
    }

    fn at(zxid: i64) -> Stamp {
        Stamp { zxid: Zxid(zxid), millis: 1000 * zxid }
    }

    #[test]
    fn an_empty_tree_shows_what_an_empty_server_does() {
        let tree = tree();
        assert_eq!(tree.get("/").unwrap().stat().cversion, -1);
        assert_eq!(tree.get("").unwrap().stat().cversion, -1);
        assert_eq!(tree.get("/zookeeper").unwrap().stat().cversion, -2);
        assert_eq!(tree.len(), 4);
    }

    #[test]
    fn what_is_rolled_back_never_was() {
        let mut tree = tree();
        let (a, b): (Arc<str>, Arc<str>) = ("/a".into(), "/a/b".into());
        let open: AccessList = Arc::new([]);
        tree.create(&a, None, Arc::clone(&open), Kind::Persistent, at(1));
        tree.create(&b, None, Arc::clone(&open), Kind::Ephemeral(SessionId(7)), at(2));
        tree.commit();
        let shown = |tree: &Tree| {
            let mut all: Vec<_> =
                tree.iter().map(|(path, node)| format!("{path} {node:?}")).collect();
            all.sort();
            (all, tree.ephemerals(SessionId(7)).cloned().collect::<Vec<_>>(), tree.expiring.clone())
        };
        let before = shown(&tree);
        tree.set_data(&a, Some(Bytes::from_static(b"x")), at(3));
        tree.delete(&b, at(3));
        tree.delete(&a, at(3));
        tree.create(&a, None, Arc::clone(&open), Kind::Container, at(3));
        tree.create(&b, None, open, Kind::Ephemeral(SessionId(8)), at(3));
        assert_ne!(shown(&tree), before);
        tree.roll_back();
        assert_eq!(shown(&tree), before);
    }

    #[test]
    fn a_counter_stays_at_its_end() {
        let mut tree = tree();
        tree.get_mut("/").unwrap().created = i32::MAX - 1;
        let open: AccessList = Arc::new([]);
        for (zxid, path) in [(1, "/a"), (2, "/b")] {
            tree.create(&path.into(), None, Arc::clone(&open), Kind::Persistent, at(zxid));
            assert_eq!(tree.get("/").unwrap().created, i32::MAX);
            assert_eq!(tree.get("/").unwrap().pzxid, Zxid(1));
        }
    }
}
