//! Tests the local queue by tables. `histories` adds random histories, and `time` tests how long a
//! node is kept.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

mod histories;

mod time;

const BOUNDS: Bounds =
    Bounds { handoffs: 2, time: Duration::from_secs(1), longest: None, linger: Duration::ZERO };

#[expect(clippy::disallowed_methods, reason = "a moment to count from")]
fn start() -> Instant {
    Instant::now()
}

fn at(now: Instant) -> NodeState {
    NodeState { now, can_hand_on: true, is_lost: false, has_remote_waiters: true }
}

/// A local queue, and what it has made of its node.
struct Bench {
    queue: LocalQueue,
    state: NodeState,
    /// The waiters that are polled when they are woken.
    present: BTreeSet<WaiterId>,
    /// The decision about each waiter, in order.
    outcomes: Vec<(WaiterId, Decision)>,
    acquiring: Option<Role>,
    held: Option<Role>,
    released: u32,
}

impl Bench {
    fn new() -> Self {
        Self::with(BOUNDS)
    }

    fn with(bounds: Bounds) -> Self {
        Self {
            queue: LocalQueue::new(bounds),
            state: at(start()),
            present: BTreeSet::new(),
            outcomes: Vec::new(),
            acquiring: None,
            held: None,
            released: 0,
        }
    }

    /// Applies the action, then polls every woken waiter that is present, until none is woken.
    fn carry_out(&mut self, action: Action) {
        self.obey(action);
        for round in 0.. {
            assert!(round < 1000, "a waiter is woken for ever");
            let woken = self.queue.take_to_wake();
            if woken.is_empty() {
                return;
            }
            for id in woken {
                if self.present.contains(&id) {
                    let action = self.look(id);
                    self.obey(action);
                }
            }
        }
    }

    fn obey(&mut self, action: Action) {
        if action.release {
            assert!(self.held.is_some() || self.acquiring.is_some(), "there is no node");
            (self.held, self.acquiring) = (None, None);
            self.released += 1;
        }
        if let Some(attempt) = action.acquire {
            assert!(self.held.is_none() && self.acquiring.is_none(), "there is a node already");
            self.acquiring = Some(attempt.role);
        }
    }

    fn look(&mut self, id: WaiterId) -> Action {
        let state = self.state;
        let (outcome, action) = self.queue.poll(id, || state);
        if outcome != Decision::Waits {
            self.present.remove(&id);
            self.outcomes.push((id, outcome));
        }
        action
    }

    /// Polls a waiter, which is polled from now on when it is woken.
    fn poll(&mut self, id: WaiterId) {
        self.present.insert(id);
        let action = self.look(id);
        self.carry_out(action);
    }

    /// Stops polling a waiter.
    fn stops_polling(&mut self, id: WaiterId) {
        self.present.remove(&id);
    }

    fn ask(&mut self, owner: OwnerId, role: Role) -> WaiterId {
        let id = self.queue.join(owner, role, Patience::Waits);
        self.poll(id);
        id
    }

    fn tries(&mut self, owner: OwnerId, role: Role) -> WaiterId {
        let id = self.queue.join(owner, role, Patience::Tries);
        self.poll(id);
        id
    }

    fn lock(&mut self, owner: OwnerId) -> WaiterId {
        self.ask(owner, Role::Exclusive)
    }

    fn read(&mut self, owner: OwnerId) -> WaiterId {
        self.ask(owner, Role::Shared)
    }

    fn grant(&mut self) {
        self.held = self.acquiring.take();
        assert!(self.held.is_some(), "nothing is on its way");
        let action = self.queue.on_granted(self.state);
        self.carry_out(action);
    }

    fn fail(&mut self, id: WaiterId) {
        self.acquiring = None;
        self.present.remove(&id);
        let action = self.queue.on_failed(id);
        self.carry_out(action);
    }

    fn refuse(&mut self) {
        self.acquiring = None;
        let action = self.queue.on_refused();
        self.carry_out(action);
    }

    fn leave(&mut self, owner: OwnerId) {
        let state = self.state;
        let action = self.queue.leave(owner, || state);
        self.carry_out(action);
    }

    fn cancel(&mut self, id: WaiterId) {
        self.present.remove(&id);
        let action = self.queue.cancel(id, self.state);
        self.carry_out(action);
    }

    fn wait(&mut self, time: Duration) {
        self.state.now += time;
    }

    /// The first waiter.
    fn head(&self) -> Option<WaiterId> {
        self.queue.waiters.front().map(|waiter| waiter.id)
    }

    /// True if a wait ends inside.
    fn enters(&mut self, id: WaiterId) -> bool {
        matches!(self.told(id), Some(Decision::Entered(_)))
    }

    /// The outcome of a wait, once.
    fn told(&mut self, id: WaiterId) -> Option<Decision> {
        let at = self.outcomes.iter().position(|(told, _)| *told == id)?;
        Some(self.outcomes.remove(at).1)
    }
}

/// The decision for an owner that enters with this pass and at this depth.
fn entered(pass: u32, depth: u32) -> Option<Decision> {
    Some(Decision::Entered(Entry { pass, depth }))
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
    assert_eq!((bench.held, bench.acquiring, bench.released), (None, None, 1));
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
    assert_eq!(bench.told(writing), Some(Decision::WouldDeadlock));
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
        bench.state.has_remote_waiters = strangers;
        let ids = (0..10).map(|owner| bench.lock(owner)).collect::<Vec<_>>();
        bench.grant();
        let mut tenures = 0;
        while bench.released == 0 {
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
        bench.state.has_remote_waiters = strangers;
        bench.lock(1);
        let two = bench.lock(2);
        bench.grant();
        bench.state.now += if late { BOUNDS.time } else { BOUNDS.time / 2 };
        bench.leave(1);
        assert_eq!(bench.enters(two), !(strangers && late));
        assert_eq!(bench.released == 1, strangers && late);
    }
}

#[test]
fn strangers_get_their_turn_now_and_then_even_if_nobody_tells_of_them() {
    let mut bench = Bench::new();
    bench.state.has_remote_waiters = false;
    let start = bench.state.now;
    bench.lock(1);
    bench.grant();
    let mut owner = 1;
    while bench.released == 0 {
        bench.lock(owner + 1);
        bench.state.now += Duration::from_millis(100);
        bench.leave(owner);
        owner += 1;
    }
    let held = bench.state.now - start;
    assert!(held >= REQUEUE_INTERVAL && held <= REQUEUE_INTERVAL + BOUNDS.time, "{held:?}");
    assert_eq!((bench.released, bench.acquiring), (1, Some(Role::Exclusive)));
}

#[test]
fn nothing_is_passed_that_may_be_lost() {
    let mut bench = Bench::new();
    bench.lock(1);
    let two = bench.lock(2);
    bench.grant();
    bench.state.can_hand_on = false;
    bench.leave(1);
    assert_eq!(bench.told(two), None);
    assert_eq!((bench.released, bench.acquiring), (1, Some(Role::Exclusive)));
    bench.grant();
    assert_eq!(bench.told(two), entered(0, 1), "what it was given anew it may have");
}

#[test]
fn the_head_leaves_its_place_to_the_next() {
    let mut bench = Bench::new();
    let (one, two) = (bench.lock(1), bench.lock(2));
    bench.cancel(one);
    assert_eq!((bench.released, bench.head()), (0, Some(two)));
    bench.cancel(two);
    assert_eq!((bench.released, bench.acquiring), (1, None));
}

#[test]
fn a_place_of_the_wrong_role_is_given_up() {
    let mut bench = Bench::new();
    let reader = bench.read(1);
    bench.lock(2);
    bench.cancel(reader);
    assert_eq!(
        (bench.released, bench.acquiring),
        (1, Some(Role::Exclusive)),
        "a writer needs its own"
    );
    let mut bench = Bench::new();
    let writer = bench.lock(1);
    bench.read(2);
    bench.cancel(writer);
    assert_eq!((bench.released, bench.acquiring), (0, Some(Role::Exclusive)), "a reader does not");
}

#[test]
fn one_that_is_called_and_leaves_stops_nobody() {
    let mut bench = Bench::new();
    let (one, two) = (bench.lock(1), bench.lock(2));
    bench.stops_polling(one);
    bench.grant();
    assert_eq!(bench.told(two), None);
    bench.cancel(one);
    assert_eq!(bench.told(two), entered(0, 1));
    bench.cancel(two);
    assert_eq!(bench.released, 0, "it is inside, and its guard will leave");
    bench.leave(2);
    assert_eq!(bench.released, 1);
    let one = bench.lock(1);
    bench.stops_polling(one);
    bench.grant();
    bench.cancel(one);
    assert_eq!(bench.released, 2);
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
    assert_eq!((bench.released, bench.acquiring), (1, Some(Role::Exclusive)));
    bench.grant();
    assert!(bench.enters(writer));
    bench.leave(3);
    assert!(bench.enters(late), "under the writer's node");
    let last = bench.read(5);
    assert!(bench.enters(last));
}

#[test]
fn a_waiter_that_is_not_polled_keeps_its_turn() {
    let mut bench = Bench::new();
    bench.state.has_remote_waiters = false;
    let [one, two, three] = [1, 2, 3].map(|owner| bench.lock(owner));
    bench.stops_polling(two);
    bench.grant();
    bench.leave(1);
    bench.wait(Duration::from_secs(1));
    bench.poll(three);
    assert_eq!((bench.told(one), bench.told(three)), (entered(0, 1), None));
    bench.poll(two);
    assert_eq!((bench.told(two), bench.told(three)), (entered(1, 1), None));
    bench.leave(2);
    assert_eq!((bench.told(three), bench.released), (entered(2, 1), 0));
}

#[test]
fn readers_do_not_wait_for_a_reader_that_is_not_polled_and_writers_do() {
    let mut bench = Bench::new();
    let (one, two, writer) = (bench.read(1), bench.read(2), bench.lock(3));
    bench.stops_polling(one);
    bench.grant();
    assert_eq!(bench.told(two), entered(0, 1), "at once");
    bench.leave(2);
    bench.poll(writer);
    assert_eq!(bench.told(writer), None);
    bench.cancel(one);
    assert_eq!((bench.released, bench.acquiring), (1, Some(Role::Exclusive)));
}

#[test]
fn who_does_not_want_to_wait_is_told_so() {
    let mut bench = Bench::new();
    let one = bench.tries(1, Role::Exclusive);
    let (other, two) = (bench.tries(2, Role::Exclusive), bench.lock(3));
    assert_eq!((bench.told(one), bench.told(other)), (None, Some(Decision::Refused)));
    // It is not polled any more: another waiter drives the acquire.
    bench.stops_polling(one);
    bench.refuse();
    assert_eq!(bench.acquiring, Some(Role::Exclusive), "for the other one, who waits");
    bench.poll(one);
    assert_eq!(bench.told(one), Some(Decision::Refused));
    bench.grant();
    assert_eq!(bench.told(two), entered(0, 1));
    let late = bench.tries(4, Role::Exclusive);
    assert_eq!(bench.told(late), Some(Decision::Refused));
}
