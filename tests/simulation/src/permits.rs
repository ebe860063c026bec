//! The work of a task that wants permits of a semaphore, one or several, and what must hold
//! whenever it gets some.

use std::sync::Arc;

use zk_recipes::{Layout, Options, Semaphore};

use super::journal::FOLDER;
use super::work::Job;

impl Job {
    /// Asks for permits once, holds them for a while, and gives them back.
    pub(super) async fn use_permits(&mut self) {
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
        let trial = Arc::clone(&self.trial);
        let try_acquire = async {
            trial.count("permits tried for");
            semaphore.try_acquire().await
        };
        let asked = self.ask(
            format!("{wanted} of {permits}"),
            semaphore.acquire_many(wanted),
            |time| semaphore.acquire_within(time),
            try_acquire,
        );
        let Some((permit, request)) = asked.await else {
            return;
        };
        self.begins(&request, permit.state(), permit.remaining());
        let who = self.who;
        let held = self.record(permit.leases(), |progress, world| {
            let valid = progress.valid(&world.journal);
            let given = valid.iter().map(|held| held.nodes.len()).sum::<usize>();
            let journal = &mut world.journal;
            if permit.leases().len() > 1 {
                journal.count("permits of many");
            }
            journal.note(|| format!("{who} HOLDS {permit:?}, and {given} of {permits} are given"));
            // All permits whose nodes exist must be no more than there are.
            if given > permits as usize {
                let who = valid.iter().map(|held| held.who.to_string()).collect::<Vec<_>>();
                journal.violate(format!("{given} of {permits} permits are given, to {who:?}"));
            }
        });
        self.stay_with(held, 1..3, || permit.state()).await;
        self.give_back(held, permit, |permit| permit.release()).await;
    }
}
