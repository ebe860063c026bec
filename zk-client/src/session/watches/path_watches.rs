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

/// Identifies one watch of one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub(crate) u64);

impl WatchId {
    pub(crate) const FIRST: Self = Self(0);
    pub(crate) const LAST: Self = Self(u64::MAX);
}

/// What a one-shot watch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WatchKind {
    /// The node's data, or its deletion: getData, or exists on a node that is there.
    Data,
    /// The node's creation: exists on an absent node.
    Exist,
    /// The node's children, or its deletion: getChildren.
    Child,
}

impl WatchKind {
    pub(crate) const ALL: [Self; 3] = [Self::Data, Self::Exist, Self::Child];

    /// True if an event fires watches of this kind.
    ///
    /// A node whose data is watched exists: an event about its creation is meant for another watch,
    /// and the creation was earlier. A node whose creation is awaited does not exist: an event
    /// about its deletion answers a request that assumed that it did.
    pub(crate) fn is_fired_by(self, event: EventType) -> bool {
        match event {
            EventType::NODE_CREATED => self == Self::Exist,
            EventType::NODE_DATA_CHANGED => self != Self::Child,
            EventType::NODE_CHILDREN_CHANGED => self == Self::Child,
            EventType::NODE_DELETED => self != Self::Exist,
            _ => true,
        }
    }
}

/// The type of a watch. One-shot watches come before streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WatchType {
    Once(WatchKind),
    Stream(WatchMode),
}

impl WatchType {
    pub(crate) const ALL: [Self; 5] = [
        Self::Once(WatchKind::Data),
        Self::Once(WatchKind::Exist),
        Self::Once(WatchKind::Child),
        PERSISTENT,
        RECURSIVE,
    ];
}

const PERSISTENT: WatchType = WatchType::Stream(WatchMode::Persistent);

const RECURSIVE: WatchType = WatchType::Stream(WatchMode::PersistentRecursive);

/// What the caller of a watch gave with it, and gets back in the end.
#[derive(Debug)]
pub(crate) enum CallerHandle<W, S> {
    Once(W),
    Stream(S),
}

/// Identifies a watch among those of its path, and orders them.
pub(crate) type Key = (WatchType, WatchId);

/// All that is known about one path.
#[derive(Debug)]
pub(crate) struct PathWatches<W, S> {
    /// Unanswered requests whose watch is set here when they are answered.
    requested: u32,
    /// Unanswered requests whose watch is set here already.
    arming: u32,
    leftover: Leftover,
    set: Set<W, S>,
}

impl<W, S> Default for PathWatches<W, S> {
    fn default() -> Self {
        Self { requested: 0, arming: 0, leftover: Leftover::None, set: Set::None }
    }
}

/// What the server may watch here although no caller wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Leftover {
    None,
    /// Watches of the node alone.
    Plain,
    /// A recursive watch, perhaps with others.
    Recursive,
}

/// The watches that are set.
#[derive(Debug)]
enum Set<W, S> {
    None,
    One(Key, CallerHandle<W, S>),
    /// May be empty, once all watches are removed.
    Many(BTreeMap<Key, CallerHandle<W, S>>),
}

impl<W, S> PathWatches<W, S> {
    pub(crate) fn requested(&mut self) {
        self.requested += 1;
    }

    pub(crate) fn answered(&mut self) {
        self.requested = self.requested.saturating_sub(1);
    }

    pub(crate) fn begin_arming(&mut self) {
        self.arming += 1;
    }

    pub(crate) fn end_arming(&mut self) {
        self.arming = self.arming.saturating_sub(1);
    }

    /// True if an unanswered request watches this path whatever it finds.
    pub(crate) fn is_arming(&self) -> bool {
        self.arming > 0
    }

    /// True if no caller waits here, and no unanswered request sets a watch here.
    pub(crate) fn is_unused(&self) -> bool {
        (self.requested, self.arming) == (0, 0)
            && match &self.set {
                Set::None => true,
                Set::One(..) => false,
                Set::Many(many) => many.is_empty(),
            }
    }

    pub(crate) fn has_leftover(&self) -> bool {
        self.leftover != Leftover::None
    }

    /// On a new connection the server has only the watches that are wanted. But an unanswered
    /// request may set a watch for a caller that has left meanwhile, or that is notified before the
    /// request arrives.
    pub(crate) fn rearmed(&mut self) {
        let mut one_shots = WatchKind::ALL.into_iter().map(WatchType::Once);
        let left = self.has_leftover() && (self.requested, self.arming) != (0, 0);
        let told_before = self.arming > 0 && one_shots.any(|watch_type| self.any(watch_type));
        self.leftover = if left || told_before { Leftover::Plain } else { Leftover::None };
    }

    /// The server watches nothing any more.
    pub(crate) fn clear_leftover(&mut self) {
        self.leftover = Leftover::None;
    }

    /// True if the server has a recursive watch at this very path.
    pub(crate) fn is_recursive(&self) -> bool {
        self.any(RECURSIVE) || self.leftover == Leftover::Recursive
    }

    pub(crate) fn any(&self, watch_type: WatchType) -> bool {
        self.first(watch_type).is_some()
    }

    fn first(&self, watch_type: WatchType) -> Option<Key> {
        match &self.set {
            Set::None => None,
            Set::One(key, _) => (key.0 == watch_type).then_some(*key),
            Set::Many(many) => many.range(all(watch_type)).next().map(|(key, _)| *key),
        }
    }

    /// The server has a watch that no caller wants any more. A one-shot watch may be shared with
    /// other callers, whose event ends it unless requests for their watches are still unanswered.
    pub(crate) fn left(&mut self, watch_type: WatchType) {
        let [data, exist, child] = WatchKind::ALL.map(WatchType::Once);
        let shared = match watch_type {
            WatchType::Once(WatchKind::Child) => self.any(child),
            WatchType::Once(_) => self.any(data) || self.any(exist),
            WatchType::Stream(_) => false,
        };
        if !shared || self.arming > 0 {
            let left = if watch_type == RECURSIVE { Leftover::Recursive } else { Leftover::Plain };
            self.leftover = self.leftover.max(left);
        }
    }

    /// The mode of the server's watch here that is lost when a watch of this type is set.
    pub(crate) fn replaced_by(&self, watch_type: WatchType) -> Option<WatchMode> {
        match watch_type {
            // The events of a recursive watch come from the table of data alone.
            WatchType::Once(WatchKind::Child) if self.is_recursive() => None,
            RECURSIVE => None,
            _ if self.any(RECURSIVE) => Some(WatchMode::PersistentRecursive),
            PERSISTENT => None,
            // One that is left over serves the child watches of its path, if there are any.
            _ if self.is_recursive() || self.any(PERSISTENT) => Some(WatchMode::Persistent),
            _ => None,
        }
    }

    pub(crate) fn insert(&mut self, key: Key, caller: CallerHandle<W, S>) {
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
    pub(crate) fn remove(&mut self, id: WatchId) -> Option<(WatchType, CallerHandle<W, S>)> {
        WatchType::ALL
            .into_iter()
            .find_map(|watch_type| Some((watch_type, self.remove_key((watch_type, id))?)))
    }

    fn remove_key(&mut self, key: Key) -> Option<CallerHandle<W, S>> {
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

    /// Fires the one-shot watches that an event concerns. Calls `tell` with each watcher, within
    /// each kind in the order of their requests.
    pub(crate) fn fire(&mut self, event: EventType, mut tell: impl FnMut(W)) {
        if let Set::One((watch_type, _), _) = self.set {
            if matches!(watch_type, WatchType::Once(kind) if kind.is_fired_by(event))
                && let Set::One(_, CallerHandle::Once(watcher)) = self.take()
            {
                tell(watcher);
            }
            return;
        }
        for kind in WatchKind::ALL.into_iter().filter(|kind| kind.is_fired_by(event)) {
            while let Some(key) = self.first(WatchType::Once(kind))
                && let Some(CallerHandle::Once(watcher)) = self.remove_key(key)
            {
                tell(watcher);
            }
        }
    }

    /// Gives up all watches.
    pub(crate) fn take_all(
        &mut self,
    ) -> impl Iterator<Item = (Key, CallerHandle<W, S>)> + use<W, S> {
        let (one, many) = match self.take() {
            Set::None => (None, None),
            Set::One(key, caller) => (Some((key, caller)), None),
            Set::Many(many) => (None, Some(many)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Calls `tell` with the streams of this mode, in the order of their requests.
    pub(crate) fn streams(&self, mode: WatchMode, mut tell: impl FnMut(WatchId, &S)) {
        let mut tell = |(watch_type, id): Key, caller: &CallerHandle<W, S>| match caller {
            CallerHandle::Stream(stream) if watch_type == WatchType::Stream(mode) => {
                tell(id, stream)
            }
            _ => {}
        };
        match &self.set {
            Set::None => {}
            Set::One(key, caller) => tell(*key, caller),
            Set::Many(many) => {
                many.range(all(WatchType::Stream(mode)))
                    .for_each(|(key, caller)| tell(*key, caller));
            }
        }
    }
}

/// All watches of a type.
fn all(watch_type: WatchType) -> RangeInclusive<Key> {
    (watch_type, WatchId::FIRST)..=(watch_type, WatchId::LAST)
}
