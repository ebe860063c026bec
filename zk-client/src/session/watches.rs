//! Watches: who waits for what, and what must be asked so that the server watches just that.
//!
//! Servers keep watches per connection, so after a reconnect they are armed again from here. They
//! name watches by path alone, so a watch is removed when nobody waits at its path any more, and
//! nothing on its way will set one there. Generic over `W` and `S`, what the caller of a one-shot
//! watch and of a stream wants back. Sends nothing by itself.
//!
//! Servers before 3.9 have two tables of watches, one for data and one for children, and in each
//! table one mode per path: the last one that was set. So a one-shot watch ends a persistent one
//! at the same path, which must be set again, and a recursive watch silences every type of event
//! that it does not send itself.

pub(crate) mod oneshots;

pub(crate) mod streams;

use std::collections::{BTreeMap, VecDeque};

use zk_proto::{
    AddWatchRequest, Encode, ErrorCode, EventType, List, OpCode, RemoveWatchesRequest, SetWatches,
    SetWatches2, WatcherType, Writer, Zxid,
};

use crate::event::WatchMode;
use crate::session::watches::oneshots::{OneShots, WatchId, WatchKind};
use crate::session::watches::streams::{Streams, parent};

/// What one setWatches carries at most of paths: far below the default frame limit of servers.
const BATCH_BYTES: usize = 128 * 1024;

/// What a path takes beside its text.
const LENGTH_BYTES: usize = 4;

/// Who wants a watch, and which. `None` is a caller that has gone since.
#[derive(Debug)]
pub(crate) enum Wanted<W, S> {
    Once(WatchKind, Option<W>),
    Stream(WatchMode, Option<S>),
}

impl<W, S> Wanted<W, S> {
    /// The caller goes, and the request stays.
    fn take(&mut self) -> Option<Returned<W, S>> {
        match self {
            Self::Once(_, watcher) => watcher.take().map(Returned::Once),
            Self::Stream(_, stream) => stream.take().map(Returned::Stream),
        }
    }
}

/// A caller who waits no longer.
#[derive(Debug)]
pub(crate) enum Returned<W, S> {
    Once(W),
    Stream(S),
}

/// What is to be asked, for nobody in particular.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// Nobody waits at this path.
    Remove(String),
    /// This watch may have been replaced by another at its path.
    Restore(WatchMode, String),
}

impl Chore {
    pub(crate) fn op(&self) -> OpCode {
        match self {
            Self::Remove(_) => OpCode::REMOVE_WATCHES,
            Self::Restore(..) => OpCode::ADD_WATCH,
        }
    }
}

impl Encode for Chore {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Remove(path) => {
                RemoveWatchesRequest { path, kind: WatcherType::ANY }.encode(writer);
            }
            Self::Restore(mode, path) => {
                AddWatchRequest { path, mode: (*mode).into() }.encode(writer);
            }
        }
    }
}

/// A request that arms watches again.
pub(crate) struct Rearm<'a>(SetWatches2<'a>);

impl Rearm<'_> {
    /// Servers before 3.6 must not see the newer one.
    pub(crate) fn op(&self) -> OpCode {
        match self.0.persistent.is_empty() && self.0.persistent_recursive.is_empty() {
            true => OpCode::SET_WATCHES,
            false => OpCode::SET_WATCHES2,
        }
    }
}

impl Encode for Rearm<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        if self.op() == OpCode::SET_WATCHES2 {
            return self.0.encode(writer);
        }
        let SetWatches2 { relative_zxid, data, exist, child, .. } = self.0;
        SetWatches { relative_zxid, data, exist, child }.encode(writer);
    }
}

/// All watches of a session.
#[derive(Debug)]
pub(crate) struct Watches<W, S> {
    next: u64,
    oneshots: OneShots<W>,
    streams: Streams<S>,
    /// Those whose request has no reply yet.
    asked: BTreeMap<WatchId, (String, Wanted<W, S>)>,
    /// How many of these there are at a path.
    asked_at: BTreeMap<String, usize>,
    /// Paths where the server watches more than anybody here wants, while others wait there; and
    /// whether a recursive watch is left over.
    strays: BTreeMap<String, bool>,
    chores: VecDeque<Chore>,
    /// Servers before 3.5 cannot.
    irremovable: bool,
}

impl<W, S: Clone> Watches<W, S> {
    pub(crate) fn new() -> Self {
        Self {
            next: 0,
            oneshots: OneShots::new(),
            streams: Streams::new(),
            asked: BTreeMap::new(),
            asked_at: BTreeMap::new(),
            strays: BTreeMap::new(),
            chores: VecDeque::new(),
            irremovable: false,
        }
    }

    /// How many one-shot watches are set, and how many streams.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        (self.oneshots.len(), self.streams.len())
    }

    pub(crate) fn next_id(&mut self) -> WatchId {
        self.next += 1;
        WatchId(self.next)
    }

    /// A request that will set a watch was queued.
    pub(crate) fn asked(&mut self, id: WatchId, path: String, wanted: Wanted<W, S>) {
        *self.asked_at.entry(path.clone()).or_default() += 1;
        self.asked.insert(id, (path, wanted));
    }

    /// The request was answered with this code, or was lost. Gives back who waited in vain.
    pub(crate) fn answered(
        &mut self,
        id: WatchId,
        code: Option<ErrorCode>,
    ) -> Option<Returned<W, S>> {
        let (path, wanted) = self.asked.remove(&id)?;
        if let Some(count) = self.asked_at.get_mut(&path) {
            *count -= 1;
            if *count == 0 {
                self.asked_at.remove(&path);
            }
        }
        let returned = match (wanted, code) {
            (Wanted::Once(WatchKind::Exist, watcher), Some(ErrorCode::OK)) => {
                self.set_once(WatchKind::Data, &path, id, watcher);
                None
            }
            (Wanted::Once(kind, watcher), Some(ErrorCode::OK))
            | (Wanted::Once(kind @ WatchKind::Exist, watcher), Some(ErrorCode::NO_NODE)) => {
                self.set_once(kind, &path, id, watcher);
                None
            }
            (Wanted::Stream(mode, stream), Some(ErrorCode::OK)) => {
                self.set_stream(mode, &path, id, stream);
                None
            }
            (Wanted::Once(_, watcher), _) => watcher.map(Returned::Once),
            (Wanted::Stream(_, stream), _) => stream.map(Returned::Stream),
        };
        self.tidy(&path);
        returned
    }

    /// The request was answered with success, and its caller will not hear so: the server watches
    /// for nobody. Gives back who waited in vain.
    pub(crate) fn unheard(&mut self, id: WatchId) -> Option<Returned<W, S>> {
        let (_, wanted) = self.asked.get_mut(&id)?;
        let returned = wanted.take();
        self.answered(id, Some(ErrorCode::OK)).or(returned)
    }

    /// A request that watches data was queued, and the watch counts from now on.
    pub(crate) fn set_data(&mut self, id: WatchId, path: &str, watcher: W) {
        self.set_once(WatchKind::Data, path, id, Some(watcher));
    }

    fn set_once(&mut self, kind: WatchKind, path: &str, id: WatchId, watcher: Option<W>) {
        match watcher {
            Some(watcher) => self.oneshots.insert(kind, path.to_owned(), id, watcher),
            None => self.left_once(kind, path),
        }
        let recursive = WatchMode::PersistentRecursive;
        let lost = match kind {
            // What a recursive watch tells comes from the table of data alone.
            WatchKind::Child if self.recursive_at(path) => None,
            _ if self.streams.any(recursive, path) => Some(recursive),
            // One that is left over serves the child watches of its path, if there are any.
            _ if self.recursive_at(path) || self.streams.any(WatchMode::Persistent, path) => {
                Some(WatchMode::Persistent)
            }
            _ => None,
        };
        self.chores.extend(lost.map(|mode| Chore::Restore(mode, path.to_owned())));
    }

    fn set_stream(&mut self, mode: WatchMode, path: &str, id: WatchId, stream: Option<S>) {
        let recursive = WatchMode::PersistentRecursive;
        match stream {
            Some(stream) => self.streams.insert(mode, path.to_owned(), id, stream),
            None => self.left(path, mode == recursive),
        }
        if mode != recursive && self.streams.any(recursive, path) {
            self.chores.push_back(Chore::Restore(recursive, path.to_owned()));
        }
    }

    /// A caller has gone. It may have been forgotten before, or its one event may have won.
    pub(crate) fn remove(&mut self, id: WatchId, path: &str) -> Option<Returned<W, S>> {
        if let Some((_, wanted)) = self.asked.get_mut(&id) {
            return wanted.take();
        }
        let returned = if let Some((kind, watcher)) = self.oneshots.remove(id, path) {
            self.left_once(kind, path);
            Returned::Once(watcher)
        } else {
            let (mode, stream) = self.streams.remove(id, path)?;
            self.left(path, mode == WatchMode::PersistentRecursive);
            Returned::Stream(stream)
        };
        self.tidy(path);
        Some(returned)
    }

    /// The same for a one-shot watch that is set and shall stay with the server.
    pub(crate) fn forget(&mut self, id: WatchId, path: &str) -> Option<Returned<W, S>> {
        let Some((_, watcher)) = self.oneshots.remove(id, path) else {
            return self.remove(id, path);
        };
        self.tidy(path);
        Some(Returned::Once(watcher))
    }

    /// The server watches what nobody here does.
    fn left(&mut self, path: &str, recursive: bool) {
        *self.strays.entry(path.to_owned()).or_default() |= recursive;
    }

    /// The same of a one-shot watch, unless it is shared with others, who use it up.
    fn left_once(&mut self, kind: WatchKind, path: &str) {
        if !self.oneshots.share(kind, path) {
            self.left(path, false);
        }
    }

    /// Has removed what is left at a path where nobody waits. The removal is behind all that was
    /// asked before, and would take it along.
    fn tidy(&mut self, path: &str) {
        let waits = self.asked_at.contains_key(path)
            || self.oneshots.any_at(path)
            || self.streams.any_at(path);
        if !waits && self.strays.remove(path).is_some() && !self.irremovable {
            self.chores.push_back(Chore::Remove(path.to_owned()));
        }
    }

    /// Whether the server has a recursive watch at this very path.
    fn recursive_at(&self, path: &str) -> bool {
        self.streams.any(WatchMode::PersistentRecursive, path)
            || self.strays.get(path).is_some_and(|recursive| *recursive)
    }

    /// Whom an event concerns: the one-shot watches that it ends, and streams.
    pub(crate) fn see(&mut self, event: EventType, path: &str) -> (Vec<W>, Vec<S>) {
        let watchers = self.oneshots.take(event, path);
        let streams = self.streams.seeing(event, path);
        self.tidy(path);
        (watchers, streams)
    }

    /// The parent whose children changed, if a server before 3.9 does not say so by itself because
    /// there is a recursive watch at that parent.
    pub(crate) fn silenced<'p>(&self, event: EventType, path: &'p str) -> Option<&'p str> {
        let child = [EventType::NODE_CREATED, EventType::NODE_DELETED].contains(&event);
        parent(path).filter(|parent| child && self.recursive_at(parent))
    }

    /// A watch was restored: what its streams, and a child watch that a recursive one silences,
    /// have missed is untold.
    pub(crate) fn restored(&mut self, mode: WatchMode, path: &str) -> (Vec<W>, Vec<S>) {
        let watchers = match self.recursive_at(path) {
            true => self.oneshots.take(EventType::NODE_CHILDREN_CHANGED, path),
            false => Vec::new(),
        };
        if !self.streams.any(mode, path) {
            self.left(path, mode == WatchMode::PersistentRecursive);
            self.tidy(path);
        }
        (watchers, self.streams.at(path))
    }

    /// The server does not know how to remove a watch.
    pub(crate) fn cannot_remove(&mut self) {
        self.irremovable = true;
    }

    /// What is to be asked next. It is void without a connection, since watches end with theirs.
    pub(crate) fn poll_chore(&mut self) -> Option<Chore> {
        self.chores.pop_front()
    }

    /// All streams: they were armed again.
    pub(crate) fn streams(&self) -> Vec<S> {
        self.streams.all()
    }

    /// Gives up all watches that are set.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Returned<W, S>> + use<W, S> {
        self.strays.clear();
        let watchers = self.oneshots.take_all().map(Returned::Once);
        watchers.chain(self.streams.take_all().map(Returned::Stream))
    }

    /// Calls `send` with each of the requests that arm everything again, for servers that take
    /// requests of `limit` bytes. Of two watches at one path the persistent one comes last.
    pub(crate) fn rearm(
        &mut self,
        last_zxid: Zxid,
        limit: usize,
        mut send: impl FnMut(&Rearm<'_>),
    ) {
        self.strays.clear();
        let batch_bytes = BATCH_BYTES.min(limit / 2);
        let oneshots = WatchKind::ALL.map(|kind| self.oneshots.paths(kind));
        let streams = WatchMode::ALL.map(|mode| self.streams.paths(mode));
        let oneshots = (0..).zip(oneshots).flat_map(|(n, paths)| paths.map(move |path| (n, path)));
        let streams = (3..).zip(streams).flat_map(|(n, paths)| paths.map(move |path| (n, path)));
        let mut batch: [Vec<&str>; 5] = Default::default();
        let mut bytes = 0;
        let mut flush = |batch: &mut [Vec<&str>; 5]| {
            let [data, exist, child, persistent, persistent_recursive] = batch;
            send(&Rearm(SetWatches2 {
                relative_zxid: last_zxid,
                data: List::new(data),
                exist: List::new(exist),
                child: List::new(child),
                persistent: List::new(persistent),
                persistent_recursive: List::new(persistent_recursive),
            }));
            batch.iter_mut().for_each(Vec::clear);
        };
        for (table, path) in oneshots.chain(streams) {
            if bytes > 0 && bytes + path.len() + LENGTH_BYTES > batch_bytes {
                flush(&mut batch);
                bytes = 0;
            }
            bytes += path.len() + LENGTH_BYTES;
            if let Some(paths) = batch.get_mut::<usize>(table) {
                paths.push(path);
            }
        }
        if bytes > 0 {
            flush(&mut batch);
        }
    }
}
