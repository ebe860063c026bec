//! Tests the local level by tables. `histories` adds random histories.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::two_level::holding::UNASKED;

mod histories;

mod time;

const BOUNDS: Bounds =
    Bounds { passes: 2, time: Duration::from_secs(1), longest: None, linger: Duration::ZERO };

#[expect(clippy::disallowed_methods, reason = "a moment to count from")]
fn start() -> Instant {
    Instant::now()
}

fn at(now: Instant) -> Situation {
    Situation { now, can_hand_on: true, is_lost: false, has_remote_waiters: true }
}

/// A cohort, and what it has made of its node.
struct Bench {
    cohort: Cohort,
    situation: Situation,
    /// Those who come as soon as they are called.
    present: BTreeSet<WaitId>,
    /// When those were called who have not come since.
    called: BTreeMap<WaitId, Instant>,
    /// What was told to whom, in order.
    outcomes: Vec<(WaitId, Told)>,
    acquiring: Option<Role>,
    held: Option<Role>,
    let_go: u32,
}

impl Bench {
    fn new() -> Self {
        Self::with(BOUNDS)
    }

    fn with(bounds: Bounds) -> Self {
        Self {
            cohort: Cohort::new(bounds),
            situation: at(start()),
            present: BTreeSet::new(),
            called: BTreeMap::new(),
            outcomes: Vec::new(),
            acquiring: None,
            held: None,
            let_go: 0,
        }
    }

    /// Does what is wanted of the node, and has all come who are called and there.
    fn carry_out(&mut self, step: Step) {
        self.obey(step);
        for round in 0.. {
            assert!(round < 1000, "somebody is called for ever");
            let calls = self.cohort.take_calls();
            let now = self.situation.now;
            self.called.extend(calls.iter().map(|id| (*id, now)));
            let called = calls.into_iter().filter(|id| self.present.contains(id));
            let called = called.collect::<Vec<_>>();
            if called.is_empty() {
                return;
            }
            for id in called {
                let step = self.look(id);
                self.obey(step);
            }
        }
    }

    fn obey(&mut self, step: Step) {
        if step.let_go {
            assert!(self.held.is_some() || self.acquiring.is_some(), "there is no node");
            (self.held, self.acquiring) = (None, None);
            self.let_go += 1;
        }
        if let Some(attempt) = step.acquire {
            assert!(self.held.is_none() && self.acquiring.is_none(), "there is a node already");
            self.acquiring = Some(attempt.role);
        }
    }

    fn look(&mut self, id: WaitId) -> Step {
        self.called.remove(&id);
        let (outcome, step) = self.cohort.poll(id, || self.situation);
        if outcome != Told::Waits {
            self.present.remove(&id);
            self.outcomes.push((id, outcome));
        }
        step
    }

    /// Has one come that was away, or looks around.
    fn poll(&mut self, id: WaitId) {
        self.present.insert(id);
        let step = self.look(id);
        self.carry_out(step);
    }

    /// Nobody polls it from now on.
    fn stays_away(&mut self, id: WaitId) {
        self.present.remove(&id);
    }

    fn ask(&mut self, owner: OwnerId, role: Role) -> WaitId {
        let id = self.cohort.ask(owner, role, false);
        self.poll(id);
        id
    }

    fn tries(&mut self, owner: OwnerId, role: Role) -> WaitId {
        let id = self.cohort.ask(owner, role, true);
        self.poll(id);
        id
    }

    fn lock(&mut self, owner: OwnerId) -> WaitId {
        self.ask(owner, Role::Exclusive)
    }

    fn read(&mut self, owner: OwnerId) -> WaitId {
        self.ask(owner, Role::Shared)
    }

    fn grant(&mut self) {
        self.held = self.acquiring.take();
        assert!(self.held.is_some(), "nothing is on its way");
        let step = self.cohort.granted(self.situation);
        self.carry_out(step);
    }

    fn fail(&mut self, id: WaitId) {
        self.acquiring = None;
        self.present.remove(&id);
        let step = self.cohort.failed(id, self.situation.now);
        self.carry_out(step);
    }

    fn refuse(&mut self) {
        self.acquiring = None;
        let step = self.cohort.refused(self.situation.now);
        self.carry_out(step);
    }

    fn leave(&mut self, owner: OwnerId) {
        let step = self.cohort.leave(owner, self.situation);
        self.carry_out(step);
    }

    fn cancel(&mut self, id: WaitId) {
        self.present.remove(&id);
        let step = self.cohort.cancel(id, self.situation);
        self.carry_out(step);
    }

    fn wait(&mut self, time: Duration) {
        self.situation.now += time;
    }

    /// Who would come first.
    fn head(&self) -> Option<WaitId> {
        self.cohort.waiting.front().map(|waiter| waiter.id)
    }

    /// True if a wait ends inside.
    fn enters(&mut self, id: WaitId) -> bool {
        matches!(self.told(id), Some(Told::Entered(_)))
    }

    /// What came of a wait, once.
    fn told(&mut self, id: WaitId) -> Option<Told> {
        let at = self.outcomes.iter().position(|(told, _)| *told == id)?;
        Some(self.outcomes.remove(at).1)
    }
}

/// What a wait comes to that ends inside, with this pass and at this depth.
fn entered(pass: u32, depth: u32) -> Option<Told> {
    Some(Told::Entered(Entry { pass, depth }))
}

#[test]
fn the_first_one_asks_for_the_node_and_the_others_wait() {
    let mut bench = Bench::new();
    let (one, two) = (bench.lock(1), bench.lock(2));
    assert_eq!(bench.acquiring, Some(Role::Exclusive));
    assert_eq!(bench.head(), Some(one));
    assert_eq!(bench.told(one), None);
    bench.grant();
    assert_eq!(bench.told(one), entered(0, 1));
    assert_eq!(bench.told(one), None, "it is told once");
    assert_eq!(bench.told(two), None);
    bench.leave(1);
    assert_eq!(bench.told(two), entered(1, 1));
    bench.leave(2);
    assert_eq!((bench.held, bench.acquiring, bench.let_go), (None, None, 1));
}

#[test]
fn an_owner_gets_in_again_at_once_and_leaves_as_often() {
    let mut bench = Bench::new();
    let outer = bench.lock(1);
    bench.grant();
    let other = bench.lock(2);
    let inner = bench.lock(1);
    assert_eq!(bench.told(outer), entered(0, 1));
    assert_eq!(bench.told(inner), entered(0, 2), "ahead of who waits");
    bench.leave(1);
    assert_eq!(bench.told(other), None, "the seed of many a double entry");
    bench.leave(1);
    assert_eq!(bench.told(other), entered(1, 1));
}

#[test]
fn who_waits_twice_gets_in_twice() {
    let mut bench = Bench::new();
    let (one, other, two) = (bench.lock(1), bench.lock(2), bench.lock(1));
    bench.grant();
    assert_eq!((bench.told(one), bench.told(two)), (entered(0, 1), entered(0, 2)));
    assert_eq!(bench.told(other), None);
}

#[test]
fn a_reader_that_would_write_is_told_at_once() {
    let mut bench = Bench::new();
    bench.read(1);
    bench.grant();
    let writing = bench.lock(1);
    assert_eq!(bench.told(writing), Some(Told::WouldDeadlock));
    // A writer may read.
    bench.leave(1);
    bench.lock(2);
    bench.grant();
    let reading = bench.read(2);
    assert_eq!(bench.told(reading), entered(0, 2));
}

#[test]
fn passes_are_bounded_by_number_while_strangers_wait() {
    for (strangers, expected) in [(true, 3), (false, 10)] {
        let mut bench = Bench::new();
        bench.situation.has_remote_waiters = strangers;
        let ids = (0..10).map(|owner| bench.lock(owner)).collect::<Vec<_>>();
        bench.grant();
        let mut tenures = 0;
        while bench.let_go == 0 {
            bench.leave(tenures);
            tenures += 1;
        }
        assert_eq!(tenures, expected);
        let next = ids.get(expected as usize);
        assert_eq!(bench.acquiring.is_some(), next.is_some(), "the rest queue up anew");
        assert_eq!(bench.head(), next.copied());
    }
}

#[test]
fn passes_are_bounded_by_time_while_strangers_wait() {
    for (strangers, late) in [(true, true), (false, true), (true, false)] {
        let mut bench = Bench::new();
        bench.situation.has_remote_waiters = strangers;
        bench.lock(1);
        let two = bench.lock(2);
        bench.grant();
        bench.situation.now += if late { BOUNDS.time } else { BOUNDS.time / 2 };
        bench.leave(1);
        assert_eq!(bench.enters(two), !(strangers && late));
        assert_eq!(bench.let_go == 1, strangers && late);
    }
}

#[test]
fn strangers_get_their_turn_now_and_then_even_if_nobody_tells_of_them() {
    let mut bench = Bench::new();
    bench.situation.has_remote_waiters = false;
    let start = bench.situation.now;
    bench.lock(1);
    bench.grant();
    let mut owner = 1;
    while bench.let_go == 0 {
        bench.lock(owner + 1);
        bench.situation.now += Duration::from_millis(100);
        bench.leave(owner);
        owner += 1;
    }
    let held = bench.situation.now - start;
    assert!(held >= UNASKED && held <= UNASKED + BOUNDS.time, "{held:?}");
    assert_eq!((bench.let_go, bench.acquiring), (1, Some(Role::Exclusive)));
}

#[test]
fn nothing_is_passed_that_may_be_lost() {
    let mut bench = Bench::new();
    bench.lock(1);
    let two = bench.lock(2);
    bench.grant();
    bench.situation.can_hand_on = false;
    bench.leave(1);
    assert_eq!(bench.told(two), None);
    assert_eq!((bench.let_go, bench.acquiring), (1, Some(Role::Exclusive)));
    bench.grant();
    assert_eq!(bench.told(two), entered(0, 1), "what it was given anew it may have");
}

#[test]
fn the_head_leaves_its_place_to_the_next() {
    let mut bench = Bench::new();
    let (one, two) = (bench.lock(1), bench.lock(2));
    bench.cancel(one);
    assert_eq!((bench.let_go, bench.head()), (0, Some(two)));
    bench.cancel(two);
    assert_eq!((bench.let_go, bench.acquiring), (1, None));
}

#[test]
fn a_place_of_the_wrong_role_is_given_up() {
    let mut bench = Bench::new();
    let reader = bench.read(1);
    bench.lock(2);
    bench.cancel(reader);
    assert_eq!(
        (bench.let_go, bench.acquiring),
        (1, Some(Role::Exclusive)),
        "a writer needs its own"
    );
    let mut bench = Bench::new();
    let writer = bench.lock(1);
    bench.read(2);
    bench.cancel(writer);
    assert_eq!((bench.let_go, bench.acquiring), (0, Some(Role::Exclusive)), "a reader does not");
}

#[test]
fn one_that_is_called_and_leaves_stops_nobody() {
    let mut bench = Bench::new();
    let (one, two) = (bench.lock(1), bench.lock(2));
    bench.stays_away(one);
    bench.grant();
    assert_eq!(bench.told(two), None);
    bench.cancel(one);
    assert_eq!(bench.told(two), entered(0, 1));
    bench.cancel(two);
    assert_eq!(bench.let_go, 0, "it is inside, and its guard will leave");
    bench.leave(2);
    assert_eq!(bench.let_go, 1);
    let one = bench.lock(1);
    bench.stays_away(one);
    bench.grant();
    bench.cancel(one);
    assert_eq!(bench.let_go, 2);
}

#[test]
fn after_a_failure_the_next_one_tries() {
    let mut bench = Bench::new();
    let (one, two) = (bench.lock(1), bench.read(2));
    bench.fail(one);
    assert_eq!((bench.acquiring, bench.head()), (Some(Role::Shared), Some(two)));
    assert_eq!(bench.told(one), None);
    bench.fail(two);
    assert_eq!((bench.acquiring, bench.head()), (None, None));
}

#[test]
fn readers_come_together_and_not_past_a_writer() {
    let mut bench = Bench::new();
    let (one, two, writer, late) = (bench.read(1), bench.read(2), bench.lock(3), bench.read(4));
    bench.grant();
    assert!(bench.enters(one) && bench.enters(two));
    assert_eq!(bench.told(late), None);
    bench.leave(1);
    bench.leave(2);
    assert_eq!((bench.let_go, bench.acquiring), (1, Some(Role::Exclusive)));
    bench.grant();
    assert!(bench.enters(writer));
    bench.leave(3);
    assert!(bench.enters(late), "under the writer's node");
    let last = bench.read(5);
    assert!(bench.enters(last));
}

#[test]
fn one_that_does_not_come_is_passed_over_and_keeps_its_place() {
    let mut bench = Bench::new();
    bench.situation.has_remote_waiters = false;
    let [one, two, three, four] = [1, 2, 3, 4].map(|owner| bench.lock(owner));
    bench.stays_away(two);
    bench.grant();
    bench.leave(1);
    bench.wait(GRACE - Duration::from_millis(1));
    bench.poll(three);
    assert_eq!(bench.told(three), None, "it may still come");
    assert_eq!(bench.cohort.due(bench.situation.now), bench.called[&two] + GRACE);
    bench.wait(Duration::from_millis(1));
    bench.poll(three);
    assert_eq!((bench.told(one), bench.told(three)), (entered(0, 1), entered(1, 1)));
    bench.poll(two);
    bench.leave(3);
    assert_eq!((bench.told(two), bench.told(four)), (entered(2, 1), None), "it is the next");
    bench.leave(2);
    assert_eq!((bench.told(four), bench.let_go), (entered(3, 1), 0));
}

#[test]
fn one_that_is_known_to_stay_away_costs_no_time_again() {
    let mut bench = Bench::new();
    bench.situation.has_remote_waiters = false;
    let (one, two) = (bench.lock(1), bench.lock(2));
    bench.stays_away(one);
    bench.grant();
    bench.wait(GRACE);
    bench.poll(two);
    assert_eq!(bench.told(two), entered(0, 1));
    bench.lock(3);
    bench.leave(2);
    bench.leave(3);
    assert_eq!((bench.let_go, bench.acquiring), (1, None), "a node would serve nobody");
    bench.poll(one);
    assert_eq!(bench.acquiring, Some(Role::Exclusive));
    bench.grant();
    assert_eq!(bench.told(one), entered(0, 1));
}

#[test]
fn a_reader_that_does_not_come_has_no_node_of_its_role_kept() {
    let mut bench = Bench::new();
    let (reader, writer) = (bench.read(1), bench.lock(2));
    bench.stays_away(reader);
    bench.grant();
    bench.wait(GRACE);
    bench.poll(writer);
    assert_eq!((bench.let_go, bench.acquiring), (1, Some(Role::Exclusive)));
    bench.grant();
    assert_eq!(bench.told(writer), entered(0, 1));
    bench.poll(reader);
    bench.leave(2);
    assert_eq!(bench.told(reader), entered(1, 1));
}

#[test]
fn readers_do_not_wait_for_one_of_them_that_does_not_come() {
    let mut bench = Bench::new();
    let (one, two, writer) = (bench.read(1), bench.read(2), bench.lock(3));
    bench.stays_away(one);
    bench.grant();
    assert_eq!(bench.told(two), entered(0, 1), "at once");
    bench.leave(2);
    bench.wait(GRACE);
    bench.poll(writer);
    assert_eq!((bench.told(writer), bench.acquiring), (None, Some(Role::Exclusive)));
}

#[test]
fn who_does_not_want_to_wait_is_told_so() {
    let mut bench = Bench::new();
    let one = bench.tries(1, Role::Exclusive);
    let (other, two) = (bench.tries(2, Role::Exclusive), bench.lock(3));
    assert_eq!((bench.told(one), bench.told(other)), (None, Some(Told::Refused)));
    // It stays away, and the other one has seen what came of it.
    bench.stays_away(one);
    bench.refuse();
    assert_eq!(bench.acquiring, Some(Role::Exclusive), "for the other one, who waits");
    bench.poll(one);
    assert_eq!(bench.told(one), Some(Told::Refused));
    bench.grant();
    assert_eq!(bench.told(two), entered(0, 1));
    let late = bench.tries(4, Role::Exclusive);
    assert_eq!(bench.told(late), Some(Told::Refused));
}
