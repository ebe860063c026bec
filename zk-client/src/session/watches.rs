//! One-shot watches: who waits for what, since servers only name the path.
//!
//! A watch is entered when the reply that set it is processed, and leaves with its event. Servers
//! keep watches per connection, so after a reconnect they are armed again from here. Generic over
//! `W`, whatever the caller wants back.

use std::collections::BTreeMap;

use zk_proto::{EventType, List, SetWatches, Zxid};

/// What one setWatches carries at most of paths: far below the default frame limit of servers.
const BATCH_BYTES: usize = 128 * 1024;

/// What a path takes beside its text.
const LENGTH_BYTES: usize = 4;

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
    const ALL: [Self; 3] = [Self::Data, Self::Exist, Self::Child];

    /// Whether an event ends watches of this kind.
    fn sees(self, event: EventType) -> bool {
        match event {
            EventType::NODE_CREATED | EventType::NODE_DATA_CHANGED => self != Self::Child,
            EventType::NODE_CHILDREN_CHANGED => self == Self::Child,
            _ => true,
        }
    }
}

/// A watch that a reply will set.
#[derive(Debug)]
pub(crate) struct Registration<W> {
    pub(crate) id: WatchId,
    pub(crate) kind: WatchKind,
    pub(crate) path: String,
    pub(crate) watcher: W,
}

type Table<W> = BTreeMap<String, Vec<(WatchId, W)>>;

/// All watches of a session, sorted so that whatever is made of them is deterministic.
#[derive(Debug)]
pub(crate) struct Watches<W> {
    data: Table<W>,
    exist: Table<W>,
    child: Table<W>,
}

impl<W> Watches<W> {
    pub(crate) fn new() -> Self {
        Self { data: Table::new(), exist: Table::new(), child: Table::new() }
    }

    fn table(&mut self, kind: WatchKind) -> &mut Table<W> {
        match kind {
            WatchKind::Data => &mut self.data,
            WatchKind::Exist => &mut self.exist,
            WatchKind::Child => &mut self.child,
        }
    }

    /// How many watches there are.
    pub(crate) fn len(&self) -> usize {
        let tables = [&self.data, &self.exist, &self.child];
        tables.into_iter().flat_map(BTreeMap::values).map(Vec::len).sum()
    }

    pub(crate) fn insert(&mut self, registration: Registration<W>) {
        let Registration { id, kind, path, watcher } = registration;
        self.table(kind).entry(path).or_default().push((id, watcher));
    }

    /// Forgets a watch whose caller has gone. It may not be there: the event may have won.
    pub(crate) fn remove(&mut self, id: WatchId, path: &str) -> Option<W> {
        WatchKind::ALL.into_iter().find_map(|kind| {
            let table = self.table(kind);
            let watchers = table.get_mut(path)?;
            let at = watchers.iter().position(|(other, _)| *other == id)?;
            let (_, watcher) = watchers.remove(at);
            if watchers.is_empty() {
                table.remove(path);
            }
            Some(watcher)
        })
    }

    /// The watches that an event ends, in the order they were set within each kind.
    pub(crate) fn take(&mut self, event: EventType, path: &str) -> Vec<W> {
        let kinds = WatchKind::ALL.into_iter().filter(|kind| kind.sees(event));
        let taken = kinds.filter_map(|kind| self.table(kind).remove(path)).collect::<Vec<_>>();
        taken.into_iter().flatten().map(|(_, watcher)| watcher).collect()
    }

    /// Gives up all watches.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = W> + use<W> {
        let Self { data, exist, child } = std::mem::replace(self, Self::new());
        let tables = [data, exist, child].into_iter().flatten();
        tables.flat_map(|(_, watchers)| watchers).map(|(_, watcher)| watcher)
    }

    /// Calls `send` with each of the requests that arm everything again, for servers that take
    /// requests of `limit` bytes.
    pub(crate) fn rearm(
        &self,
        last_zxid: Zxid,
        limit: usize,
        mut send: impl FnMut(&SetWatches<'_>),
    ) {
        let batch_bytes = BATCH_BYTES.min(limit / 2);
        let tables = [(0, &self.data), (1, &self.exist), (2, &self.child)]
            .into_iter()
            .flat_map(|(kind, table)| table.keys().map(move |path| (kind, path.as_str())));
        let mut batch: [Vec<&str>; 3] = Default::default();
        let mut bytes = 0;
        let mut flush = |batch: &mut [Vec<&str>; 3]| {
            let [data, exist, child] = batch;
            send(&SetWatches {
                relative_zxid: last_zxid,
                data: List::new(data),
                exist: List::new(exist),
                child: List::new(child),
            });
            batch.iter_mut().for_each(Vec::clear);
        };
        for (kind, path) in tables {
            if bytes > 0 && bytes + path.len() + LENGTH_BYTES > batch_bytes {
                flush(&mut batch);
                bytes = 0;
            }
            bytes += path.len() + LENGTH_BYTES;
            if let Some(paths) = batch.get_mut::<usize>(kind) {
                paths.push(path);
            }
        }
        if bytes > 0 {
            flush(&mut batch);
        }
    }
}
