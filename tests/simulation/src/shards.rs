//! The work of a process that is a member of a partitioner, and what must hold of all shards: one
//! worker at a time, and, once nothing goes wrong any more, one for each and evenly.

use std::collections::BTreeMap;
use std::slice;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_recipes::{Hold, LockState, Partitioner, Shard};

use super::journal::FOLDER;
use super::process::{Name, Phase, Progress, Trial, Who};
use super::work::Job;

const SHARDS: [&str; 4] = ["a", "b", "c", "d"];

/// The work on one shard, until it is dropped.
struct Working {
    trial: Arc<Trial>,
    who: Who,
    held: usize,
}

impl Job {
    /// Is a member of the partitioner until the calm is over, the session is, or it has enough.
    pub(super) async fn share_work(&mut self) {
        let who = self.who;
        let partitioner = Partitioner::new(&self.client, FOLDER, SHARDS).unwrap();
        let partitioner = partitioner.grace(self.random.millis(0..1000));
        let delay = self.random.pick(&[0, 0, 50]).unwrap_or_default();
        let partitioner = partitioner.delay(Duration::from_millis(delay));
        let polls = self.polls(30, 200);
        let leaves = self.is_storm() && self.random.percent(40);
        let time = self.random.millis(0..4000);
        let stays = if leaves { time } else { Duration::MAX };
        let stop = async { drop(timeout(stays, self.trial.until(Phase::Idle)).await) };
        let request = self.request();
        self.trial.note(|| format!("{who} becomes a member, for {polls} polls"));
        let seeds = Mutex::new(self.random.fork());
        // A storm may end the work at any moment; the end that few faults bring takes seconds.
        let longest = if self.trial.is_planned { 800 } else { 200 };
        let work = |shard: Shard| {
            let working = self.works_on(shard.clone());
            let mut random = seeds.lock().unwrap().fork();
            async move {
                let ends = random.percent(20);
                let last_step = random.millis(0..300);
                while !shard.is_stopping() {
                    let pause = random.millis(1..longest);
                    drop(timeout(pause, shard.stopping()).await);
                    working.look(&shard);
                }
                if ends {
                    sleep(last_step).await;
                    working.look(&shard);
                }
            }
        };
        // Two tasks of one process would have one id.
        let id = format!("{}-{}", who.name.0, who.name.1);
        let member = self.get(&request, polls, partitioner.run_until(&id, stop, work));
        // Some are dropped while they work, and all of them before the calm is long over.
        let longest = if polls == u64::MAX { Duration::MAX } else { time };
        match timeout(longest, member).await {
            Ok(Some(())) => self.trial.count("members that left"),
            Ok(None) => {}
            Err(_) => self.trial.count("acquires cancelled"),
        }
    }

    /// Begins to work on a shard, on which nobody else works.
    fn works_on(&self, shard: Shard) -> Working {
        let who = self.who;
        let held = self.record(slice::from_ref::<Hold>(&shard), |progress, world| {
            world.journal.note(|| format!("{who} WORKS on {shard:?}"));
            // Somebody may have deleted our node before the reply to its create came, which the
            // worker cannot know yet.
            let end = world.journal.end(shard.node(), shard.token().czxid());
            let session = progress.held.last().map(|own| own.session);
            if end.is_some_and(|(_, by)| by != session) {
                return;
            }
            for (held, other) in &progress.works {
                if other.name() != shard.name() {
                    continue;
                }
                world.journal.count("work beside that of a loser");
                let (held, node) = (&progress.held[*held], other.node());
                let whose = &held.who;
                let what = if held.is_alive(&world.journal) {
                    format!("{who} works on {shard:?} beside {whose}")
                } else if held.has_released(world) {
                    format!("{whose} works on {node} that it has released")
                } else if held.has_no_session(world) && !matches!(other.state(), LockState::Lost(_))
                {
                    format!("{whose} works on {node}, whose session is over")
                } else {
                    continue;
                };
                world.journal.violate(what);
            }
        });
        self.trial.progress.lock().unwrap().works.insert(held, shard);
        Working { trial: Arc::clone(&self.trial), who, held }
    }
}

impl Working {
    /// Checks that the work has not gone on for too long.
    fn look(&self, shard: &Shard) {
        let (who, node) = (self.who, shard.node());
        match shard.state() {
            LockState::Lost(loss) => {
                self.trial.violate(format!("{who} works on {node}, which is lost: {loss}"));
            }
            said => self.trial.look_at(self.held, said),
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let Self { trial, who, held } = self;
        let ended = trial.progress.lock().unwrap().works.remove(held);
        if let Some(shard) = &ended {
            trial.note(|| format!("{who} ends its work on {}", shard.node()));
        }
        // The clone of the guard goes when nobody holds a lock of the trial.
        drop(ended);
    }
}

/// True if each shard has one worker, and as many as any other process, or one more or less.
pub(super) fn are_even(progress: &Progress, members: usize) -> bool {
    let mut loads = BTreeMap::<Name, usize>::new();
    let workers = progress.works.keys().map(|held| progress.held[*held].who.name);
    workers.for_each(|who| *loads.entry(who).or_default() += 1);
    let mut shards = progress.works.values().map(|shard| shard.name()).collect::<Vec<_>>();
    shards.sort_unstable();
    let most = loads.values().max().copied().unwrap_or_default();
    let least = if loads.len() < members { 0 } else { loads.values().min().copied().unwrap_or(0) };
    shards == SHARDS && most - least <= 1
}
