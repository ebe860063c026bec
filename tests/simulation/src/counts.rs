//! The work of a task that adds to a counter, and what must be true of the results: each add that
//! was told counts once, and no number is given twice.

use std::collections::{BTreeMap, BTreeSet};

use zk_embedded::SessionId;
use zk_recipes::{Counter, Error, ErrorKind};

use super::journal::{FOLDER, Journal, REMOVED};
use super::judge;
use super::work::{Job, unless_given_up};

/// The adds of all tasks. Each adds one.
#[derive(Debug, Default)]
pub(super) struct Adds {
    /// Of each session: how many adds were done, and of how many the outcome is open.
    of: BTreeMap<i64, (u64, u64)>,
    results: BTreeSet<i64>,
}

impl Job {
    /// Adds to the counter a few times, by one handle.
    pub(super) async fn count_up(&mut self) {
        if self.client.session().is_none() && self.client.exists(FOLDER).await.is_err() {
            return;
        }
        // Its markers are where the operator deletes and writes.
        let counter = Counter::new(&self.client, FOLDER).unwrap();
        for _ in 0..self.random.within(1..6) {
            tokio::time::sleep(self.random.millis(0..60)).await;
            let (who, request) = (self.who, self.request());
            let polls = self.polls(5, 8);
            self.trial.note(|| format!("{who} adds, {polls}"));
            // If the process dies meanwhile, the outcome stays open.
            let session = self.client.session().map(|session| session.id);
            let open = |change: fn(&mut u64)| {
                let mut progress = self.trial.progress.lock().unwrap();
                let of = session.map(|session| progress.adds.of.entry(session.0).or_default());
                of.into_iter().for_each(|(_, open)| change(open));
            };
            open(|open| *open += 1);
            let added = unless_given_up(&self.trial, who, polls, counter.add(1)).await;
            let is_known = |error: &Error| error.kind() != ErrorKind::InDoubt;
            if added.as_ref().is_some_and(|added| added.as_ref().err().is_none_or(is_known)) {
                open(|open| *open -= 1);
            }
            match added {
                Some(Ok(value)) => self.added(value),
                Some(Err(error)) if error.kind() == ErrorKind::InDoubt => {
                    self.trial.count("adds in doubt");
                    if self.trial.is_reliable(request.at) {
                        self.violate(format!("in doubt though nothing goes wrong: {error}"));
                    }
                }
                Some(Err(error)) if error.client().is_some_and(zk_client::Error::is_no_node) => {
                    self.trial.count("markers deleted again and again");
                }
                Some(Err(error)) => judge::failed(&self.trial, &request, &error),
                None => self.trial.count("acquires cancelled"),
            }
        }
    }

    fn added(&self, value: i64) {
        self.trial.serves(self.who.name);
        let mut progress = self.trial.progress.lock().unwrap();
        let mut world = self.trial.world.lock().unwrap();
        let (who, journal) = (self.who, &mut world.journal);
        journal.count("grants");
        journal.note(|| format!("{who} has added to {value}"));
        let session = self.client.session().unwrap().id;
        let (done, _) = progress.adds.of.entry(session.0).or_default();
        *done += 1;
        let (done, written) = (*done, journal.written(session));
        if written < done {
            journal.violate(format!("{who} has added {done} times and written {written} times"));
        }
        // Without its folder a counter begins anew.
        if !progress.adds.results.insert(value) && !journal.counts.contains_key(REMOVED) {
            journal.violate(format!("{who} gets {value}, as another add did"));
        }
    }
}

/// Compares the results with the writes of each session.
pub(super) fn check(adds: &Adds, journal: &Journal) -> Result<(), String> {
    let all = adds.of.keys().copied().chain(journal.writers()).collect::<BTreeSet<_>>();
    let mut writes = 0;
    for session in all {
        let (done, open) = adds.of.get(&session).copied().unwrap_or_default();
        let written = journal.written(SessionId(session));
        writes += written;
        if !(done..=done + open).contains(&written) {
            return Err(format!(
                "session {session:#x}: {written} writes, {done} adds are done and {open} open"
            ));
        }
    }
    match adds.results.last() {
        Some(last) if *last as u64 > writes => Err(format!("{last} after {writes} writes")),
        _ => Ok(()),
    }
}
