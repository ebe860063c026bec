//! The local level of a two-level lock: which tasks of one process wait, and which of them is next.
//!
//! All tasks of the process have one node in the queue of the folder. While the lock is theirs,
//! they hand it on among themselves: first come, first served, and only so often and for so long
//! that other processes get their turn. A waiter that may come in is called, and gets in when it is
//! polled. A waiter that does not come is passed over, and keeps its place. This is pure logic: it
//! knows no client and no node, and time only as an argument.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::node::Role;
use crate::two_level::holding::{Bounds, Entry, Holding, OwnerId, Situation, WouldDeadlock, suits};

/// One wait of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaitId(u64);

/// How long other waiters wait for one that was called. This is longer than a task waits to be
/// polled on a busy runtime. A waiter that is passed over all the same gets in after the one that
/// came.
pub(crate) const GRACE: Duration = Duration::from_millis(250);

/// The result of polling a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
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
    pub(crate) tries: Option<WaitId>,
}

/// The local level.
#[derive(Debug)]
pub(crate) struct Cohort {
    bounds: Bounds,
    state: State,
    /// In the order of their ids, which is the order in which they asked.
    waiting: VecDeque<Waiter>,
    /// The waiters that were called, and are still to be woken.
    calls: Vec<WaitId>,
    next: u64,
}

#[derive(Debug)]
struct Waiter {
    id: WaitId,
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
    pub(crate) fn ask(&mut self, owner: OwnerId, role: Role, tries: bool) -> WaitId {
        let id = WaitId(self.next);
        self.next += 1;
        self.waiting.push_back(Waiter { id, owner, role, tries, called: None });
        id
    }

    /// Polls a waiter, whether it was called or not. Unless the outcome is `Waits`, it is a waiter
    /// no longer.
    pub(crate) fn poll(
        &mut self,
        id: WaitId,
        situation: impl FnOnce() -> Situation,
    ) -> (Told, Step) {
        let found = self.waiting.binary_search_by_key(&id, |waiter| waiter.id).ok();
        let Some((at, waiter)) = found.and_then(|at| Some((at, self.waiting.get_mut(at)?))) else {
            return (Told::Refused, Step::default());
        };
        waiter.called = None;
        let (owner, role, tries) = (waiter.owner, waiter.role, waiter.tries);
        if let Some(outcome) = self.nest(owner, role) {
            self.waiting.remove(at);
            return (outcome, Step::default());
        }
        let mut step = Step::default();
        if self.may_matter(at, role) {
            let situation = situation();
            if let Some(entry) = self.admit(at, situation) {
                return (Told::Entered(entry), self.settle(situation));
            }
            step = self.settle(situation);
        }
        let is_tried = matches!(
            self.state,
            State::Acquiring(Attempt { tries: Some(tries), .. }) if tries == id
        );
        if tries && !is_tried {
            self.waiting.remove(at);
            return (Told::Refused, step);
        }
        (Told::Waits, step)
    }

    /// Removes the waiter with this id.
    pub(crate) fn cancel(&mut self, id: WaitId, situation: Situation) -> Step {
        self.remove(id);
        self.settle(situation)
    }

    /// Notes that the node has become first.
    pub(crate) fn granted(&mut self, situation: Situation) -> Step {
        let State::Acquiring(Attempt { role, .. }) = self.state else {
            return Step::default();
        };
        self.state = State::Held(Holding::new(role, situation.now));
        self.settle(situation)
    }

    /// Notes that the node was not got. This waiter returns the error; another waiter tries again.
    pub(crate) fn failed(&mut self, id: WaitId, now: Instant) -> Step {
        self.remove(id);
        self.state = State::Idle;
        self.begin(now)
    }

    /// Notes that the attempt would have had to wait. For a waiter that does not want to wait it is
    /// over; if there are others, another attempt is made.
    pub(crate) fn refused(&mut self, now: Instant) -> Step {
        if let State::Acquiring(Attempt { tries: Some(id), .. }) = self.state {
            // It has to be polled to return that.
            self.remove(id);
            self.calls.push(id);
        }
        self.state = State::Idle;
        self.begin(now)
    }

    /// Takes an owner out of one of the levels at which it is inside.
    pub(crate) fn leave(&mut self, owner: OwnerId, situation: Situation) -> Step {
        if let State::Held(holding) = &mut self.state
            && holding.leave(owner)
        {
            return self.settle(situation);
        }
        Step::default()
    }

    /// Since when an unused node lingers, if one does.
    pub(crate) fn unused_since(&self) -> Option<Instant> {
        match &self.state {
            State::Held(holding) => holding.unused_since(),
            _ => None,
        }
    }

    /// Takes the waiters that were called, for the caller to wake.
    pub(crate) fn take_calls(&mut self) -> Vec<WaitId> {
        std::mem::take(&mut self.calls)
    }

    /// When to check whether the waiters that were called have come.
    pub(crate) fn due(&self, now: Instant) -> Instant {
        let called = self.waiting.iter().map_while(|waiter| waiter.called);
        let due = called.map(|called| called + GRACE).filter(|due| *due > now).min();
        due.unwrap_or(now + GRACE)
    }

    fn remove(&mut self, id: WaitId) {
        if let Ok(at) = self.waiting.binary_search_by_key(&id, |waiter| waiter.id) {
            self.waiting.remove(at);
        }
    }

    /// True if this waiter's poll may change anything. If not, the caller need not look around.
    fn may_matter(&self, at: usize, role: Role) -> bool {
        // A waiter ahead may have been called without coming.
        let is_next = at == 0 || self.waiting.front().is_some_and(|front| front.called.is_some());
        match &self.state {
            State::Idle => true,
            State::Acquiring(attempt) => is_next && !suits(attempt.role, role),
            State::Held(holding) => holding.has_room(role) && (is_next || role == Role::Shared),
        }
    }

    /// Lets an owner in that is inside already, since it would wait for itself.
    fn nest(&mut self, owner: OwnerId, role: Role) -> Option<Told> {
        let State::Held(holding) = &mut self.state else {
            return None;
        };
        let entry = holding.nest(owner, role)?;
        Some(entry.map_or_else(|WouldDeadlock| Told::WouldDeadlock, Told::Entered))
    }

    /// Lets in a waiter that is being polled, if it is its turn.
    fn admit(&mut self, at: usize, situation: Situation) -> Option<Entry> {
        let State::Held(holding) = &mut self.state else {
            return None;
        };
        // While the node was not used, it may have been lost to another process.
        if holding.is_doubtful(situation) {
            return None;
        }
        let waiter = self.waiting.get(at)?;
        let mut ahead = self.waiting.iter().take(at);
        if !holding.suits(waiter.role)
            || !holding.has_room(waiter.role)
            || ahead.any(|ahead| ahead.blocks(waiter.role, holding, situation.now))
            || !holding.take_pass(self.bounds, situation)
        {
            return None;
        }
        let Waiter { owner, role, .. } = self.waiting.remove(at)?;
        let entry = holding.enter(owner, role);
        // The same owner may wait once more.
        let again = self.waiting.iter_mut().filter(|waiter| waiter.owner == owner);
        again.for_each(|waiter| waiter.call(situation.now, &mut self.calls));
        Some(entry)
    }

    /// Calls the waiters that may come in, gives up a node or an attempt that no waiter needs, and
    /// begins the attempt that the next waiter needs. Call this when the time of an unused node may
    /// be over, or when something has happened to the node.
    pub(crate) fn settle(&mut self, situation: Situation) -> Step {
        let now = situation.now;
        let serves = match &mut self.state {
            State::Idle => return self.begin(now),
            State::Acquiring(Attempt { role, .. }) => {
                let head = self.waiting.iter().find(|waiter| !waiter.is_absent(now));
                head.is_some_and(|head| suits(*role, head.role))
            }
            // It may have been lost while it was not used, so it is handed to no waiter.
            State::Held(holding) if holding.is_doubtful(situation) => false,
            State::Held(holding) => {
                let (mut serves, mut reads) = (holding.is_used(), false);
                for waiter in &mut self.waiting {
                    if waiter.is_absent(now) || holding.has_inside(waiter.owner) {
                        continue;
                    }
                    let joins = holding.has_room(waiter.role) && holding.suits(waiter.role);
                    let writes = waiter.role == Role::Exclusive;
                    if !joins || (reads && writes) || !holding.take_pass(self.bounds, situation) {
                        break;
                    }
                    waiter.call(now, &mut self.calls);
                    (serves, reads) = (true, true);
                    if writes {
                        break;
                    }
                }
                let is_wanted = !self.waiting.is_empty();
                serves || (!is_wanted && holding.lingers(self.bounds, situation))
            }
        };
        if serves {
            return Step::default();
        }
        self.state = State::Idle;
        Step { let_go: true, ..self.begin(now) }
    }

    /// Begins an attempt for the first waiter that comes when it is called.
    fn begin(&mut self, now: Instant) -> Step {
        let Some(head) = self.waiting.iter_mut().find(|waiter| !waiter.is_absent(now)) else {
            return Step::default();
        };
        head.call(now, &mut self.calls);
        let attempt = Attempt { role: head.role, tries: head.tries.then_some(head.id) };
        self.state = State::Acquiring(attempt);
        Step { let_go: false, acquire: Some(attempt) }
    }
}

impl Waiter {
    /// Has the waiter woken, unless it was called before and has not come yet.
    fn call(&mut self, now: Instant, calls: &mut Vec<WaitId>) {
        if self.called.is_none() {
            self.called = Some(now);
            calls.push(self.id);
        }
    }

    /// True if a waiter with this role has to wait for this one, which asked earlier.
    fn blocks(&self, role: Role, holding: &Holding, now: Instant) -> bool {
        let both_read = (self.role, role) == (Role::Shared, Role::Shared);
        !both_read && !self.is_absent(now) && !holding.has_inside(self.owner)
    }

    /// True if it was called and does not come.
    fn is_absent(&self, now: Instant) -> bool {
        self.called.is_some_and(|called| now.saturating_duration_since(called) >= GRACE)
    }
}

#[cfg(test)]
mod tests;
