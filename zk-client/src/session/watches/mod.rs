//! All watches of a session, and the requests that make the server watch just these.
//!
//! Servers keep watches per connection, so the session arms them again after a reconnect. Servers
//! identify a watch by its path alone, so a watch is removed when no caller waits at its path any
//! more and no unanswered request will set one there. All of this is kept by path, in one table
//! without an order, so that the cost does not depend on the number of watches. Results that cover
//! many paths are sorted. `W` and `S` are what the callers of one-shot watches and of streams get
//! back. Sends nothing by itself.
//!
//! Servers before 3.9 have two tables of watches, one for data and one for children, and in each
//! table one mode per path: the last one that was set. So a one-shot watch ends a persistent one at
//! the same path, which must be set again, and a recursive watch silences every type of event that
//! it does not send itself.

pub(crate) mod ancestors;

pub(crate) mod follow_up;

pub(crate) mod path_watches;

mod counts;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use zk_proto::{ErrorCode, EventType, List, OpCode, SetWatches2, Zxid};

use crate::config::Dialect;
use crate::model::event::WatchMode;
use crate::session::watches::ancestors::{depth, parent, self_and_ancestors, top};
use crate::session::watches::counts::Counts;
use crate::session::watches::follow_up::{FollowUp, Rearm};
use crate::session::watches::path_watches::{
    CallerHandle, PathWatches, WatchId, WatchKind, WatchType,
};

/// Bytes of paths in one setWatches at most: far below the default frame limit of servers.
const BATCH_BYTES: usize = 128 * 1024;

/// Bytes that an encoded path takes besides its text.
const LENGTH_BYTES: usize = 4;

/// (factor, count): once a table holds `count` entries, its capacity is at most `factor` times its
/// length.
const SPARSE: (usize, usize) = (8, 128);

/// A watch whose request has no reply yet.
#[derive(Debug)]
struct PendingWatch<W, S> {
    id: WatchId,
    path: Arc<str>,
    watch_type: WatchType,
    /// `None` if the caller has gone since.
    caller: Option<CallerHandle<W, S>>,
}

/// All watches of a session.
#[derive(Debug)]
pub(crate) struct Watches<W, S> {
    next: u64,
    /// The paths where a caller waits, or that an unanswered request is about.
    by_path: HashMap<Arc<str>, PathWatches<W, S>>,
    /// In the order of their ids, which is that of their replies.
    requested: VecDeque<PendingWatch<W, S>>,
    /// How many paths unanswered requests are about to watch, each as often as it is in one.
    arming: usize,
    counts: Counts,
    follow_ups: VecDeque<FollowUp>,
    /// True if the server cannot remove watches, like those older than 3.5.
    irremovable: bool,
}

impl<W, S: Clone> Watches<W, S> {
    pub(crate) fn new(dialect: &Dialect) -> Self {
        Self {
            next: 0,
            by_path: HashMap::default(),
            requested: VecDeque::new(),
            arming: 0,
            counts: Counts::default(),
            follow_ups: VecDeque::new(),
            irremovable: !dialect.understands(OpCode::REMOVE_WATCHES),
        }
    }

    /// How many one-shot watches are set, and how many streams.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        let Counts { one_shots, persistent, recursive } = &self.counts;
        (*one_shots, persistent + recursive.iter().sum::<usize>())
    }

    pub(crate) fn next_id(&mut self) -> WatchId {
        self.next += 1;
        WatchId(self.next)
    }

    /// A request that will set a one-shot watch was queued.
    pub(crate) fn requested_once(
        &mut self,
        id: WatchId,
        kind: WatchKind,
        path: Arc<str>,
        watcher: W,
    ) {
        self.requested(id, WatchType::Once(kind), path, CallerHandle::Once(watcher));
    }

    /// A request that will set a stream was queued.
    pub(crate) fn requested_stream(
        &mut self,
        id: WatchId,
        mode: WatchMode,
        path: Arc<str>,
        stream: S,
    ) {
        self.requested(id, WatchType::Stream(mode), path, CallerHandle::Stream(stream));
    }

    fn requested(
        &mut self,
        id: WatchId,
        watch_type: WatchType,
        path: Arc<str>,
        caller: CallerHandle<W, S>,
    ) {
        self.by_path.entry(Arc::clone(&path)).or_default().requested();
        self.requested.push_back(PendingWatch { id, path, watch_type, caller: Some(caller) });
    }

    fn find_requested(&self, id: WatchId) -> Option<usize> {
        match self.requested.front() {
            Some(front) if front.id == id => Some(0),
            _ => self.requested.binary_search_by_key(&id, |requested| requested.id).ok(),
        }
    }

    /// The request was answered with this code, or was lost. Gives back the caller if no watch was
    /// set for it.
    pub(crate) fn answered(
        &mut self,
        id: WatchId,
        code: Option<ErrorCode>,
    ) -> Option<CallerHandle<W, S>> {
        let PendingWatch { path, watch_type, caller, .. } =
            self.requested.remove(self.find_requested(id)?)?;
        let (factor, few) = SPARSE;
        if self.requested.len() > few && self.requested.len() < self.requested.capacity() / factor {
            self.requested.shrink_to(2 * self.requested.len());
        }
        let set = match (watch_type, code) {
            (WatchType::Once(WatchKind::Exist), Some(ErrorCode::OK)) => {
                Some(WatchType::Once(WatchKind::Data))
            }
            (_, Some(ErrorCode::OK))
            | (WatchType::Once(WatchKind::Exist), Some(ErrorCode::NO_NODE)) => Some(watch_type),
            _ => None,
        };
        let Some(at_path) = self.by_path.get_mut(&path) else {
            return caller;
        };
        at_path.answered();
        let mut returned = None;
        match (set, caller) {
            (None, caller) => returned = caller,
            (Some(watch_type), Some(caller)) => {
                at_path.insert((watch_type, id), caller);
                self.counts.add(watch_type, &path);
            }
            (Some(watch_type), None) => at_path.left(watch_type),
        }
        if let Some(mode) = set.and_then(|watch_type| at_path.replaced_by(watch_type)) {
            self.follow_ups.push_back(FollowUp::Restore(mode, Arc::clone(&path)));
        }
        if at_path.is_unused() {
            self.prune(&path);
        }
        returned
    }

    /// The request succeeded, but its caller receives a failure, so the server keeps a watch
    /// without a watcher. Gives back the caller.
    pub(crate) fn answered_unread(&mut self, id: WatchId) -> Option<CallerHandle<W, S>> {
        let index = self.find_requested(id)?;
        let returned = self.requested.get_mut(index)?.caller.take();
        self.answered(id, Some(ErrorCode::OK)).or(returned)
    }

    /// A request was queued that sets a watch of this kind in whatever state it finds the node. The
    /// watch counts as set from now on.
    pub(crate) fn set(&mut self, id: WatchId, kind: WatchKind, path: Arc<str>, watcher: W) {
        self.requested_once(id, kind, path, watcher);
        let code = match kind {
            // With `OK` this would be a watch of the data.
            WatchKind::Exist => ErrorCode::NO_NODE,
            WatchKind::Data | WatchKind::Child => ErrorCode::OK,
        };
        self.answered(id, Some(code));
    }

    /// A queued request will watch this path even if every caller leaves before it is sent. A watch
    /// that is known to be left over is removed once the request is answered. An event that arrives
    /// ahead of the request ends the watches here, but the server sets its watch afterwards. That
    /// watch ends with the next event, of which no caller is notified.
    pub(crate) fn begin_arming(&mut self, path: Arc<str>) {
        self.by_path.entry(path).or_default().begin_arming();
        self.arming += 1;
    }

    /// A request that [arms](Self::begin_arming) watches of these paths was answered, or was
    /// lost.
    pub(crate) fn end_arming<'p>(&mut self, paths: impl IntoIterator<Item = &'p Arc<str>>) {
        for path in paths {
            if let Some(at_path) = self.by_path.get_mut(path) {
                at_path.end_arming();
                self.arming = self.arming.saturating_sub(1);
                if at_path.is_unused() {
                    self.prune(path);
                }
            }
        }
    }

    /// A caller has gone. `None` if its watch was removed before, or if its event came first.
    pub(crate) fn remove(&mut self, id: WatchId, path: &str) -> Option<CallerHandle<W, S>> {
        self.leave(id, path, |_| true)
    }

    /// Like [`remove`](Self::remove), but a one-shot watch that is set stays with the server.
    pub(crate) fn abandon(&mut self, id: WatchId, path: &str) -> Option<CallerHandle<W, S>> {
        self.leave(id, path, |watch_type| matches!(watch_type, WatchType::Stream(_)))
    }

    fn leave(
        &mut self,
        id: WatchId,
        path: &str,
        remove: impl FnOnce(WatchType) -> bool,
    ) -> Option<CallerHandle<W, S>> {
        if let Some(index) = self.find_requested(id) {
            return self.requested.get_mut(index)?.caller.take();
        }
        let at_path = self.by_path.get_mut(path)?;
        let (watch_type, caller) = at_path.remove(id)?;
        self.counts.subtract(watch_type, path);
        if remove(watch_type) {
            at_path.left(watch_type);
        }
        if at_path.is_unused() {
            self.prune(path);
        }
        Some(caller)
    }

    fn prune(&mut self, path: &str) {
        if let Some((path, at_path)) = self.by_path.remove_entry(path) {
            self.on_pruned(&path, &at_path);
        }
    }

    /// Asks to remove the watches that are left at a path where no caller waits. The removal comes
    /// behind all earlier requests, and would also remove the watches that they set.
    fn on_pruned(&mut self, path: &Arc<str>, at_path: &PathWatches<W, S>) {
        if at_path.has_leftover() && !self.irremovable {
            self.follow_ups.push_back(FollowUp::Remove(Arc::clone(path)));
        }
        let (factor, few) = SPARSE;
        if self.by_path.capacity() > factor * self.by_path.len().max(few) {
            self.by_path.shrink_to(2 * self.by_path.len());
        }
    }

    /// Fires the one-shot watches that an event concerns. Calls `tell` with each watcher and the
    /// path.
    pub(crate) fn fire(&mut self, event: EventType, path: &str, mut tell: impl FnMut(W, Arc<str>)) {
        let one_shots = &mut self.counts.one_shots;
        if *one_shots == 0 {
            return;
        }
        let Some((path, mut at_path)) = self.by_path.remove_entry(path) else {
            return;
        };
        let mut last = None;
        at_path.fire(event, |watcher| {
            *one_shots -= 1;
            if let Some(earlier) = last.replace(watcher) {
                tell(earlier, Arc::clone(&path));
            }
        });
        if at_path.is_unused() {
            self.on_pruned(&path, &at_path);
            // Most often a path has one watch and nothing else: then the path is moved, not cloned.
            if let Some(last) = last {
                tell(last, path);
            }
        } else {
            if let Some(last) = last {
                tell(last, Arc::clone(&path));
            }
            self.by_path.insert(path, at_path);
        }
    }

    /// Calls `tell` with each stream that an event concerns. A recursive stream is never notified
    /// that children changed, since it receives the events of the children themselves. A server may
    /// send such an event all the same, for another watch.
    pub(crate) fn notify(&self, event: EventType, path: &str, mut tell: impl FnMut(S)) {
        let mut tell = |_, stream: &S| tell(stream.clone());
        if self.counts.persistent > 0
            && let Some(at_path) = self.by_path.get(path)
        {
            at_path.streams(WatchMode::Persistent, &mut tell);
        }
        if event == EventType::NODE_CHILDREN_CHANGED || self.counts.recursive.is_empty() {
            return;
        }
        let top = top(path, self.counts.recursive.len() - 1);
        for (depth, above) in (0..=depth(top)).rev().zip(self_and_ancestors(top)) {
            if self.counts.recursive.get(depth).is_some_and(|count| *count > 0)
                && let Some(at_path) = self.by_path.get(above)
            {
                at_path.streams(WatchMode::PersistentRecursive, &mut tell);
            }
        }
    }

    /// True if a server may send this event because it executes a request that
    /// [arms](Self::begin_arming) watches: it sends such an event for each of the nodes that has
    /// changed or gone. All other events are news.
    pub(crate) fn may_be_old(&self, event: EventType, path: &str) -> bool {
        self.arming > 0
            && !matches!(event, EventType::NODE_CREATED | EventType::NODE_CHILDREN_CHANGED)
            && self.by_path.get(path).is_some_and(PathWatches::is_arming)
    }

    /// The parent whose children changed, if a server before 3.9 sends no event about that because
    /// there is a recursive watch at the parent.
    pub(crate) fn silenced<'p>(&self, event: EventType, path: &'p str) -> Option<&'p str> {
        let child = [EventType::NODE_CREATED, EventType::NODE_DELETED].contains(&event);
        let Counts { one_shots, persistent, .. } = self.counts;
        if !child || (one_shots == 0 && persistent == 0) {
            return None;
        }
        let parent = parent(path)?;
        self.by_path.get(parent).is_some_and(PathWatches::is_recursive).then_some(parent)
    }

    /// A watch was restored. Its streams may have missed events, and so may a child watch that a
    /// recursive one silences. Calls `tell` with each of them.
    pub(crate) fn restored(
        &mut self,
        mode: WatchMode,
        path: &Arc<str>,
        mut tell: impl FnMut(CallerHandle<W, S>),
    ) {
        let at_path = self.by_path.entry(Arc::clone(path)).or_default();
        if at_path.is_recursive() {
            let one_shots = &mut self.counts.one_shots;
            at_path.fire(EventType::NODE_CHILDREN_CHANGED, |watcher| {
                *one_shots -= 1;
                tell(CallerHandle::Once(watcher));
            });
        }
        if !at_path.any(WatchType::Stream(mode)) {
            at_path.left(WatchType::Stream(mode));
        }
        for mode in WatchMode::ALL {
            at_path.streams(mode, |_, stream| tell(CallerHandle::Stream(stream.clone())));
        }
        if at_path.is_unused() {
            self.prune(path);
        }
    }

    /// The server does not know how to remove a watch.
    pub(crate) fn cannot_remove(&mut self) {
        self.irremovable = true;
    }

    #[inline]
    pub(crate) fn has_follow_ups(&self) -> bool {
        !self.follow_ups.is_empty()
    }

    /// The next request to queue. It is not needed without a connection, since the server's watches
    /// end with their connection.
    pub(crate) fn poll_follow_up(&mut self) -> Option<FollowUp> {
        self.follow_ups.pop_front()
    }

    /// All streams, to be notified that they were armed again.
    pub(crate) fn streams(&self) -> Vec<S> {
        let mut streams = Vec::new();
        for mode in WatchMode::ALL {
            let mut found = Vec::new();
            for (path, at_path) in &self.by_path {
                at_path.streams(mode, |id, stream| found.push((path, id, stream.clone())));
            }
            found.sort_unstable_by_key(|(path, id, _)| (*path, *id));
            streams.extend(found.into_iter().map(|(.., stream)| stream));
        }
        streams
    }

    /// Gives up all watches that are set.
    pub(crate) fn take_all(
        &mut self,
    ) -> impl Iterator<Item = (WatchType, Arc<str>, CallerHandle<W, S>)> + use<W, S> {
        let mut taken = Vec::new();
        self.by_path.retain(|path, at_path| {
            at_path.clear_leftover();
            let watches = at_path.take_all();
            taken
                .extend(watches.map(|((watch_type, id), caller)| {
                    ((watch_type, Arc::clone(path), id), caller)
                }));
            !at_path.is_unused()
        });
        self.counts = Counts::default();
        taken.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        taken.into_iter().map(|((watch_type, path, _), caller)| (watch_type, path, caller))
    }

    /// Calls `send` with each of the requests that arm everything again, for servers that take
    /// requests of `limit` bytes. Of two watches at one path the persistent one comes last.
    pub(crate) fn rearm(
        &mut self,
        last_zxid: Zxid,
        limit: usize,
        mut send: impl FnMut(&Rearm<'_>),
    ) {
        let mut watched = Vec::new();
        for (path, at_path) in &mut self.by_path {
            at_path.rearmed();
            let watch_types = WatchType::ALL
                .into_iter()
                .enumerate()
                .filter(|(_, watch_type)| at_path.any(*watch_type));
            watched.extend(watch_types.map(|(table, _)| (table, &**path)));
        }
        watched.sort_unstable();
        let batch_bytes = BATCH_BYTES.min(limit / 2);
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
        for (table, path) in watched {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_shrink_with_what_is_in_them() {
        let mut watches = Watches::<usize, usize>::new(&Dialect::apache());
        let path = |n: usize| Arc::from(format!("/{n}"));
        for n in 0..10_000 {
            let id = watches.next_id();
            watches.requested_once(id, WatchKind::Data, path(n), n);
        }
        for n in 1..=10_000 {
            assert!(watches.answered(WatchId(n), Some(ErrorCode::OK)).is_none());
        }
        assert!(watches.requested.capacity() < 2_000, "{}", watches.requested.capacity());
        for n in 0..10_000 {
            let mut seen = Vec::new();
            watches.fire(EventType::NODE_DELETED, &path(n), |who, _| seen.push(who));
            assert_eq!(seen, [n]);
        }
        assert_eq!(watches.lengths(), (0, 0));
        assert!(watches.by_path.capacity() < 2_000, "{}", watches.by_path.capacity());
    }
}
