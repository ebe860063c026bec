//! What the gym says of a program: passed, or broken with the shortest run that shows it.

use zk_playground::{Scene, page};

use crate::cost::Costs;
use crate::level::Level;
use crate::plan::Plan;
use crate::record::Break;
use crate::run::Outcome;
use crate::search::{Counts, Effort, Found, Search};
use crate::solution::Solution;
use crate::trace;

/// What came of a level.
#[derive(Debug)]
#[non_exhaustive]
pub struct Verdict {
    /// The level.
    pub level: &'static Level,
    /// How many runs there were.
    pub counts: Counts,
    /// The result.
    pub result: Finding,
}

/// What was found of a program.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding {
    /// The file has only its beginning.
    Unwritten,
    /// A run does not end: the program goes round without letting time pass.
    Hangs,
    /// A run breaks it.
    Broken(Box<Broken>),
    /// Nothing was found.
    Passed(Costs),
}

/// The shortest run that shows how a program breaks.
#[derive(Debug)]
#[non_exhaustive]
pub struct Broken {
    /// How it breaks.
    pub kind: Break,
    /// What happens.
    pub text: String,
    /// Why.
    pub reason: String,
    /// How many processes contend.
    pub contenders: usize,
    /// The faults of the run, at the numbers of their frames.
    pub faults: Vec<String>,
    /// Those of them that found nothing to act on.
    pub not_fired: Vec<String>,
    /// The requests of the run, without handshakes and pings.
    pub requests: usize,
    /// The run in lines.
    pub lines: Vec<String>,
    /// The run for the page of the playground.
    pub scene: Option<Scene>,
}

impl Broken {
    fn new(level: &Level, plan: &Plan, outcome: &Outcome) -> Option<Self> {
        let record = &outcome.record;
        let violation = record.violation.as_ref()?;
        let strikes = plan.strikes.iter().enumerate();
        let not_fired = strikes.filter(|(index, _)| !record.struck.contains(index));
        let title = format!(
            "Level {} of the gym, {}: a run that breaks the lock.",
            level.number, level.title
        );
        let scene = trace::scene(&title, record, &outcome.reason);
        Some(Self {
            kind: violation.kind,
            text: violation.text.clone(),
            reason: outcome.reason.clone(),
            contenders: plan.contenders.len(),
            faults: plan.strikes.iter().map(ToString::to_string).collect(),
            not_fired: not_fired.map(|(_, strike)| strike.to_string()).collect(),
            requests: record.requests,
            lines: scene.as_ref().map(|it| trace::lines(it, record)).unwrap_or_default(),
            scene,
        })
    }
}

/// Searches for a run that breaks a program. The same program always gets the same verdict.
pub fn examine(level: &'static Level, solution: &Solution, effort: Effort) -> Verdict {
    let mut search = Search::new(level, &solution.0);
    let result = match search.search(effort) {
        Found::Nothing => Finding::Passed(Costs::of(level, &solution.0)),
        Found::Unwritten => Finding::Unwritten,
        Found::Hangs => Finding::Hangs,
        Found::Broken(broken) => match Broken::new(level, &broken.0, &broken.1) {
            Some(broken) => Finding::Broken(Box::new(broken)),
            None => Finding::Hangs,
        },
    };
    Verdict { level, counts: search.counts, result }
}

impl Verdict {
    /// The faults of the level that have fired in no run: nothing is known of them.
    pub fn never_fired(&self) -> Vec<String> {
        let faults = self.level.faults.iter().map(|fault| format!("{fault:?}"));
        faults.filter(|fault| !self.counts.fired.contains_key(fault)).collect()
    }

    /// The run that breaks the program as a page of the playground, if one does.
    pub fn page(&self) -> Option<String> {
        match &self.result {
            Finding::Broken(broken) => page::of_recording(broken.scene.clone()?).ok(),
            _ => None,
        }
    }
}
