//! The local queue of a two-level lock: which tasks of one process wait, and which of them is next.
//!
//! While the lock is theirs, the tasks hand it on among themselves: first come, first served, and
//! only so often and for so long that other processes get their turn. A waiter whose turn it is is
//! woken, and enters when it is polled. This is pure logic: time is an argument.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::node::Role;
use crate::queue::Patience;

/// Identifies an owner, across tasks and threads.
pub(crate) type OwnerId = u64;

/// One wait of an owner. Later waits have greater ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaiterId(u64);

/// How much the tasks of a process may hand the lock on, and for how long they may keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// How many times.
    pub(crate) handoffs: u32,
    /// For how long, from when the node became first. Both count anew whenever an owner enters
    /// beyond them because no other process waits.
    pub(crate) time: Duration,
    /// For how long at most, whether other processes wait or not.
    pub(crate) longest: Option<Duration>,
    /// For how long an unused node is kept while no other contender wants the lock. Zero keeps
    /// none.
    pub(crate) linger: Duration,
}

/// Notifications about other processes may be missing, so the process queues up anew once in this
/// time. One release and one acquire in so long cost nothing that matters.
pub(crate) const REQUEUE_INTERVAL: Duration = Duration::from_secs(5);

/// What the local queue has to know about the node and the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeState {
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

/// The result of polling a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The owner has to wait longer.
    Waits,
    Entered(Entry),
    /// The owner reads, and would wait for itself.
    WouldDeadlock,
    /// The owner would have to wait, and does not want to.
    Refused,
}

/// An owner that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    id: WaiterId,
    owner: OwnerId,
    pub(crate) role: Role,
    pub(crate) patience: Patience,
}

/// What is to be done with the node, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Action {
    /// The node is released, or the attempt to get one is cancelled.
    pub(crate) release: bool,
    /// A new node is requested, for this waiter.
    pub(crate) acquire: Option<Waiter>,
}

/// The tasks of a process that wait for a lock or hold it.
#[derive(Debug)]
pub(crate) struct LocalQueue {
    bounds: Bounds,
    state: State,
    /// In the order of their ids, which is the order in which they joined.
    waiters: VecDeque<Waiter>,
    /// The waiters that are still to be woken.
    to_wake: Vec<WaiterId>,
    next: u64,
}

#[derive(Debug)]
enum State {
    /// There is no node.
    Idle,
    /// A node is on its way to the head of the folder's queue. It was requested for this waiter.
    Acquiring(Waiter),
    /// The node is at the head of the folder's queue.
    Held(Tenure),
}

impl LocalQueue {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let (state, waiters, to_wake) = (State::Idle, VecDeque::new(), Vec::new());
        Self { bounds, state, waiters, to_wake, next: 0 }
    }

    /// Adds an owner that wants in. It must be polled at once.
    pub(crate) fn join(&mut self, owner: OwnerId, role: Role, patience: Patience) -> WaiterId {
        let id = WaiterId(self.next);
        self.next += 1;
        self.waiters.push_back(Waiter { id, owner, role, patience });
        id
    }

    /// Polls a waiter, whether it was woken or not. Unless the decision is `Waits`, it is a waiter
    /// no longer.
    pub(crate) fn poll(
        &mut self,
        id: WaiterId,
        state: impl FnOnce() -> NodeState,
    ) -> (Decision, Action) {
        let at = self.position(id).unwrap_or(usize::MAX);
        let Some(&waiter) = self.waiters.get(at) else {
            return (Decision::Refused, Action::default());
        };
        if let State::Held(tenure) = &mut self.state
            && let Some(decision) = tenure.enter_again(waiter)
        {
            self.waiters.remove(at);
            return (decision, Action::default());
        }
        let mut action = Action::default();
        if self.may_be_next(at, waiter.role) {
            let state = state();
            if let Some(entry) = self.admit(at, waiter, state) {
                return (Decision::Entered(entry), self.decide(state));
            }
            action = self.decide(state);
        }
        let is_tried = matches!(self.state, State::Acquiring(tried) if tried.id == id);
        if waiter.patience == Patience::Tries && !is_tried {
            self.waiters.remove(at);
            return (Decision::Refused, action);
        }
        (Decision::Waits, action)
    }

    /// True if this waiter has no outcome yet.
    pub(crate) fn is_waiting(&self, id: WaiterId) -> bool {
        self.position(id).is_some()
    }

    fn position(&self, id: WaiterId) -> Option<usize> {
        self.waiters.binary_search_by_key(&id, |waiter| waiter.id).ok()
    }

    /// True if polling this waiter may change anything. If not, nothing has to be known about the
    /// node, which takes several locks to find out.
    fn may_be_next(&self, at: usize, role: Role) -> bool {
        match &self.state {
            State::Idle => true,
            State::Acquiring(_) => false,
            State::Held(tenure) => tenure.has_room(role) && (at == 0 || role == Role::Shared),
        }
    }

    /// Removes a waiter that does not want in any more.
    pub(crate) fn cancel(&mut self, id: WaiterId, state: NodeState) -> Action {
        self.waiters.retain(|waiter| waiter.id != id);
        self.decide(state)
    }

    /// Notes that the node has become first.
    pub(crate) fn on_granted(&mut self, state: NodeState) -> Action {
        if let State::Acquiring(Waiter { role, .. }) = self.state {
            self.state = State::Held(Tenure::new(role, self.bounds, state.now));
        }
        self.decide(state)
    }

    /// Notes that the node was not got. This waiter returns the error; another waiter tries again.
    pub(crate) fn on_failed(&mut self, id: WaiterId) -> Action {
        self.waiters.retain(|waiter| waiter.id != id);
        self.begin()
    }

    /// Notes that the attempt would have had to wait. For a waiter that does not want to wait it is
    /// over; if there are others, another attempt is made.
    pub(crate) fn on_refused(&mut self) -> Action {
        if let State::Acquiring(Waiter { id, patience: Patience::Tries, .. }) = self.state {
            // It has to be polled to return that.
            self.waiters.retain(|waiter| waiter.id != id);
            self.to_wake.push(id);
        }
        self.begin()
    }

    /// Takes an owner out of one of the levels at which it is inside.
    pub(crate) fn leave(&mut self, owner: OwnerId, state: impl FnOnce() -> NodeState) -> Action {
        if let State::Held(tenure) = &mut self.state {
            tenure.leave(owner);
            if tenure.inside.contains_key(&owner) {
                return Action::default();
            }
        }
        self.decide(state())
    }

    /// True if several owners have the node, one after another or together, or will.
    pub(crate) fn is_shared(&self) -> bool {
        let is_shared =
            |node: &Tenure| node.passes > 1 || node.inside.len() + self.waiters.len() > 1;
        self.tenure().is_some_and(is_shared)
    }

    /// Since when an unused node lingers, if one does.
    pub(crate) fn unused_since(&self) -> Option<Instant> {
        self.tenure()?.unused_since
    }

    /// Takes the waiters whose turn it is, for the caller to wake.
    pub(crate) fn take_to_wake(&mut self) -> Vec<WaiterId> {
        std::mem::take(&mut self.to_wake)
    }

    fn tenure(&self) -> Option<&Tenure> {
        if let State::Held(tenure) = &self.state { Some(tenure) } else { None }
    }

    /// Lets in a waiter that is being polled, if it is its turn.
    fn admit(&mut self, at: usize, waiter: Waiter, state: NodeState) -> Option<Entry> {
        let State::Held(tenure) = &mut self.state else {
            return None;
        };
        if !tenure.next(&self.waiters, state).contains(&waiter.id) {
            return None;
        }
        self.waiters.remove(at);
        // The same owner may wait once more.
        let again = self.waiters.iter().filter(|other| other.owner == waiter.owner);
        self.to_wake.extend(again.map(|other| other.id));
        Some(tenure.enter(waiter, state.now))
    }

    /// Lists the waiters to wake since they may enter, gives up a node or an attempt that no waiter
    /// needs, and begins the attempt that the next waiter needs. Call this when the time of an
    /// unused node may be over, or when something has happened to the node.
    pub(crate) fn decide(&mut self, state: NodeState) -> Action {
        let head = self.waiters.front();
        let is_needed = match &mut self.state {
            State::Idle => return self.begin(),
            State::Acquiring(first) => head.is_some_and(|head| suits(first.role, head.role)),
            State::Held(tenure) => {
                let next = tenure.next(&self.waiters, state);
                let is_wanted = !next.is_empty() || !tenure.inside.is_empty();
                self.to_wake.extend(next);
                is_wanted || (head.is_none() && tenure.lingers(state))
            }
        };
        if is_needed {
            return Action::default();
        }
        Action { release: true, ..self.begin() }
    }

    /// Begins an attempt for the first waiter.
    fn begin(&mut self) -> Action {
        let head = self.waiters.front().copied();
        self.state = head.map_or(State::Idle, State::Acquiring);
        Action { release: false, acquire: head }
    }
}

/// The time in which the node is at the head of the folder's queue: which owners are inside, and
/// whether another may enter.
///
/// Owners enter one after another, or together if they read. Each gets the next pass.
#[derive(Debug)]
struct Tenure {
    /// The role of the node.
    role: Role,
    bounds: Bounds,
    inside: BTreeMap<OwnerId, (Role, Entry)>,
    /// Since when no owner of this process has used or wanted the node, if it lingers.
    unused_since: Option<Instant>,
    /// How many owners have entered since the node became first.
    passes: u32,
    /// When the node became first.
    first: Instant,
    /// The moment from which the bounds are counted.
    since: Instant,
    /// How many owners have entered since then, and one more if it began anew.
    streak: u32,
}

/// True if a node of the one role serves an owner that wants the other.
fn suits(node: Role, wanted: Role) -> bool {
    (node, wanted) != (Role::Shared, Role::Exclusive)
}

/// True if an unused node is surely still ours, and no other process wants the lock.
fn is_undisturbed(state: NodeState) -> bool {
    state.can_hand_on && !state.has_remote_waiters
}

impl Tenure {
    /// A node that has become first at this moment.
    fn new(role: Role, bounds: Bounds, now: Instant) -> Self {
        let (inside, unused_since, first, since) = (BTreeMap::new(), None, now, now);
        Self { role, bounds, inside, unused_since, passes: 0, first, since, streak: 0 }
    }

    /// True if the owners inside leave room for one with this role.
    fn has_room(&self, role: Role) -> bool {
        let reads = |(has, _): &(Role, Entry)| (*has, role) == (Role::Shared, Role::Shared);
        self.inside.values().all(reads)
    }

    /// Lets an owner in that is inside already. `None` if it is not inside.
    fn enter_again(&mut self, waiter: Waiter) -> Option<Decision> {
        let (has, entry) = self.inside.get_mut(&waiter.owner)?;
        if !suits(*has, waiter.role) {
            return Some(Decision::WouldDeadlock);
        }
        entry.depth += 1;
        Some(Decision::Entered(*entry))
    }

    /// The waiters that may enter now: the first one, and if it reads, the readers up to the first
    /// writer.
    fn next(&self, waiters: &VecDeque<Waiter>, state: NodeState) -> Vec<WaiterId> {
        let (mut next, mut is_taken) = (Vec::new(), false);
        for waiter in waiters.iter().filter(|waiter| !self.inside.contains_key(&waiter.owner)) {
            let writes = waiter.role == Role::Exclusive;
            if (is_taken && writes) || !self.admits(waiter.role, state) {
                break;
            }
            next.push(waiter.id);
            is_taken = true;
            if writes {
                break;
            }
        }
        next
    }

    /// True if the bounds and the owners inside let another owner in. The first one may enter
    /// unless the lock was lost before it came.
    fn admits(&self, role: Role, state: NodeState) -> bool {
        let age = state.now.saturating_duration_since(self.first);
        if !suits(self.role, role)
            || !self.has_room(role)
            || self.bounds.longest.is_some_and(|longest| age > longest)
            // While the node was not used, it may have been lost to another process.
            || (self.unused_since.is_some() && !is_undisturbed(state))
        {
            return false;
        }
        if self.passes == 0 {
            return !state.is_lost;
        }
        // Tokens must grow from owner to owner.
        if !state.can_hand_on || self.passes == u32::MAX {
            return false;
        }
        // A caller that lets a node linger accepts that other processes wait for so long if no
        // notification reports them.
        let is_young = age < REQUEUE_INTERVAL.max(self.bounds.linger);
        self.is_within_bounds(state.now) || (!state.has_remote_waiters && is_young)
    }

    /// True if the owners may hand the lock on although other processes wait.
    fn is_within_bounds(&self, now: Instant) -> bool {
        let time = now.saturating_duration_since(self.since);
        self.streak <= self.bounds.handoffs && time < self.bounds.time
    }

    /// Lets an owner in for the first time.
    fn enter(&mut self, waiter: Waiter, now: Instant) -> Entry {
        if self.passes > 0 && !self.is_within_bounds(now) {
            // No other process is kept waiting: the bounds are counted from here.
            (self.since, self.streak) = (now, 1);
        }
        let entry = Entry { pass: self.passes, depth: 1 };
        self.inside.insert(waiter.owner, (waiter.role, entry));
        self.unused_since = None;
        self.passes = self.passes.saturating_add(1);
        self.streak = self.streak.saturating_add(1);
        entry
    }

    /// Takes an owner out of one of the levels at which it is inside.
    fn leave(&mut self, owner: OwnerId) {
        match self.inside.get_mut(&owner) {
            Some((_, entry)) if entry.depth > 1 => entry.depth -= 1,
            _ => drop(self.inside.remove(&owner)),
        }
    }

    /// True if the node, which is not used, is kept for now.
    fn lingers(&mut self, state: NodeState) -> bool {
        let Bounds { linger, longest, .. } = self.bounds;
        let time_since = |moment| state.now.saturating_duration_since(moment);
        let unused = time_since(*self.unused_since.get_or_insert(state.now));
        let is_young = longest.is_none_or(|longest| time_since(self.first) < longest);
        is_undisturbed(state) && is_young && unused < linger
    }
}

#[cfg(test)]
mod tests;
