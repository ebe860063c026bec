//! One-shot watches: who waits for what, since servers only name the path.
//!
//! A watch is entered when the reply that set it is processed, and leaves with its event. Servers
//! keep watches per connection, so after a reconnect they are armed again from here. Generic over
//! `W`, whatever the caller wants back.

use std::collections::BTreeMap;

use zk_proto::{EventType, List, SetWatches, Zxid};

/// Path text that one setWatches carries at most: far enough below every server's frame limit
/// that the lengths beside the paths fit too.
const BATCH_BYTES: usize = 128 * 1024;

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

    /// Forgets a watch whose caller has gone. Unknown ones are no error: the event may have won.
    pub(crate) fn remove(&mut self, id: WatchId, path: &str) {
        for kind in WatchKind::ALL {
            let table = self.table(kind);
            if let Some(watchers) = table.get_mut(path) {
                watchers.retain(|(other, _)| *other != id);
                if watchers.is_empty() {
                    table.remove(path);
                }
            }
        }
    }

    /// The watches that an event ends, in the order they were set within each kind.
    pub(crate) fn take(&mut self, event: EventType, path: &str) -> Vec<W> {
        let kinds = WatchKind::ALL.into_iter().filter(|kind| kind.sees(event));
        let taken = kinds.filter_map(|kind| self.table(kind).remove(path)).collect::<Vec<_>>();
        taken.into_iter().flatten().map(|(_, watcher)| watcher).collect()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Calls `send` with each of the requests that arm everything again.
    pub(crate) fn rearm(&self, last_zxid: Zxid, mut send: impl FnMut(&SetWatches<'_>)) {
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
            if bytes > 0 && bytes + path.len() > BATCH_BYTES {
                flush(&mut batch);
                bytes = 0;
            }
            bytes += path.len();
            if let Some(paths) = batch.get_mut::<usize>(kind) {
                paths.push(path);
            }
        }
        if bytes > 0 {
            flush(&mut batch);
        }
    }
}
