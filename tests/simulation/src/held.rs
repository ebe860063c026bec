//! What tasks believe that they have, apart from locks: permits, places in rounds and memberships.

use zk_embedded::SessionId;
use zk_recipes::{Error, ErrorKind, LockState, Release};

use super::journal::Journal;
use super::judge;
use super::network::World;
use super::work::{Job, for_polls};

/// Nodes by which a task has something.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) who: String,
    process: usize,
    session: SessionId,
    /// The nodes, with the transactions that created them.
    pub(super) nodes: Vec<(String, i64)>,
    /// True until it is given back or known to be lost.
    is_believed: bool,
    is_lost: bool,
}

impl Held {
    pub(super) fn new<'n>(job: &Job, world: &World, nodes: impl Iterator<Item = &'n str>) -> Self {
        let node = |path: &str| (path.to_owned(), world.journal.created(path).unwrap_or_default());
        Self {
            who: job.who.to_string(),
            process: job.who.name.0,
            session: job.client.session().unwrap().id,
            nodes: nodes.map(node).collect(),
            is_believed: true,
            is_lost: false,
        }
    }

    /// True if the task believes in it, and rightly.
    pub(super) fn is_valid(&self, journal: &Journal) -> bool {
        self.is_believed && self.nodes.iter().all(|(node, czxid)| journal.is_alive(node, *czxid))
    }
}

impl Job {
    /// Compares what is reported of something with the server's state.
    pub(super) fn look_at(&self, held: usize, said: LockState) {
        let who = self.who;
        let mut progress = self.trial.progress.lock().unwrap();
        let mut world = self.trial.world.lock().unwrap();
        let Held { process, session, nodes, is_lost, is_believed, .. } = &mut progress.held[held];
        let session_lives = world.net.core.sessions().contains(session);
        let is_unaware = world.may_be_unaware(*process);
        let journal = &mut world.journal;
        let by_itself = nodes.iter().find(|(node, czxid)| {
            journal.end(node, *czxid).is_some_and(|(_, by)| by == Some(*session)) && session_lives
        });
        match said {
            LockState::Lost(loss) => {
                if !*is_lost {
                    journal.count("losses told");
                    journal.note(|| format!("{who} has lost {nodes:?}: {loss}"));
                }
                (*is_lost, *is_believed) = (true, false);
            }
            _ if *is_lost => journal.violate(format!("{who}: what was lost is {said:?} again")),
            _ if !session_lives && !is_unaware && !journal.ended_early.contains(session) => {
                journal.violate(format!("{who}: {said:?}, of {session}, which is over"));
            }
            _ if by_itself.is_some() => {
                journal.violate(format!("{who}: {said:?}, and has deleted {by_itself:?} itself"));
            }
            _ => {}
        }
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
            _ => {
                let released = release(guard).await;
                self.has_given_back(held, released);
            }
        }
    }

    /// Judges how something was given back: if that is confirmed, its nodes are gone.
    fn has_given_back(&self, held: usize, released: Result<Release, Error>) {
        match released {
            Ok(Release::Released) => {
                let nodes = self.trial.progress.lock().unwrap().held[held].nodes.clone();
                let world = self.trial.world.lock().unwrap();
                let left = nodes.iter().find(|(node, at)| world.journal.is_alive(node, *at));
                drop(world);
                if let Some((node, _)) = left {
                    self.violate(format!("{node} is there after its release"));
                }
            }
            Ok(_) => self.trial.count("releases of what was lost"),
            Err(error) if error.kind() == ErrorKind::Unconfirmed => {
                self.trial.count("releases unconfirmed");
            }
            Err(error) if judge::passes(&error) || error.is_session_over() => {}
            Err(error) => self.violate(format!("cannot give it back: {error}")),
        }
    }
}
