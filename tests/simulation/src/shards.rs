//! The work of a process that is a member of a partitioner, and what must hold of all shards: one
//! worker at a time, and, once nothing goes wrong any more, one for each and evenly.

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_embedded::SessionId;
use zk_recipes::{LockState, Partitioner, Shard};

use super::journal::FOLDER;
use super::judge;
use super::process::{Progress, Trial};
use super::work::{Job, unless_given_up};

const SHARDS: [&str; 4] = ["a", "b", "c", "d"];

/// A shard that somebody works on. It is forgotten when the work is dropped.
#[derive(Debug)]
pub(super) struct AtWork {
    who: String,
    process: usize,
    session: SessionId,
    node: String,
    czxid: i64,
    shard: Shard,
}

/// All work, by numbers that are never used again.
#[derive(Debug, Default)]
pub(super) struct Works {
    next: u64,
    now: BTreeMap<u64, AtWork>,
}

/// The work on one shard, until it is dropped.
struct Working {
    trial: Arc<Trial>,
    number: u64,
}

impl Job {
    /// Is a member of the partitioner until the calm is over, the session is, or it has enough.
    pub(super) async fn share_work(&mut self) {
        tokio::time::sleep(self.random.millis(0..60)).await;
        let who = self.who;
        let partitioner = Partitioner::new(&self.client, FOLDER, SHARDS).unwrap();
        let partitioner = partitioner.grace(self.random.millis(0..1000));
        let delay = self.random.pick(&[0, 0, 50]).unwrap_or_default();
        let partitioner = partitioner.delay(std::time::Duration::from_millis(delay));
        let polls = self.polls(30, 200);
        let is_cut = polls != u64::MAX;
        let leaves = self.is_storm() && self.random.percent(40);
        let time = self.random.millis(0..4000);
        let trial = Arc::clone(&self.trial);
        let stop = async {
            match leaves {
                true => drop(tokio::time::timeout(time, trial.calm_is_over()).await),
                false => trial.calm_is_over().await,
            }
        };
        let request = self.request();
        self.trial.note(|| format!("{who} becomes a member, for {polls} polls"));
        let session = self.client.session().map(|session| session.id);
        let seeds = std::sync::Mutex::new(self.random.fork());
        // A storm may end the work at any moment; the end that few faults bring takes seconds.
        let longest = if trial.is_planned { 800 } else { 200 };
        let work = |shard: Shard| {
            let session = session.or(self.client.session().map(|session| session.id));
            let working = Working::begin(&trial, who, session.unwrap_or_default(), shard.clone());
            let mut random = seeds.lock().unwrap().fork();
            async move {
                let ends = random.percent(20);
                let last_step = random.millis(0..300);
                while !shard.is_stopping() {
                    let pause = random.millis(1..longest);
                    drop(tokio::time::timeout(pause, shard.stopping()).await);
                    working.look(&shard);
                }
                if ends {
                    tokio::time::sleep(last_step).await;
                    working.look(&shard);
                }
            }
        };
        // Two tasks of one process would have one id.
        let id = format!("{}-{}", who.name.0, who.name.1);
        let member =
            unless_given_up(&self.trial, who, polls, partitioner.run_until(&id, stop, work));
        let ended = match is_cut {
            // Some are dropped while they work, and all of them before the calm is long over.
            true => tokio::time::timeout(time, member).await.unwrap_or_default(),
            false => member.await,
        };
        match ended {
            Some(Ok(())) => self.trial.count("members that left"),
            Some(Err(error)) => judge::failed(&self.trial, &request, &error),
            None => self.trial.count("acquires cancelled"),
        }
    }
}

impl Working {
    fn begin(
        trial: &Arc<Trial>,
        who: super::process::Who,
        session: SessionId,
        shard: Shard,
    ) -> Self {
        let mut progress = trial.progress.lock().unwrap();
        let mut world = trial.world.lock().unwrap();
        let sessions = world.net.core.sessions();
        let works = &progress.works.now;
        let unaware = works.values().filter(|one| world.may_be_unaware(one.process));
        let unaware = unaware.map(|one| one.process).collect::<Vec<_>>();
        let journal = &mut world.journal;
        journal.count("grants");
        journal.note(|| format!("{who} WORKS on {shard:?}"));
        let node = shard.node().to_owned();
        let czxid = shard.token().czxid();
        // Somebody may have deleted our node before the reply to its create came, which the worker
        // cannot know yet.
        let is_deleted = journal.end(&node, czxid).is_some_and(|(_, by)| by != Some(session));
        for other in progress.works.now.values() {
            if is_deleted || other.shard.name() != shard.name() {
                continue;
            }
            journal.count("work beside that of a loser");
            let AtWork { who: whose, session, node, czxid, .. } = other;
            let by = journal.end(node, *czxid).and_then(|(_, by)| by);
            if journal.is_alive(node, *czxid) {
                journal.violate(format!("{who} works on {shard:?} beside {whose}"));
            } else if by == Some(*session) && sessions.contains(session) {
                // The end of a session deletes its nodes in its name, too.
                journal.violate(format!("{whose} works on {node} that it has released"));
            } else if !sessions.contains(session)
                && !unaware.contains(&other.process)
                && !journal.ended_early.contains(session)
                && !matches!(other.shard.state(), LockState::Lost(_))
            {
                journal.violate(format!("{whose} works on {node}, whose session is over"));
            }
        }
        let (process, who) = (who.name.0, who.to_string());
        let at_work = AtWork { who, process, session, node, czxid, shard };
        let works = &mut progress.works;
        works.next += 1;
        let number = works.next;
        works.now.insert(number, at_work);
        Self { trial: Arc::clone(trial), number }
    }

    /// Checks that the work has not gone on for too long.
    fn look(&self, shard: &Shard) {
        let said = shard.state();
        let progress = self.trial.progress.lock().unwrap();
        let mut world = self.trial.world.lock().unwrap();
        let sessions = world.net.core.sessions();
        let AtWork { who, process, session, node, czxid, .. } = &progress.works.now[&self.number];
        let is_unaware = world.may_be_unaware(*process);
        let is_over = !sessions.contains(session) && !is_unaware;
        let journal = &mut world.journal;
        let by_itself = journal.end(node, *czxid).is_some_and(|(_, by)| by == Some(*session));
        match said {
            LockState::Lost(loss) => {
                journal.violate(format!("{who} works on {node}, which is lost: {loss}"));
            }
            _ if by_itself && sessions.contains(session) => {
                journal.violate(format!("{who} works on {node} that it has released"));
            }
            _ if is_over && !journal.ended_early.contains(session) => {
                journal.violate(format!("{who} works on {node} in {session}, which is over"));
            }
            _ => {}
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let ended = self.trial.progress.lock().unwrap().works.now.remove(&self.number);
        if let Some(AtWork { who, node, .. }) = &ended {
            self.trial.note(|| format!("{who} ends its work on {node}"));
        }
        // The clone of the guard goes when nobody holds a lock of the trial.
        drop(ended);
    }
}

/// True if each shard has one worker, and as many as any other process, or one more or less.
pub(super) fn are_even(progress: &Progress, members: usize) -> bool {
    let mut loads = BTreeMap::<&str, usize>::new();
    let mut shards = progress.works.now.values().map(|work| work.shard.name()).collect::<Vec<_>>();
    shards.sort_unstable();
    progress.works.now.values().for_each(|work| *loads.entry(&work.who).or_default() += 1);
    let most = loads.values().max().copied().unwrap_or_default();
    let least = if loads.len() < members { 0 } else { loads.values().min().copied().unwrap_or(0) };
    shards == SHARDS && most - least <= 1
}
