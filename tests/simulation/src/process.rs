//! A process of the simulation: a real client and a few tasks that contend for the lock. When its
//! session is over it starts again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::watch::Receiver;
use tokio::task::JoinHandle;
use zk_client::SessionState;
use zk_recipes::{Layout, Options, Owner, Shard};

use super::Family;
use super::clock;
use super::counts::OpenAdds;
use super::followers;
use super::gate::{Gate, Mode};
use super::held::Held;
use super::locks::AnyLock;
use super::network::{Party, Shared};
use super::planned;
use super::shown::Timelines;
use super::wire::Dialer;
use super::work::Job;
use crate::task::spawn;
use zk_inputs::Random;

/// The longest time that an unused two-level lock keeps its node, in milliseconds.
const LINGER: u64 = 6000;

/// The shortest and the longest session timeout that processes ask for, in milliseconds.
pub(super) const TIMEOUTS: Range<u64> = 600..3000;

/// The phases of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Everything goes wrong.
    Storm,
    /// Nothing goes wrong any more; every task must get the lock.
    Calm,
    /// No task wants the lock any more.
    Idle,
    /// All tasks leave.
    Over,
}

/// A task, by its process and its index there.
pub(super) type Name = (usize, usize);

/// The state that processes and the nemesis share.
pub(super) struct Trial {
    pub(super) world: Shared,
    /// True if the faults of the storm strike at chosen frames, while tasks take plain turns.
    pub(super) is_planned: bool,
    phase: Mutex<Phase>,
    /// Notified when the phase has changed or a fault has come to its end. It wakes in order, which
    /// tokio's watch does not.
    pub(super) changed: Notify,
    /// Notified when a task has got the lock in the storm.
    pub(super) had_turn: Notify,
    /// Notified when a process is to give up its place; it wakes in order too.
    pub(super) called_off: Notify,
    pub(super) progress: Mutex<Progress>,
}

#[derive(Default)]
pub(super) struct Progress {
    /// The gate of each process in its current life.
    pub(super) gates: BTreeMap<usize, Arc<Gate>>,
    /// How often each task got the lock before the calm.
    pub(super) served_early: BTreeMap<Name, u32>,
    /// How often each task got the lock in the calm.
    pub(super) served: BTreeMap<Name, u32>,
    /// The tasks that have stopped acquiring the lock.
    pub(super) idle: BTreeSet<Name>,
    /// The processes that are to give up the places where they wait.
    pub(super) quitters: BTreeSet<usize>,
    /// The processes with several tasks.
    pub(super) crowds: BTreeSet<usize>,
    /// When each process went on last, after it had been stopped.
    pub(super) woken: BTreeMap<usize, Instant>,
    /// The percentage of unusual turns, where contenders requeue.
    pub(super) unrest: u64,
    /// From this time on a lock that is asked for must be acquired.
    pub(super) reliable: Option<Instant>,
    /// How many permits a semaphore has, and those that tasks believe they hold.
    pub(super) permits: u32,
    /// The names of a semaphore's nodes.
    pub(super) layout: Layout,
    pub(super) held: Vec<Held>,
    /// How many parties a round of a double barrier has.
    pub(super) parties: u32,
    /// What each task that rests has seen last of the group: the nodes of its members.
    pub(super) views: BTreeMap<Name, Vec<String>>,
    pub(super) open_adds: OpenAdds,
    /// The shards that are worked on, each by the index of what its worker has.
    pub(super) works: BTreeMap<usize, Shard>,
    /// What the nodes that are followed have been.
    pub(super) timelines: Timelines,
}

impl Trial {
    pub(super) fn new(world: Shared) -> Arc<Self> {
        let is_planned = world.lock().unwrap().script.is_some();
        let (phase, progress) = (Mutex::new(Phase::Storm), Mutex::new(Progress::default()));
        let (changed, had_turn, called_off) = (Notify::new(), Notify::new(), Notify::new());
        Arc::new(Self { world, is_planned, phase, changed, had_turn, called_off, progress })
    }

    pub(super) fn phase(&self) -> Phase {
        *self.phase.lock().unwrap()
    }

    pub(super) fn begin(&self, phase: Phase) {
        self.note(|| format!("{phase:?}"));
        *self.phase.lock().unwrap() = phase;
        self.changed.notify_waiters();
    }

    /// Waits until a phase has begun.
    pub(super) async fn until(&self, phase: Phase) {
        while self.phase() < phase {
            self.changed.notified().await;
        }
    }

    /// How often each task must get the lock in the calm. Once is enough after few faults: each
    /// task has usually had two turns before.
    pub(super) fn turns(&self) -> u32 {
        if self.is_planned { 1 } else { 2 }
    }

    /// Records that a task got what it wanted, if that is to be counted.
    pub(super) fn serves(&self, name: Name) {
        let progress = &mut self.progress.lock().unwrap();
        match self.phase() {
            Phase::Storm => {
                *progress.served_early.entry(name).or_default() += 1;
                self.had_turn.notify_one();
            }
            _ => *progress.served.entry(name).or_default() += 1,
        }
    }

    /// True if nothing has gone wrong for so long that a request of that time must succeed.
    pub(super) fn is_reliable(&self, at: Instant) -> bool {
        self.progress.lock().unwrap().reliable.is_some_and(|from| at >= from)
    }

    /// Stops a process, if it runs.
    pub(super) fn freeze(&self, process: usize) -> Option<Arc<Gate>> {
        let gate = self.progress.lock().unwrap().gates.get(&process).cloned();
        let gate = gate.filter(|gate| gate.mode() == Mode::Open)?;
        gate.set(Mode::Frozen, false);
        Some(gate)
    }

    /// Makes a process give up the place where it waits.
    pub(super) fn call_off(&self, process: usize) {
        self.progress.lock().unwrap().quitters.insert(process);
        self.called_off.notify_waiters();
    }

    /// Waits until a process is called off.
    pub(super) async fn is_called_off(&self, process: usize) {
        loop {
            let called_off = self.called_off.notified();
            if self.progress.lock().unwrap().quitters.remove(&process) {
                return;
            }
            called_off.await;
        }
    }

    pub(super) fn note(&self, line: impl FnOnce() -> String) {
        self.world.lock().unwrap().journal.note(line);
    }

    pub(super) fn violate(&self, what: String) {
        self.world.lock().unwrap().journal.violate(what);
    }

    pub(super) fn count(&self, what: &'static str) {
        self.world.lock().unwrap().journal.count(what);
    }
}

/// Runs a process with all its lives, which starts so much later than the others.
pub(super) async fn live(
    trial: Arc<Trial>,
    process: usize,
    family: Family,
    tasks: usize,
    late: Duration,
    mut random: Random,
) {
    if !late.is_zero() {
        tokio::time::sleep(late).await;
    }
    if tasks > 1 {
        trial.progress.lock().unwrap().crowds.insert(process);
    }
    let mut seed = random.next();
    let mut life = 0;
    while trial.phase() != Phase::Over {
        if life > 0 {
            tokio::time::sleep(random.millis(0..60)).await;
            // This process uses the same names as its predecessor, whose session may still be
            // alive.
            match random.percent(70) {
                true => trial.count("born with the names of the last life"),
                false => seed = random.next(),
            }
        }
        life += 1;
        let dialer = Dialer { network: Arc::clone(&trial.world), party: Party::Process(process) };
        let timeout = if trial.is_planned { planned::TIMEOUT } else { random.millis(TIMEOUTS) };
        let builder = clock::client()
            .seed(seed)
            .session_timeout(timeout)
            .dialect(trial.world.lock().unwrap().servers.dialect())
            .connector(dialer);
        trial.world.lock().unwrap().forget(process);
        trial.note(|| format!("process {process} begins life {life} with seed {seed:x}"));
        let gate = Gate::new();
        trial.progress.lock().unwrap().gates.insert(process, Arc::clone(&gate));
        if family.follows() {
            let who = Who { name: (process, 0), life };
            followers::live(&trial, who, family, builder, &gate, random.fork()).await;
            continue;
        }
        let (client, driver) = builder.split("zk:2181").unwrap();
        let driver = spawn(gate.guard(driver));
        let end = Arc::new(End::default());
        spawn(gate.guard(Arc::clone(&end).watch(client.states())));
        let passes = random.within(0..6) as u32;
        let mut options = Options::new().local_handoffs(passes);
        if random.percent(50) {
            options = options.local_handoff_time(random.millis(0..400));
        }
        if random.percent(30) {
            options = options.linger(random.millis(1..LINGER));
        }
        let shared = AnyLock::new(family, &client, options.clone());
        let apart = !shared.is_reentrant() && random.percent(50);
        let works = (0..tasks).map(|task| {
            let own = || AnyLock::new(family, &client, options.clone());
            let lock = if apart { own() } else { shared.clone() };
            let work = Job {
                trial: Arc::clone(&trial),
                who: Who { name: (process, task), life },
                family,
                client: client.clone(),
                end: Arc::clone(&end),
                lock,
                owner: Owner::new(),
                passes,
                asked: process as u64,
                left: process as u64,
                random: random.fork(),
            };
            spawn(gate.guard(work.run()))
        });
        let works = works.collect::<Vec<JoinHandle<_>>>();
        drop(shared);
        for work in works {
            work.await.unwrap();
        }
        if random.percent(50) {
            client.close().await;
        }
        drop(client);
        driver.await.unwrap();
        trial.note(|| format!("process {process} ends life {life}"));
    }
}

/// The end of a session. It wakes all tasks of its process in order.
#[derive(Default)]
pub(super) struct End(Notify);

impl End {
    async fn watch(self: Arc<Self>, mut states: Receiver<SessionState>) {
        drop(states.wait_for(|state| state.ended().is_some()).await);
        self.0.notify_waiters();
    }

    /// Runs `future` until it is done or the session ends.
    pub(super) async fn or(&self, future: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = self.0.notified() => {}
            () = future => {}
        }
    }
}

/// A task in one life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    pub(super) name: Name,
    pub(super) life: u32,
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name: (process, task), life } = self;
        write!(f, "{process}.{task} in life {life}")
    }
}
