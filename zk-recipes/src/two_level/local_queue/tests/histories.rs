//! The local queue by random histories, which are held against what it promises. A broken promise
//! is a panic, here as in all tests.

use super::*;

/// What users have done, and what they must get.
struct Model {
    bench: Bench,
    random: u64,
    owners: BTreeMap<WaiterId, (OwnerId, Role)>,
    /// Not told anything yet.
    waiting: Vec<WaiterId>,
    /// Who does not want to wait.
    trying: BTreeSet<WaiterId>,
    /// Who is inside, with role and depth.
    inside: BTreeMap<OwnerId, (Role, u32)>,
    /// The last pass of this node, entries under it, and since when.
    pass: Option<u32>,
    entries: u32,
    since: Instant,
    always_strangers: bool,
    /// How often an unused node lingered, and how often one was taken again.
    lingered: u64,
    retaken: u64,
    total: u64,
}

impl Model {
    fn below(&mut self, n: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) % n
    }

    fn any(&mut self, of: &[WaiterId]) -> WaiterId {
        of[self.below(of.len() as u64) as usize]
    }

    /// The waiters that are polled when they are woken, or those that are not.
    fn waiting(&self, present: bool) -> Vec<WaiterId> {
        let waiting = self.waiting.iter().copied();
        waiting.filter(|id| self.bench.present.contains(id) == present).collect()
    }

    fn check_node(&mut self) {
        for (id, outcome) in std::mem::take(&mut self.bench.outcomes) {
            let (owner, role) = self.owners[&id];
            self.waiting.retain(|other| *other != id);
            let before = self.inside.get(&owner).copied();
            let entry = match outcome {
                Decision::WouldDeadlock => {
                    assert_eq!(
                        (before.map(|it| it.0), role),
                        (Some(Role::Shared), Role::Exclusive)
                    );
                    continue;
                }
                Decision::Refused => {
                    assert!(self.trying.remove(&id), "it would have waited");
                    continue;
                }
                Decision::Waits => unreachable!("that is no end"),
                Decision::Entered(entry) => entry,
            };
            self.total += 1;
            match before {
                Some((_, depth)) => {
                    assert_eq!(entry.depth, depth + 1, "nested");
                    assert_eq!(self.inside.get_mut(&owner).map(|it| it.1 += 1), Some(()));
                }
                None => {
                    self.retaken += u64::from(self.inside.is_empty() && self.entries > 0);
                    for other in self.waiting.iter().filter(|other| **other < id) {
                        let (rival, wanted) = self.owners[other];
                        let excuse = self.inside.contains_key(&rival)
                            || (role, wanted) == (Role::Shared, Role::Shared)
                            // It may have been refused, without having been polled since.
                            || self.trying.contains(other);
                        assert!(excuse, "{id:?} has overtaken {other:?}");
                    }
                    let alone = role == Role::Exclusive && !self.inside.is_empty();
                    let writer = self.inside.values().any(|it| it.0 == Role::Exclusive);
                    assert!(!alone && !writer, "{owner} with {:?}", self.inside);
                    assert!(self.bench.held.is_some(), "somebody is inside without a node");
                    assert!((self.bench.held, role) != (Some(Role::Shared), Role::Exclusive));
                    assert_eq!(entry.depth, 1);
                    assert!(self.pass.is_none_or(|last| entry.pass > last), "passes only grow");
                    self.pass = Some(entry.pass);
                    self.entries += 1;
                    if self.entries > 1 {
                        assert!(self.bench.state.can_hand_on, "passed what may be lost");
                        if self.always_strangers {
                            assert!(self.entries <= BOUNDS.handoffs + 1, "too often");
                            let time = self.bench.state.now - self.since;
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
            let lingers = self.bench.queue.unused_since().is_some();
            assert!(!self.waiting(false).is_empty() || lingers, "a node for nobody");
            self.lingered += u64::from(lingers);
        }
    }

    fn leave(&mut self, owner: OwnerId) {
        let left = self.inside.get_mut(&owner).map(|inside| inside.1 -= 1);
        assert!(left.is_some(), "{owner} is not inside");
        self.inside.retain(|_, (_, depth)| *depth > 0);
        self.bench.leave(owner);
    }

    fn grant(&mut self) {
        (self.pass, self.entries, self.since) = (None, 0, self.bench.state.now);
        self.bench.grant();
    }

    /// Time passes, and some waiters are polled although they were not woken.
    fn wait(&mut self) {
        let pause = [0, 0, 0, 100, 300, 3000][self.below(6) as usize];
        self.bench.wait(Duration::from_millis(pause));
        if self.below(4) == 0 {
            for id in self.waiting(true) {
                if self.bench.present.contains(&id) {
                    self.bench.poll(id);
                }
            }
            self.check_node();
            let stuck = self.bench.held.is_some() && self.inside.is_empty();
            let first = self.bench.head();
            let is_polled = first.is_some_and(|id| self.bench.present.contains(&id));
            assert!(!(stuck && is_polled), "the first waiter is polled and does not enter");
        }
    }

    fn act(&mut self) {
        let strangers = self.always_strangers || self.below(2) == 0;
        self.bench.state.has_remote_waiters = strangers;
        self.bench.state.can_hand_on = self.below(8) > 0;
        self.wait();
        // As the task does that watches over an unused node; it may be late.
        if self.below(2) == 0 {
            let action = self.bench.queue.decide(self.bench.state);
            self.bench.carry_out(action);
            self.check_node();
        }
        match self.below(12) {
            0..4 => {
                let role = if self.below(2) == 0 { Role::Exclusive } else { Role::Shared };
                let owner = self.below(6);
                let tries = self.below(8) == 0;
                let id =
                    if tries { self.bench.tries(owner, role) } else { self.bench.ask(owner, role) };
                self.owners.insert(id, (owner, role));
                self.waiting.push(id);
                self.trying.extend(tries.then_some(id));
            }
            4 if !self.waiting.is_empty() => {
                let id = self.any(&self.waiting.clone());
                self.waiting.retain(|other| *other != id);
                self.bench.cancel(id);
            }
            // Whoever is polled drives.
            5..7 if self.bench.acquiring.is_some() && !self.waiting(true).is_empty() => {
                match self.below(6) {
                    0 => {
                        let driver = self.any(&self.waiting(true));
                        self.waiting.retain(|id| *id != driver);
                        self.bench.fail(driver);
                    }
                    1 if !self.trying.is_empty() => self.bench.refuse(),
                    _ => self.grant(),
                }
            }
            7 if !self.waiting(true).is_empty() => {
                let id = self.any(&self.waiting(true));
                self.bench.stops_polling(id);
            }
            8 if !self.waiting(false).is_empty() => {
                let id = self.any(&self.waiting(false));
                self.bench.poll(id);
            }
            _ => {
                let any = self.below(self.inside.len().max(1) as u64) as usize;
                if let Some(owner) = self.inside.keys().nth(any).copied() {
                    self.leave(owner);
                }
            }
        }
        self.check_node();
    }
}

#[test]
fn random_histories_keep_every_promise() {
    let (mut total, mut lingered, mut retaken) = (0, 0, 0);
    for seed in 0..3000 {
        let since = start();
        let linger = Duration::from_secs(if seed % 3 == 0 { 2 } else { 0 });
        let mut model = Model {
            bench: Bench::with(Bounds { linger, ..BOUNDS }),
            random: 2 * seed + 1,
            owners: BTreeMap::new(),
            waiting: Vec::new(),
            trying: BTreeSet::new(),
            inside: BTreeMap::new(),
            pass: None,
            entries: 0,
            since,
            always_strangers: seed % 2 == 0,
            lingered: 0,
            retaken: 0,
            total: 0,
        };
        for _ in 0..200 {
            model.act();
        }
        // Everybody who waits gets in when those inside leave.
        model.bench.state.can_hand_on = true;
        for id in model.waiting(false) {
            model.bench.poll(id);
            model.check_node();
        }
        while !(model.waiting.is_empty() && model.inside.is_empty()) {
            match model.inside.keys().next().copied() {
                Some(owner) => model.leave(owner),
                None => model.grant(),
            }
            model.check_node();
        }
        model.bench.state.has_remote_waiters = true;
        let action = model.bench.queue.decide(model.bench.state);
        model.bench.carry_out(action);
        assert_eq!((model.bench.held, model.bench.acquiring), (None, None), "seed {seed}");
        total += model.total;
        (lingered, retaken) = (lingered + model.lingered, retaken + model.retaken);
    }
    assert!(total > 100_000, "{total} entries");
    assert!(lingered > 1_000 && retaken > 500, "{lingered} lingered, {retaken} were taken again");
}
