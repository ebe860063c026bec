//! The work of a task that takes part in an election, and what must be true while it leads.

use std::sync::Arc;

use zk_recipes::{Election, Guard, LockState, StepDown};

use super::journal::FOLDER;
use super::judge;
use super::process::Trial;
use super::work::Job;

/// A term, for as long as the work under it runs.
struct Term {
    trial: Arc<Trial>,
    grant: usize,
}

impl Drop for Term {
    fn drop(&mut self) {
        judge::leaves(&self.trial, self.grant);
    }
}

impl Job {
    /// Takes part in the election until the work is done.
    pub(super) async fn lead(&mut self) {
        let is_eager = self.random.percent(50);
        let step_down = if is_eager { StepDown::Suspended } else { StepDown::Deadline };
        let election = Election::new(&self.client, FOLDER).unwrap().step_down(step_down);
        let (who, request, polls) = (self.who, self.request(), self.polls(10, 12));
        self.trial.note(|| format!("{who} is a candidate: {step_down:?}, {polls}"));
        let mut random = self.random.fork();
        let mut terms = 0;
        let work = |guard: Arc<Guard>| {
            terms += 1;
            let grant = judge::granted(&self.trial, &request, &self.client, &guard, None);
            let term = Term { trial: Arc::clone(&self.trial), grant };
            let mut random = random.fork();
            async move {
                for _ in 0..random.within(1..6) {
                    tokio::time::sleep(random.millis(0..120)).await;
                    term.is_sound(&guard, step_down);
                }
            }
        };
        if self.get(&request, polls, election.lead(work)).await.is_some() {
            self.trial.count("terms to the end");
        }
        if terms > 1 {
            self.trial.count("terms after another");
        }
    }
}

impl Term {
    /// Checks that the work does not go on after the leader should have stepped down.
    fn is_sound(&self, guard: &Guard, step_down: StepDown) {
        let said = guard.state();
        let is_suspended = matches!(said, LockState::Suspended { .. });
        if matches!(said, LockState::Lost(_)) || is_suspended && step_down == StepDown::Suspended {
            let node = guard.node();
            self.trial.violate(format!("{node} works on although its term is {said:?}"));
        }
        judge::look(&self.trial, self.grant, guard);
    }
}
