//! The watches of one path: those that callers wait for, those that are requested, and those left
//! over.
//!
//! Most paths have one watch, which is kept in place. Several are sorted, so that results are
//! deterministic and each watch is removed quickly. `W` and `S` are what the callers of one-shot
//! watches and of streams get back. Knows neither requests nor other paths.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use zk_proto::EventType;

use crate::model::event::WatchMode;
use crate::session::watches::one_shots::{WatchId, WatchKind};

/// The sort of a watch. One-shot watches come before streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sort {
    Once(WatchKind),
    Stream(WatchMode),
}

impl Sort {
    pub(crate) const ALL: [Self; 5] = [
        Self::Once(WatchKind::Data),
        Self::Once(WatchKind::Exist),
        Self::Once(WatchKind::Child),
        PERSISTENT,
        RECURSIVE,
    ];
}

const PERSISTENT: Sort = Sort::Stream(WatchMode::Persistent);

const RECURSIVE: Sort = Sort::Stream(WatchMode::PersistentRecursive);

/// What goes back to the caller of a watch in the end.
#[derive(Debug)]
pub(crate) enum Returned<W, S> {
    Once(W),
    Stream(S),
}

/// Identifies a watch among those of its path, and orders them.
pub(crate) type Key = (Sort, WatchId);

/// All that is known about one path.
#[derive(Debug)]
pub(crate) struct PathWatches<W, S> {
    /// Unanswered requests whose watch is set here when they are answered.
    asked: u32,
    /// Unanswered requests whose watch is set here already.
    announced: u32,
    /// `Some` if the server may have a watch here that no caller wants, and true if a recursive
    /// watch is left over.
    stray: Option<bool>,
    set: Set<W, S>,
}

impl<W, S> Default for PathWatches<W, S> {
    fn default() -> Self {
        Self { asked: 0, announced: 0, stray: None, set: Set::None }
    }
}

/// The watches that are set.
#[derive(Debug)]
enum Set<W, S> {
    None,
    One(Key, Returned<W, S>),
    /// May be empty, once all watches are removed.
    Many(BTreeMap<Key, Returned<W, S>>),
}

impl<W, S> PathWatches<W, S> {
    pub(crate) fn asked(&mut self) {
        self.asked += 1;
    }

    pub(crate) fn answered(&mut self) {
        self.asked = self.asked.saturating_sub(1);
    }

    pub(crate) fn announced(&mut self) {
        self.announced += 1;
    }

    pub(crate) fn concluded(&mut self) {
        self.announced = self.announced.saturating_sub(1);
    }

    /// True if no caller waits here, and no unanswered request sets a watch here.
    pub(crate) fn is_deserted(&self) -> bool {
        (self.asked, self.announced) == (0, 0)
            && match &self.set {
                Set::None => true,
                Set::One(..) => false,
                Set::Many(many) => many.is_empty(),
            }
    }

    pub(crate) fn has_stray(&self) -> bool {
        self.stray.is_some()
    }

    /// On a new connection the server has only the watches that are wanted. But an unanswered
    /// request may set a watch for a caller that has left meanwhile, or that is notified before the
    /// request arrives.
    pub(crate) fn rearmed(&mut self) {
        let mut one_shots = WatchKind::ALL.into_iter().map(Sort::Once);
        let left = self.stray.is_some() && (self.asked, self.announced) != (0, 0);
        let told_before = self.announced > 0 && one_shots.any(|sort| self.any(sort));
        self.stray = (left || told_before).then_some(false);
    }

    /// The server watches nothing any more.
    pub(crate) fn clear_stray(&mut self) {
        self.stray = None;
    }

    /// True if the server has a recursive watch at this very path.
    pub(crate) fn is_recursive(&self) -> bool {
        self.any(RECURSIVE) || self.stray == Some(true)
    }

    pub(crate) fn any(&self, sort: Sort) -> bool {
        self.first(sort).is_some()
    }

    fn first(&self, sort: Sort) -> Option<Key> {
        match &self.set {
            Set::None => None,
            Set::One(key, _) => (key.0 == sort).then_some(*key),
            Set::Many(many) => many.range(all(sort)).next().map(|(key, _)| *key),
        }
    }

    /// The server has a watch that no caller wants any more. A one-shot watch may be shared with
    /// other callers, whose event ends it unless requests for their watches are still unanswered.
    pub(crate) fn left(&mut self, sort: Sort) {
        let [data, exist, child] = WatchKind::ALL.map(Sort::Once);
        let shared = match sort {
            Sort::Once(WatchKind::Child) => self.any(child),
            Sort::Once(_) => self.any(data) || self.any(exist),
            Sort::Stream(_) => false,
        };
        if !shared || self.announced > 0 {
            *self.stray.get_or_insert_default() |= sort == RECURSIVE;
        }
    }

    /// The mode of the server's watch here that is lost when a watch of this sort is set.
    pub(crate) fn replaced_by(&self, sort: Sort) -> Option<WatchMode> {
        match sort {
            // The events of a recursive watch come from the table of data alone.
            Sort::Once(WatchKind::Child) if self.is_recursive() => None,
            RECURSIVE => None,
            _ if self.any(RECURSIVE) => Some(WatchMode::PersistentRecursive),
            PERSISTENT => None,
            // One that is left over serves the child watches of its path, if there are any.
            _ if self.is_recursive() || self.any(PERSISTENT) => Some(WatchMode::Persistent),
            _ => None,
        }
    }

    pub(crate) fn insert(&mut self, key: Key, caller: Returned<W, S>) {
        self.set = match self.take() {
            Set::None => Set::One(key, caller),
            Set::Many(mut many) => {
                many.insert(key, caller);
                Set::Many(many)
            }
            Set::One(first, other) => Set::Many(BTreeMap::from([(first, other), (key, caller)])),
        };
    }

    /// Forgets a watch whose caller has gone. `None` if the watch is not here, since its event came
    /// first.
    pub(crate) fn remove(&mut self, id: WatchId) -> Option<(Sort, Returned<W, S>)> {
        Sort::ALL.into_iter().find_map(|sort| Some((sort, self.remove_key((sort, id))?)))
    }

    fn remove_key(&mut self, key: Key) -> Option<Returned<W, S>> {
        match &mut self.set {
            Set::Many(many) => many.remove(&key),
            Set::One(only, _) if *only == key => match self.take() {
                Set::One(_, caller) => Some(caller),
                Set::None | Set::Many(_) => None,
            },
            Set::None | Set::One(..) => None,
        }
    }

    fn take(&mut self) -> Set<W, S> {
        std::mem::replace(&mut self.set, Set::None)
    }

    /// Ends the one-shot watches that an event concerns. Calls `tell` with each watcher, within
    /// each kind in the order of their requests.
    pub(crate) fn end(&mut self, event: EventType, mut tell: impl FnMut(W)) {
        if let Set::One((sort, _), _) = self.set {
            if matches!(sort, Sort::Once(kind) if kind.sees(event))
                && let Set::One(_, Returned::Once(watcher)) = self.take()
            {
                tell(watcher);
            }
            return;
        }
        for kind in WatchKind::ALL.into_iter().filter(|kind| kind.sees(event)) {
            while let Some(key) = self.first(Sort::Once(kind))
                && let Some(Returned::Once(watcher)) = self.remove_key(key)
            {
                tell(watcher);
            }
        }
    }

    /// Gives up all watches.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (Key, Returned<W, S>)> + use<W, S> {
        let (one, many) = match self.take() {
            Set::None => (None, None),
            Set::One(key, caller) => (Some((key, caller)), None),
            Set::Many(many) => (None, Some(many)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Calls `tell` with the streams of this mode, in the order of their requests.
    pub(crate) fn streams(&self, mode: WatchMode, mut tell: impl FnMut(WatchId, &S)) {
        let mut tell = |(sort, id): Key, caller: &Returned<W, S>| match caller {
            Returned::Stream(stream) if sort == Sort::Stream(mode) => tell(id, stream),
            _ => {}
        };
        match &self.set {
            Set::None => {}
            Set::One(key, caller) => tell(*key, caller),
            Set::Many(many) => {
                many.range(all(Sort::Stream(mode))).for_each(|(key, caller)| tell(*key, caller));
            }
        }
    }
}

/// All watches of a sort.
fn all(sort: Sort) -> RangeInclusive<Key> {
    (sort, WatchId::FIRST)..=(sort, WatchId::LAST)
}
