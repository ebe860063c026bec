//! The work of a task that adds to a counter, and what must be true of the results: each add that
//! was told is one write of its session, and its result is the number of that write.

use std::collections::BTreeMap;

use zk_recipes::{Counter, Error, ErrorKind};

use super::journal::{FOLDER, Journal};
use super::judge;
use super::work::{Job, unless_given_up};

/// Of each session, how many adds have an open outcome. Each adds one.
pub(super) type OpenAdds = BTreeMap<i64, usize>;

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
            let open = |change: fn(&mut usize)| {
                let adds = &mut self.trial.progress.lock().unwrap().open_adds;
                session.into_iter().for_each(|it| change(adds.entry(it.0).or_default()));
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
                    if self.trial.is_reliable(request.at) {
                        self.violate(format!("fails though nothing goes wrong: {error}"));
                    }
                }
                Some(Err(error)) => judge::failed(&self.trial, &request, &error),
                None => self.trial.count("acquires cancelled"),
            }
        }
    }

    fn added(&self, value: i64) {
        self.trial.serves(self.who.name);
        let (who, session) = (self.who, self.client.session().unwrap().id);
        let journal = &mut self.trial.world.lock().unwrap().journal;
        journal.count("grants");
        journal.note(|| format!("{who} has added to {value}"));
        let written = journal.written.entry(session.0).or_default();
        match written.iter().position(|number| *number == value) {
            Some(at) => drop(written.swap_remove(at)),
            None => {
                let what = format!("{who} is told {value}, and its session wrote {written:?}");
                journal.violate(what);
            }
        }
    }
}

/// Compares the writes that nobody was told of with the adds that are open.
pub(super) fn check(open: &OpenAdds, journal: &Journal) -> Result<(), String> {
    for (session, written) in &journal.written {
        let open = open.get(session).copied().unwrap_or_default();
        if written.len() > open {
            return Err(format!(
                "session {session:#x}: nobody was told of {written:?}, and {open} adds are open"
            ));
        }
    }
    Ok(())
}
