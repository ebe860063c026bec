//! What tasks believe that they have, apart from locks: permits, places in rounds, memberships and
//! shards. How they ask for it, look at it and give it back, and what must be true of it.

use std::ops::Range;
use std::time::{Duration, Instant};

use zk_embedded::SessionId;
use zk_recipes::{Error, ErrorKind, Hold, LockState, Release};

use super::check::PROMPT;
use super::clock::now;
use super::journal::Journal;
use super::judge::{self, LockRequest};
use super::network::World;
use super::process::{Progress, Trial, Who};
use super::work::{Job, for_polls, unless_given_up};

/// Nodes by which a task has something.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) who: Who,
    pub(super) session: SessionId,
    /// The nodes, with the transactions that created them.
    pub(super) nodes: Vec<(String, i64)>,
    /// True until it is given back or known to be lost.
    is_believed: bool,
    is_lost: bool,
}

impl Held {
    /// True if all its nodes exist.
    pub(super) fn is_alive(&self, journal: &Journal) -> bool {
        self.nodes.iter().all(|(node, czxid)| journal.is_alive(node, *czxid))
    }

    /// True if its own session has deleted a node of it. The end of a session deletes nodes in its
    /// name, too.
    pub(super) fn has_released(&self, world: &World) -> bool {
        let mut ends = self.nodes.iter().filter_map(|(node, at)| world.journal.end(node, *at));
        world.net.core.sessions().contains(&self.session)
            && ends.any(|(_, by)| by == Some(self.session))
    }

    /// True if its session is over, and its process cannot but know that.
    pub(super) fn has_no_session(&self, world: &World) -> bool {
        !world.net.core.sessions().contains(&self.session)
            && !world.may_be_unaware(self.who.name.0)
            && !world.journal.ended_early.contains(&self.session)
    }
}

impl Progress {
    /// All in which tasks believe, and rightly.
    pub(super) fn valid(&self, journal: &Journal) -> Vec<&Held> {
        self.held.iter().filter(|held| held.is_believed && held.is_alive(journal)).collect()
    }
}

impl Trial {
    /// Compares what is reported of something with the server's state.
    pub(super) fn look_at(&self, held: usize, said: LockState) {
        let held = &mut self.progress.lock().unwrap().held[held];
        let world = &mut *self.world.lock().unwrap();
        let (who, nodes) = (&held.who, &held.nodes);
        let what = match said {
            LockState::Lost(loss) => {
                if !held.is_lost {
                    world.journal.count("losses told");
                    world.journal.note(|| format!("{who} has lost {nodes:?}: {loss}"));
                }
                (held.is_lost, held.is_believed) = (true, false);
                return;
            }
            _ if held.is_lost => format!("{nodes:?} was lost and is {said:?} again"),
            _ if held.has_no_session(world) => {
                format!("{said:?}, of {}, which is over", held.session)
            }
            _ if held.has_released(world) => format!("{said:?}, and has deleted {nodes:?} itself"),
            _ => return,
        };
        world.journal.violate(format!("{who}: {what}"));
    }
}

impl Job {
    /// Waits for something that the task asks for, and judges why it does not get it.
    pub(super) async fn get<T>(
        &self,
        request: &LockRequest,
        polls: u64,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Option<T> {
        match unless_given_up(&self.trial, self.who, polls, asked).await {
            Some(Ok(got)) => return Some(got),
            Some(Err(error)) => judge::failed(&self.trial, request, &error),
            None => self.trial.count("acquires cancelled"),
        }
        None
    }

    /// Records that the task has got what it asked for, and judges its first moment.
    pub(super) fn begins(&self, request: &LockRequest, state: LockState, left: Duration) {
        self.trial.serves(self.who.name);
        judge::begins(&self.trial, request, &self.client, request.at, state, left);
    }

    /// Records what the task has got, as the last of what tasks have, and checks it against the
    /// others. Returns its index.
    pub(super) fn record(
        &self,
        holds: &[Hold],
        check: impl FnOnce(&Progress, &mut World),
    ) -> usize {
        let progress = &mut *self.trial.progress.lock().unwrap();
        let world = &mut *self.trial.world.lock().unwrap();
        let nodes = holds.iter().map(|hold| (hold.node().to_owned(), hold.token().czxid()));
        progress.held.push(Held {
            who: self.who,
            session: self.client.session().unwrap().id,
            nodes: nodes.collect(),
            is_believed: true,
            is_lost: false,
        });
        world.journal.count("grants");
        check(progress, world);
        progress.held.len() - 1
    }

    /// For how long the task has waited, if that is too long after something that it asked for
    /// could be had.
    pub(super) fn delay(&self, request: &LockRequest, since: Option<Instant>) -> Option<Duration> {
        let waited = now() - since.map_or(request.at, |since| request.at.max(since));
        (waited > PROMPT && self.trial.is_reliable(request.at)).then_some(waited)
    }

    /// Has something for a while, and looks at it now and then.
    pub(super) async fn stay_with(
        &mut self,
        held: usize,
        times: Range<u64>,
        state: impl Fn() -> LockState,
    ) {
        for _ in 0..self.random.within(times) {
            tokio::time::sleep(self.random.millis(0..60)).await;
            self.trial.look_at(held, state());
        }
    }

    /// Asks for something once, in one of the ways in which users do.
    pub(super) async fn ask<G, F: Future<Output = Result<G, Error>>>(
        &mut self,
        what: String,
        acquire: impl Future<Output = Result<G, Error>>,
        acquire_within: impl FnOnce(Duration) -> F,
        try_acquire: impl Future<Output = Result<Option<G>, Error>>,
    ) -> Option<(G, LockRequest)> {
        let (who, request) = (self.who, self.request());
        let (patience, polls) = self.patience();
        self.trial.note(|| format!("{who} asks for {what}: {patience:?}, {polls}"));
        let asked = patience.ask(acquire, |time, _| acquire_within(time), try_acquire);
        let got = self.get(&request, polls, asked).await?;
        if got.is_none() {
            self.trial.count(patience.in_vain());
        }
        got.map(|got| (got, request))
    }

    /// Records that something is about to be given back.
    pub(super) fn gives_back(&self, held: usize) {
        self.trial.progress.lock().unwrap().held[held].is_believed = false;
    }

    /// Gives something back in one of the ways in which users do: it is dropped, its release is
    /// not waited for, or it is.
    pub(super) async fn give_back<G, R>(
        &mut self,
        held: usize,
        guard: G,
        release: impl FnOnce(G) -> R,
    ) where
        R: Future<Output = Result<Release, Error>>,
    {
        self.gives_back(held);
        match self.random.within(0..3) {
            0 => drop(guard),
            1 => drop(for_polls(1, release(guard)).await),
            // If that is confirmed, its nodes are gone.
            _ => match release(guard).await {
                Ok(Release::Released) => {
                    let nodes = self.trial.progress.lock().unwrap().held[held].nodes.clone();
                    nodes.iter().for_each(|(node, czxid)| self.is_gone(node, *czxid));
                }
                Ok(_) => self.trial.count("releases of what was lost"),
                Err(error) if error.kind() == ErrorKind::Unconfirmed => {
                    self.trial.count("releases unconfirmed");
                }
                Err(error) if judge::passes(&error) || error.is_session_over() => {}
                Err(error) => self.violate(format!("cannot give it back: {error}")),
            },
        }
    }
}
