//! The local level by tables, and by random histories that are held against what it promises.

use std::collections::BTreeSet;

use super::*;

const BOUNDS: Bounds =
    Bounds { passes: 2, time: Duration::from_secs(1), longest: None, linger: Duration::ZERO };

#[expect(clippy::disallowed_methods, reason = "a moment to count from")]
fn start() -> Instant {
    Instant::now()
}

fn at(now: Instant) -> Situation {
    Situation { now, is_sound: true, is_lost: false, has_remote_waiters: true }
}

/// A cohort, and what it has made of its node.
struct Bench {
    cohort: Cohort,
    situation: Situation,
    /// Those who come as soon as they are called.
    present: BTreeSet<Ticket>,
    /// When those were called who have not come since.
    called: BTreeMap<Ticket, Instant>,
    /// What was told to whom, in order.
    outcomes: Vec<(Ticket, Outcome)>,
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
        loop {
            let calls = self.cohort.take_calls();
            let now = self.situation.now;
            self.called.extend(calls.iter().map(|ticket| (*ticket, now)));
            let called = calls.into_iter().filter(|ticket| self.present.contains(ticket));
            let called = called.collect::<Vec<_>>();
            if called.is_empty() {
                return;
            }
            for ticket in called {
                let step = self.look(ticket);
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

    fn look(&mut self, ticket: Ticket) -> Step {
        self.called.remove(&ticket);
        let (outcome, step) = self.cohort.poll(ticket, || self.situation);
        if outcome != Outcome::Waits {
            self.present.remove(&ticket);
            self.outcomes.push((ticket, outcome));
        }
        step
    }

    /// Has one come that was away, or looks around.
    fn poll(&mut self, ticket: Ticket) {
        self.present.insert(ticket);
        let step = self.look(ticket);
        self.carry_out(step);
    }

    /// Nobody polls it from now on.
    fn stays_away(&mut self, ticket: Ticket) {
        self.present.remove(&ticket);
    }

    fn ask(&mut self, owner: OwnerId, role: Role) -> Ticket {
        let ticket = self.cohort.ask(owner, role, false);
        self.poll(ticket);
        ticket
    }

    fn tries(&mut self, owner: OwnerId, role: Role) -> Ticket {
        let ticket = self.cohort.ask(owner, role, true);
        self.poll(ticket);
        ticket
    }

    fn lock(&mut self, owner: OwnerId) -> Ticket {
        self.ask(owner, Role::Exclusive)
    }

    fn read(&mut self, owner: OwnerId) -> Ticket {
        self.ask(owner, Role::Shared)
    }

    fn grant(&mut self) {
        self.held = self.acquiring.take();
        assert!(self.held.is_some(), "nothing is on its way");
        let step = self.cohort.granted(self.situation);
        self.carry_out(step);
    }

    fn fail(&mut self, ticket: Ticket) {
        self.acquiring = None;
        self.present.remove(&ticket);
        let step = self.cohort.failed(ticket, self.situation.now);
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

    fn cancel(&mut self, ticket: Ticket) {
        self.present.remove(&ticket);
        let step = self.cohort.cancel(ticket, self.situation);
        self.carry_out(step);
    }

    fn wait(&mut self, time: Duration) {
        self.situation.now += time;
    }

    /// Who would come first.
    fn head(&self) -> Option<Ticket> {
        self.cohort.waiting.front().map(|waiter| waiter.ticket)
    }

    /// What came of a wait, once.
    fn told(&mut self, ticket: Ticket) -> Option<Outcome> {
        let at = self.outcomes.iter().position(|(told, _)| *told == ticket)?;
        Some(self.outcomes.remove(at).1)
    }

    /// The pass and the depth with which a wait ended.
    fn entered(&mut self, ticket: Ticket) -> Option<(u32, u32)> {
        match self.told(ticket)? {
            Outcome::Entered(Entry { pass, depth }) => Some((pass, depth)),
            outcome => panic!("{outcome:?}"),
        }
    }
}

#[test]
fn the_first_one_asks_for_the_node_and_the_others_wait() {
    let mut bench = Bench::new();
    let (one, two) = (bench.lock(1), bench.lock(2));
    assert_eq!(bench.acquiring, Some(Role::Exclusive));
    assert_eq!(bench.head(), Some(one));
    assert_eq!(bench.entered(one), None);
    bench.grant();
    assert_eq!(bench.entered(one), Some((0, 1)));
    assert_eq!(bench.entered(one), None, "it is told once");
    assert_eq!(bench.entered(two), None);
    bench.leave(1);
    assert_eq!(bench.entered(two), Some((1, 1)));
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
    assert_eq!(bench.entered(outer), Some((0, 1)));
    assert_eq!(bench.entered(inner), Some((0, 2)), "ahead of who waits");
    bench.leave(1);
    assert_eq!(bench.entered(other), None, "the seed of many a double entry");
    bench.leave(1);
    assert_eq!(bench.entered(other), Some((1, 1)));
}

#[test]
fn who_waits_twice_gets_in_twice() {
    let mut bench = Bench::new();
    let (one, other, two) = (bench.lock(1), bench.lock(2), bench.lock(1));
    bench.grant();
    assert_eq!((bench.entered(one), bench.entered(two)), (Some((0, 1)), Some((0, 2))));
    assert_eq!(bench.entered(other), None);
}

#[test]
fn a_reader_that_would_write_is_told_at_once() {
    let mut bench = Bench::new();
    bench.read(1);
    bench.grant();
    let writing = bench.lock(1);
    assert_eq!(bench.told(writing), Some(Outcome::WouldDeadlock));
    // A writer may read.
    bench.leave(1);
    bench.lock(2);
    bench.grant();
    let reading = bench.read(2);
    assert_eq!(bench.entered(reading), Some((0, 2)));
}

#[test]
fn passes_are_bounded_by_number_while_strangers_wait() {
    for (strangers, expected) in [(true, 3), (false, 10)] {
        let mut bench = Bench::new();
        bench.situation.has_remote_waiters = strangers;
        let tickets = (0..10).map(|owner| bench.lock(owner)).collect::<Vec<_>>();
        bench.grant();
        let mut tenures = 0;
        while bench.let_go == 0 {
            bench.leave(tenures);
            tenures += 1;
        }
        assert_eq!(tenures, expected);
        let next = tickets.get(expected as usize);
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
        assert_eq!(bench.entered(two).is_some(), !(strangers && late));
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
    bench.situation.is_sound = false;
    bench.leave(1);
    assert_eq!(bench.entered(two), None);
    assert_eq!((bench.let_go, bench.acquiring), (1, Some(Role::Exclusive)));
    bench.grant();
    assert_eq!(bench.entered(two), Some((0, 1)), "what it was given anew it may have");
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
    assert_eq!(bench.entered(two), None);
    bench.cancel(one);
    assert_eq!(bench.entered(two), Some((0, 1)));
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
    assert_eq!(bench.entered(one), None);
    bench.fail(two);
    assert_eq!((bench.acquiring, bench.head()), (None, None));
}

#[test]
fn readers_come_together_and_not_past_a_writer() {
    let mut bench = Bench::new();
    let (one, two, writer, late) = (bench.read(1), bench.read(2), bench.lock(3), bench.read(4));
    bench.grant();
    assert!(bench.entered(one).is_some() && bench.entered(two).is_some());
    assert_eq!(bench.entered(late), None);
    bench.leave(1);
    bench.leave(2);
    assert_eq!((bench.let_go, bench.acquiring), (1, Some(Role::Exclusive)));
    bench.grant();
    assert!(bench.entered(writer).is_some());
    bench.leave(3);
    assert!(bench.entered(late).is_some(), "under the writer's node");
    let last = bench.read(5);
    assert!(bench.entered(last).is_some());
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
    assert_eq!(bench.entered(three), None, "it may still come");
    assert_eq!(bench.cohort.due(bench.situation.now), bench.called[&two] + GRACE);
    bench.wait(Duration::from_millis(1));
    bench.poll(three);
    assert_eq!((bench.entered(one), bench.entered(three)), (Some((0, 1)), Some((1, 1))));
    bench.poll(two);
    bench.leave(3);
    assert_eq!((bench.entered(two), bench.entered(four)), (Some((2, 1)), None), "it is the next");
    bench.leave(2);
    assert_eq!((bench.entered(four), bench.let_go), (Some((3, 1)), 0));
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
    assert_eq!(bench.entered(two), Some((0, 1)));
    bench.lock(3);
    bench.leave(2);
    bench.leave(3);
    assert_eq!((bench.let_go, bench.acquiring), (1, None), "a node would serve nobody");
    bench.poll(one);
    assert_eq!(bench.acquiring, Some(Role::Exclusive));
    bench.grant();
    assert_eq!(bench.entered(one), Some((0, 1)));
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
    assert_eq!(bench.entered(writer), Some((0, 1)));
    bench.poll(reader);
    bench.leave(2);
    assert_eq!(bench.entered(reader), Some((1, 1)));
}

#[test]
fn readers_do_not_wait_for_one_of_them_that_does_not_come() {
    let mut bench = Bench::new();
    let (one, two, writer) = (bench.read(1), bench.read(2), bench.lock(3));
    bench.stays_away(one);
    bench.grant();
    assert_eq!(bench.entered(two), Some((0, 1)), "at once");
    bench.leave(2);
    bench.wait(GRACE);
    bench.poll(writer);
    assert_eq!((bench.entered(writer), bench.acquiring), (None, Some(Role::Exclusive)));
}

#[test]
fn one_that_comes_when_its_node_is_lost_or_old_waits_for_another() {
    for (is_lost, longest, late, again) in [
        (true, None, 0, true),
        (false, None, 60, false),
        (false, Some(30), 30, false),
        (false, Some(30), 31, true),
    ] {
        let seconds = Duration::from_secs;
        let mut bench = Bench::with(Bounds { longest: longest.map(seconds), ..BOUNDS });
        let one = bench.lock(1);
        bench.stays_away(one);
        bench.grant();
        bench.wait(seconds(late));
        bench.situation.is_lost = is_lost;
        bench.situation.is_sound = !is_lost;
        bench.poll(one);
        assert_eq!((bench.entered(one).is_none(), bench.let_go == 1), (again, again));
        bench.situation.is_lost = false;
        if again {
            bench.grant();
            assert_eq!(bench.entered(one), Some((0, 1)));
        }
    }
}

#[test]
fn nothing_is_handed_on_for_longer_than_that() {
    for (time, passes) in [(30, true), (31, false)] {
        let longest = Some(Duration::from_secs(30));
        let bounds = Bounds { longest, time: Duration::MAX, ..BOUNDS };
        let mut bench = Bench::with(bounds);
        bench.lock(1);
        let two = bench.lock(2);
        bench.grant();
        bench.wait(Duration::from_secs(time));
        bench.leave(1);
        assert_eq!((bench.entered(two).is_some(), bench.let_go == 0), (passes, passes));
    }
}

#[test]
fn who_does_not_want_to_wait_is_told_so() {
    let mut bench = Bench::new();
    let one = bench.tries(1, Role::Exclusive);
    let (other, two) = (bench.tries(2, Role::Exclusive), bench.lock(3));
    assert_eq!((bench.told(one), bench.told(other)), (None, Some(Outcome::Refused)));
    // It stays away, and the other one has seen what came of it.
    bench.stays_away(one);
    bench.refuse();
    assert_eq!(bench.acquiring, Some(Role::Exclusive), "for the other one, who waits");
    bench.poll(one);
    assert_eq!(bench.told(one), Some(Outcome::Refused));
    bench.grant();
    assert_eq!(bench.entered(two), Some((0, 1)));
    let late = bench.tries(4, Role::Exclusive);
    assert_eq!(bench.told(late), Some(Outcome::Refused));
}

/// What users have done, and what they must get.
struct Model {
    bench: Bench,
    random: u64,
    owners: BTreeMap<Ticket, (OwnerId, Role)>,
    /// Not told anything yet.
    waiting: Vec<Ticket>,
    /// Who does not want to wait.
    trying: BTreeSet<Ticket>,
    /// When they are to look around.
    due: Instant,
    /// Who is inside, with role and depth.
    inside: BTreeMap<OwnerId, (Role, u32)>,
    /// The last pass of this node, entries under it, and since when.
    pass: Option<u32>,
    entries: u32,
    since: Instant,
    always_strangers: bool,
    total: u64,
    overtaken: u64,
}

impl Model {
    fn below(&mut self, n: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) % n
    }

    fn any(&mut self, of: &[Ticket]) -> Ticket {
        of[self.below(of.len() as u64) as usize]
    }

    /// Those who wait and come when they are called, or those who do not.
    fn waiting(&self, present: bool) -> Vec<Ticket> {
        let waiting = self.waiting.iter().copied();
        waiting.filter(|ticket| self.bench.present.contains(ticket) == present).collect()
    }

    /// Whether somebody who waits may be passed over: it was called and has not come in time.
    fn is_absent(&self, ticket: Ticket) -> bool {
        let called = self.bench.called.get(&ticket);
        !self.bench.present.contains(&ticket)
            && called.is_some_and(|called| *called + GRACE <= self.bench.situation.now)
    }

    fn hear(&mut self) {
        for (ticket, outcome) in std::mem::take(&mut self.bench.outcomes) {
            let (owner, role) = self.owners[&ticket];
            self.waiting.retain(|other| *other != ticket);
            let before = self.inside.get(&owner).copied();
            let entry = match outcome {
                Outcome::WouldDeadlock => {
                    assert_eq!(
                        (before.map(|it| it.0), role),
                        (Some(Role::Shared), Role::Exclusive)
                    );
                    continue;
                }
                Outcome::Refused => {
                    assert!(self.trying.remove(&ticket), "it would have waited");
                    continue;
                }
                Outcome::Waits => unreachable!("that is no end"),
                Outcome::Entered(entry) => entry,
            };
            self.total += 1;
            match before {
                Some((_, depth)) => {
                    assert_eq!(entry.depth, depth + 1, "nested");
                    assert_eq!(self.inside.get_mut(&owner).map(|it| it.1 += 1), Some(()));
                }
                None => {
                    for other in self.waiting.iter().filter(|other| **other < ticket) {
                        let (rival, wanted) = self.owners[other];
                        let excuse = self.inside.contains_key(&rival)
                            || (role, wanted) == (Role::Shared, Role::Shared)
                            // It may be over for it, and it has yet to hear so.
                            || self.trying.contains(other);
                        assert!(excuse || self.is_absent(*other), "{ticket:?} has overtaken");
                        self.overtaken += u64::from(!excuse);
                    }
                    let alone = role == Role::Exclusive && !self.inside.is_empty();
                    let writer = self.inside.values().any(|it| it.0 == Role::Exclusive);
                    assert!(!alone && !writer, "{owner} with {:?}", self.inside);
                    let node = self.bench.held.expect("somebody is inside without a node");
                    assert!((node, role) != (Role::Shared, Role::Exclusive));
                    assert_eq!(entry.depth, 1);
                    assert!(self.pass.is_none_or(|last| entry.pass > last), "passes only grow");
                    self.pass = Some(entry.pass);
                    self.entries += 1;
                    if self.entries > 1 {
                        assert!(self.bench.situation.is_sound, "passed what may be lost");
                        if self.always_strangers {
                            assert!(self.entries <= BOUNDS.passes + 1, "too often");
                            let time = self.bench.situation.now - self.since;
                            assert!(time < BOUNDS.time, "for too long");
                        }
                    }
                    self.inside.insert(owner, (role, 1));
                }
            }
        }
        if self.bench.held.is_none() {
            assert!(self.inside.is_empty(), "the node went with {:?} inside", self.inside);
        }
        if self.bench.held.is_none() && self.bench.acquiring.is_none() {
            let present = self.waiting(true);
            assert!(present.is_empty(), "nobody asks for a node, and {present:?} wait");
        }
        if self.bench.held.is_some() && self.inside.is_empty() {
            let away = self.waiting(false);
            let called = away.iter().any(|ticket| self.bench.called.contains_key(ticket));
            assert!(called, "a node for nobody");
        }
        self.due = self.bench.cohort.due(self.bench.situation.now);
    }

    fn leave(&mut self, owner: OwnerId) {
        let inside = self.inside.get_mut(&owner).expect("inside");
        inside.1 -= 1;
        if inside.1 == 0 {
            self.inside.remove(&owner);
        }
        self.bench.leave(owner);
    }

    fn grant(&mut self) {
        (self.pass, self.entries, self.since) = (None, 0, self.bench.situation.now);
        self.bench.grant();
    }

    /// Time passes, and if it is due, all look around who are there.
    fn wait(&mut self) {
        let pause = [0, 0, 0, 100, 300, 3000][self.below(6) as usize];
        self.bench.wait(Duration::from_millis(pause));
        if self.bench.situation.now >= self.due {
            for ticket in self.waiting(true) {
                if self.bench.present.contains(&ticket) {
                    self.bench.poll(ticket);
                }
            }
            self.hear();
            let stuck = self.bench.held.is_some() && self.inside.is_empty();
            if stuck && !self.waiting(true).is_empty() {
                let mut called = self.bench.called.keys();
                assert!(called.any(|ticket| !self.is_absent(*ticket)), "passed over nobody");
            }
        }
    }

    fn act(&mut self) {
        let strangers = self.always_strangers || self.below(2) == 0;
        self.bench.situation.has_remote_waiters = strangers;
        self.bench.situation.is_sound = self.below(8) > 0;
        self.wait();
        match self.below(12) {
            0..4 => {
                let role = if self.below(2) == 0 { Role::Exclusive } else { Role::Shared };
                let owner = self.below(6);
                let tries = self.below(8) == 0;
                let ticket =
                    if tries { self.bench.tries(owner, role) } else { self.bench.ask(owner, role) };
                self.owners.insert(ticket, (owner, role));
                self.waiting.push(ticket);
                self.trying.extend(tries.then_some(ticket));
            }
            4 if !self.waiting.is_empty() => {
                let ticket = self.any(&self.waiting.clone());
                self.waiting.retain(|other| *other != ticket);
                self.bench.cancel(ticket);
            }
            // Whoever is polled drives.
            5..7 if self.bench.acquiring.is_some() && !self.waiting(true).is_empty() => {
                match self.below(6) {
                    0 => {
                        let driver = self.any(&self.waiting(true));
                        self.waiting.retain(|ticket| *ticket != driver);
                        self.bench.fail(driver);
                    }
                    1 if !self.trying.is_empty() => self.bench.refuse(),
                    _ => self.grant(),
                }
            }
            7 if !self.waiting(true).is_empty() => {
                let ticket = self.any(&self.waiting(true));
                self.bench.stays_away(ticket);
            }
            8 if !self.waiting(false).is_empty() => {
                let ticket = self.any(&self.waiting(false));
                self.bench.poll(ticket);
            }
            _ => {
                let any = self.below(self.inside.len().max(1) as u64) as usize;
                if let Some(owner) = self.inside.keys().nth(any).copied() {
                    self.leave(owner);
                }
            }
        }
        self.hear();
    }
}

#[test]
fn random_histories_keep_every_promise() {
    let (mut total, mut overtaken) = (0, 0);
    for seed in 0..3000 {
        let since = start();
        let mut model = Model {
            bench: Bench::new(),
            random: 2 * seed + 1,
            owners: BTreeMap::new(),
            waiting: Vec::new(),
            trying: BTreeSet::new(),
            due: since,
            inside: BTreeMap::new(),
            pass: None,
            entries: 0,
            since,
            always_strangers: seed % 2 == 0,
            total: 0,
            overtaken: 0,
        };
        for _ in 0..200 {
            model.act();
        }
        // Everybody who waits gets in when those inside leave.
        model.bench.situation.is_sound = true;
        for ticket in model.waiting(false) {
            model.bench.poll(ticket);
            model.hear();
        }
        while !(model.waiting.is_empty() && model.inside.is_empty()) {
            match model.inside.keys().next().copied() {
                Some(owner) => model.leave(owner),
                None => model.grant(),
            }
            model.hear();
        }
        assert_eq!((model.bench.held, model.bench.acquiring), (None, None), "seed {seed}");
        (total, overtaken) = (total + model.total, overtaken + model.overtaken);
    }
    assert!(total > 100_000, "{total} entries");
    assert!(overtaken > 5_000, "{overtaken} were passed over");
}

#[test]
fn an_unused_node_is_taken_again_unless_it_may_be_lost_or_others_want_it() {
    for (is_sound, has_remote_waiters) in
        [(true, false), (true, true), (false, false), (false, true)]
    {
        let mut bench = Bench::with(Bounds { linger: Duration::from_secs(60), ..BOUNDS });
        bench.situation.has_remote_waiters = false;
        let one = bench.lock(1);
        bench.grant();
        assert_eq!(bench.entered(one), Some((0, 1)));
        bench.leave(1);
        assert_eq!(bench.let_go, 0, "it lingers");
        bench.wait(Duration::from_secs(1));
        (bench.situation.is_sound, bench.situation.has_remote_waiters) =
            (is_sound, has_remote_waiters);
        let two = bench.lock(2);
        let is_kept = is_sound && !has_remote_waiters;
        assert_eq!((bench.entered(two).is_some(), bench.let_go == 0), (is_kept, is_kept));
        assert_eq!(bench.acquiring.is_some(), !is_kept, "otherwise it queues up anew");
    }
}

#[test]
fn an_unused_node_goes_when_its_time_is_over() {
    let mut bench = Bench::with(Bounds { linger: Duration::from_secs(60), ..BOUNDS });
    bench.situation.has_remote_waiters = false;
    bench.lock(1);
    bench.grant();
    bench.leave(1);
    for (seconds, gone) in [(59, 0), (1, 1)] {
        bench.wait(Duration::from_secs(seconds));
        let step = bench.cohort.look(bench.situation);
        bench.carry_out(step);
        assert_eq!(bench.let_go, gone);
    }
}
