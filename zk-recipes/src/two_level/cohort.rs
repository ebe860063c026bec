//! The local level of a two-level lock: which tasks of one process are inside, and which wait.
//!
//! All tasks of the process have one node in the queue of the folder. While the lock is theirs,
//! they hand it on among themselves: first come, first served, and only so often and for so long
//! that other processes get their turn. A waiter that may come in is called, and gets in when it is
//! polled. A waiter that does not come is passed over, and keeps its place. This is pure logic: it
//! knows no client and no node, and time only as an argument.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::node::Role;

/// Identifies an owner, across tasks and threads.
pub(crate) type OwnerId = u64;

/// One wait of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

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
const UNASKED: Duration = Duration::from_secs(5);

/// How long other waiters wait for one that was called. This is longer than a task waits to be
/// polled on a busy runtime. A waiter that is passed over all the same gets in after the one that
/// came.
pub(crate) const GRACE: Duration = Duration::from_millis(250);

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

/// The result of polling a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The owner has to wait longer.
    Waits,
    Entered(Entry),
    /// The owner reads, and would wait for itself.
    WouldDeadlock,
    /// The owner would have to wait, and does not want to.
    Refused,
}

/// What is to be done with the node, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// The node is released, or the attempt to get one is given up.
    pub(crate) let_go: bool,
    /// A new node is requested.
    pub(crate) acquire: Option<Attempt>,
}

/// An attempt to get a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) role: Role,
    /// The waiter for which the attempt was begun, if that one does not want to wait.
    pub(crate) tries: Option<Ticket>,
}

/// The local level.
#[derive(Debug)]
pub(crate) struct Cohort {
    bounds: Bounds,
    state: State,
    /// In the order of their tickets, which is the order in which they asked.
    waiting: VecDeque<Waiter>,
    /// The waiters that were called, and are still to be woken.
    calls: Vec<Ticket>,
    next: u64,
}

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    owner: OwnerId,
    role: Role,
    /// True if it does not want to wait.
    tries: bool,
    /// When it was called, if it was not polled since.
    called: Option<Instant>,
}

#[derive(Debug)]
enum State {
    /// There is no node.
    Idle,
    /// A node is on its way to the head of the queue.
    Acquiring(Attempt),
    /// The node is at the head of the queue.
    Held(Holding),
}

#[derive(Debug)]
struct Holding {
    /// The role of the node.
    role: Role,
    inside: BTreeMap<OwnerId, Inside>,
    /// Since when no owner of this process has used or wanted the node, if it lingers.
    unused_since: Option<Instant>,
    /// How many owners got in since the node became first.
    pass: u32,
    /// When the node became first.
    first: Instant,
    /// The moment from which the bounds are counted.
    since: Instant,
    streak: u32,
}

#[derive(Clone, Copy, Debug)]
struct Inside {
    role: Role,
    pass: u32,
    depth: u32,
}

impl Cohort {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let (waiting, calls) = (VecDeque::new(), Vec::new());
        Self { bounds, state: State::Idle, waiting, calls, next: 0 }
    }

    /// The number of waiters.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Adds an owner that wants in. It must be polled at once, which returns the outcome.
    pub(crate) fn ask(&mut self, owner: OwnerId, role: Role, tries: bool) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.waiting.push_back(Waiter { ticket, owner, role, tries, called: None });
        ticket
    }

    /// Polls a waiter, whether it was called or not. Unless the outcome is `Waits`, it is a waiter
    /// no longer.
    pub(crate) fn poll(
        &mut self,
        ticket: Ticket,
        situation: impl FnOnce() -> Situation,
    ) -> (Outcome, Step) {
        let Ok(at) = self.waiting.binary_search_by_key(&ticket, |waiter| waiter.ticket) else {
            return (Outcome::Refused, Step::default());
        };
        let Some(waiter) = self.waiting.get_mut(at) else {
            return (Outcome::Refused, Step::default());
        };
        waiter.called = None;
        let (owner, role, tries) = (waiter.owner, waiter.role, waiter.tries);
        if let Some(outcome) = self.nest(owner, role) {
            self.waiting.remove(at);
            return (outcome, Step::default());
        }
        let mut step = Step::default();
        if self.may_matter(at) {
            let situation = situation();
            if let Some(entry) = self.admit(at, situation) {
                return (Outcome::Entered(entry), self.settle(situation));
            }
            step = self.settle(situation);
        }
        let is_tried = matches!(
            self.state,
            State::Acquiring(Attempt { tries: Some(tries), .. }) if tries == ticket
        );
        if tries && !is_tried {
            self.waiting.remove(at);
            return (Outcome::Refused, step);
        }
        (Outcome::Waits, step)
    }

    /// Removes the waiter with this ticket.
    pub(crate) fn cancel(&mut self, ticket: Ticket, situation: Situation) -> Step {
        self.remove(ticket);
        self.settle(situation)
    }

    /// Notes that the node has become first.
    pub(crate) fn granted(&mut self, situation: Situation) -> Step {
        let State::Acquiring(Attempt { role, .. }) = self.state else {
            return Step::default();
        };
        let first = situation.now;
        self.state = State::Held(Holding {
            role,
            inside: BTreeMap::new(),
            unused_since: None,
            pass: 0,
            first,
            since: first,
            streak: 0,
        });
        self.settle(situation)
    }

    /// Notes that the node was not got. This waiter returns the error; another waiter tries again.
    pub(crate) fn failed(&mut self, ticket: Ticket, now: Instant) -> Step {
        self.remove(ticket);
        self.state = State::Idle;
        self.begin(now)
    }

    /// Notes that the attempt would have had to wait. For a waiter that does not want to wait it is
    /// over; if there are others, another attempt is made.
    pub(crate) fn refused(&mut self, now: Instant) -> Step {
        if let State::Acquiring(Attempt { tries: Some(ticket), .. }) = self.state {
            // It has to be polled to return that.
            self.remove(ticket);
            self.calls.push(ticket);
        }
        self.state = State::Idle;
        self.begin(now)
    }

    /// Takes an owner out of one of the levels at which it is inside.
    pub(crate) fn leave(&mut self, owner: OwnerId, situation: Situation) -> Step {
        let State::Held(holding) = &mut self.state else {
            return Step::default();
        };
        if let Some(inside) = holding.inside.get_mut(&owner) {
            inside.depth -= 1;
            if inside.depth > 0 {
                return Step::default();
            }
            holding.inside.remove(&owner);
        }
        self.settle(situation)
    }

    /// Since when an unused node lingers, if one does.
    pub(crate) fn unused_since(&self) -> Option<Instant> {
        match &self.state {
            State::Held(holding) => holding.unused_since,
            _ => None,
        }
    }

    /// Checks whether an unused node is to be released. Call this when its time may be over, or
    /// when something has happened to the node.
    pub(crate) fn look(&mut self, situation: Situation) -> Step {
        self.settle(situation)
    }

    /// Takes the waiters that were called, for the caller to wake.
    pub(crate) fn take_calls(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.calls)
    }

    /// When to check whether the waiters that were called have come.
    pub(crate) fn due(&self, now: Instant) -> Instant {
        let called = self.waiting.iter().map_while(|waiter| waiter.called);
        let due = called.map(|called| called + GRACE).filter(|due| *due > now).min();
        due.unwrap_or(now + GRACE)
    }

    fn remove(&mut self, ticket: Ticket) {
        if let Ok(at) = self.waiting.binary_search_by_key(&ticket, |waiter| waiter.ticket) {
            self.waiting.remove(at);
        }
    }

    /// True if this waiter's poll may change anything. If not, the caller need not look around.
    fn may_matter(&self, at: usize) -> bool {
        let Some(waiter) = self.waiting.get(at) else {
            return false;
        };
        // A waiter ahead may have been called without coming.
        let is_next = at == 0 || self.waiting.front().is_some_and(|front| front.called.is_some());
        match &self.state {
            State::Idle => true,
            State::Acquiring(attempt) => is_next && !suits(attempt.role, waiter.role),
            State::Held(holding) => {
                holding.has_room(waiter.role) && (is_next || waiter.role == Role::Shared)
            }
        }
    }

    /// Lets an owner in that is inside already, since it would wait for itself.
    fn nest(&mut self, owner: OwnerId, role: Role) -> Option<Outcome> {
        let State::Held(holding) = &mut self.state else {
            return None;
        };
        let inside = holding.inside.get_mut(&owner)?;
        if (inside.role, role) == (Role::Shared, Role::Exclusive) {
            return Some(Outcome::WouldDeadlock);
        }
        inside.depth += 1;
        Some(Outcome::Entered(Entry { pass: inside.pass, depth: inside.depth }))
    }

    /// Lets in a waiter that is being polled, if it is its turn.
    fn admit(&mut self, at: usize, situation: Situation) -> Option<Entry> {
        let State::Held(holding) = &mut self.state else {
            return None;
        };
        // While the node was not used, it may have been lost to another process.
        if holding.unused_since.is_some() && !is_undisturbed(situation) {
            return None;
        }
        let waiter = self.waiting.get(at)?;
        let mut ahead = self.waiting.iter().take(at);
        if !holding.suits(waiter.role)
            || !holding.has_room(waiter.role)
            || ahead.any(|ahead| holding.blocks(ahead, waiter.role, situation.now))
            || !holding.may_pass(self.bounds, situation)
        {
            return None;
        }
        let Waiter { owner, role, .. } = self.waiting.remove(at)?;
        let pass = holding.pass;
        holding.inside.insert(owner, Inside { role, pass, depth: 1 });
        holding.unused_since = None;
        holding.pass = pass.saturating_add(1);
        holding.streak = holding.streak.saturating_add(1);
        // The same owner may wait once more.
        let again = self.waiting.iter_mut().filter(|waiter| waiter.owner == owner);
        again.for_each(|waiter| waiter.call(situation.now, &mut self.calls));
        Some(Entry { pass, depth: 1 })
    }

    /// Calls the waiters that may come in, gives up a node or an attempt that no waiter needs, and
    /// begins the attempt that the next waiter needs.
    fn settle(&mut self, situation: Situation) -> Step {
        let now = situation.now;
        let serves = match &mut self.state {
            State::Idle => return self.begin(now),
            State::Acquiring(Attempt { role, .. }) => {
                let head = self.waiting.iter().find(|waiter| !waiter.is_absent(now));
                head.is_some_and(|head| suits(*role, head.role))
            }
            // It may have been lost while it was not used, so it is handed to no waiter.
            State::Held(holding)
                if holding.unused_since.is_some() && !is_undisturbed(situation) =>
            {
                false
            }
            State::Held(holding) => {
                let (mut serves, mut reads) = (!holding.inside.is_empty(), false);
                for waiter in &mut self.waiting {
                    if waiter.is_absent(now) || holding.inside.contains_key(&waiter.owner) {
                        continue;
                    }
                    let joins = holding.has_room(waiter.role) && holding.suits(waiter.role);
                    let writes = waiter.role == Role::Exclusive;
                    if !joins || (reads && writes) || !holding.may_pass(self.bounds, situation) {
                        break;
                    }
                    waiter.call(now, &mut self.calls);
                    (serves, reads) = (true, true);
                    if writes {
                        break;
                    }
                }
                serves
            }
        };
        if serves || self.lingers(situation) {
            return Step::default();
        }
        self.state = State::Idle;
        Step { let_go: true, ..self.begin(now) }
    }

    /// True if a node is kept for now that is neither used nor wanted in this process.
    fn lingers(&mut self, situation: Situation) -> bool {
        let Bounds { linger, longest, .. } = self.bounds;
        let State::Held(holding) = &mut self.state else {
            return false;
        };
        if linger.is_zero() || !self.waiting.is_empty() || !is_undisturbed(situation) {
            return false;
        }
        let now = situation.now;
        let is_old =
            longest.is_some_and(|longest| now.saturating_duration_since(holding.first) >= longest);
        let since = *holding.unused_since.get_or_insert(now);
        !is_old && now.saturating_duration_since(since) < linger
    }

    /// Begins an attempt for the first waiter that comes when it is called.
    fn begin(&mut self, now: Instant) -> Step {
        let Some(head) = self.waiting.iter_mut().find(|waiter| !waiter.is_absent(now)) else {
            return Step::default();
        };
        head.call(now, &mut self.calls);
        let attempt = Attempt { role: head.role, tries: head.tries.then_some(head.ticket) };
        self.state = State::Acquiring(attempt);
        Step { let_go: false, acquire: Some(attempt) }
    }
}

impl Waiter {
    /// Has the waiter woken, unless it was called before and has not come yet.
    fn call(&mut self, now: Instant, calls: &mut Vec<Ticket>) {
        if self.called.is_none() {
            self.called = Some(now);
            calls.push(self.ticket);
        }
    }

    /// True if it was called and does not come.
    fn is_absent(&self, now: Instant) -> bool {
        self.called.is_some_and(|called| now.saturating_duration_since(called) >= GRACE)
    }
}

/// True if an unused node is surely still ours, and no other process wants the lock.
fn is_undisturbed(situation: Situation) -> bool {
    situation.can_hand_on && !situation.has_remote_waiters
}

/// True if a node of the one role serves an owner that wants the other.
fn suits(node: Role, wanted: Role) -> bool {
    (node, wanted) != (Role::Shared, Role::Exclusive)
}

impl Holding {
    /// True if the node serves an owner with this role.
    fn suits(&self, role: Role) -> bool {
        suits(self.role, role)
    }

    /// True if the owners inside leave room for one with this role.
    fn has_room(&self, role: Role) -> bool {
        let reads = |inside: &Inside| inside.role == Role::Shared;
        self.inside.is_empty() || (role == Role::Shared && self.inside.values().all(reads))
    }

    /// True if a waiter with this role has to wait for one that asked earlier.
    fn blocks(&self, ahead: &Waiter, role: Role, now: Instant) -> bool {
        let both_read = (ahead.role, role) == (Role::Shared, Role::Shared);
        !both_read && !ahead.is_absent(now) && !self.inside.contains_key(&ahead.owner)
    }

    /// True if another owner may come in. The first one may, unless the lock was lost before it
    /// came.
    fn may_pass(&mut self, bounds: Bounds, situation: Situation) -> bool {
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
        let unasked = situation.now.saturating_duration_since(self.first) >= longest;
        if situation.has_remote_waiters || unasked {
            return false;
        }
        // No other process is kept waiting: the bounds are counted from here.
        self.since = situation.now;
        self.streak = 1;
        true
    }
}

#[cfg(test)]
mod tests;
