//! The search for a run that breaks a program: without faults, with each fault at each frame, with
//! pairs of faults, and with plans that seeds draw.
//!
//! Runs with few contenders and few faults come first, and what is found is made smaller.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use zk_inputs::Random;

use crate::fault::{Fault, Frame, Strike};
use crate::level::{Level, Wants};
use crate::plan::{Contender, Mode, Plan};
use crate::process::Make;
use crate::run::{Outcome, run};

/// A run takes some milliseconds. One that takes so long will not end.
const PATIENCE: Duration = Duration::from_secs(20);

/// How much later a contender may come, in milliseconds, so that it sees less.
const LATER: [u64; 3] = [10, 300, 1000];

/// So many plans of seeds are run before it is looked whether one of them was broken.
const SEEDS_AT_ONCE: usize = 500;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Effort {
    /// At most so many frames of a run are struck at.
    pub frames: usize,
    /// Pairs of faults, evenly over all.
    pub pairs: usize,
    /// Seeds.
    pub seeds: usize,
}

impl Effort {
    /// What a level is passed by.
    pub const WHOLE: Self = Self { frames: 64, pairs: 3000, seeds: 3000 };

    /// Another one.
    pub const fn new(frames: usize, pairs: usize, seeds: usize) -> Self {
        Self { frames, pairs, seeds }
    }
}

/// How many runs there were.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Runs without faults, and with one.
    pub sweep: usize,
    /// Runs with two faults.
    pub pairs: usize,
    /// Runs that seeds have drawn.
    pub seeds: usize,
    /// The faults that were set in all of them.
    pub faults_set: usize,
    /// The faults that found nothing to act on, or whose frame never came.
    pub faults_not_fired: usize,
    /// How often each kind of fault has fired.
    pub fired: BTreeMap<String, usize>,
}

impl Counts {
    /// All runs.
    pub fn runs(&self) -> usize {
        self.sweep + self.pairs + self.seeds
    }
}

/// What a search comes to.
#[derive(Debug)]
pub(crate) enum Found {
    Nothing,
    Unwritten,
    /// A run does not end.
    Hangs,
    Broken(Box<(Plan, Outcome)>),
}

/// What is kept of a run that was not broken.
#[derive(Clone, Debug, Default)]
struct Brief {
    is_broken: bool,
    is_unwritten: bool,
    requests: usize,
    events: usize,
    frames: Vec<Frame>,
    struck: Vec<Fault>,
}

/// A search.
pub(crate) struct Search<'s> {
    level: &'static Level,
    make: &'s Make,
    pub(crate) counts: Counts,
}

impl<'s> Search<'s> {
    pub(crate) fn new(level: &'static Level, make: &'s Make) -> Self {
        Self { level, make, counts: Counts::default() }
    }

    /// Searches until something is found.
    pub(crate) fn search(&mut self, effort: Effort) -> Found {
        match self.try_all(effort) {
            Ok(()) => Found::Nothing,
            Err(found) => found,
        }
    }

    fn try_all(&mut self, effort: Effort) -> Result<(), Found> {
        let plans = self.level.plans();
        let mut frames = Vec::new();
        for plan in &plans {
            let briefs = self.run_all(vec![plan.clone()], |counts| &mut counts.sweep)?;
            frames.extend(briefs.into_iter().map(|brief| brief.frames));
        }
        let mut alone = Vec::new();
        for (plan, frames) in plans.iter().zip(frames) {
            let strikes = self.strikes(frames.get(..effort.frames).unwrap_or(&frames));
            let with = |strike: &Strike| Plan { strikes: vec![*strike], ..plan.clone() };
            let plans = strikes.iter().map(with).collect();
            let briefs = self.run_all(plans, |counts| &mut counts.sweep)?;
            // Only a fault ahead of it empties the folder.
            let may_strike = |(strike, brief): &(Strike, Brief)| {
                brief.struck.len() == 1 || strike.fault == Fault::Reap
            };
            let struck = strikes.into_iter().zip(briefs).filter(may_strike);
            alone.push((plan, struck.map(|(strike, _)| strike).collect::<Vec<_>>()));
        }
        let pairs = alone.into_iter().map(|(plan, strikes)| (plan, Pairs::of(&strikes)));
        let pairs = pairs.collect::<Vec<_>>();
        let all = pairs.iter().map(|(_, pairs)| pairs.count()).sum::<usize>().max(1);
        for (plan, pairs) in pairs {
            let wanted = (effort.pairs * pairs.count()).div_ceil(all);
            let with = |strikes: Vec<Strike>| Plan { strikes, ..plan.clone() };
            let plans = pairs.spread(wanted).into_iter().map(with).collect();
            self.run_all(plans, |counts| &mut counts.pairs)?;
        }
        for first in (0..effort.seeds).step_by(SEEDS_AT_ONCE) {
            let seeds = first..effort.seeds.min(first + SEEDS_AT_ONCE);
            let plans = seeds.map(|seed| self.draw(seed as u64)).collect();
            self.run_all(plans, |counts| &mut counts.seeds)?;
        }
        Ok(())
    }

    /// All faults at the frames of a run without faults.
    fn strikes(&self, frames: &[Frame]) -> Vec<Strike> {
        let level = self.level;
        let at = |(frame, what): (usize, &Frame)| {
            let faults = level.faults.iter().copied();
            let what = *what;
            faults
                .filter(move |fault| level.suits(*fault, &what))
                .map(move |fault| Strike { fault, frame })
        };
        frames.iter().enumerate().flat_map(at).collect()
    }

    /// A plan that a seed draws.
    fn draw(&self, seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let count = random.within(1..5);
        let span = random.pick(&[0, 20, 500, 3000]).unwrap_or(0);
        let most = random.pick(&[50, 1000, 10_000]).unwrap_or(50);
        let contenders = (0..count).map(|_| Contender {
            mode: match self.level.wants == Wants::RwLock && random.percent(50) {
                true => Mode::Read,
                false => Mode::Write,
            },
            start: random.within(0..span + 1),
            hold: random.within(0..most),
        });
        let plan = self.level.plan(contenders.collect());
        let strikes = match self.level.faults {
            [] => 0,
            _ => random.within(0..4),
        };
        let strikes = (0..strikes).filter_map(|_| {
            let fault = random.pick(self.level.faults)?;
            Some(Strike { fault, frame: random.within(0..12 * count) as usize })
        });
        let strikes = strikes.collect();
        let (latency, jitter) = (random.within(1..20), random.within(0..10));
        let turns = random.within(1..3) as u32;
        Plan { seed, latency, jitter, turns, strikes, ..plan }
    }

    /// Runs all of these on all cores. Fails with the smallest one that is broken.
    fn run_all(
        &mut self,
        plans: Vec<Plan>,
        count: impl Fn(&mut Counts) -> &mut usize,
    ) -> Result<Vec<Brief>, Found> {
        let plans = Arc::new(plans);
        let briefs = run_on_all_cores(&plans, self.make).ok_or(Found::Hangs)?;
        *count(&mut self.counts) += briefs.len();
        let set = plans.iter().map(|plan| plan.strikes.len()).sum::<usize>();
        let struck = briefs.iter().map(|brief| brief.struck.len()).sum::<usize>();
        let mut broken = plans.iter().zip(&briefs).filter(|(_, brief)| brief.is_broken);
        if briefs.iter().any(|brief| brief.is_unwritten) {
            return Err(Found::Unwritten);
        }
        if let Some(first) = broken.next() {
            let small = |(plan, brief): &(&Plan, &Brief)| {
                (plan.strikes.len(), plan.contenders.len(), brief.requests, brief.events)
            };
            let (plan, _) = broken.fold(first, |best, other| match small(&other) < small(&best) {
                true => other,
                false => best,
            });
            let (plan, outcome) = self.shrink(plan.clone());
            return Err(Found::Broken(Box::new((plan, outcome))));
        }
        for fault in briefs.iter().flat_map(|brief| &brief.struck) {
            *self.counts.fired.entry(format!("{fault:?}")).or_default() += 1;
        }
        self.counts.faults_set += set;
        self.counts.faults_not_fired += set.saturating_sub(struck);
        Ok(briefs)
    }

    /// Leaves out of a broken plan what is not needed.
    fn shrink(&self, plan: Plan) -> (Plan, Outcome) {
        let outcome = run(&plan, self.make);
        let mut best = (plan, outcome);
        while let Some(smaller) = self.smaller(&best) {
            best = smaller;
        }
        best
    }

    fn smaller(&self, (plan, outcome): &(Plan, Outcome)) -> Option<(Plan, Outcome)> {
        let kind = outcome.record.violation.as_ref()?.kind;
        let mut tries = Vec::new();
        for index in 0..plan.strikes.len() {
            let mut less = plan.clone();
            less.strikes.remove(index);
            tries.push(less);
        }
        for index in (0..plan.contenders.len()).rev().filter(|_| plan.contenders.len() > 1) {
            let mut less = plan.clone();
            less.contenders.remove(index);
            tries.push(less);
        }
        if plan.turns > 1 {
            tries.push(Plan { turns: 1, ..plan.clone() });
        }
        if (plan.latency, plan.jitter) != (5, 0) {
            tries.push(Plan { latency: 5, jitter: 0, ..plan.clone() });
        }
        for index in 0..plan.contenders.len() {
            for later in LATER {
                let mut other = plan.clone();
                if let Some(contender) = other.contenders.get_mut(index) {
                    contender.start += later;
                }
                tries.push(other);
            }
        }
        tries.into_iter().find_map(|less| {
            let other = run(&less, self.make);
            let is_same = other.record.violation.as_ref().is_some_and(|it| it.kind == kind);
            (is_same && size(&less, &other) < size(plan, outcome)).then_some((less, other))
        })
    }
}

/// What is smaller is easier to understand.
fn size(plan: &Plan, outcome: &Outcome) -> [usize; 4] {
    let record = &outcome.record;
    [plan.strikes.len(), plan.contenders.len(), record.requests, record.events.len()]
}

/// Pairs of faults, the earlier one first.
struct Pairs {
    /// At one frame: the second one meets what the first one has left.
    together: Vec<Vec<Strike>>,
    apart: Vec<Vec<Strike>>,
}

impl Pairs {
    fn of(strikes: &[Strike]) -> Self {
        let pairs = strikes.iter().enumerate().flat_map(|(place, first)| {
            strikes.iter().skip(place + 1).map(move |second| vec![*first, *second])
        });
        let is_together = |pair: &Vec<Strike>| matches!(pair[..], [a, b] if a.frame == b.frame);
        let (together, apart) = pairs.partition(is_together);
        Self { together, apart }
    }

    fn count(&self) -> usize {
        self.together.len() + self.apart.len()
    }

    /// So many of them: half of one kind and half of the other, each evenly over all.
    fn spread(self, wanted: usize) -> Vec<Vec<Strike>> {
        let half = (wanted / 2).min(self.together.len());
        let rest = (wanted - half).min(self.apart.len());
        let mut chosen = Vec::new();
        for (pairs, wanted) in [(self.together, half), (self.apart, rest)] {
            let of = pairs.len();
            // Number n is chosen where n * wanted passes a multiple of all.
            let is_chosen = |n: &usize| (n + 1) * wanted / of > n * wanted / of;
            let pairs = pairs.into_iter().enumerate().filter(|(n, _)| is_chosen(n));
            chosen.extend(pairs.map(|(_, pair)| pair));
        }
        chosen
    }
}

/// Returns what came of each plan, or `None` if one does not end.
fn run_on_all_cores(plans: &Arc<Vec<Plan>>, make: &Make) -> Option<Vec<Brief>> {
    let next = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = mpsc::channel();
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(plans.len());
    for _ in 0..cores {
        let (plans, make) = (Arc::clone(plans), Arc::clone(make));
        let (next, sender) = (Arc::clone(&next), sender.clone());
        std::thread::spawn(move || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(plan) = plans.get(index) else {
                    return;
                };
                let record = run(plan, &make).record;
                let fault = |index: &usize| plan.strikes.get(*index).map(|one| one.fault);
                let struck = record.struck.iter().filter_map(fault).collect();
                let frames = if plan.strikes.is_empty() { record.frames } else { Vec::new() };
                let brief = Brief {
                    is_broken: record.violation.is_some(),
                    is_unwritten: record.is_unwritten,
                    requests: record.requests,
                    events: record.events.len(),
                    frames,
                    struck,
                };
                if sender.send((index, brief)).is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    let mut briefs = vec![None; plans.len()];
    loop {
        match receiver.recv_timeout(PATIENCE) {
            Ok((index, brief)) => {
                if let Some(place) = briefs.get_mut(index) {
                    *place = Some(brief);
                }
            }
            Err(RecvTimeoutError::Timeout) => return None,
            // A run that is missing has not ended well.
            Err(RecvTimeoutError::Disconnected) => return briefs.into_iter().collect(),
        }
    }
}
