//! Many seeds against one server, and a small case for each kind of difference.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use zk_tap::{Observer, Tap};

use crate::clock::Stopwatch;
use crate::differential::{Case, Difference, Minimised, Pair, Scope, minimise};

/// Seeds to run against two servers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Campaign {
    /// The servers, each by a name for reports and its address. The first is right.
    pub servers: [(String, String); 2],
    /// The seeds.
    pub seeds: RangeInclusive<u64>,
    /// How many requests each seed has at least.
    pub requests: usize,
    /// One in so many requests has an odd value in a field; none if it is 0.
    pub odd: u32,
    /// Which nodes the requests name.
    pub scope: Scope,
    /// How long a server may be silent.
    pub patience: Duration,
    /// No seed begins after this time.
    pub time: Option<Duration>,
    /// How many runs it may take to make a case small.
    pub runs: usize,
    /// Where findings go.
    pub folder: Option<PathBuf>,
}

/// A difference, with the smallest case that shows it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The case.
    pub case: Case,
    /// How the servers differ in it.
    pub difference: Difference,
    /// How many runs made the case small; `None` if the servers did not differ like this again.
    pub runs: Option<usize>,
    /// Where the case is, if it was written.
    pub file: Option<PathBuf>,
}

/// What came of a campaign.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// How many seeds were run.
    pub seeds: usize,
    /// How many requests each server got.
    pub requests: usize,
    /// How long it took.
    pub time: Duration,
    /// A finding for each kind of difference.
    pub findings: Vec<Finding>,
    /// How many seeds differed, by the kind of the first difference.
    pub kinds: BTreeMap<String, usize>,
    /// Why the campaign ended early, if it did.
    pub ended_early: Option<String>,
}

impl Campaign {
    /// The first 100 seeds on two servers.
    pub fn new(servers: [(&str, &str); 2]) -> Self {
        Self {
            servers: servers.map(|(name, address)| (name.to_owned(), address.to_owned())),
            seeds: 0..=99,
            requests: 200,
            odd: 20,
            scope: Scope::Own,
            patience: Duration::from_secs(5),
            time: None,
            runs: 300,
            folder: None,
        }
    }

    /// Runs the seeds, and calls `told` with each finding.
    ///
    /// # Errors
    ///
    /// A server that lets no client in at the start; the errors of writing files. A server that
    /// lets nobody in later ends the campaign.
    pub async fn run(&self, mut told: impl FnMut(&Finding)) -> Result<Report> {
        let mut report = Report::default();
        let watch = Stopwatch::start();
        let mut pair = Pair::new(self.addresses(), self.patience);
        for seed in self.seeds.clone() {
            if self.time.is_some_and(|time| watch.elapsed() >= time) {
                break;
            }
            let case = Case::of_seed(seed, self.scope, self.requests, self.odd);
            let difference = match pair.run(&case).await {
                Ok(difference) => difference,
                Err(error) if report.seeds == 0 => return Err(error),
                Err(error) => {
                    report.ended_early = Some(format!("in front of seed {seed}: {error:#}"));
                    break;
                }
            };
            report.seeds += 1;
            let Some(difference) = difference else { continue };
            let kind = difference.kind();
            let seen = report.kinds.entry(kind.clone()).or_default();
            *seen += 1;
            if *seen == 1 {
                let finding = self.finding(&mut pair, case, difference).await?;
                told(&finding);
                report.findings.push(finding);
            }
            if self.scope == Scope::Everything {
                let why = "the servers are not in the same state any more";
                report.ended_early = Some(format!("behind seed {seed}: {why}"));
                break;
            }
        }
        report.requests = pair.requests();
        report.time = watch.elapsed();
        Ok(report)
    }

    fn addresses(&self) -> [(&str, &str); 2] {
        let [(one, here), (two, there)] = &self.servers;
        [(one, here), (two, there)]
    }

    async fn finding(
        &self,
        pair: &mut Pair,
        case: Case,
        difference: Difference,
    ) -> Result<Finding> {
        let small = match self.scope {
            // A server that has gone cannot show it again.
            Scope::Own => minimise(pair, &case, &difference, self.runs).await.unwrap_or(None),
            Scope::Everything => None,
        };
        let (case, difference, runs) = match small {
            Some(Minimised { case, difference, runs }) => (case, difference, Some(runs)),
            None => (case, difference, None),
        };
        let mut finding = Finding { case, difference, runs, file: None };
        if let Some(folder) = &self.folder {
            finding.file = Some(self.save(folder, &finding).await?);
        }
        Ok(finding)
    }

    /// Writes the case, and a recording of it on each server if it can be repeated.
    async fn save(&self, folder: &Path, finding: &Finding) -> Result<PathBuf> {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let stem = format!("server-{}", finding.case.seed());
        let create = |name: String| {
            let file = folder.join(name);
            let created = File::create(&file).map(BufWriter::new);
            created.with_context(|| format!("cannot create {}", file.display()))
        };
        let mut out = create(format!("{stem}.jsonl"))?;
        finding.case.write(&mut out)?;
        out.flush()?;
        let mut out = create(format!("{stem}.txt"))?;
        write!(out, "{finding}")?;
        out.flush()?;
        if finding.runs.is_some() {
            let mut taps = Vec::new();
            for (name, address) in &self.servers {
                let observer = Observer::new()
                    .lines(create(format!("{stem}.{name}.frames.txt"))?)
                    .recording(create(format!("{stem}.{name}.recording.jsonl"))?);
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                taps.push(Tap::start(listener, address.clone(), observer)?);
            }
            if let [one, two] = &taps[..] {
                let (one, two) = (one.address().to_string(), two.address().to_string());
                let names = self.addresses().map(|(name, _)| name);
                let mut pair = Pair::new([(names[0], &one), (names[1], &two)], self.patience);
                // That the servers differ is known.
                pair.run(&finding.case).await.ok();
            }
            for tap in taps {
                tap.stop().await?;
            }
        }
        Ok(folder.join(format!("{stem}.jsonl")))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = self.case.requests();
        match self.runs {
            Some(runs) => writeln!(
                f,
                "seed {}: the servers differ; {requests} requests show it, found in {runs} runs",
                self.case.seed()
            )?,
            None => writeln!(
                f,
                "seed {}: the servers differ, but not again with these requests alone",
                self.case.seed()
            )?,
        }
        if self.runs.is_some() {
            write!(f, "{}", self.case)?;
        } else {
            writeln!(f, "{}", crate::differential::report(&self.case, &self.difference))?;
        }
        write!(f, "{}", self.difference)?;
        match &self.file {
            Some(file) => writeln!(f, "   again: zk-fuzz replay {} ADDRESS", file.display()),
            None => Ok(()),
        }
    }
}
