//! Many seeds against one client, and a small set of faults for each finding.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::command::{self, Ending, Options, Run};
use super::fault::Fault;
use super::plan::{Place, Plan};
use super::relay::Applied;
use crate::clock::Stopwatch;

/// How many runs it may take to find the faults that are needed.
const RUNS: usize = 40;

/// Seeds to run against a client's command.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Campaign {
    /// How the command is run.
    pub options: Options,
    /// The seeds.
    pub seeds: RangeInclusive<u64>,
    /// The kinds of faults.
    pub faults: Vec<Fault>,
    /// The only frames that get faults, if they are chosen.
    pub only: Option<Vec<Place>>,
    /// No seed begins after this time.
    pub time: Option<Duration>,
    /// Where findings go, each with a folder of its own.
    pub folder: Option<PathBuf>,
}

/// A client that crashed, hung or said something wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The seed.
    pub seed: u64,
    /// How the client ended.
    pub ending: Ending,
    /// The faults that are needed, or all if the client did not end like this again.
    pub faults: Vec<Applied>,
    /// Whether the client ended like this again with the same seed.
    pub is_repeatable: bool,
    /// What the client has printed.
    pub output: String,
}

/// What came of a campaign.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// How many seeds ran.
    pub seeds: usize,
    /// How many faults happened.
    pub faults: usize,
    /// How often the client ended in each way.
    pub endings: BTreeMap<String, usize>,
    /// What was found, each kind of ending with the same kinds of faults once.
    pub findings: Vec<Finding>,
}

impl Campaign {
    /// The first 100 seeds, with every kind of fault.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            seeds: 0..=99,
            faults: Fault::ALL.to_vec(),
            only: None,
            time: None,
            folder: None,
        }
    }

    /// Runs the seeds, and calls `told` with each finding.
    ///
    /// # Errors
    ///
    /// A command that cannot be started; the errors of listening and of writing files.
    pub async fn run(&self, mut told: impl FnMut(&Finding)) -> Result<Report> {
        let mut report = Report::default();
        let watch = Stopwatch::start();
        for seed in self.seeds.clone() {
            if self.time.is_some_and(|time| watch.elapsed() >= time) {
                break;
            }
            let plan = self.plan(seed);
            let run = command::run(plan.clone(), &self.options, None).await?;
            report.seeds += 1;
            report.faults += run.applied.len();
            let ending = match &run.ending {
                Ending::Exit(status) => format!("exit status {status}"),
                other => other.kind().to_owned(),
            };
            *report.endings.entry(ending).or_default() += 1;
            if !run.ending.is_finding() {
                continue;
            }
            let finding = self.minimise(seed, run).await?;
            let is_new = report.findings.iter().all(|known| !known.is_like(&finding));
            if is_new {
                self.save(&finding).await?;
                told(&finding);
                report.findings.push(finding);
            }
        }
        Ok(report)
    }

    fn plan(&self, seed: u64) -> Plan {
        let plan = Plan::new(seed, &self.faults);
        match &self.only {
            Some(only) => plan.only(only.iter().copied()),
            None => plan,
        }
    }

    /// Leaves out faults, as long as the client ends in the same way.
    async fn minimise(&self, seed: u64, first: Run) -> Result<Finding> {
        let again = command::run(self.plan(seed), &self.options, None).await?;
        let is_repeatable = again.ending.kind() == first.ending.kind();
        let mut best = if is_repeatable { again } else { first };
        let mut runs = 0;
        let mut at = 0;
        while is_repeatable && at < best.applied.len() && runs < RUNS {
            runs += 1;
            let places = best.applied.iter().enumerate().filter(|(other, _)| *other != at);
            let plan = self.plan(seed).only(places.map(|(_, applied)| applied.place));
            let run = command::run(plan, &self.options, None).await?;
            if run.ending.kind() == best.ending.kind() && run.applied.len() < best.applied.len() {
                best = run;
                at = 0;
            } else {
                at += 1;
            }
        }
        let Run { ending, applied, output } = best;
        Ok(Finding { seed, ending, faults: applied, is_repeatable, output })
    }

    /// Writes what is needed to see a finding again, with a recording of one more run.
    async fn save(&self, finding: &Finding) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let folder = folder.join(format!("client-{}", finding.seed));
        let failed = || format!("cannot write to {}", folder.display());
        fs::create_dir_all(&folder).with_context(failed)?;
        fs::write(folder.join("finding.txt"), finding.to_string()).with_context(failed)?;
        fs::write(folder.join("output.txt"), &finding.output).with_context(failed)?;
        let recording = command::create(&folder.join("recording.jsonl")).with_context(failed)?;
        let plan = self.plan(finding.seed).only(finding.faults.iter().map(|it| it.place));
        command::run(plan, &self.options, Some(recording)).await?;
        Ok(())
    }
}

impl Finding {
    /// Whether the same kinds of faults had the same kind of ending.
    fn is_like(&self, other: &Self) -> bool {
        let kinds = |finding: &Self| {
            let mut kinds: Vec<_> = finding.faults.iter().map(|it| it.fault).collect();
            kinds.sort_unstable();
            kinds.dedup();
            kinds
        };
        self.ending != Ending::Hang && self.ending == other.ending
            || self.ending.kind() == other.ending.kind() && kinds(self) == kinds(other)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ending {
            Ending::Exit(status) => writeln!(f, "seed {}: exit status {status}", self.seed)?,
            Ending::Crash(how) => writeln!(f, "seed {}: a crash: {how}", self.seed)?,
            Ending::Hang => writeln!(f, "seed {}: a hang", self.seed)?,
            Ending::Wrong(what) => writeln!(f, "seed {}: a wrong result: {what}", self.seed)?,
        }
        for Applied { place, told, .. } in &self.faults {
            writeln!(f, "  frame {place}: {told}")?;
        }
        let places: Vec<_> = self.faults.iter().map(|it| it.place.to_string()).collect();
        if !self.is_repeatable {
            return writeln!(f, "  not again with the same seed: it depends on the time as well");
        }
        match places.is_empty() {
            true => writeln!(f, "  again: without any fault"),
            // The options decide which faults a seed has.
            false => writeln!(
                f,
                "  again, with the other options as they were: zk-fuzz client --seed {} --only {} \
                 -- COMMAND",
                self.seed,
                places.join(",")
            ),
        }
    }
}
