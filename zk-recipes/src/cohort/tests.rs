//! The local level by tables, and by random histories that are held against what it promises.

use super::*;

const BOUNDS: Bounds = Bounds { passes: 2, time: Duration::from_secs(1) };

#[expect(clippy::disallowed_methods, reason = "a moment to count from")]
fn start() -> Instant {
    Instant::now()
}

fn at(now: Instant) -> Situation {
    Situation { now, is_sound: true, has_strangers: true }
}

/// A cohort, and what it has made of its node.
struct Bench {
    cohort: Cohort,
    situation: Situation,
    acquiring: Option<Role>,
    held: Option<Role>,
    let_go: u32,
}

impl Bench {
    fn new() -> Self {
        let (cohort, situation) = (Cohort::new(BOUNDS), at(start()));
        Self { cohort, situation, acquiring: None, held: None, let_go: 0 }
    }

    fn carry_out(&mut self, step: Step) {
        if step.let_go {
            assert!(self.held.is_some() || self.acquiring.is_some(), "there is no node");
            (self.held, self.acquiring) = (None, None);
            self.let_go += 1;
        }
        if step.acquire.is_some() {
            assert!(self.held.is_none() && self.acquiring.is_none(), "there is a node already");
            self.acquiring = step.acquire;
        }
    }

    fn ask(&mut self, owner: OwnerId, role: Role) -> Ticket {
        let (ticket, step) = self.cohort.ask(owner, role, self.situation);
        self.carry_out(step);
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

    fn leave(&mut self, owner: OwnerId) {
        let step = self.cohort.leave(owner, self.situation);
        self.carry_out(step);
    }

    fn cancel(&mut self, ticket: Ticket) {
        let step = self.cohort.cancel(ticket, self.situation);
        self.carry_out(step);
    }

    /// The pass and the depth with which a wait ended.
    fn entered(&mut self, ticket: Ticket) -> Option<(u32, u32)> {
        match self.cohort.take(ticket) {
            Some(Outcome::Entered(Entry { pass, depth })) => Some((pass, depth)),
            Some(Outcome::WouldDeadlock) => panic!("it would wait for itself"),
            None => None,
        }
    }
}

#[test]
fn the_first_one_asks_for_the_node_and_the_others_wait() {
    let mut bench = Bench::new();
    let (one, two) = (bench.lock(1), bench.lock(2));
    assert_eq!(bench.acquiring, Some(Role::Exclusive));
    assert_eq!(bench.cohort.head(), Some(one));
    assert!(!bench.cohort.is_done(one));
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
    assert_eq!(bench.cohort.take(writing), Some(Outcome::WouldDeadlock));
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
        bench.situation.has_strangers = strangers;
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
        assert_eq!(bench.cohort.head(), next.copied());
    }
}

#[test]
fn passes_are_bounded_by_time_while_strangers_wait() {
    for (strangers, late) in [(true, true), (false, true), (true, false)] {
        let mut bench = Bench::new();
        bench.situation.has_strangers = strangers;
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
    bench.situation.has_strangers = false;
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
    assert_eq!((bench.let_go, bench.cohort.head()), (0, Some(two)));
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
fn an_entry_that_nobody_takes_is_left_at_once() {
    let mut bench = Bench::new();
    let (one, two) = (bench.lock(1), bench.lock(2));
    bench.grant();
    bench.cancel(one);
    assert_eq!(bench.entered(two), Some((1, 1)));
    bench.cancel(two);
    assert_eq!(bench.let_go, 0, "it was taken, and its guard will leave");
    bench.leave(2);
    assert_eq!(bench.let_go, 1);
}

#[test]
fn after_a_failure_the_next_one_tries() {
    let mut bench = Bench::new();
    let (one, two) = (bench.lock(1), bench.read(2));
    bench.acquiring = None;
    let step = bench.cohort.failed();
    bench.carry_out(step);
    assert_eq!((bench.acquiring, bench.cohort.head()), (Some(Role::Shared), Some(two)));
    assert_eq!(bench.entered(one), None);
    bench.acquiring = None;
    let step = bench.cohort.failed();
    bench.carry_out(step);
    assert_eq!((bench.acquiring, bench.cohort.head()), (None, None));
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

/// What users have done, and what they must get.
struct Model {
    bench: Bench,
    random: u64,
    owners: BTreeMap<Ticket, (OwnerId, Role)>,
    /// Not told anything yet.
    waiting: Vec<Ticket>,
    /// Who is inside, with role and depth.
    inside: BTreeMap<OwnerId, (Role, u32)>,
    /// The last pass of this node, entries under it, and since when.
    pass: Option<u32>,
    entries: u32,
    since: Instant,
    always_strangers: bool,
    total: u64,
}

impl Model {
    fn below(&mut self, n: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) % n
    }

    fn hear(&mut self) {
        for ticket in self.waiting.clone() {
            let outcome = self.bench.cohort.take(ticket);
            let Some(outcome) = outcome else {
                continue;
            };
            let (owner, role) = self.owners[&ticket];
            let before = self.inside.get(&owner).copied();
            let entry = match outcome {
                Outcome::WouldDeadlock => {
                    assert_eq!(
                        (before.map(|it| it.0), role),
                        (Some(Role::Shared), Role::Exclusive)
                    );
                    self.waiting.retain(|other| *other != ticket);
                    continue;
                }
                Outcome::Entered(entry) => entry,
            };
            self.total += 1;
            match before {
                Some((_, depth)) => {
                    assert_eq!(entry.depth, depth + 1, "nested");
                    assert_eq!(self.inside.get_mut(&owner).map(|it| it.1 += 1), Some(()));
                }
                None => {
                    let earlier = self.waiting.iter().find(|other| {
                        **other < ticket && !self.inside.contains_key(&self.owners[*other].0)
                    });
                    assert_eq!(earlier, None, "{ticket:?} has overtaken");
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
            self.waiting.retain(|other| *other != ticket);
        }
        if self.bench.held.is_none() {
            assert!(self.inside.is_empty(), "the node went with {:?} inside", self.inside);
        }
        if self.bench.held.is_none() && self.bench.acquiring.is_none() {
            assert!(self.waiting.is_empty(), "nobody asks for a node, and {:?} wait", self.waiting);
        }
        assert_eq!(self.bench.held.is_some(), !self.inside.is_empty(), "a node for nobody");
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

    fn act(&mut self) {
        let strangers = self.always_strangers || self.below(2) == 0;
        self.bench.situation.has_strangers = strangers;
        self.bench.situation.is_sound = self.below(8) > 0;
        let pause = self.below(4);
        self.bench.situation.now += Duration::from_secs(pause);
        match self.below(10) {
            0..4 => {
                let role = if self.below(2) == 0 { Role::Exclusive } else { Role::Shared };
                let owner = self.below(6);
                let ticket = self.bench.ask(owner, role);
                self.owners.insert(ticket, (owner, role));
                self.waiting.push(ticket);
            }
            4 if !self.waiting.is_empty() => {
                let at = self.below(self.waiting.len() as u64) as usize;
                let ticket = self.waiting.remove(at);
                self.bench.cancel(ticket);
            }
            5..7 if self.bench.acquiring.is_some() => match self.below(6) {
                0 => {
                    self.waiting.retain(|ticket| Some(*ticket) != self.bench.cohort.head());
                    self.bench.acquiring = None;
                    let step = self.bench.cohort.failed();
                    self.bench.carry_out(step);
                }
                1 => {
                    self.bench.acquiring = None;
                    let step = self.bench.cohort.again();
                    self.bench.carry_out(step);
                }
                _ => self.grant(),
            },
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
    let mut total = 0;
    for seed in 0..3000 {
        let since = start();
        let mut model = Model {
            bench: Bench::new(),
            random: 2 * seed + 1,
            owners: BTreeMap::new(),
            waiting: Vec::new(),
            inside: BTreeMap::new(),
            pass: None,
            entries: 0,
            since,
            always_strangers: seed % 2 == 0,
            total: 0,
        };
        for _ in 0..200 {
            model.act();
        }
        // Everybody who waits gets in when those inside leave.
        model.bench.situation.is_sound = true;
        while !(model.waiting.is_empty() && model.inside.is_empty()) {
            match model.inside.keys().next().copied() {
                Some(owner) => model.leave(owner),
                None => model.grant(),
            }
            model.hear();
        }
        assert_eq!((model.bench.held, model.bench.acquiring), (None, None), "seed {seed}");
        total += model.total;
    }
    assert!(total > 100_000, "{total} entries");
}
