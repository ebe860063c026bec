//! The local level of a two-level lock: who of one process is inside, and who waits.
//!
//! However many tasks there are, they have one node in the queue of the folder, and hand the lock
//! on among themselves while it is theirs: first come, first served, and only so often and for so
//! long that other processes get their turn. Nobody is let in unasked: whoever may come in is
//! called, and is let in when it is polled. One that does not come is passed over, and keeps its
//! place for when it does. Pure: knows no client, no node, and time only as an argument.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::node::Role;

/// Who holds, across tasks and threads.
pub(crate) type OwnerId = u64;

/// One wait of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// How much the tasks of a process may hand on among themselves while others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// How often.
    pub(crate) passes: u32,
    /// For how long since the node became first.
    pub(crate) time: Duration,
    /// For how long at most, whether others wait or not.
    pub(crate) longest: Option<Duration>,
    /// For how long an unused node is kept while nobody else wants the lock. Zero: not at all.
    pub(crate) linger: Duration,
}

/// What is told of other processes may be lost, so now and then they get their turn unasked: the
/// requests of one release and one acquire in so long cost nothing that matters.
const UNASKED: Duration = Duration::from_secs(5);

/// How long others wait for one that was called. Longer than a task waits to be polled on a busy
/// runtime; one that is passed over all the same gets in after the one that came.
pub(crate) const GRACE: Duration = Duration::from_millis(250);

/// What the cohort must be told of the world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) now: Instant,
    /// Whether the node is surely still ours, and nobody has asked for it back.
    pub(crate) can_hand_on: bool,
    /// Whether the node is known not to be ours any more.
    pub(crate) is_lost: bool,
    /// Whether other processes may be waiting.
    pub(crate) has_remote_waiters: bool,
}

/// An owner has got in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Tells those apart who had one node after each other.
    pub(crate) pass: u32,
    /// How often this owner is inside.
    pub(crate) depth: u32,
}

/// What a waiter is told when it is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It goes on waiting.
    Waits,
    Entered(Entry),
    /// The owner reads, and would wait for itself.
    WouldDeadlock,
    /// It would have to wait, and does not want to.
    Refused,
}

/// What must happen to the node, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// The node is let go, or the attempt to get one is given up.
    pub(crate) let_go: bool,
    /// A node is to be got.
    pub(crate) acquire: Option<Attempt>,
}

/// An attempt to get a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) role: Role,
    /// Who does not want to wait for it, if it was begun for somebody like that.
    pub(crate) tries: Option<Ticket>,
}

/// The local level.
#[derive(Debug)]
pub(crate) struct Cohort {
    bounds: Bounds,
    state: State,
    /// By their tickets, which is the order in which they asked.
    waiting: VecDeque<Waiter>,
    /// Who was called, and is still to be woken.
    calls: Vec<Ticket>,
    next: u64,
}

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    owner: OwnerId,
    role: Role,
    /// Whether it does not want to wait.
    tries: bool,
    /// When it was called, if it was not polled since.
    called: Option<Instant>,
}

#[derive(Debug)]
enum State {
    /// There is no node.
    Idle,
    /// One is on its way to the head of the queue.
    Acquiring(Attempt),
    /// It is there.
    Held(Holding),
}

#[derive(Debug)]
struct Holding {
    /// The node's.
    role: Role,
    inside: BTreeMap<OwnerId, Inside>,
    /// Since when nobody has used or wanted the node here, if it lingers.
    unused_since: Option<Instant>,
    /// Passes since the node became first.
    pass: u32,
    /// When that was.
    first: Instant,
    /// Where the bounds are counted from.
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

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// An owner wants in. What comes of it is told when it is polled, which must be at once.
    pub(crate) fn ask(&mut self, owner: OwnerId, role: Role, tries: bool) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.waiting.push_back(Waiter { ticket, owner, role, tries, called: None });
        ticket
    }

    /// A waiter has come, called or not. Unless it goes on waiting, it waits no more then.
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

    /// Nobody waits with this ticket any more.
    pub(crate) fn cancel(&mut self, ticket: Ticket, situation: Situation) -> Step {
        self.remove(ticket);
        self.settle(situation)
    }

    /// The node has become first.
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

    /// The node was not got. This waiter has heard why and waits no more; another one tries again.
    pub(crate) fn failed(&mut self, ticket: Ticket, now: Instant) -> Step {
        self.remove(ticket);
        self.state = State::Idle;
        self.begin(now)
    }

    /// The attempt would have had to wait. For whoever did not want that it is over; if others want
    /// to, another one is made.
    pub(crate) fn refused(&mut self, now: Instant) -> Step {
        if let State::Acquiring(Attempt { tries: Some(ticket), .. }) = self.state {
            // It may have to hear of it.
            self.remove(ticket);
            self.calls.push(ticket);
        }
        self.state = State::Idle;
        self.begin(now)
    }

    /// An owner leaves one of the levels at which it is inside.
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

    /// Looks whether an unused node is to be let go. This is to be called when its time may be
    /// over, or something has happened to it.
    pub(crate) fn look(&mut self, situation: Situation) -> Step {
        self.settle(situation)
    }

    /// Those to be woken, since they were called.
    pub(crate) fn take_calls(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.calls)
    }

    /// When to look whether those who were called have come.
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

    /// Whether anything may come of it that this waiter is there. If not, nobody need look around.
    fn may_matter(&self, at: usize) -> bool {
        let Some(waiter) = self.waiting.get(at) else {
            return false;
        };
        // Somebody ahead may have been called and not have come.
        let is_next = at == 0 || self.waiting.front().is_some_and(|front| front.called.is_some());
        match &self.state {
            State::Idle => true,
            State::Acquiring(attempt) => is_next && !suits(attempt.role, waiter.role),
            State::Held(holding) => {
                holding.has_room(waiter.role) && (is_next || waiter.role == Role::Shared)
            }
        }
    }

    /// Lets in again who is inside already: it would wait for itself.
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

    /// Lets in a waiter that is there, if it is its turn.
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

    /// Calls those who may come in, gives up what serves nobody, and begins what somebody waits
    /// for.
    fn settle(&mut self, situation: Situation) -> Step {
        let now = situation.now;
        let serves = match &mut self.state {
            State::Idle => return self.begin(now),
            State::Acquiring(Attempt { role, .. }) => {
                let head = self.waiting.iter().find(|waiter| !waiter.is_absent(now));
                head.is_some_and(|head| suits(*role, head.role))
            }
            // It may have been lost while it was not used: it is not handed to anybody.
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

    /// True if a node that nobody here uses or wants is kept for now.
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

    /// Asks for a node for the first one that comes when it is called.
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
    /// Has it woken, unless it was called before and has not come yet.
    fn call(&mut self, now: Instant, calls: &mut Vec<Ticket>) {
        if self.called.is_none() {
            self.called = Some(now);
            calls.push(self.ticket);
        }
    }

    /// Whether it was called and does not come.
    fn is_absent(&self, now: Instant) -> bool {
        self.called.is_some_and(|called| now.saturating_duration_since(called) >= GRACE)
    }
}

/// True if an unused node is surely still ours, and nobody else wants the lock.
fn is_undisturbed(situation: Situation) -> bool {
    situation.can_hand_on && !situation.has_remote_waiters
}

/// Whether a node of the one role is good for somebody who wants the other.
fn suits(node: Role, wanted: Role) -> bool {
    (node, wanted) != (Role::Shared, Role::Exclusive)
}

impl Holding {
    /// Whether the node is good for somebody with this role.
    fn suits(&self, role: Role) -> bool {
        suits(self.role, role)
    }

    /// Whether those inside let anybody with this role in.
    fn has_room(&self, role: Role) -> bool {
        let reads = |inside: &Inside| inside.role == Role::Shared;
        self.inside.is_empty() || (role == Role::Shared && self.inside.values().all(reads))
    }

    /// Whether somebody with this role has to wait for one who asked earlier.
    fn blocks(&self, ahead: &Waiter, role: Role, now: Instant) -> bool {
        let both_read = (ahead.role, role) == (Role::Shared, Role::Shared);
        !both_read && !ahead.is_absent(now) && !self.inside.contains_key(&ahead.owner)
    }

    /// Whether another one may come in. The first one may unless the lock was lost before it came.
    fn may_pass(&mut self, bounds: Bounds, situation: Situation) -> bool {
        let age = situation.now.saturating_duration_since(self.first);
        if bounds.longest.is_some_and(|longest| age > longest) {
            return false;
        }
        if self.streak == 0 {
            return !situation.is_lost;
        }
        // Tokens must grow from pass to pass.
        if !situation.can_hand_on || self.pass == u32::MAX {
            return false;
        }
        let time = situation.now.saturating_duration_since(self.since);
        if self.streak <= bounds.passes && time < bounds.time {
            return true;
        }
        // Whoever lets a node linger accepts that others wait for so long if nothing tells of them.
        let longest = UNASKED.max(bounds.linger);
        let unasked = situation.now.saturating_duration_since(self.first) >= longest;
        if situation.has_remote_waiters || unasked {
            return false;
        }
        // Nobody is kept waiting: the bounds are counted from here.
        self.since = situation.now;
        self.streak = 1;
        true
    }
}

#[cfg(test)]
mod tests;
