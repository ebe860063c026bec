//! The work of a task that takes part in an election, and what must be true while it leads.

use std::sync::Arc;

use zk_recipes::{Election, Guard, LockState, StepDown};

use super::journal::FOLDER;
use super::judge;
use super::process::Stage;
use super::work::{Job, for_polls};

/// A term, for as long as the work under it runs.
struct Term {
    stage: Arc<Stage>,
    grant: usize,
}

impl Drop for Term {
    fn drop(&mut self) {
        judge::leaves(&self.stage, self.grant);
    }
}

impl Job {
    /// Takes part in the election until the work is done.
    pub(super) async fn lead(&mut self) {
        tokio::time::sleep(self.random.millis(0..60)).await;
        let step_down = match self.random.percent(50) {
            true => StepDown::Suspended,
            false => StepDown::Deadline,
        };
        let election = Election::new(&self.client, FOLDER).unwrap().step_down(step_down);
        let (who, ask) = (self.who, self.asks());
        let polls = self.polls(10, 12);
        self.stage.note(|| format!("{who} is a candidate: {step_down:?}, {polls}"));
        let (stage, client) = (Arc::clone(&self.stage), self.client.clone());
        let mut random = self.random.fork();
        let mut terms = 0;
        let work = |guard: Arc<Guard>| {
            terms += 1;
            let grant = judge::granted(&stage, &ask, &client, &guard, None);
            let term = Term { stage: Arc::clone(&stage), grant };
            let mut random = random.fork();
            async move {
                for _ in 0..random.within(1..6) {
                    tokio::time::sleep(random.millis(0..120)).await;
                    term.is_sound(&guard, step_down);
                }
            }
        };
        match for_polls(polls, election.lead(work)).await {
            Some(Ok(())) => self.stage.count("terms to the end"),
            Some(Err(error)) => judge::failed(&self.stage, &ask, &error),
            None => self.stage.count("acquires cancelled"),
        }
        if terms > 1 {
            self.stage.count("terms after another");
        }
    }
}

impl Term {
    /// Checks that the work does not go on after the leader should have stepped down.
    fn is_sound(&self, guard: &Guard, step_down: StepDown) {
        let said = guard.state();
        let must_end = match said {
            LockState::Lost(_) => true,
            LockState::Suspended { .. } => step_down == StepDown::Suspended,
            _ => false,
        };
        if must_end {
            let what = format!("{} works on although its term is {said:?}", guard.node());
            self.stage.world.lock().unwrap().journal.violate(what);
        }
        judge::look(&self.stage, self.grant, guard);
    }
}
