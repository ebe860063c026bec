//! The work of a task that takes several locks together, and what must hold whenever it has them:
//! nobody else has one of them.

use zk_recipes::{MultiGuard, MultiLock};

use super::held::Held;
use super::journal::{FOLDER, SEVERAL};
use super::judge;
use super::locks::{Patience, in_time};
use super::process::Phase;
use super::work::{Job, unless_given_up};

impl Job {
    /// Takes two locks or three, once.
    pub(super) async fn take_several(&mut self) {
        tokio::time::sleep(self.random.millis(0..60)).await;
        let mut folders = SEVERAL.map(|name| format!("{FOLDER}/{name}")).to_vec();
        let first = self.random.within(0..3) as usize;
        folders.rotate_left(first);
        if self.random.percent(70) {
            folders.pop();
        }
        let lock = MultiLock::new(&self.client, &folders).unwrap();
        let (who, request) = (self.who, self.request());
        let (patience, polls) = match self.random.within(0..10) {
            0..2 if self.trial.phase() == Phase::Storm => (Patience::Tries, u64::MAX),
            _ if !self.is_storm() => (Patience::Waits, u64::MAX),
            2..4 => (Patience::Within(self.random.millis(0..300)), u64::MAX),
            4 => (Patience::Waits, self.random.within(1..12)),
            _ => (Patience::Waits, u64::MAX),
        };
        self.trial.note(|| format!("{who} asks for {folders:?}: {patience:?}, {polls}"));
        let acquire = async {
            match patience {
                Patience::Waits => lock.acquire().await.map(Some),
                Patience::Within(time) => in_time(lock.acquire_within(time).await),
                Patience::Tries => lock.try_acquire().await,
            }
        };
        match unless_given_up(&self.trial, who, polls, acquire).await {
            Some(Ok(Some(guard))) => {
                let (state, left) = (guard.state(), guard.remaining());
                judge::begins(&self.trial, &request, &self.client, request.at, state, left);
                self.keep_several(guard).await;
            }
            Some(Ok(None)) | None => self.trial.count("acquires cancelled"),
            Some(Err(error)) => judge::failed(&self.trial, &request, &error),
        }
    }

    /// Holds the locks for a while, and releases them.
    async fn keep_several(&mut self, guard: MultiGuard) {
        let held = self.note_several(&guard);
        for _ in 0..self.random.within(1..3) {
            tokio::time::sleep(self.random.millis(0..60)).await;
            self.look_at(held, guard.state());
        }
        self.give_back(held, guard, |guard| guard.release()).await;
    }

    /// Records locks that were taken. Nobody else may have one of them.
    fn note_several(&self, guard: &MultiGuard) -> usize {
        self.trial.serves(self.who.name);
        let mut progress = self.trial.progress.lock().unwrap();
        let mut world = self.trial.world.lock().unwrap();
        progress.held.push(Held::new(self, &world, guard.locks().iter().map(|lock| lock.node())));
        let (who, journal) = (self.who, &mut world.journal);
        journal.count("grants");
        journal.note(|| format!("{who} HOLDS {guard:?}"));
        let folders = |held: &Held| {
            let folder =
                |(node, _): &(String, i64)| node.rsplit_once('/').map(|it| it.0.to_owned());
            held.nodes.iter().filter_map(folder).collect::<Vec<_>>()
        };
        let valid = progress.held.iter().filter(|held| held.is_valid(journal));
        let mut taken = valid.flat_map(folders).collect::<Vec<_>>();
        taken.sort();
        if let Some(twice) = taken.windows(2).find(|two| two[0] == two[1]) {
            journal.violate(format!("{who} holds {twice:?}, as somebody else does"));
        }
        progress.held.len() - 1
    }
}
