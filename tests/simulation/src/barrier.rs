//! The work of a task at a barrier, and what must be true of it: nobody passes while it stands, and
//! everybody does once it is open.

use zk_embedded::{Change, Commit, Zxid};
use zk_recipes::Barrier;

use super::judge::LockRequest;
use super::work::Job;

/// The node of the barrier, in the folder where the operator deletes and writes.
pub(super) const BARRIER: &str = "/locks/simulated/barrier";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Close,
    Open,
    Look,
    Wait,
}

impl Job {
    /// Does something at the barrier. In the calm, who closes it opens it again.
    pub(super) async fn use_barrier(&mut self) {
        let acts: &[Act] = match self.random.within(0..100) {
            0..30 if !self.is_storm() => &[Act::Close, Act::Open],
            0..20 => &[Act::Close],
            20..35 => &[Act::Open],
            35..50 => &[Act::Look],
            _ => &[Act::Wait],
        };
        for act in acts {
            tokio::time::sleep(self.random.millis(0..60)).await;
            self.act(*act).await;
        }
    }

    async fn act(&mut self, act: Act) {
        let barrier = Barrier::new(&self.client, BARRIER).unwrap();
        let (who, request, polls) = (self.who, self.request(), self.polls(10, 12));
        let since = self.trial.world.lock().unwrap().net.core.last_zxid();
        self.trial.note(|| format!("{who} begins to {act:?}, {polls}"));
        let acting = async {
            match act {
                Act::Close => barrier.close().await.map(|()| false),
                Act::Open => barrier.open().await.map(|()| true),
                Act::Look => barrier.is_open().await,
                Act::Wait => barrier.wait().await.map(|()| true),
            }
        };
        if let Some(is_open) = self.get(&request, polls, acting).await {
            self.saw_barrier(act, &request, since, is_open);
        }
    }

    /// Checks that the barrier was open, or closed, at a moment since the request was made, and
    /// that a task that waited for that moment passes promptly.
    fn saw_barrier(&self, act: Act, request: &LockRequest, since: Zxid, is_open: bool) {
        let world = &mut *self.trial.world.lock().unwrap();
        let first = first_moment(world.net.core.history(), since, is_open);
        let (who, journal) = (self.who, &mut world.journal);
        journal.note(|| format!("{who} is done: {act:?}, open: {is_open}, {first:?}"));
        journal.count(match act {
            Act::Wait => "grants",
            Act::Close => "closed",
            Act::Open => "opened",
            Act::Look if is_open => "found open",
            Act::Look => "found closed",
        });
        let Some(first) = first else {
            return journal.violate(format!(
                "{who}: {act:?} ends as if the barrier was open, {is_open}, and it never was since"
            ));
        };
        if act != Act::Wait {
            return;
        }
        self.trial.serves(who.name);
        if first > since {
            journal.count("waits that were worth it");
        }
        if let Some(waited) = self.delay(request, journal.times.get(&first).copied()) {
            journal.violate(format!("{who} passes {waited:?} after it could"));
        }
    }
}

/// The first transaction not before `since` after which the barrier was open, or closed.
fn first_moment(history: &[Commit], since: Zxid, is_open: bool) -> Option<Zxid> {
    let changes = history.iter().filter_map(|Commit { zxid, change, path, .. }| match change {
        Change::Created if path == BARRIER => Some((*zxid, false)),
        Change::Deleted if path == BARRIER => Some((*zxid, true)),
        _ => None,
    });
    let before = changes.clone().take_while(|(zxid, _)| *zxid <= since).last();
    if before.is_none_or(|(_, open)| open) == is_open {
        return Some(since);
    }
    let mut later = changes.skip_while(|(zxid, _)| *zxid <= since);
    later.find(|(_, open)| *open == is_open).map(|(zxid, _)| zxid)
}
