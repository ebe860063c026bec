//! Watches of all kinds, and which connections a change notifies.
//!
//! There are two tables as on a real server: data watches and child watches. Watches belong to a
//! connection and end with it. A persistent watch is in both tables. A recursive watch is in the
//! data table, where a change looks up its path and all ancestors.
//!
//! Before 3.9 a connection has one mode per path and table, the last that it asked for, and a
//! recursive watch is in both tables.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use zk_proto::{EventType, WatcherType};

use crate::config::ServerVersion;
use crate::connection::ConnectionId;

/// The kinds of watches that one connection has on one path: a set of [`Kinds::STANDARD`] and the
/// other constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kinds(u8);

impl Kinds {
    const STANDARD: Self = Self(1);
    const PERSISTENT: Self = Self(2);
    const RECURSIVE: Self = Self(4);
    const ANY: Self = Self(7);

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// The kind of a watch, as requests name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchKind {
    Data,
    Child,
    Persistent,
    Recursive,
}

#[derive(Debug, Default)]
struct Table {
    by_path: HashMap<Arc<str>, BTreeMap<ConnectionId, Kinds>>,
    by_connection: BTreeMap<ConnectionId, BTreeSet<Arc<str>>>,
    /// The number of recursive watches in this table. If it is 0, ancestors need not be looked up.
    recursive: usize,
}

#[derive(Debug)]
pub(crate) struct Watches {
    server_version: ServerVersion,
    data: Table,
    child: Table,
}

impl Table {
    fn add(
        &mut self,
        path: &str,
        connection: ConnectionId,
        kind: Kinds,
        server_version: ServerVersion,
    ) {
        let path: Arc<str> = match self.by_path.get_key_value(path) {
            Some((path, _)) => Arc::clone(path),
            None => path.into(),
        };
        let watchers = self.by_path.entry(Arc::clone(&path)).or_default();
        let kinds = watchers.entry(connection).or_default();
        let before = *kinds;
        *kinds = match server_version {
            ServerVersion::V3_8 => kind,
            ServerVersion::V3_9 => Kinds(before.0 | kind.0),
        };
        let after = *kinds;
        self.count(before, after);
        self.by_connection.entry(connection).or_default().insert(path);
    }

    /// Removes kinds of a watch. Returns whether there were any.
    fn remove(&mut self, path: &str, connection: ConnectionId, kinds: Kinds) -> bool {
        let Some(watchers) = self.by_path.get_mut(path) else {
            return false;
        };
        let Some(held) = watchers.get_mut(&connection) else {
            return false;
        };
        let before = *held;
        let after = before.without(kinds);
        *held = after;
        if after == Kinds::default() {
            watchers.remove(&connection);
            if watchers.is_empty() {
                self.by_path.remove(path);
            }
            if let Some(paths) = self.by_connection.get_mut(&connection) {
                paths.remove(path);
                if paths.is_empty() {
                    self.by_connection.remove(&connection);
                }
            }
        }
        self.count(before, after);
        before != after
    }

    fn has(&self, path: &str, connection: ConnectionId, kinds: Kinds) -> bool {
        self.by_path
            .get(path)
            .and_then(|watchers| watchers.get(&connection))
            .is_some_and(|held| held.has(kinds))
    }

    /// Adds the connections to notify of an event at `path`. One-shot watches are used up by it.
    fn trigger(&mut self, path: &str, event: EventType, told: &mut BTreeSet<ConnectionId>) {
        if let Some(watchers) = self.by_path.get(path) {
            let hit = |kinds: Kinds| {
                kinds.has(Kinds(Kinds::STANDARD.0 | Kinds::PERSISTENT.0))
                    || event != EventType::NODE_CHILDREN_CHANGED
            };
            let one_shot = watchers.iter().filter(|(_, kinds)| kinds.has(Kinds::STANDARD));
            let one_shot: Vec<ConnectionId> = one_shot.map(|(connection, _)| *connection).collect();
            told.extend(watchers.iter().filter(|(_, kinds)| hit(**kinds)).map(|(one, _)| *one));
            for connection in one_shot {
                self.remove(path, connection, Kinds::STANDARD);
            }
        }
        if self.recursive == 0 || event == EventType::NODE_CHILDREN_CHANGED {
            return;
        }
        let mut rest = path;
        while rest != "/" {
            rest = match rest.rsplit_once('/') {
                Some((parent, _)) if !parent.is_empty() => parent,
                _ => "/",
            };
            let watchers = self.by_path.get(rest).into_iter().flatten();
            told.extend(
                watchers.filter(|(_, kinds)| kinds.has(Kinds::RECURSIVE)).map(|(one, _)| *one),
            );
        }
    }

    fn leave(&mut self, connection: ConnectionId) {
        let paths = self.by_connection.get(&connection).cloned().unwrap_or_default();
        for path in paths {
            self.remove(&path, connection, Kinds::ANY);
        }
    }

    fn count(&mut self, before: Kinds, after: Kinds) {
        match (before.has(Kinds::RECURSIVE), after.has(Kinds::RECURSIVE)) {
            (false, true) => self.recursive += 1,
            (true, false) => self.recursive = self.recursive.saturating_sub(1),
            _ => {}
        }
    }

    fn len(&self) -> usize {
        self.by_path.values().map(BTreeMap::len).sum()
    }

    /// The watches of these kinds.
    fn iter<const N: usize>(
        &self,
        kinds: [(Kinds, WatcherType); N],
    ) -> impl Iterator<Item = (ConnectionId, &str, WatcherType)> {
        let watchers = self.by_path.iter().flat_map(|(path, watchers)| {
            watchers.iter().map(move |(connection, held)| (*connection, &**path, *held))
        });
        watchers.flat_map(move |(connection, path, held)| {
            let named = kinds.into_iter().filter(move |(kind, _)| held.has(*kind));
            named.map(move |(_, name)| (connection, path, name))
        })
    }

    /// Checks what must hold between changes.
    fn audit(&self, server_version: ServerVersion) {
        let mut by_connection = BTreeMap::<ConnectionId, BTreeSet<Arc<str>>>::new();
        let mut recursive = 0;
        for (path, watchers) in &self.by_path {
            assert!(!watchers.is_empty(), "{path} is watched by nobody");
            for (connection, kinds) in watchers {
                assert_ne!(*kinds, Kinds::default(), "{path} is not watched by {connection}");
                let one = kinds.0.is_power_of_two();
                assert!(one || server_version == ServerVersion::V3_9, "{path}: one mode per path");
                recursive += usize::from(kinds.has(Kinds::RECURSIVE));
                by_connection.entry(*connection).or_default().insert(Arc::clone(path));
            }
        }
        assert_eq!(by_connection, self.by_connection);
        assert_eq!(recursive, self.recursive);
    }
}

impl Watches {
    pub(crate) fn new(server_version: ServerVersion) -> Self {
        Self { server_version, data: Table::default(), child: Table::default() }
    }

    pub(crate) fn add(&mut self, kind: WatchKind, path: &str, connection: ConnectionId) {
        let server_version = self.server_version;
        let (data, child) = match kind {
            WatchKind::Data => (Some(Kinds::STANDARD), None),
            WatchKind::Child => (None, Some(Kinds::STANDARD)),
            WatchKind::Persistent => (Some(Kinds::PERSISTENT), Some(Kinds::PERSISTENT)),
            WatchKind::Recursive => match server_version {
                ServerVersion::V3_8 => (Some(Kinds::RECURSIVE), Some(Kinds::RECURSIVE)),
                ServerVersion::V3_9 => (Some(Kinds::RECURSIVE), None),
            },
        };
        if let Some(kinds) = data {
            self.data.add(path, connection, kinds, server_version);
        }
        if let Some(kinds) = child {
            self.child.add(path, connection, kinds, server_version);
        }
    }

    /// Removes the watches that a request names. Returns `None` if the version does not know the
    /// type, else whether there were any.
    pub(crate) fn remove(
        &mut self,
        kind: WatcherType,
        path: &str,
        connection: ConnectionId,
    ) -> Option<bool> {
        let (data, child) = self.meant(kind)?;
        let data = data.is_some_and(|kinds| self.data.remove(path, connection, kinds));
        let child = child.is_some_and(|kinds| self.child.remove(path, connection, kinds));
        Some(data | child)
    }

    /// Like [`Watches::remove`], but leaves the watches in place. Before 3.9 a server looks for a
    /// watch of any connection, finds none at the empty path, and fails on a path whose ancestors
    /// do not end at the root. It looks at the ancestors as long as there are recursive watches.
    pub(crate) fn has(
        &self,
        kind: WatcherType,
        path: &str,
        connection: ConnectionId,
    ) -> Option<bool> {
        let (data, child) = self.meant(kind)?;
        let has = |table: &Table, kinds| match self.server_version {
            ServerVersion::V3_9 => Some(table.has(path, connection, kinds)),
            ServerVersion::V3_8 if path.is_empty() => Some(false),
            ServerVersion::V3_8 if !path.contains('/') => None,
            ServerVersion::V3_8 if table.by_path.contains_key(path) => Some(true),
            ServerVersion::V3_8 if !path.starts_with('/') && table.recursive > 0 => None,
            ServerVersion::V3_8 => Some(false),
        };
        let data = data.map_or(Some(false), |kinds| has(&self.data, kinds))?;
        let child = child.map_or(Some(false), |kinds| has(&self.child, kinds))?;
        Some(data | child)
    }

    /// The kinds of each table that a watcher type names.
    fn meant(&self, kind: WatcherType) -> Option<(Option<Kinds>, Option<Kinds>)> {
        let standard = match self.server_version {
            ServerVersion::V3_8 => Kinds::ANY,
            ServerVersion::V3_9 => Kinds::STANDARD,
        };
        match (kind, self.server_version) {
            (WatcherType::CHILDREN, _) => Some((None, Some(standard))),
            (WatcherType::DATA, _) => Some((Some(standard), None)),
            (WatcherType::ANY, _) => Some((Some(Kinds::ANY), Some(Kinds::ANY))),
            (WatcherType::PERSISTENT, ServerVersion::V3_9) => {
                Some((Some(Kinds::PERSISTENT), Some(Kinds::PERSISTENT)))
            }
            (WatcherType::PERSISTENT_RECURSIVE, ServerVersion::V3_9) => {
                Some((Some(Kinds::RECURSIVE), None))
            }
            _ => None,
        }
    }

    /// The connections to notify that a node was created or written.
    pub(crate) fn changed(&mut self, path: &str, event: EventType) -> BTreeSet<ConnectionId> {
        let mut told = BTreeSet::new();
        self.data.trigger(path, event, &mut told);
        told
    }

    /// The connections to notify that a node was deleted: each once, even if several of its watches
    /// match.
    pub(crate) fn deleted(&mut self, path: &str) -> BTreeSet<ConnectionId> {
        let mut told = BTreeSet::new();
        self.data.trigger(path, EventType::NODE_DELETED, &mut told);
        self.child.trigger(path, EventType::NODE_DELETED, &mut told);
        told
    }

    /// The connections with a recursive watch at an ancestor of this path, with the nearest one.
    pub(crate) fn recursive_above(&self, path: &str) -> BTreeMap<ConnectionId, Arc<str>> {
        let above = self.data.by_path.iter().filter(|(watch, _)| {
            let behind = path.strip_prefix(watch.trim_end_matches('/'));
            behind.is_some_and(|behind| behind.starts_with('/'))
        });
        let mut names = BTreeMap::<ConnectionId, Arc<str>>::new();
        for (watch, watchers) in above {
            for (id, _) in watchers.iter().filter(|(_, kinds)| kinds.has(Kinds::RECURSIVE)) {
                let nearest = names.entry(*id).or_insert_with(|| Arc::clone(watch));
                if watch.len() > nearest.len() {
                    *nearest = Arc::clone(watch);
                }
            }
        }
        names
    }

    /// The connections to notify that a node's children changed.
    pub(crate) fn children_changed(&mut self, path: &str) -> BTreeSet<ConnectionId> {
        let mut told = BTreeSet::new();
        self.child.trigger(path, EventType::NODE_CHILDREN_CHANGED, &mut told);
        told
    }

    /// Removes the watches of a connection that ends.
    pub(crate) fn leave(&mut self, connection: ConnectionId) {
        self.data.leave(connection);
        self.child.leave(connection);
    }

    /// All watches, in no order. A persistent one comes from the data table alone.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &str, WatcherType)> {
        let data = [
            (Kinds::STANDARD, WatcherType::DATA),
            (Kinds::PERSISTENT, WatcherType::PERSISTENT),
            (Kinds::RECURSIVE, WatcherType::PERSISTENT_RECURSIVE),
        ];
        let child = [(Kinds::STANDARD, WatcherType::CHILDREN)];
        self.data.iter(data).chain(self.child.iter(child))
    }

    /// Watches of both tables; a persistent one counts twice.
    pub(crate) fn len(&self) -> usize {
        self.data.len() + self.child.len()
    }

    /// Recursive watches of both tables.
    pub(crate) fn recursive(&self) -> usize {
        self.data.recursive + self.child.recursive
    }

    /// Every connection that has a watch.
    pub(crate) fn watchers(&self) -> impl Iterator<Item = ConnectionId> {
        self.data.by_connection.keys().chain(self.child.by_connection.keys()).copied()
    }

    /// Checks what must hold between changes.
    pub(crate) fn audit(&self) {
        self.data.audit(self.server_version);
        self.child.audit(self.server_version);
    }

    /// Connections, paths and watches of the data table, which `wchs` prints.
    pub(crate) fn data_counts(&self) -> (usize, usize, usize) {
        (self.data.by_connection.len(), self.data.by_path.len(), self.data.len())
    }

    /// The paths of the data table with the connections that watch them, which `wchp` prints.
    pub(crate) fn data_paths(
        &self,
    ) -> impl Iterator<Item = (&str, impl Iterator<Item = ConnectionId>)> {
        self.data.by_path.iter().map(|(path, watchers)| (&**path, watchers.keys().copied()))
    }

    /// The connections of the data table with the paths that they watch, which `wchc` prints.
    pub(crate) fn data_watchers(
        &self,
    ) -> impl Iterator<Item = (ConnectionId, impl Iterator<Item = &str>)> {
        let watchers = self.data.by_connection.iter();
        watchers.map(|(id, paths)| (*id, paths.iter().map(|path| &**path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ConnectionId = ConnectionId(1);
    const TWO: ConnectionId = ConnectionId(2);

    fn told(connections: &[ConnectionId]) -> BTreeSet<ConnectionId> {
        connections.iter().copied().collect()
    }

    #[test]
    fn standard_watches_fire_once() {
        let mut watches = Watches::new(ServerVersion::V3_9);
        watches.add(WatchKind::Data, "/a", ONE);
        watches.add(WatchKind::Data, "/a", ONE);
        watches.add(WatchKind::Child, "/a", ONE);
        assert_eq!(watches.changed("/a", EventType::NODE_DATA_CHANGED), told(&[ONE]));
        assert_eq!(watches.changed("/a", EventType::NODE_DATA_CHANGED), told(&[]));
        assert_eq!(watches.children_changed("/a"), told(&[ONE]));
        assert_eq!(watches.len(), 0);
    }

    #[test]
    fn a_delete_is_told_once_and_uses_up_both_tables() {
        let mut watches = Watches::new(ServerVersion::V3_9);
        watches.add(WatchKind::Data, "/a", ONE);
        watches.add(WatchKind::Child, "/a", ONE);
        watches.add(WatchKind::Child, "/a", TWO);
        assert_eq!(watches.deleted("/a"), told(&[ONE, TWO]));
        assert_eq!(watches.len(), 0);
    }

    #[test]
    fn recursive_watches_see_the_subtree_but_no_lists() {
        let mut watches = Watches::new(ServerVersion::V3_9);
        watches.add(WatchKind::Recursive, "/a", ONE);
        watches.add(WatchKind::Recursive, "/", TWO);
        assert_eq!(watches.changed("/a/b/c", EventType::NODE_CREATED), told(&[ONE, TWO]));
        assert_eq!(watches.changed("/ab", EventType::NODE_CREATED), told(&[TWO]));
        assert_eq!(watches.children_changed("/a"), told(&[]));
        watches.leave(TWO);
        assert_eq!(watches.changed("/ab", EventType::NODE_CREATED), told(&[]));
        assert_eq!(watches.data.recursive, 1);
    }

    #[test]
    fn before_3_9_the_last_mode_wins() {
        let mut watches = Watches::new(ServerVersion::V3_8);
        watches.add(WatchKind::Recursive, "/a", ONE);
        watches.add(WatchKind::Data, "/a", ONE);
        assert_eq!(watches.changed("/a/b", EventType::NODE_CREATED), told(&[]));
        assert_eq!(watches.changed("/a", EventType::NODE_DATA_CHANGED), told(&[ONE]));
        assert_eq!(watches.changed("/a", EventType::NODE_DATA_CHANGED), told(&[]));
        let mut watches = Watches::new(ServerVersion::V3_9);
        watches.add(WatchKind::Recursive, "/a", ONE);
        watches.add(WatchKind::Data, "/a", ONE);
        assert_eq!(watches.changed("/a", EventType::NODE_DATA_CHANGED), told(&[ONE]));
        assert_eq!(watches.changed("/a/b", EventType::NODE_CREATED), told(&[ONE]));
    }

    #[test]
    fn removal_takes_the_kinds_it_names() {
        let mut watches = Watches::new(ServerVersion::V3_9);
        watches.add(WatchKind::Persistent, "/a", ONE);
        watches.add(WatchKind::Data, "/a", ONE);
        assert_eq!(watches.remove(WatcherType::CHILDREN, "/a", ONE), Some(false));
        assert_eq!(watches.has(WatcherType::DATA, "/a", ONE), Some(true));
        assert_eq!(watches.remove(WatcherType::DATA, "/a", ONE), Some(true));
        assert_eq!(watches.remove(WatcherType::PERSISTENT, "/a", ONE), Some(true));
        assert_eq!(watches.remove(WatcherType::ANY, "/a", ONE), Some(false));
        assert_eq!(watches.remove(WatcherType(6), "/a", ONE), None);
        assert_eq!(
            Watches::new(ServerVersion::V3_8).remove(WatcherType::PERSISTENT, "/a", ONE),
            None
        );
    }
}
