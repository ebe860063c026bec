//! The tree of nodes: the stored data, and how each operation changes it.
//!
//! The tree is one map from whole paths to nodes, sorted by path. The nodes below a path are next
//! to each other in it, so that no node has a list of its children. Permissions are checked
//! elsewhere. Changes of one transaction leave a trail by which they can be undone.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::ops::Bound::{self, Excluded, Included};
use std::sync::Arc;

use zk_proto::{ErrorCode, SessionId, Stat, Zxid};

use crate::access::AccessList;
use crate::listing;
use crate::manner::{Deviation, Manner};
use crate::node::{Kind, Node, Stamp};

mod listed;

/// Nodes that every server has and that no client can delete.
pub(crate) const SYSTEM: [&str; 3] = ["/zookeeper", "/zookeeper/quota", "/zookeeper/config"];

/// How long a container that never had a child stays after its last write, in milliseconds, on
/// servers that remove it: the `znode.container.maxNeverUsedIntervalMs` of 3.10.
const UNUSED_CONTAINER: i64 = 5 * 60 * 1000;

/// How to undo one change.
#[derive(Debug)]
enum Undo {
    Create { path: Arc<str>, pzxid: Zxid, created: i32, buckets: u8 },
    Delete { path: Arc<str>, node: Box<Node>, pzxid: Zxid },
    SetData { path: Arc<str>, data: Option<Box<[u8]>>, version: i32, mzxid: Zxid, mtime: i64 },
}

#[derive(Debug)]
pub(crate) struct Tree {
    /// The nodes are boxed, since nearly half of the map is empty when it was filled in order.
    nodes: BTreeMap<Box<str>, Box<Node>>,
    ephemerals: BTreeMap<i64, BTreeSet<Arc<str>>>,
    /// Containers and nodes with a time to live.
    expiring: BTreeSet<Arc<str>>,
    trail: Vec<Undo>,
    /// How the server counts changes.
    pub(crate) manner: Manner,
}

impl Tree {
    /// Creates a tree of the system nodes alone. `config` is the access list of
    /// `/zookeeper/config`.
    pub(crate) fn new(open: &AccessList, config: &AccessList) -> Self {
        let mut tree = Self {
            nodes: BTreeMap::new(),
            ephemerals: BTreeMap::new(),
            expiring: BTreeSet::new(),
            trail: Vec::new(),
            manner: Manner::apache(),
        };
        let now = Stamp { zxid: Zxid(0), millis: 0 };
        let system = |acl: &AccessList| {
            Node::new(Some(Box::default()), Arc::clone(acl), Kind::Persistent, now)
        };
        tree.nodes.insert("/".into(), Box::new(system(open)));
        for (place, path) in (0..).zip(SYSTEM) {
            let acl = if path.ends_with("config") { config } else { open };
            let mut node = Node { place, ..system(acl) };
            if path.ends_with("config") {
                node.aversion = -1;
            }
            tree.insert(&path.into(), node);
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

    /// All paths and nodes, in path order: a node comes before those below it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(path, node)| (&**path, &**node))
    }

    /// The paths below `path`, in order.
    pub(crate) fn below(&self, path: &str) -> impl Iterator<Item = &str> {
        let (first, end) = bounds(path);
        self.between(Excluded(&*first), &end).map(|(path, _)| path)
    }

    /// The names of the children of `path`, in order.
    pub(crate) fn children(&self, path: &str) -> impl Iterator<Item = &str> {
        self.child_nodes(path).map(|(name, _)| name)
    }

    fn child_nodes(&self, path: &str) -> impl Iterator<Item = (&str, &Node)> {
        let (first, end) = bounds(path);
        let mut paths = self.between(Excluded(&*first), &end);
        iter::from_fn(move || {
            loop {
                let (path, node) = paths.next()?;
                let name = path.get(first.len()..)?;
                let Some((child, _)) = name.split_once('/') else {
                    return Some((name, node));
                };
                // Go on behind all that is below this child.
                paths = self.between(Included(&*format!("{first}{child}0")), &end);
            }
        })
    }

    /// The paths from `first` to before `end`, in order.
    fn between(
        &self,
        first: Bound<&str>,
        end: &str,
    ) -> impl Iterator<Item = (&str, &Node)> + use<'_> {
        let paths = self.nodes.range::<str, _>((first, Excluded(end)));
        paths.map(|(path, node)| (&**path, &**node))
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
            Undo::Create { path, created: i32::MAX, .. } => parent_of(path) == parent,
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
        data: Option<Box<[u8]>>,
        mut acl: AccessList,
        kind: Kind,
        now: Stamp,
    ) {
        let place = u16::try_from(self.trail.len()).unwrap_or(u16::MAX);
        if let Some(parent) = self.get_mut(parent_of(path)) {
            // Most nodes have their parent's list. They share it.
            if acl == parent.acl {
                acl = Arc::clone(&parent.acl);
            }
            let undo = Undo::Create {
                path: Arc::clone(path),
                pzxid: parent.pzxid,
                created: parent.created,
                buckets: parent.buckets,
            };
            // A counter at its end stays there, and pzxid with it (since 3.6).
            if let Some(created) = parent.created.checked_add(1) {
                parent.created = created;
                parent.pzxid = now.zxid;
            }
            self.trail.push(undo);
        }
        self.insert(path, Node { place, ..Node::new(data, acl, kind, now) });
    }

    /// Adds a node of a snapshot as it is, or replaces one that every server has. The parent is
    /// there, and its counters do not change.
    pub(crate) fn put(&mut self, path: &str, mut node: Node) {
        if let Some(old) = self.get_mut(path) {
            (node.children, node.buckets, node.place) = (old.children, old.buckets, old.place);
            *old = node;
        } else {
            self.insert(&path.into(), node);
        }
    }

    /// Removes a node that has no children.
    pub(crate) fn delete(&mut self, path: &Arc<str>, now: Stamp) {
        let Some(node) = self.take(path) else {
            return;
        };
        let leaves_pzxid = self.manner.has(Deviation::DeletesLeavePzxid);
        if let Some(parent) = self.get_mut(parent_of(path)) {
            let pzxid = parent.pzxid;
            if !leaves_pzxid {
                parent.pzxid = now.zxid;
            }
            self.trail.push(Undo::Delete { path: Arc::clone(path), node: Box::new(node), pzxid });
        }
    }

    /// Replaces the data of a node and returns its state after it.
    pub(crate) fn set_data(
        &mut self,
        path: &Arc<str>,
        data: Option<Box<[u8]>>,
        now: Stamp,
    ) -> Option<Stat> {
        let skips = self.manner.has(Deviation::VersionsSkipMinusOne);
        let node = self.get_mut(path)?;
        let undo = Undo::SetData {
            path: Arc::clone(path),
            data: std::mem::replace(&mut node.data, data),
            version: node.version,
            mzxid: node.mzxid,
            mtime: node.mtime,
        };
        node.version = match node.version.wrapping_add(1) {
            Stat::ANY_VERSION if skips => 0,
            next => next,
        };
        node.mzxid = now.zxid;
        node.mtime = now.millis;
        let stat = node.stat();
        self.trail.push(undo);
        self.count_write(path, 1);
        Some(stat)
    }

    /// Counts writes of this node's data in its parent, where servers do.
    fn count_write(&mut self, path: &str, times: i32) {
        if self.manner.has(Deviation::WritesCountInParents)
            && let Some(parent) = self.get_mut(parent_of(path))
        {
            parent.child_writes = parent.child_writes.wrapping_add(times);
        }
    }

    /// Makes the changes since the last commit permanent.
    pub(crate) fn commit(&mut self) {
        self.trail.clear();
    }

    /// Undoes the changes since the last commit.
    pub(crate) fn roll_back(&mut self) {
        while let Some(undo) = self.trail.pop() {
            match undo {
                Undo::Create { path, pzxid, created, buckets } => {
                    self.take(&path);
                    if let Some(parent) = self.get_mut(parent_of(&path)) {
                        parent.pzxid = pzxid;
                        (parent.created, parent.buckets) = (created, buckets);
                    }
                }
                Undo::Delete { path, node, pzxid } => {
                    self.insert(&path, *node);
                    if let Some(parent) = self.get_mut(parent_of(&path)) {
                        parent.pzxid = pzxid;
                    }
                }
                Undo::SetData { path, data, version, mzxid, mtime } => {
                    self.count_write(&path, -1);
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

    /// Containers that have no child any more, and childless nodes whose last write is longer ago
    /// than their time to live.
    pub(crate) fn outlived(&self, millis: i64) -> Vec<Arc<str>> {
        let removes_unused = self.manner.has(Deviation::RemovesUnusedContainers);
        let dead = |path: &&Arc<str>| {
            self.get(path).filter(|node| node.children == 0).is_some_and(|node| {
                let age = millis.saturating_sub(node.mtime);
                match node.kind {
                    Kind::Container => node.created > 0 || removes_unused && age > UNUSED_CONTAINER,
                    Kind::Ttl(ttl) => age > ttl,
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
        for (path, node) in &self.nodes {
            match node.kind {
                Kind::Persistent => {}
                Kind::Ephemeral(session) => {
                    assert_eq!(node.children, 0, "{path} is ephemeral and has children");
                    ephemerals.entry(session.0).or_default().insert(Arc::from(&**path));
                }
                Kind::Container | Kind::Ttl(_) => {
                    expiring.insert(Arc::from(&**path));
                }
            }
            if **path != *"/" {
                assert!(self.get(parent_of(path)).is_some(), "{path} is lost");
            }
            assert_eq!(self.children(path).count(), node.children as usize, "below {path}");
            assert!(node.czxid <= node.mzxid && node.mzxid <= last, "{path}: {node:?}");
            assert!(node.czxid <= node.pzxid && node.pzxid <= last, "{path}: {node:?}");
        }
        assert_eq!(ephemerals, self.ephemerals);
        assert_eq!(expiring, self.expiring);
        assert!(SYSTEM.iter().all(|path| self.nodes.contains_key(*path)));
    }

    /// Adds a node that is not there, below a parent that is.
    fn insert(&mut self, path: &Arc<str>, node: Node) {
        if let Some(parent) = self.get_mut(parent_of(path)) {
            parent.children += 1;
            parent.buckets = listing::grown(parent.buckets, parent.children as usize);
        }
        match node.kind {
            Kind::Persistent => {}
            Kind::Ephemeral(session) => {
                self.ephemerals.entry(session.0).or_default().insert(Arc::clone(path));
            }
            Kind::Container | Kind::Ttl(_) => {
                self.expiring.insert(Arc::clone(path));
            }
        }
        self.nodes.insert((&**path).into(), Box::new(node));
    }

    fn take(&mut self, path: &str) -> Option<Node> {
        let node = *self.nodes.remove(path)?;
        if let Some(parent) = self.get_mut(parent_of(path)) {
            parent.children -= 1;
        }
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

/// The path of the parent. It is empty for the root and its children.
pub(crate) fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// What the paths below `path` are between.
fn bounds(path: &str) -> (String, String) {
    let path = if path == "/" { "" } else { path };
    // 0 is the next character after the slash.
    (format!("{path}/"), format!("{path}0"))
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
        for root in ["/", ""] {
            assert_eq!(tree.get(root).unwrap().stat().cversion, -1);
        }
        assert_eq!(tree.get("/zookeeper").unwrap().stat().cversion, -2);
        assert_eq!(tree.len(), 4);
    }

    #[test]
    fn children_are_listed_whatever_is_below_them() {
        let mut tree = tree();
        let open: AccessList = Arc::new([]);
        let paths = ["/a", "/a0", "/a/b", "/a/b-c", "/a/b-c/d", "/a/b.", "/a/b/c", "/a/b/c/d"];
        for (zxid, path) in (1..).zip(paths.iter().chain(&["/a/b0", "/a/\u{e4}", "/ab"])) {
            let path = (*path).into();
            tree.create(&path, None, Arc::clone(&open), Kind::Persistent, at(zxid));
        }
        let children = |path| tree.children(path).collect::<Vec<_>>();
        assert_eq!(children("/"), ["a", "a0", "ab", "zookeeper"]);
        assert_eq!(children(""), children("/"));
        assert_eq!(children("/a"), ["b", "b-c", "b.", "b0", "\u{e4}"]);
        assert_eq!(children("/a/b"), ["c"]);
        for path in ["/a0", "/a/", "/a/b/c/d", "/missing"] {
            assert!(children(path).is_empty(), "{path}");
        }
        assert_eq!(tree.below("/a").count(), 8);
        assert_eq!(tree.below("/").count(), tree.len() - 1);
        tree.commit();
        tree.audit(Zxid(11));
    }

    /// As a real server listed them, whose set had grown to 16 buckets.
    #[test]
    fn children_are_listed_as_real_servers_do() {
        let mut tree = tree();
        let open: AccessList = Arc::new([]);
        let create = |tree: &mut Tree, name: &str, zxid| {
            let path = format!("/{name}").into();
            tree.create(&path, None, Arc::clone(&open), Kind::Persistent, at(zxid));
        };
        let name = |n: i64| format!("o/n-{}", n * 37 % 100);
        create(&mut tree, "o", 1);
        (0..14).for_each(|n| create(&mut tree, &name(n), n + 2));
        for n in 0..10 {
            tree.delete(&format!("/{}", name(n)).into(), at(n + 16));
        }
        tree.commit();
        // The first four have one hash, and all have one transaction.
        for name in ["o/AaBB", "o/BBAa", "o/AaAa", "o/BBBB", "o/z"] {
            create(&mut tree, name, 26);
        }
        let listed = tree.listed("/o").join(" ");
        assert_eq!(listed, "n-70 n-81 n-44 n-7 z AaBB BBAa AaAa BBBB");
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
        tree.set_data(&a, Some(Box::from(*b"x")), at(3));
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
