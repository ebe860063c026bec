//! The work of a party of a double barrier, and what must be true of each round: it has so many
//! parties, which are in no other one, and it ends for all of them together.

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_embedded::{Change, Commit, Zxid};
use zk_recipes::{DoubleBarrier, Round};

use super::check::PROMPT;
use super::clock::now;
use super::held::Held;
use super::journal::FOLDER;
use super::judge::{self, LockRequest};
use super::work::{Job, unless_given_up};

/// The nodes of a round, with the transactions that created them.
type Members = Vec<(String, i64)>;

impl Job {
    /// Takes part in one round, unless nobody wants to any more before it begins.
    pub(super) async fn take_part(&mut self) {
        tokio::time::sleep(self.random.millis(0..60)).await;
        let parties = self.trial.progress.lock().unwrap().parties;
        let barrier = DoubleBarrier::new(&self.client, FOLDER, parties).unwrap();
        let (who, request, polls) = (self.who, self.request(), self.polls(15, 20));
        self.trial.note(|| format!("{who} enters for {parties}, {polls}"));
        let trial = Arc::clone(&self.trial);
        let entering = unless_given_up(&self.trial, who, polls, barrier.enter());
        let entered = tokio::select! {
            biased;
            entered = entering => entered,
            () = trial.calm_is_over() => None,
        };
        match entered {
            Some(Ok(round)) => {
                judge::begins(
                    &self.trial,
                    &request,
                    &self.client,
                    request.at,
                    round.state(),
                    round.remaining(),
                );
                self.be_inside(round, &request).await;
            }
            Some(Err(error)) => judge::failed(&self.trial, &request, &error),
            None => self.trial.count("acquires cancelled"),
        }
    }

    /// Works for a while, and leaves the round.
    async fn be_inside(&mut self, mut round: Round, request: &LockRequest) {
        let (held, members) = self.entered(&round, request);
        for _ in 0..self.random.within(0..3) {
            tokio::time::sleep(self.random.millis(0..60)).await;
            self.look_at(held, round.state());
        }
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
        self.trial.serves(self.who.name);
        let is_reliable = self.trial.is_reliable(request.at);
        let mut progress = self.trial.progress.lock().unwrap();
        let mut world = self.trial.world.lock().unwrap();
        progress.held.push(Held::new(self, &world, [round.node()].into_iter()));
        let (who, number) = (self.who, round.number());
        let members = round_of(world.net.core.history(), number);
        let journal = &mut world.journal;
        journal.count("grants");
        journal.note(|| format!("{who} IS IN round {number} by {}: {members:?}", round.node()));
        let at = journal.times.get(&number).copied().unwrap_or(request.at);
        let waited = now().saturating_duration_since(at);
        let members = members.unwrap_or_else(|trouble| {
            journal.violate(format!("{who} is in round {number}: {trouble}"));
            Vec::new()
        });
        let own = (round.node(), round.token().czxid());
        if members.len() != progress.parties as usize {
            journal.violate(format!("{who} is in round {number} of {members:?}"));
        } else if !members.iter().any(|(node, czxid)| (node.as_str(), *czxid) == own) {
            journal.violate(format!("{who} is in round {number} by {own:?}, a stranger to it"));
        } else if is_reliable && waited > PROMPT {
            journal.violate(format!("{who} is in round {number} {waited:?} after it began"));
        }
        (progress.held.len() - 1, members)
    }

    /// Checks that all other parties have left, too, and not long ago.
    fn left(&self, request: &LockRequest, members: &Members) {
        let is_reliable = self.trial.is_reliable(request.at);
        let mut world = self.trial.world.lock().unwrap();
        let (who, journal) = (self.who, &mut world.journal);
        journal.count("rounds to the end");
        journal.note(|| format!("{who} has left"));
        if let Some((node, _)) = members.iter().find(|(node, at)| journal.is_alive(node, *at)) {
            let what = format!("{who} has left, and {node} has not");
            return journal.violate(what);
        }
        let ends = members.iter().filter_map(|(node, czxid)| journal.end(node, *czxid));
        let ends = ends.filter_map(|(zxid, _)| journal.times.get(&zxid));
        let last = ends.max().map_or(request.at, |last| request.at.max(*last));
        let waited = now().saturating_duration_since(last);
        if is_reliable && waited > PROMPT {
            journal.violate(format!("{who} leaves {waited:?} after all others have left"));
        }
    }
}

/// A party's node, as the history shows it.
struct Party {
    number: i64,
    czxid: i64,
    is_written: bool,
}

/// The nodes that one transaction has let in.
fn round_of(history: &[Commit], round: Zxid) -> Result<Members, String> {
    let mut parties = BTreeMap::<&str, Party>::new();
    let mut members = Vec::new();
    for Commit { zxid, change, path, .. } in history.iter().take_while(|it| it.zxid <= round) {
        let Some((_, number)) = path.rsplit_once("__enter__") else {
            continue;
        };
        match change {
            Change::Created => {
                let number = number.parse().map_err(|_| format!("{path} has no number"))?;
                let party = Party { number, czxid: zxid.0, is_written: false };
                parties.insert(path, party);
            }
            Change::Deleted => drop(parties.remove(path.as_str())),
            Change::DataSet => {
                let Some(party) = parties.get_mut(path.as_str()) else {
                    return Err(format!("{path} is written to and is not there"));
                };
                if std::mem::replace(&mut party.is_written, true) && *zxid == round {
                    return Err(format!("{path} was written to before"));
                }
                if *zxid == round {
                    members.push((party.number, path.clone(), party.czxid));
                }
            }
            _ => {}
        }
    }
    let last = members.iter().map(|(number, ..)| *number).max();
    let skipped = |(_, party): &(&&str, &Party)| !party.is_written && Some(party.number) < last;
    match parties.iter().find(skipped) {
        Some((path, _)) => Err(format!("{path} waited for longer than others of it")),
        None => Ok(members.into_iter().map(|(_, path, czxid)| (path, czxid)).collect()),
    }
}
