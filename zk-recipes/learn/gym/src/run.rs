//! Runs a plan from its begin to its end, in one thread and in virtual time.
//!
//! When everybody has had their turns, one more process comes, to see whether the lock is free.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep_until, timeout};
use zk_client::CreateOptions;
use zk_simulation::clock::{self, now};
use zk_simulation::gate::Mode as GateMode;
use zk_simulation::wire::{Dialer, pump};

use crate::contender::{FOLDER, Result};
use crate::plan::{Mode, Plan, TIMEOUT};
use crate::process::{Make, Part, REST};
use crate::reason;
use crate::record::{Break, Record};
use crate::store::Till;
use crate::world::{self, NAMES, Shared, World, name};

/// How long the last one holds the lock.
const HOLD_AT_THE_END: Duration = Duration::from_millis(100);

/// How long the last one may wait for a lock that is free.
const PATIENCE_AT_THE_END: Duration = TIMEOUT.saturating_mul(8);

/// What a run has come to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) record: Record,
    /// Why it was broken, if it was.
    pub(crate) reason: String,
}

/// Runs a plan with a program.
pub(crate) fn run(plan: &Plan, make: &Make) -> Outcome {
    let mut builder = Builder::new_current_thread();
    let Ok(runtime) = builder.enable_time().start_paused(true).build() else {
        return Outcome::default();
    };
    LocalSet::new().block_on(&runtime, async {
        let world = Arc::new(Mutex::new(World::new(plan)));
        spawn_local(pump(Arc::clone(&world)));
        // What the operator needs is only the folder.
        if set(&world, plan).await.is_ok() {
            world::lock(&world).start = now();
            Stage { world: Arc::clone(&world), plan, make, tasks: Vec::new() }.play().await;
        }
        let mut world = world::lock(&world);
        let reason = reason::why(&world);
        Outcome { record: std::mem::take(&mut world.record), reason }
    })
}

/// Connects the operator, who creates the folder.
async fn set(world: &Shared, plan: &Plan) -> Result<()> {
    let dialer = Dialer { network: Arc::clone(world), party: None };
    let builder = clock::client().seed(0).session_timeout(Duration::from_secs(3600));
    let (client, driver) = builder.connector(dialer).split("zk:2181")?;
    spawn_local(driver);
    let options = match plan.has_container {
        true => CreateOptions::container(),
        false => CreateOptions::persistent(),
    };
    client.create(FOLDER, b"", &options).await?;
    world::lock(world).operator = Some(client);
    Ok(())
}

struct Stage<'p> {
    world: Shared,
    plan: &'p Plan,
    make: &'p Make,
    /// The processes that were started, with their indices.
    tasks: Vec<(usize, JoinHandle<Option<()>>)>,
}

impl Stage<'_> {
    async fn play(mut self) {
        let till = Till::new();
        let part = |index: usize, mode, hold| Part {
            world: Arc::clone(&self.world),
            index,
            mode,
            hold,
            till: std::rc::Rc::clone(&till),
            make: Arc::clone(self.make),
        };
        let parts = self.plan.contenders.iter().enumerate();
        let parts = parts.map(|(index, one)| {
            (part(index, one.mode, Duration::from_millis(one.hold)), one.start)
        });
        let parts = parts.collect::<Vec<_>>();
        let last = NAMES.len() - 1;
        let last = part(last, Mode::Write, HOLD_AT_THE_END);
        for (part, start) in &parts {
            let start = Duration::from_millis(*start);
            self.tasks.push((part.index, part.clone().start(start)));
        }
        let deadline = Instant::from_std(now()) + self.plan.patience();
        if !self.all_are_done(&parts, deadline).await {
            return;
        }
        {
            let mut world = world::lock(&self.world);
            world.is_calm = true;
            if let Some(actor) = world.actors.get_mut(last.index) {
                actor.turns_left = 1;
            }
            world.note(last.index, false, "comes last, to see whether the lock is free");
        }
        let deadline = Instant::from_std(now()) + PATIENCE_AT_THE_END;
        self.tasks.push((last.index, last.clone().start(Duration::ZERO)));
        let last = [(last, 0)];
        self.all_are_done(&last, deadline).await;
    }

    /// Waits until all of these have had their turns. Returns false if the run is over.
    async fn all_are_done(&mut self, parts: &[(Part, u64)], deadline: Instant) -> bool {
        let changed = Arc::clone(&world::lock(&self.world).changed);
        loop {
            if self.has_panicked().await {
                return false;
            }
            let (is_over, waiting, dead) = {
                let world = world::lock(&self.world);
                let is_over = world.record.violation.is_some() || world.record.is_unwritten;
                let of = |index: usize| world.actors.get(index).filter(|it| it.turns_left > 0);
                let waiting = parts.iter().map(|(part, _)| part.index);
                let waiting = waiting.filter(|index| of(*index).is_some()).collect::<Vec<_>>();
                let is_dead = |index: &usize| {
                    of(*index).is_some_and(|actor| actor.gate.mode() == GateMode::Killed)
                };
                let dead = waiting.iter().copied().filter(is_dead).collect::<Vec<_>>();
                (is_over, waiting, dead)
            };
            if is_over {
                return false;
            }
            let Some(first) = waiting.first() else {
                return true;
            };
            for (part, _) in parts.iter().filter(|(part, _)| dead.contains(&part.index)) {
                self.tasks.push((part.index, part.clone().start(REST)));
            }
            tokio::select! {
                biased;
                () = changed.notified() => {}
                () = sleep_until(deadline) => {
                    let mut world = world::lock(&self.world);
                    let text = format!("{} waits for ever", name(*first));
                    world.violate(Break::Stuck, waiting, text);
                    return false;
                }
            }
        }
    }

    /// True if a program has panicked, which is recorded.
    async fn has_panicked(&mut self) -> bool {
        for (index, task) in self.tasks.iter_mut().filter(|(_, task)| task.is_finished()) {
            let Ok(Err(error)) = timeout(Duration::ZERO, task).await else {
                continue;
            };
            if error.is_panic() {
                let text = format!("the program of {} panics", name(*index));
                world::lock(&self.world).violate(Break::Panic, vec![*index], text);
                return true;
            }
        }
        self.tasks.retain(|(_, task)| !task.is_finished());
        false
    }
}
