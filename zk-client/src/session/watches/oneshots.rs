//! One-shot watches: who waits for what, since servers only name the path.
//!
//! A watch is entered when the reply that set it is processed, and leaves with its event. Generic
//! over `W`, whatever the caller wants back. Knows nothing of requests.

use std::collections::BTreeMap;

use zk_proto::EventType;

/// One watch of one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub(crate) u64);

/// What a one-shot watch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WatchKind {
    /// The node's data, or its end: getData, or exists on a node that is there.
    Data,
    /// The node's creation: exists on an absent node.
    Exist,
    /// The node's children, or its end: getChildren.
    Child,
}

impl WatchKind {
    pub(crate) const ALL: [Self; 3] = [Self::Data, Self::Exist, Self::Child];

    /// Whether an event ends watches of this kind.
    fn sees(self, event: EventType) -> bool {
        match event {
            EventType::NODE_CREATED | EventType::NODE_DATA_CHANGED => self != Self::Child,
            EventType::NODE_CHILDREN_CHANGED => self == Self::Child,
            _ => true,
        }
    }
}

type Table<W> = BTreeMap<String, Vec<(WatchId, W)>>;

/// The one-shot watches of a session, sorted so that whatever is made of them is deterministic.
#[derive(Debug)]
pub(crate) struct OneShots<W> {
    data: Table<W>,
    exist: Table<W>,
    child: Table<W>,
    len: usize,
}

impl<W> OneShots<W> {
    pub(crate) fn new() -> Self {
        Self { data: Table::new(), exist: Table::new(), child: Table::new(), len: 0 }
    }

    fn table(&self, kind: WatchKind) -> &Table<W> {
        match kind {
            WatchKind::Data => &self.data,
            WatchKind::Exist => &self.exist,
            WatchKind::Child => &self.child,
        }
    }

    fn table_mut(&mut self, kind: WatchKind) -> &mut Table<W> {
        match kind {
            WatchKind::Data => &mut self.data,
            WatchKind::Exist => &mut self.exist,
            WatchKind::Child => &mut self.child,
        }
    }

    /// How many watches there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn any_at(&self, path: &str) -> bool {
        WatchKind::ALL.into_iter().any(|kind| self.table(kind).contains_key(path))
    }

    /// Whether a watch of this kind would share the server's with one that is here.
    pub(crate) fn share(&self, kind: WatchKind, path: &str) -> bool {
        match kind {
            WatchKind::Data | WatchKind::Exist => {
                self.data.contains_key(path) || self.exist.contains_key(path)
            }
            WatchKind::Child => self.child.contains_key(path),
        }
    }

    /// The paths that are watched like this, in order.
    pub(crate) fn paths(&self, kind: WatchKind) -> impl Iterator<Item = &str> {
        self.table(kind).keys().map(String::as_str)
    }

    pub(crate) fn insert(&mut self, kind: WatchKind, path: String, id: WatchId, watcher: W) {
        self.table_mut(kind).entry(path).or_default().push((id, watcher));
        self.len += 1;
    }

    /// Forgets a watch whose caller has gone. It may not be there: the event may have won.
    pub(crate) fn remove(&mut self, id: WatchId, path: &str) -> Option<(WatchKind, W)> {
        WatchKind::ALL.into_iter().find_map(|kind| {
            let table = self.table_mut(kind);
            let watchers = table.get_mut(path)?;
            let at = watchers.iter().position(|(other, _)| *other == id)?;
            let (_, watcher) = watchers.remove(at);
            if watchers.is_empty() {
                table.remove(path);
            }
            self.len -= 1;
            Some((kind, watcher))
        })
    }

    /// The watches that an event ends, in the order they were set within each kind.
    pub(crate) fn take(&mut self, event: EventType, path: &str) -> Vec<W> {
        let kinds = WatchKind::ALL.into_iter().filter(|kind| kind.sees(event));
        let taken = kinds.filter_map(|kind| self.table_mut(kind).remove(path)).collect::<Vec<_>>();
        let taken = taken.into_iter().flatten().map(|(_, watcher)| watcher).collect::<Vec<_>>();
        self.len -= taken.len();
        taken
    }

    /// Gives up all watches.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = W> + use<W> {
        let Self { data, exist, child, .. } = std::mem::replace(self, Self::new());
        let tables = [data, exist, child].into_iter().flatten();
        tables.flat_map(|(_, watchers)| watchers).map(|(_, watcher)| watcher)
    }
}
