//! The node that a process holds: which owners are inside, and whether another may come in.
//!
//! Owners get in one after another, or together if they read. Each gets the next pass. How often
//! and for how long they hand the lock on is bounded, so that other processes get their turn. This
//! knows no owner that waits.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::node::Role;

/// Identifies an owner, across tasks and threads.
pub(crate) type OwnerId = u64;

/// How much the tasks of a process may hand the lock on while other processes wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// How many times.
    pub(crate) passes: u32,
    /// For how long, from when the node became first.
    pub(crate) time: Duration,
    /// For how long at most, whether other processes wait or not.
    pub(crate) longest: Option<Duration>,
    /// For how long an unused node is kept while no other contender wants the lock. Zero keeps
    /// none.
    pub(crate) linger: Duration,
}

/// Notifications about other processes may be missing, so the process queues up anew once in this
/// time. One release and one acquire in so long cost nothing that matters.
pub(crate) const UNASKED: Duration = Duration::from_secs(5);

/// What the cohort has to know about the world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) now: Instant,
    /// True if the node is surely still ours, and nobody has asked for it back.
    pub(crate) can_hand_on: bool,
    /// True if the node is known to be lost.
    pub(crate) is_lost: bool,
    /// True if other processes may be waiting.
    pub(crate) has_remote_waiters: bool,
}

/// The way in which an owner got in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Distinguishes the owners that had one node one after another.
    pub(crate) pass: u32,
    /// How many times this owner is inside.
    pub(crate) depth: u32,
}

/// An owner that reads asks to write, and would wait for itself.
#[derive(Debug)]
pub(crate) struct WouldDeadlock;

/// A node at the head of the queue.
#[derive(Debug)]
pub(crate) struct Holding {
    /// The role of the node.
    role: Role,
    inside: BTreeMap<OwnerId, (Role, Entry)>,
    /// Since when no owner of this process has used or wanted the node, if it lingers.
    unused_since: Option<Instant>,
    /// How many owners got in since the node became first.
    pass: u32,
    /// When the node became first.
    first: Instant,
    /// The moment from which the bounds are counted.
    since: Instant,
    /// How many owners got in since then.
    streak: u32,
}

/// True if an unused node is surely still ours, and no other process wants the lock.
fn is_undisturbed(situation: Situation) -> bool {
    situation.can_hand_on && !situation.has_remote_waiters
}

/// True if a node of the one role serves an owner that wants the other.
pub(crate) fn suits(node: Role, wanted: Role) -> bool {
    (node, wanted) != (Role::Shared, Role::Exclusive)
}

impl Holding {
    /// A node that has become first at this moment.
    pub(crate) fn new(role: Role, now: Instant) -> Self {
        Self {
            role,
            inside: BTreeMap::new(),
            unused_since: None,
            pass: 0,
            first: now,
            since: now,
            streak: 0,
        }
    }

    /// Since when the node lingers unused, if it does.
    pub(crate) fn unused_since(&self) -> Option<Instant> {
        self.unused_since
    }

    pub(crate) fn is_used(&self) -> bool {
        !self.inside.is_empty()
    }

    pub(crate) fn has_inside(&self, owner: OwnerId) -> bool {
        self.inside.contains_key(&owner)
    }

    /// True if the node was not used for a while, and may have been lost meanwhile.
    pub(crate) fn is_doubtful(&self, situation: Situation) -> bool {
        self.unused_since.is_some() && !is_undisturbed(situation)
    }

    /// Lets an owner in for the first time.
    pub(crate) fn enter(&mut self, owner: OwnerId, role: Role) -> Entry {
        let entry = Entry { pass: self.pass, depth: 1 };
        self.inside.insert(owner, (role, entry));
        self.unused_since = None;
        self.pass = self.pass.saturating_add(1);
        self.streak = self.streak.saturating_add(1);
        entry
    }

    /// Lets an owner in again that is inside already. `None` if it is not inside.
    pub(crate) fn nest(
        &mut self,
        owner: OwnerId,
        role: Role,
    ) -> Option<Result<Entry, WouldDeadlock>> {
        let (has, entry) = self.inside.get_mut(&owner)?;
        if !suits(*has, role) {
            return Some(Err(WouldDeadlock));
        }
        entry.depth += 1;
        Some(Ok(*entry))
    }

    /// Takes an owner out of one of the levels at which it is inside. False if it is inside still.
    pub(crate) fn leave(&mut self, owner: OwnerId) -> bool {
        if let Some((_, entry)) = self.inside.get_mut(&owner)
            && entry.depth > 1
        {
            entry.depth -= 1;
            return false;
        }
        self.inside.remove(&owner);
        true
    }

    /// True if an unused node is kept for now.
    pub(crate) fn lingers(&mut self, bounds: Bounds, situation: Situation) -> bool {
        let Bounds { linger, longest, .. } = bounds;
        if linger.is_zero() || !is_undisturbed(situation) {
            return false;
        }
        let now = situation.now;
        let age = now.saturating_duration_since(self.first);
        let is_old = longest.is_some_and(|longest| age >= longest);
        let since = *self.unused_since.get_or_insert(now);
        !is_old && now.saturating_duration_since(since) < linger
    }

    /// True if the node serves an owner with this role.
    pub(crate) fn suits(&self, role: Role) -> bool {
        suits(self.role, role)
    }

    /// True if the owners inside leave room for one with this role.
    pub(crate) fn has_room(&self, role: Role) -> bool {
        let reads = |(has, _): &(Role, Entry)| (*has, role) == (Role::Shared, Role::Shared);
        self.inside.values().all(reads)
    }

    /// Asks whether another owner may come in. The first one may, unless the lock was lost before
    /// it came. If only the bounds forbid it, and no other process waits, they are counted anew.
    pub(crate) fn take_pass(&mut self, bounds: Bounds, situation: Situation) -> bool {
        let age = situation.now.saturating_duration_since(self.first);
        if bounds.longest.is_some_and(|longest| age > longest) {
            return false;
        }
        if self.streak == 0 {
            return !situation.is_lost;
        }
        // Tokens must grow from owner to owner.
        if !situation.can_hand_on || self.pass == u32::MAX {
            return false;
        }
        let time = situation.now.saturating_duration_since(self.since);
        if self.streak <= bounds.passes && time < bounds.time {
            return true;
        }
        // A caller that lets a node linger accepts that other processes wait for so long if no
        // notification reports them.
        let longest = UNASKED.max(bounds.linger);
        if situation.has_remote_waiters || age >= longest {
            return false;
        }
        // No other process is kept waiting: the bounds are counted from here.
        self.since = situation.now;
        self.streak = 1;
        true
    }
}
