//! The local level of a two-level lock: who of one process is inside, and who waits.
//!
//! However many tasks there are, they have one node in the queue of the folder, and hand the lock
//! on among themselves while it is theirs: first come, first served, and only so often and for so
//! long that other processes get their turn. Whoever is at the head drives the acquire; if it
//! leaves, the next one inherits the place. Pure: knows no client, no node, and time only as an
//! argument.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::layout::Role;

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
}

/// What is told of other processes may be lost, so now and then they get their turn unasked: the
/// requests of one release and one acquire in so long cost nothing that matters.
const UNASKED: Duration = Duration::from_secs(5);

/// What the cohort must be told of the world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) now: Instant,
    /// Whether the node is surely still ours, and nobody has asked for it back.
    pub(crate) is_sound: bool,
    /// Whether other processes may be waiting.
    pub(crate) has_strangers: bool,
}

/// An owner has got in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Tells those apart who had one node after each other.
    pub(crate) pass: u32,
    /// How often this owner is inside.
    pub(crate) depth: u32,
}

/// What became of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Entered(Entry),
    /// The owner reads, and would wait for itself.
    WouldDeadlock,
}

/// What must happen to the node, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// The node is let go, or the attempt to get one is given up.
    pub(crate) let_go: bool,
    /// A node is to be got in this role.
    pub(crate) acquire: Option<Role>,
}

/// The local level.
#[derive(Debug)]
pub(crate) struct Cohort {
    bounds: Bounds,
    state: State,
    waiting: VecDeque<Waiter>,
    /// What became of waits that has not been heard yet.
    done: BTreeMap<Ticket, (OwnerId, Outcome)>,
    next: u64,
}

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    owner: OwnerId,
    role: Role,
}

#[derive(Debug)]
enum State {
    /// There is no node.
    Idle,
    /// One is on its way to the head of the queue.
    Acquiring(Role),
    /// It is there.
    Held(Tenure),
}

#[derive(Debug)]
struct Tenure {
    /// The node's.
    role: Role,
    inside: BTreeMap<OwnerId, Inside>,
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
        let (waiting, done) = (VecDeque::new(), BTreeMap::new());
        Self { bounds, state: State::Idle, waiting, done, next: 0 }
    }

    /// Who drives the acquire.
    pub(crate) fn head(&self) -> Option<Ticket> {
        self.waiting.front().map(|waiter| waiter.ticket)
    }

    /// An owner wants in. The outcome, if it is known at once, is there to be taken.
    pub(crate) fn ask(
        &mut self,
        owner: OwnerId,
        role: Role,
        situation: Situation,
    ) -> (Ticket, Step) {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.waiting.push_back(Waiter { ticket, owner, role });
        self.nest();
        let mut step = Step::default();
        match &self.state {
            State::Idle => step = self.begin(),
            State::Held(tenure) if self.head() == Some(ticket) && tenure.is_shared() => {
                self.admit(situation);
            }
            State::Held(_) | State::Acquiring(_) => {}
        }
        (ticket, step)
    }

    /// What became of a wait, once.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Outcome> {
        self.done.remove(&ticket).map(|(_, outcome)| outcome)
    }

    /// Whether there is something to take.
    pub(crate) fn is_done(&self, ticket: Ticket) -> bool {
        self.done.contains_key(&ticket)
    }

    /// Nobody waits with this ticket any more, whether or not its outcome was there.
    pub(crate) fn cancel(&mut self, ticket: Ticket, situation: Situation) -> Step {
        match self.done.remove(&ticket) {
            Some((owner, Outcome::Entered(_))) => return self.leave(owner, situation),
            Some((_, Outcome::WouldDeadlock)) => return Step::default(),
            None => {}
        }
        self.waiting.retain(|waiter| waiter.ticket != ticket);
        self.unblock(situation)
    }

    /// The node has become first.
    pub(crate) fn granted(&mut self, situation: Situation) -> Step {
        let State::Acquiring(role) = self.state else {
            return Step::default();
        };
        let (inside, first) = (BTreeMap::new(), situation.now);
        self.state = State::Held(Tenure { role, inside, pass: 0, first, since: first, streak: 0 });
        self.admit(situation);
        self.unblock(situation)
    }

    /// The node was not got; the head has heard why and waits no more.
    pub(crate) fn failed(&mut self) -> Step {
        self.waiting.pop_front();
        self.state = State::Idle;
        self.begin()
    }

    /// The attempt to get a node came to nothing, and another one is to be made for the head.
    pub(crate) fn again(&mut self) -> Step {
        self.state = State::Idle;
        self.begin()
    }

    /// An owner leaves one of the levels at which it is inside.
    pub(crate) fn leave(&mut self, owner: OwnerId, situation: Situation) -> Step {
        let State::Held(tenure) = &mut self.state else {
            return Step::default();
        };
        if let Some(inside) = tenure.inside.get_mut(&owner) {
            inside.depth -= 1;
            if inside.depth > 0 {
                return Step::default();
            }
            tenure.inside.remove(&owner);
        }
        if tenure.inside.is_empty() && situation.is_sound {
            self.admit(situation);
        }
        self.unblock(situation)
    }

    /// Gives up what serves nobody, and begins what somebody waits for.
    fn unblock(&mut self, situation: Situation) -> Step {
        let suits =
            |node: Role, waiter: &Waiter| (node, waiter.role) != (Role::Shared, Role::Exclusive);
        let serves = match (&self.state, self.waiting.front()) {
            (State::Idle, _) => false,
            (State::Acquiring(role), Some(head)) => suits(*role, head),
            (State::Acquiring(_), None) => false,
            (State::Held(tenure), _) => !tenure.inside.is_empty(),
        };
        if serves {
            if matches!(&self.state, State::Held(tenure) if tenure.is_shared()) {
                self.admit(situation);
            }
            return Step::default();
        }
        let let_go = !matches!(self.state, State::Idle);
        self.state = State::Idle;
        Step { let_go, ..self.begin() }
    }

    fn begin(&mut self) -> Step {
        let acquire = self.waiting.front().map(|head| head.role);
        if let Some(role) = acquire {
            self.state = State::Acquiring(role);
        }
        Step { let_go: false, acquire }
    }

    /// Lets in whoever may come in now: the head, and if it reads, those behind it who read too.
    fn admit(&mut self, situation: Situation) {
        while self.admit_head(situation) {
            // Before the next one: it may be the same owner again.
            self.nest();
        }
    }

    fn admit_head(&mut self, situation: Situation) -> bool {
        let State::Held(tenure) = &mut self.state else {
            return false;
        };
        let Some(head) = self.waiting.front() else {
            return false;
        };
        let suits = (tenure.role, head.role) != (Role::Shared, Role::Exclusive);
        let joins = tenure.inside.is_empty() || (tenure.is_shared() && head.role == Role::Shared);
        if !(suits && joins && tenure.may_pass(self.bounds, situation)) {
            return false;
        }
        let Some(Waiter { ticket, owner, role }) = self.waiting.pop_front() else {
            return false;
        };
        let pass = tenure.pass;
        tenure.inside.insert(owner, Inside { role, pass, depth: 1 });
        tenure.pass = pass.saturating_add(1);
        tenure.streak = tenure.streak.saturating_add(1);
        self.done.insert(ticket, (owner, Outcome::Entered(Entry { pass, depth: 1 })));
        true
    }

    /// Lets in again who is inside already: it would wait for itself.
    fn nest(&mut self) {
        let State::Held(tenure) = &mut self.state else {
            return;
        };
        let (inside, done) = (&mut tenure.inside, &mut self.done);
        self.waiting.retain(|waiter| {
            let Some(Inside { role, pass, depth }) = inside.get_mut(&waiter.owner) else {
                return true;
            };
            let outcome = match (*role, waiter.role) {
                (Role::Shared, Role::Exclusive) => Outcome::WouldDeadlock,
                _ => {
                    *depth += 1;
                    Outcome::Entered(Entry { pass: *pass, depth: *depth })
                }
            };
            done.insert(waiter.ticket, (waiter.owner, outcome));
            false
        });
    }
}

impl Tenure {
    /// Whether all who are inside read.
    fn is_shared(&self) -> bool {
        self.inside.values().all(|inside| inside.role == Role::Shared)
    }

    /// Whether another one may come in. The first one always may.
    fn may_pass(&mut self, bounds: Bounds, situation: Situation) -> bool {
        if self.streak == 0 {
            return true;
        }
        // Tokens must grow from pass to pass.
        if !situation.is_sound || self.pass == u32::MAX {
            return false;
        }
        let time = situation.now.saturating_duration_since(self.since);
        if self.streak <= bounds.passes && time < bounds.time {
            return true;
        }
        let unasked = situation.now.saturating_duration_since(self.first) >= UNASKED;
        if situation.has_strangers || unasked {
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
