//! The work of a task that wants permits of a semaphore, one or several, and what must hold
//! whenever it gets some.

use zk_recipes::{Layout, Options, Permit, Semaphore};

use super::held::Held;
use super::journal::FOLDER;
use super::judge;
use super::locks::{Patience, in_time};
use super::process::Phase;
use super::work::{Job, unless_given_up};

impl Job {
    /// Asks for permits once.
    pub(super) async fn use_permits(&mut self) {
        tokio::time::sleep(self.random.millis(0..60)).await;
        let (permits, layout) = {
            let progress = self.trial.progress.lock().unwrap();
            (progress.permits, progress.layout.clone())
        };
        if layout == Layout::KAZOO {
            self.trial.count("permits in kazoo's layout");
        }
        let options = Options::new().layout(layout);
        let semaphore = Semaphore::with_options(&self.client, FOLDER, permits, options).unwrap();
        let wanted = self.random.within(1..u64::from(permits) + 1) as u32;
        let (who, request) = (self.who, self.request());
        let (patience, polls) = match self.random.within(0..10) {
            3..5 if self.trial.phase() == Phase::Storm => (Patience::Tries, u64::MAX),
            _ if !self.is_storm() => (Patience::Waits, u64::MAX),
            0..2 => (Patience::Within(self.random.millis(0..300)), u64::MAX),
            2 => (Patience::Waits, self.random.within(1..12)),
            _ => (Patience::Waits, u64::MAX),
        };
        self.trial.note(|| format!("{who} asks for {wanted} of {permits}: {patience:?}, {polls}"));
        let acquire = async {
            match patience {
                Patience::Waits => semaphore.acquire_many(wanted).await.map(Some),
                Patience::Within(time) => in_time(semaphore.acquire_within(time).await),
                Patience::Tries => {
                    self.trial.count("permits tried for");
                    semaphore.try_acquire().await
                }
            }
        };
        match unless_given_up(&self.trial, who, polls, acquire).await {
            Some(Ok(Some(permit))) => {
                judge::begins(
                    &self.trial,
                    &request,
                    &self.client,
                    request.at,
                    permit.state(),
                    permit.remaining(),
                );
                self.keep_permits(permit, permits).await;
            }
            Some(Ok(None)) | None => self.trial.count("acquires cancelled"),
            Some(Err(error)) => judge::failed(&self.trial, &request, &error),
        }
    }

    /// Holds permits for a while, and gives them back.
    async fn keep_permits(&mut self, permit: Permit, permits: u32) {
        let held = self.note_permits(&permit, permits);
        for _ in 0..self.random.within(1..3) {
            tokio::time::sleep(self.random.millis(0..60)).await;
            self.look_at(held, permit.state());
        }
        self.give_back(held, permit, |permit| permit.release()).await;
    }

    /// Records permits that were acquired. All permits whose nodes exist must be no more than there
    /// are.
    fn note_permits(&self, permit: &Permit, permits: u32) -> usize {
        self.trial.serves(self.who.name);
        let mut progress = self.trial.progress.lock().unwrap();
        let mut world = self.trial.world.lock().unwrap();
        let leases = permit.leases().iter();
        progress.held.push(Held::new(self, &world, leases.map(|lease| lease.node())));
        let journal = &mut world.journal;
        let valid = progress.held.iter().filter(|held| held.is_valid(journal)).collect::<Vec<_>>();
        let given = valid.iter().map(|held| held.nodes.len()).sum::<usize>();
        let who = self.who;
        journal.count("grants");
        if permit.leases().len() > 1 {
            journal.count("permits of many");
        }
        journal.note(|| format!("{who} HOLDS {permit:?}, and {given} of {permits} are given"));
        if given > permits as usize {
            let who = valid.iter().map(|held| held.who.as_str()).collect::<Vec<_>>();
            journal.violate(format!("{given} of {permits} permits are given, to {who:?}"));
        }
        progress.held.len() - 1
    }
}
