//! The work of a task that wants permits of a semaphore, one or several, and what must hold
//! whenever it gets some.

use std::sync::Arc;

use zk_embedded::SessionId;
use zk_recipes::{Error, ErrorKind, LockState, Permit, Release, Semaphore};

use super::journal::{FOLDER, Role};
use super::judge::{self, Ask};
use super::locks::Manner;
use super::network::now;
use super::process::Phase;
use super::work::{Job, for_polls};

/// Permits that a task got together.
#[derive(Clone, Debug)]
pub(super) struct Held {
    who: String,
    session: SessionId,
    /// Their nodes, with the transactions that created them.
    nodes: Vec<(String, i64)>,
    /// True until they are given back or known to be lost.
    is_believed: bool,
    is_lost: bool,
}

impl Job {
    /// Asks for permits once.
    pub(super) async fn use_permits(&mut self) {
        tokio::time::sleep(self.random.millis(0..60)).await;
        let permits = self.stage.cast.lock().unwrap().permits;
        let semaphore = Semaphore::new(&self.client, FOLDER, permits).unwrap();
        let wanted = self.random.within(1..u64::from(permits) + 1) as u32;
        let (who, role) = (self.who, Role::Exclusive);
        let ask = Ask { who, role, level: None, passes: 0, has_term: false, at: now() };
        let (manner, polls) = match self.random.within(0..10) {
            _ if !self.is_storm() => (Manner::Waits, u64::MAX),
            0..2 => (Manner::Within(self.random.millis(0..300)), u64::MAX),
            2 => (Manner::Waits, self.random.within(1..12)),
            3..5 => (Manner::Tries, u64::MAX),
            _ => (Manner::Waits, u64::MAX),
        };
        self.stage.note(|| format!("{who} asks for {wanted} of {permits}: {manner:?}, {polls}"));
        let acquire = async {
            match manner {
                Manner::Waits => semaphore.acquire_many(wanted).await.map(Some),
                Manner::Within(time) => in_time(semaphore.acquire_within(time).await),
                Manner::Tries => {
                    self.stage.count("permits tried for");
                    semaphore.try_acquire().await
                }
            }
        };
        match for_polls(polls, acquire).await {
            Some(Ok(Some(permit))) => self.keep_permits(permit, permits).await,
            Some(Ok(None)) | None => self.stage.count("acquires cancelled"),
            Some(Err(error)) => judge::failed(&self.stage, &ask, &error),
        }
    }

    /// Holds permits for a while, and gives them back.
    async fn keep_permits(&mut self, permit: Permit, permits: u32) {
        let held = self.note_permits(&permit, permits);
        for _ in 0..self.random.within(1..3) {
            tokio::time::sleep(self.random.millis(0..60)).await;
            self.look_at_permits(held, &permit);
        }
        self.stage.cast.lock().unwrap().held[held].is_believed = false;
        match self.random.within(0..3) {
            0 => drop(permit),
            1 => drop(for_polls(1, permit.release()).await),
            _ => match permit.release().await {
                Ok(Release::Released) => {
                    let nodes = self.stage.cast.lock().unwrap().held[held].nodes.clone();
                    let world = self.stage.world.lock().unwrap();
                    let left = nodes.iter().find(|(node, at)| world.journal.is_alive(node, *at));
                    let left = left.cloned();
                    drop(world);
                    if let Some((node, _)) = left {
                        self.violate(format!("{node} is there after its release"));
                    }
                }
                Ok(_) => self.stage.count("releases of what was lost"),
                Err(error) if error.kind() == ErrorKind::Unconfirmed => {
                    self.stage.count("releases unconfirmed");
                }
                Err(error) if judge::passes(&error) || error.is_session_over() => {}
                Err(error) => self.violate(format!("cannot give permits back: {error}")),
            },
        }
    }

    /// Records permits that were acquired. All permits whose nodes exist must be no more than there
    /// are.
    fn note_permits(&self, permit: &Permit, permits: u32) -> usize {
        let mut cast = self.stage.cast.lock().unwrap();
        let mut world = self.stage.world.lock().unwrap();
        if self.stage.phase() != Phase::Storm {
            *cast.served.entry(self.who.name).or_default() += 1;
        }
        let node = |path: &str| (path.to_owned(), world.journal.created(path).unwrap_or_default());
        let held = Held {
            who: self.who.to_string(),
            session: self.client.session().unwrap().id,
            nodes: permit.leases().iter().map(|lease| node(lease.node())).collect(),
            is_believed: true,
            is_lost: false,
        };
        cast.held.push(held);
        let journal = &mut world.journal;
        let is_alive =
            |held: &&Held| held.nodes.iter().all(|(node, czxid)| journal.is_alive(node, *czxid));
        let believers = cast.held.iter().filter(|held| held.is_believed).filter(is_alive);
        let believers = believers.cloned().collect::<Vec<_>>();
        let given = believers.iter().map(|held| held.nodes.len()).sum::<usize>();
        let who = self.who;
        journal.count("grants");
        if permit.leases().len() > 1 {
            journal.count("permits of many");
        }
        journal.note(|| format!("{who} HOLDS {permit:?}, and {given} of {permits} are given"));
        if given > permits as usize {
            let who = believers.iter().map(|held| held.who.as_str()).collect::<Vec<_>>();
            journal.violate(format!("{given} of {permits} permits are given, to {who:?}"));
        }
        cast.held.len() - 1
    }

    /// Compares what permits report with the server's state.
    fn look_at_permits(&self, held: usize, permit: &Permit) {
        let (said, who) = (permit.state(), self.who);
        let stage = Arc::clone(&self.stage);
        let mut cast = stage.cast.lock().unwrap();
        let mut world = stage.world.lock().unwrap();
        let is_alive = world.core.sessions().contains(&cast.held[held].session);
        let journal = &mut world.journal;
        let Held { session, is_lost, is_believed, .. } = &mut cast.held[held];
        match said {
            LockState::Lost(loss) => {
                if !*is_lost {
                    journal.count("permits lost");
                    journal.note(|| format!("{who} has lost its permits: {loss}"));
                }
                (*is_lost, *is_believed) = (true, false);
            }
            _ if *is_lost => journal.violate(format!("{who}: lost permits are {said:?} again")),
            _ if !is_alive && !journal.ended_early.contains(session) => {
                journal.violate(format!("{who}: {said:?}, of {session}, which is over"));
            }
            _ => {}
        }
    }
}

/// The permit, or `None` if the time was over before.
fn in_time(acquired: Result<Permit, Error>) -> Result<Option<Permit>, Error> {
    match acquired {
        Err(error) if error.kind() == ErrorKind::TimedOut => Ok(None),
        acquired => acquired.map(Some),
    }
}
