//! The work of a party of a double barrier, and what must be true of each round: it has so many
//! parties, which are in no other one, and it ends for all of them together.

use std::slice;

use zk_embedded::{Commit, Zxid};
use zk_recipes::{DoubleBarrier, Hold, Round};

use super::journal::FOLDER;
use super::judge::{self, LockRequest};
use super::nodes::nodes_at;
use super::process::Phase;
use super::work::{Job, unless_given_up};

/// The nodes of a round, with the transactions that created them.
type Members = Vec<(String, i64)>;

impl Job {
    /// Takes part in one round, unless nobody wants to any more before it begins.
    pub(super) async fn take_part(&mut self) {
        let parties = self.trial.progress.lock().unwrap().parties;
        let barrier = DoubleBarrier::new(&self.client, FOLDER, parties).unwrap();
        let (who, request, polls) = (self.who, self.request(), self.polls(15, 20));
        self.trial.note(|| format!("{who} enters for {parties}, {polls}"));
        let entered = tokio::select! {
            biased;
            entered = self.get(&request, polls, barrier.enter()) => entered,
            () = self.trial.until(Phase::Idle) => {
                self.trial.count("acquires cancelled");
                None
            }
        };
        if let Some(round) = entered {
            self.begins(&request, round.state(), round.remaining());
            self.be_inside(round, &request).await;
        }
    }

    /// Works for a while, and leaves the round.
    async fn be_inside(&mut self, mut round: Round, request: &LockRequest) {
        let (held, members) = self.entered(&round, request);
        self.stay_with(held, 0..3, || round.state()).await;
        self.gives_back(held);
        let request = self.request();
        let mut polls = self.random.within(1..6);
        match self.random.within(0..6) {
            0 if self.is_storm() => return self.trial.count("rounds dropped"),
            1 => {}
            _ => polls = u64::MAX,
        }
        let left = match unless_given_up(&self.trial, self.who, polls, round.leave()).await {
            Some(left) => left,
            None => {
                self.trial.count("leaves begun anew");
                round.leave().await
            }
        };
        match left {
            Ok(()) => self.left(&request, &members),
            Err(error) => judge::failed(&self.trial, &request, &error),
        }
    }

    /// Checks that this round is one of so many parties, which were the first of those who waited
    /// and have been in no round before.
    fn entered(&self, round: &Round, request: &LockRequest) -> (usize, Members) {
        let (who, number) = (self.who, round.number());
        let mut began = None;
        let mut members = Vec::new();
        let held = self.record(slice::from_ref::<Hold>(round), |progress, world| {
            let let_in = round_of(world.net.core.history(), number);
            let journal = &mut world.journal;
            journal.note(|| format!("{who} IS IN round {number} by {}: {let_in:?}", round.node()));
            began = journal.times.get(&number).copied();
            members = let_in.unwrap_or_else(|trouble| {
                journal.violate(format!("{who} is in round {number}: {trouble}"));
                Vec::new()
            });
            let own = (round.node(), round.token().czxid());
            if members.len() != progress.parties as usize {
                journal.violate(format!("{who} is in round {number} of {members:?}"));
            } else if !members.iter().any(|(node, czxid)| (node.as_str(), *czxid) == own) {
                journal.violate(format!("{who} is in round {number} by {own:?}, a stranger to it"));
            }
        });
        if let Some(waited) = self.delay(request, began) {
            self.violate(format!("in round {number} {waited:?} after it began"));
        }
        (held, members)
    }

    /// Checks that all other parties have left, too, and not long ago.
    fn left(&self, request: &LockRequest, members: &Members) {
        let journal = &mut self.trial.world.lock().unwrap().journal;
        let who = self.who;
        journal.count("rounds to the end");
        journal.note(|| format!("{who} has left"));
        if let Some((node, _)) = members.iter().find(|(node, at)| journal.is_alive(node, *at)) {
            return journal.violate(format!("{who} has left, and {node} has not"));
        }
        let ends = members.iter().filter_map(|(node, czxid)| journal.end(node, *czxid));
        let last = ends.filter_map(|(zxid, _)| journal.times.get(&zxid)).max().copied();
        if let Some(waited) = self.delay(request, last) {
            journal.violate(format!("{who} leaves {waited:?} after all others have left"));
        }
    }
}

/// The nodes that one transaction has let in.
fn round_of(history: &[Commit], round: Zxid) -> Result<Members, String> {
    let parties = nodes_at(history, round, "__enter__");
    let members = || parties.iter().filter(|party| party.writes > 0 && party.mzxid == round);
    if let Some(party) = members().find(|party| party.writes > 1) {
        return Err(format!("{} was written to before", party.path));
    }
    let last = members().next_back().map(|party| party.number);
    match parties.iter().find(|party| party.writes == 0 && Some(party.number) < last) {
        Some(party) => Err(format!("{} waited for longer than others of it", party.path)),
        None => Ok(members().map(|party| (party.path.to_owned(), party.czxid.0)).collect()),
    }
}
