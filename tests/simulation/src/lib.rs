//! Simulations of the locks in a world of faults: real clients and locks, one server and a network
//! between them, all in one thread, on virtual time, and determined by one seed.
//!
//! A run has two parts: a storm, in which everything goes wrong at once, and a calm, in which every
//! contender must get the lock and then leave nothing behind. Each grant is compared with what the
//! server has committed.

mod agenda;

pub mod clock;

mod task;

pub mod inbox;

mod servers;

mod family;

pub mod gate;

mod journal;

mod trace;

mod frames;

mod link;

mod network;

pub mod net;

pub mod wire;

mod locks;

mod process;

mod judge;

mod work;

mod requeue;

mod held;

mod nodes;

mod permits;

mod several;

mod counts;

mod leadership;

mod shards;

mod barrier;

mod rounds;

mod members;

mod folder;

mod followers;

mod shown;

mod nemesis;

pub mod planned;

mod check;

mod ensemble;

use std::collections::BTreeMap;
use std::mem::take;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_client::{Client, CreateOptions};
use zk_embedded::Config;
use zk_recipes::Layout;

use self::clock::now;
pub use self::family::Family;
use self::journal::{COUNTER, Journal, nodes};
use self::nemesis::Nemesis;
use self::network::{Party, World};
use self::planned::Script;
use self::process::{Name, Phase, Progress, TIMEOUTS, Trial};
pub use self::servers::Servers;
pub use self::trace::{Told, Trace};
use self::wire::Dialer;
use crate::task::spawn;
use zk_inputs::Random;

/// The result of one seed.
#[derive(Debug)]
pub struct Outcome {
    /// How often each fault struck, and other counts.
    pub counts: BTreeMap<&'static str, u64>,
    /// The first invariant that was broken.
    pub violation: Option<String>,
    /// Every event of the run, if a trace was asked for.
    pub trace: Trace,
}

/// How long the longest session outlives its client, including the tick.
const SESSION: Duration = Duration::from_millis(TIMEOUTS.end + 2 * TICK);

const TICK: u64 = 100;

/// Within what time every contender must get the lock in the calm.
const TURNS_WITHIN: Duration = Duration::from_secs(30);

/// How many turns every contender has before something disturbs them, and within what time.
const ROUNDS: Range<u64> = 20..32;
const ROUNDS_WITHIN: Duration = Duration::from_secs(3);

/// Runs one seed.
pub fn run(family: Family, seed: u64, traced: bool) -> Outcome {
    if family == Family::Ensemble {
        return ensemble::run(seed, traced);
    }
    let world = in_virtual_time(async {
        let mut random = Random::new(seed);
        let servers = Servers::of_seed(seed, family);
        let simulation = Simulation::new(family, servers, &mut random, traced);
        simulation.until_the_end(random).await
    });
    Outcome::of(world.journal)
}

/// Runs a simulation in one thread and in virtual time. All of its tasks end with it, so that
/// afterwards nothing else holds its world.
fn in_virtual_time<W>(simulation: impl Future<Output = Arc<Mutex<W>>>) -> W {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let world = runtime.block_on(simulation);
    drop(runtime);
    let world = Arc::into_inner(world).expect("no task outlives its runtime");
    world.into_inner().unwrap()
}

impl Outcome {
    fn of(mut journal: Journal) -> Self {
        let (counts, violation) = (take(&mut journal.counts), journal.violation.take());
        Self { counts, violation, trace: journal.into_trace() }
    }
}

struct Simulation {
    trial: Arc<Trial>,
    operator: Client,
    family: Family,
    names: Vec<Name>,
    processes: usize,
}

/// A world, and an operator in it whom no fault of the network meets.
fn begin(
    script: Option<Script>,
    servers: Servers,
    random: &mut Random,
    traced: bool,
) -> (Arc<Trial>, Client) {
    let config = Config::new()
        .manner(servers.manner())
        .tick_time(Duration::from_millis(TICK))
        .max_session_timeout(Duration::from_secs(3600))
        .max_connections_per_host(0)
        .container_check_interval(random.millis(500..20_000))
        .keep_history(true);
    let world = World::new(config, Journal::new(traced), servers, script, random.fork());
    let world = Arc::new(Mutex::new(world));
    spawn(wire::pump(Arc::clone(&world)));
    let (operator, driver) = clock::client()
        .seed(random.next())
        .session_timeout(Duration::from_secs(3600))
        .dialect(servers.dialect())
        .connector(Dialer { network: Arc::clone(&world), party: Party::Operator })
        .split("zk:2181")
        .unwrap();
    spawn(driver);
    (Trial::new(world), operator)
}

impl Simulation {
    fn new(family: Family, servers: Servers, random: &mut Random, traced: bool) -> Self {
        let (trial, operator) = begin(None, servers, random, traced);
        trial.progress.lock().unwrap().permits = random.within(1..5) as u32;
        if family == Family::Semaphore && random.percent(33) {
            trial.progress.lock().unwrap().layout = Layout::KAZOO;
        }
        let rounds = family == Family::Requeue;
        let processes = random.within(if rounds { 3..6 } else { 2..6 }) as usize;
        let mut simulation = Self { trial, operator, family, names: Vec::new(), processes };
        let mixed = if random.percent(50) { 40 } else { 0 };
        for process in 0..processes {
            let family = if random.percent(mixed) { family.flat() } else { family };
            let tasks = match family.has_levels() {
                true => random.within(2..7) as usize,
                false if family.is_single() => 1,
                false if random.percent(30) => 2,
                false => 1,
            };
            let is_late = rounds && random.percent(10);
            let late = if is_late { random.millis(1..800) } else { Duration::ZERO };
            simulation.start(process, family, tasks, late, random.fork());
        }
        if family == Family::DoubleBarrier {
            let parties = random.within(1..simulation.names.len() as u64 + 1) as u32;
            simulation.trial.progress.lock().unwrap().parties = parties;
        }
        simulation
    }

    /// Two processes or three, the first one with two tasks if the lock has two levels.
    fn planned(family: Family, script: Script, random: &mut Random, traced: bool) -> Self {
        let servers = script.servers;
        let (trial, operator) = begin(Some(script), servers, random, traced);
        spawn(planned::carry_out(Arc::clone(&trial), operator.clone()));
        let processes = random.within(2..4) as usize;
        let mut simulation = Self { trial, operator, family, names: Vec::new(), processes };
        for process in 0..processes {
            let tasks = if family.has_levels() && process == 0 { 2 } else { 1 };
            // What the operator prepares is there before that.
            let late = Duration::from_millis(20);
            simulation.start(process, family, tasks, late, random.fork());
        }
        {
            let progress = &mut simulation.trial.progress.lock().unwrap();
            progress.permits = random.within(1..3) as u32;
            progress.parties = simulation.names.len() as u32;
            if family == Family::Semaphore && random.percent(50) {
                progress.layout = Layout::KAZOO;
            }
        }
        simulation
    }

    /// Starts a process with so many tasks, so much later than the others.
    fn start(
        &mut self,
        process: usize,
        family: Family,
        tasks: usize,
        late: Duration,
        random: Random,
    ) {
        self.names.extend((0..tasks).map(|task| (process, task)));
        spawn(process::live(Arc::clone(&self.trial), process, family, tasks, late, random));
    }

    /// Runs all phases. The world has what came of them.
    async fn until_the_end(self, random: Random) -> Arc<Mutex<World>> {
        let world = Arc::clone(&self.trial.world);
        if let Err(violation) = self.run(random).await {
            world.lock().unwrap().journal.violate(violation);
        }
        world
    }

    /// Runs all phases, until an invariant is broken.
    async fn run(&self, mut random: Random) -> Result<(), String> {
        let mut nemesis = Nemesis::new(self, random.fork());
        let counter = self.operator.create(COUNTER, b"", &CreateOptions::persistent()).await;
        counter.map_err(|error| error.to_string())?;
        if self.trial.is_planned && self.family.follows() {
            followers::prepare(&self.operator).await.map_err(|error| error.to_string())?;
        }
        match self.family {
            _ if self.trial.is_planned => self.all_had_turns().await?,
            Family::Requeue => self.disturb(&mut random, &mut nemesis).await?,
            _ => self.storm(&mut random, &mut nemesis).await?,
        }
        nemesis.rest();
        drop(nemesis);
        self.trial.progress.lock().unwrap().reliable = Some(now() + 2 * SESSION);
        self.trial.begin(Phase::Calm);
        match self.family {
            Family::Partitioner => self.shards_are_even().await?,
            Family::Barrier => {
                // Until then somebody may close it who will not open it.
                tokio::time::sleep(2 * SESSION).await;
                drop(self.operator.delete(barrier::BARRIER, None).await);
                self.all_are_served().await?;
            }
            Family::Group => {
                self.all_are_served().await?;
                self.views_are_true().await?;
            }
            _ => self.all_are_served().await?,
        }
        self.trial.begin(Phase::Idle);
        self.until("comes to rest", 2 * SESSION, |progress, name| progress.idle.contains(name))
            .await?;
        if self.family.follows() {
            drop(self.operator.delete_all(journal::FOLDER).await);
        }
        // Longer than sessions without a client can live.
        tokio::time::sleep(2 * SESSION).await;
        self.left("nobody wants the lock")?;
        self.trial.begin(Phase::Over);
        self.operator.close().await;
        tokio::time::sleep(2 * SESSION).await;
        self.left("everybody has gone")?;
        let world = self.trial.world.lock().unwrap();
        if !world.net.core.sessions().is_empty() {
            return Err(format!("sessions are left: {:?}", world.net.core.sessions()));
        }
        check::grants(world.net.core.history(), &world.journal.grants)?;
        match self.family {
            // On slow links, a turn takes longer than it may here.
            Family::Requeue if !self.trial.is_planned => {
                check::prompt(world.net.core.history(), &world.journal)
            }
            Family::Counter => {
                counts::check(&self.trial.progress.lock().unwrap().open_adds, &world.journal)
            }
            _ => Ok(()),
        }
    }

    /// The phase in which everything goes wrong.
    async fn storm(&self, random: &mut Random, nemesis: &mut Nemesis) -> Result<(), String> {
        let storm = now() + random.millis(4000..16_000);
        let pace = random.within(40..400);
        while now() < storm {
            tokio::time::sleep(random.millis(1..2 * pace)).await;
            nemesis.strike();
            self.sound()?;
        }
        Ok(())
    }

    /// Waits until every contender had two turns, or the work is shared evenly. With faults that
    /// may take too long, or be for others to do: the calm will tell.
    async fn all_had_turns(&self) -> Result<(), String> {
        let had_turns = |progress: &Progress, name: &Name| match self.family {
            Family::Partitioner => shards::are_even(progress, self.names.len()),
            _ => progress.served_early.get(name).is_some_and(|had| *had >= 2),
        };
        let all_had = self.until("has two turns", TURNS_WITHIN, had_turns).await;
        let world = self.trial.world.lock().unwrap();
        let is_struck = world.script.as_ref().is_some_and(|script| script.struck > 0);
        if is_struck { world.journal.sound() } else { all_had }
    }

    /// Lets all contenders requeue, turn after turn, until faults happen.
    async fn disturb(&self, random: &mut Random, nemesis: &mut Nemesis) -> Result<(), String> {
        for _ in 0..random.within(1..3) {
            self.rounds(random.within(ROUNDS)).await?;
            let pace = random.within(2..40);
            let unrest = random.pick(&[0, 0, 2, 10, 30]).unwrap_or(0);
            self.trial.progress.lock().unwrap().unrest = unrest;
            for _ in 0..random.within(1..7) {
                tokio::time::sleep(random.millis(0..pace)).await;
                nemesis.strike();
                self.sound()?;
            }
            tokio::time::sleep(random.millis(0..4 * pace)).await;
            self.trial.progress.lock().unwrap().unrest = 0;
        }
        Ok(())
    }

    /// Waits until all contenders have had so many turns, or have had the time for them.
    async fn rounds(&self, rounds: u64) -> Result<(), String> {
        let grants = || self.trial.world.lock().unwrap().journal.grants.len();
        let enough = grants() + rounds as usize * self.processes;
        let deadline = now() + ROUNDS_WITHIN;
        while grants() < enough && now() < deadline {
            tokio::time::sleep(Duration::from_millis(7)).await;
            self.sound()?;
        }
        Ok(())
    }

    /// Returns the first broken invariant as an error.
    fn sound(&self) -> Result<(), String> {
        self.trial.world.lock().unwrap().journal.sound()
    }

    /// Waits until every contender fulfils a condition.
    async fn until(
        &self,
        what: &str,
        within: Duration,
        done: impl Fn(&Progress, &Name) -> bool,
    ) -> Result<(), String> {
        let deadline = now() + within;
        loop {
            self.sound()?;
            let late = {
                let progress = self.trial.progress.lock().unwrap();
                self.names.iter().find(|name| !done(&progress, name)).copied()
            };
            match late {
                None => return Ok(()),
                Some((process, task)) if now() >= deadline => {
                    return Err(format!("{process}.{task} never {what}"));
                }
                Some(_) => {
                    let had_turn = self.trial.had_turn.notified();
                    drop(tokio::time::timeout(Duration::from_millis(50), had_turn).await);
                }
            }
        }
    }

    /// Waits until everybody has had their turns.
    async fn all_are_served(&self) -> Result<(), String> {
        let turns = self.trial.turns();
        let is_served = |progress: &Progress, name: &Name| {
            progress.served.get(name).is_some_and(|had| *had >= turns)
        };
        self.until("gets the lock", TURNS_WITHIN, is_served).await
    }

    /// Into how many looks the time is divided for which something must stay as it is. After few
    /// faults there are fewer, since there are many such runs.
    fn looks(&self) -> u32 {
        if self.trial.is_planned { 5 } else { 20 }
    }

    /// Waits until the group is at rest, and checks that each observer sees it as it is.
    async fn views_are_true(&self) -> Result<(), String> {
        // The sessions of the storm end first, and those who had them begin anew.
        tokio::time::sleep(2 * SESSION).await;
        let is_at_rest = |progress: &Progress, name: &Name| progress.views.contains_key(name);
        self.until("comes to rest in the group", TURNS_WITHIN, is_at_rest).await?;
        for _ in 0..self.looks() {
            tokio::time::sleep(check::PROMPT * 20 / self.looks()).await;
            self.sound()?;
            let progress = self.trial.progress.lock().unwrap();
            let core = &self.trial.world.lock().unwrap().net.core;
            let (history, last) = (core.history(), core.last_zxid());
            if let Some(outdated) = members::outdated(&progress, history, last) {
                return Err(outdated);
            }
        }
        Ok(())
    }

    /// Waits until each shard has one worker, and checks that it stays so.
    async fn shards_are_even(&self) -> Result<(), String> {
        // The sessions of the storm end first, and those who had them begin anew.
        tokio::time::sleep(2 * SESSION).await;
        let members = self.names.len();
        let is_even = |progress: &Progress, _: &Name| shards::are_even(progress, members);
        self.until("has its part of the shards", TURNS_WITHIN, is_even).await?;
        for _ in 0..self.looks() {
            tokio::time::sleep(SESSION / self.looks()).await;
            self.until("keeps its part of the shards", Duration::ZERO, is_even).await?;
        }
        Ok(())
    }

    /// Checks that nothing is left behind.
    fn left(&self, when: &str) -> Result<(), String> {
        self.sound()?;
        let world = self.trial.world.lock().unwrap();
        let nodes = nodes(&world.net.core);
        // Nobody removes a watch where a server has no request for that.
        let watches = match world.servers {
            Servers::Apache => world.net.core.watch_count(),
            Servers::Keeper => 0,
        };
        if !nodes.is_empty() || watches > 0 {
            return Err(format!("{when}, and {watches} watches and nodes are left: {nodes:?}"));
        }
        Ok(())
    }
}
