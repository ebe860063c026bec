//! The work of a task where contenders requeue: it releases the lock and asks for it again in one
//! transaction. Now and then it does something else.

use std::sync::Arc;
use std::time::Duration;

use zk_recipes::Options;

use super::journal::Role;
use super::judge;
use super::locks::{AnyGuard, AnyLock, Patience};
use super::process::Phase;
use super::work::{Job, attend, unless_given_up};

/// Longer than most turns of all others together, in milliseconds.
const AWAY: u64 = 80;

impl Job {
    /// Acquires the lock again and again until the run is over.
    pub(super) async fn requeue_again(&mut self) {
        let mut held = None;
        while self.client.state().ended().is_none() && self.trial.phase() <= Phase::Calm {
            held = self.next(held).await;
            if let Some((guard, grant)) = &held {
                self.keep(guard, *grant).await;
            }
            let strays = self.strays();
            if let Some((guard, grant)) = held.take_if(|_| strays) {
                self.part(guard, grant).await;
            }
        }
        if let Some((guard, grant)) = held {
            judge::leaves(&self.trial, grant);
            drop(guard.release().await);
        }
    }

    /// True if this turn is an unusual one.
    fn strays(&mut self) -> bool {
        let unrest = self.trial.progress.lock().unwrap().unrest;
        self.is_storm() && unrest > 0 && self.random.percent(unrest)
    }

    /// Releases the lock, if it is held, and asks for it again.
    async fn next(&mut self, held: Option<(AnyGuard, usize)>) -> Option<(AnyGuard, usize)> {
        let (trial, who) = (Arc::clone(&self.trial), self.who);
        let strays = self.strays();
        let requeues = match self.trial.is_planned {
            true => self.asked % 4 < 3,
            false => self.random.percent(20),
        };
        self.asked += 1;
        let (patience, polls) = match self.random.within(0..4) {
            _ if !strays => (Patience::Waits, u64::MAX),
            0 => (Patience::Within(self.random.millis(0..40)), u64::MAX),
            1 => (Patience::Tries, u64::MAX),
            2 => (Patience::Waits, self.random.within(1..8)),
            _ => {
                self.stand_beside().await;
                (Patience::Waits, u64::MAX)
            }
        };
        let request = self.request();
        if let Some((_, grant)) = &held {
            judge::leaves(&trial, *grant);
        }
        let acquire = async {
            match held {
                Some((AnyGuard::Plain(guard), _)) if requeues && !strays => {
                    guard.requeue().await.map(AnyGuard::Plain).map(Some)
                }
                held => {
                    drop(held);
                    self.lock.request(&self.owner, request.role, patience).await
                }
            }
        };
        let acquire = attend(&trial, who, acquire);
        match unless_given_up(&trial, who, polls, acquire).await {
            Some((Ok(Some(guard)), heard)) => {
                let grant = judge::granted(&trial, &request, &self.client, &guard, Some(heard));
                return Some((guard, grant));
            }
            Some((Err(error), _)) => judge::failed(&trial, &request, &error),
            Some((Ok(None), _)) => trial.count(patience.in_vain()),
            None => {
                trial.count("acquires cancelled");
                trial.note(|| format!("{who} has cancelled"));
            }
        }
        // Most tasks ask again at once, in the place of the released one.
        if self.random.percent(30) {
            tokio::time::sleep(self.random.millis(0..AWAY)).await;
        }
        None
    }

    /// Holds the lock for a moment.
    async fn keep(&mut self, guard: &AnyGuard, grant: usize) {
        match self.random.within(0..40) {
            // Otherwise the turns of the others are countless while a process stands still.
            _ if self.trial.is_planned => tokio::time::sleep(Duration::from_millis(100)).await,
            0 => drop(judge::look(&self.trial, grant, guard)),
            1..16 => tokio::time::sleep(self.random.millis(0..4)).await,
            _ => {}
        }
        if !self.strays() {
            return;
        }
        let time = self.random.millis(0..AWAY);
        match self.random.within(0..4) {
            0 => self.write(guard, grant).await,
            1 => drop(tokio::time::timeout(time, guard.lost()).await),
            2 => self.until_asked_back(guard, time).await,
            _ => tokio::time::sleep(time).await,
        }
        judge::look(&self.trial, grant, guard);
    }

    /// Releases the lock and stays away for a while.
    async fn part(&mut self, guard: AnyGuard, grant: usize) {
        let (node, czxid) = judge::leaves(&self.trial, grant);
        self.release(guard, &node, czxid).await;
        self.trial.count("turns left out");
        if self.random.percent(30) {
            self.lock = AnyLock::new(self.family, &self.client, Options::new());
        }
        if let away @ 1.. = self.random.pick(&[0, 2, AWAY]).unwrap_or(0) {
            tokio::time::sleep(self.random.millis(0..away)).await;
        }
    }

    /// Queues up a second time, with this lock or another one, and gives up soon.
    async fn stand_beside(&mut self) {
        let beside = match self.random.percent(50) {
            true => self.lock.clone(),
            false => AnyLock::new(self.family, &self.client, Options::new()),
        };
        let time = self.random.millis(0..AWAY);
        let asked = beside.request(&self.owner, Role::Exclusive, Patience::Waits);
        // A guard that it gets is released at once.
        drop(tokio::time::timeout(time, asked).await);
        self.trial.count("places beside the own");
        if self.random.percent(50) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
