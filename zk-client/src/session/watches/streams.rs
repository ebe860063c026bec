//! Persistent watches: which streams there are, and which of them an event concerns.
//!
//! A stream is entered when the reply that set its watch is processed, and stays until its caller
//! drops it. Streams of one path and mode share the server's watch. Knows nothing of requests.

use std::collections::BTreeMap;

use zk_proto::EventType;

use crate::event::WatchMode;
use crate::session::watches::oneshots::WatchId;

type Table<S> = BTreeMap<String, Vec<(WatchId, S)>>;

/// The streams of a session, sorted so that whatever is made of them is deterministic.
#[derive(Debug)]
pub(crate) struct Streams<S> {
    persistent: Table<S>,
    recursive: Table<S>,
    len: usize,
}

impl<S> Streams<S> {
    pub(crate) fn new() -> Self {
        Self { persistent: Table::new(), recursive: Table::new(), len: 0 }
    }

    fn table(&self, mode: WatchMode) -> &Table<S> {
        match mode {
            WatchMode::Persistent => &self.persistent,
            WatchMode::PersistentRecursive => &self.recursive,
        }
    }

    fn table_mut(&mut self, mode: WatchMode) -> &mut Table<S> {
        match mode {
            WatchMode::Persistent => &mut self.persistent,
            WatchMode::PersistentRecursive => &mut self.recursive,
        }
    }

    /// How many streams there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn any(&self, mode: WatchMode, path: &str) -> bool {
        self.table(mode).contains_key(path)
    }

    pub(crate) fn any_at(&self, path: &str) -> bool {
        WatchMode::ALL.into_iter().any(|mode| self.any(mode, path))
    }

    /// The paths that are watched like this, in order.
    pub(crate) fn paths(&self, mode: WatchMode) -> impl Iterator<Item = &str> {
        self.table(mode).keys().map(String::as_str)
    }

    pub(crate) fn insert(&mut self, mode: WatchMode, path: String, id: WatchId, stream: S) {
        self.table_mut(mode).entry(path).or_default().push((id, stream));
        self.len += 1;
    }

    /// Forgets a stream whose caller has gone.
    pub(crate) fn remove(&mut self, id: WatchId, path: &str) -> Option<(WatchMode, S)> {
        WatchMode::ALL.into_iter().find_map(|mode| {
            let table = self.table_mut(mode);
            let streams = table.get_mut(path)?;
            let at = streams.iter().position(|(other, _)| *other == id)?;
            let (_, stream) = streams.remove(at);
            if streams.is_empty() {
                table.remove(path);
            }
            self.len -= 1;
            Some((mode, stream))
        })
    }

    /// Gives up all streams.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = S> + use<S> {
        let Self { persistent, recursive, .. } = std::mem::replace(self, Self::new());
        let tables = [persistent, recursive].into_iter().flatten();
        tables.flat_map(|(_, streams)| streams).map(|(_, stream)| stream)
    }
}

impl<S: Clone> Streams<S> {
    /// The streams that an event concerns. A recursive one never hears that children changed: it
    /// hears of the children themselves. A server may say so all the same, to another watch.
    pub(crate) fn seeing(&self, event: EventType, path: &str) -> Vec<S> {
        let exact = self.persistent.get(path);
        let recursive = event != EventType::NODE_CHILDREN_CHANGED && !self.recursive.is_empty();
        let above = std::iter::successors(recursive.then_some(path), |path| parent(path));
        let above = above.filter_map(|path| self.recursive.get(path));
        exact.into_iter().chain(above).flatten().map(|(_, stream)| stream.clone()).collect()
    }

    /// The streams of a path, of both modes.
    pub(crate) fn at(&self, path: &str) -> Vec<S> {
        let tables = [&self.persistent, &self.recursive].into_iter();
        let streams = tables.filter_map(|table| table.get(path)).flatten();
        streams.map(|(_, stream)| stream.clone()).collect()
    }

    /// All streams.
    pub(crate) fn all(&self) -> Vec<S> {
        let streams = self.persistent.values().chain(self.recursive.values()).flatten();
        streams.map(|(_, stream)| stream.clone()).collect()
    }
}

/// The node above; the root has none.
pub(crate) fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    }
}
