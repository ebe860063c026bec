//! Some hundreds of small claims about what Apache's servers do, tried on any server.
//!
//! A claim is some requests and their answers, as text: see the files in the folder `claims`.
//! Several run at once, each below a folder and with sessions of its own. [`Plan`] says what will
//! be done before anything is, and [`Plan::run`] leaves nothing behind.

mod allow;
mod answer;
mod claim;
mod client;
mod folder;
mod like;
mod outcome;
mod page;
mod release;
mod report;
mod request;
mod run;
mod show;

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::clock::Stopwatch;
pub use allow::Allowed;
use claim::Claim;
pub use claim::Number;
pub use like::Like;
pub use release::Release;
pub use report::{Line, Report, StepLine, Verdict};
use run::Setting;
pub use show::Format;

/// How many claims run at once.
const AT_ONCE: usize = 8;

/// What to run, and on which server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The server: `HOST:PORT`.
    pub server: String,
    /// What the server should be like; what `srvr` tells, if nothing.
    pub like: Option<Like>,
    /// Deviations that are known.
    pub allowed: Allowed,
    /// Whether the report has every frame.
    pub frames: bool,
    /// Chapters and claims to run, such as `4` and `4.12`; all, if there are none.
    pub only: Vec<String>,
    /// How long the server may take for an answer.
    pub patience: Duration,
    /// How long all claims may take together. Those that were not run then are unexpected.
    pub limit: Duration,
}

impl Options {
    /// All claims on this server, with what it says that it is.
    pub fn new(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            like: None,
            allowed: Allowed::default(),
            frames: false,
            only: Vec::new(),
            patience: Duration::from_secs(5),
            limit: Duration::from_secs(300),
        }
    }
}

/// All claims, as text: their steps, and what Apache's 3.9 answers.
///
/// # Errors
///
/// None in a program that was built of a tested state.
pub fn list() -> Result<String> {
    Ok(show::list(&claim::all()?))
}

/// A run that has not begun.
#[derive(Debug)]
pub struct Plan {
    options: Options,
    setting: Setting,
    like: Like,
    claims: Vec<Claim>,
}

impl Plan {
    /// Asks the server what it is, and chooses the claims. Changes nothing.
    ///
    /// # Errors
    ///
    /// A server that cannot be reached, and a chapter or a claim that does not exist.
    pub async fn new(options: Options) -> Result<Self> {
        let told = like::ask(&options.server, options.patience).await?;
        let like = options.like.clone().or(told).unwrap_or_default();
        let mut claims = claim::all()?;
        for only in &options.only {
            let is_there = claims.iter().any(|claim| claim.is_of(only));
            ensure!(is_there, "no claim or chapter has the number {only:?}");
        }
        claims.retain(|claim| {
            options.only.is_empty() || options.only.iter().any(|only| claim.is_of(only))
        });
        let root = format!("/zk-conformance-{:08x}", fastrand::u32(..));
        let (address, patience) = (options.server.clone(), options.patience);
        let setting = Setting { address, root, release: like.release, patience };
        Ok(Self { options, setting, like, claims })
    }

    /// What will be done.
    pub fn announcement(&self) -> String {
        let (count, root) = (self.claims.len(), &self.setting.root);
        format!(
            "{count} claims on {}, compared with {}. It opens and closes sessions, creates \
             {root} with nodes below it, and deletes these at the end; nothing else is changed.",
            self.options.server, self.like,
        )
    }

    /// Runs the claims, until `interrupted` is done at the latest, and deletes the folder.
    ///
    /// # Errors
    ///
    /// A server in which the folder cannot be made, or cannot be looked for at the end.
    pub async fn run(self, interrupted: impl Future<Output = ()>) -> Result<Report> {
        let watch = Stopwatch::start();
        let Setting { address, root, patience, .. } = &self.setting;
        let folders: Vec<_> =
            self.claims.iter().map(|claim| run::folder(&self.setting, claim)).collect();
        let mut lines = Vec::new();
        let made = folder::create(address, *patience, root, &folders).await;
        if made.is_ok() {
            let run = timeout(self.options.limit, self.run_claims(&mut lines));
            tokio::select! {
                // Those that have run are in the list, whichever is first.
                _ = run => {}
                () = interrupted => {}
            }
        }
        let left = folder::remove(address, *patience, root).await;
        made.context("cannot create the folder of the claims")?;
        let left_behind = left.with_context(|| format!("{root} was not deleted"))?;
        for claim in &self.claims {
            if !lines.iter().any(|line: &Line| line.number == claim.number) {
                lines.push(self.line(claim, Verdict::NotRun));
            }
        }
        lines.sort_by_key(|line| line.number);
        Ok(Report {
            server: self.options.server,
            like: self.like.to_string(),
            seconds: watch.elapsed().as_secs_f64(),
            claims: lines,
            left_behind,
        })
    }

    async fn run_claims(&self, lines: &mut Vec<Line>) {
        let mut waiting: VecDeque<_> = self.claims.iter().cloned().collect();
        let mut running = JoinSet::new();
        loop {
            while running.len() < AT_ONCE
                && let Some(claim) = waiting.pop_front()
            {
                if claim.since.includes(self.setting.release) {
                    let setting = self.setting.clone();
                    running.spawn(async move {
                        let outcome = run::run(&setting, &claim).await;
                        (claim, outcome)
                    });
                } else {
                    let mut line = self.line(&claim, Verdict::Skipped);
                    line.why = Some(format!("since {}", claim.since));
                    lines.push(line);
                }
            }
            // A claim that panics is not in the list, and counts as not run.
            let Some(joined) = running.join_next().await else { break };
            let Ok((claim, outcome)) = joined else { continue };
            lines.push(self.judged(&claim, outcome));
        }
    }

    fn judged(&self, claim: &Claim, outcome: Result<(Vec<StepLine>, Vec<String>), String>) -> Line {
        let mut line = self.line(claim, Verdict::AsExpected);
        match outcome {
            Err(why) => {
                line.verdict = Verdict::Skipped;
                line.why = Some(why);
            }
            Ok((steps, frames)) => {
                let is_expected = steps.iter().all(|step| step.is_expected);
                let known = self.options.allowed.reason(claim.number);
                let known = known.or(self.like.known.reason(claim.number));
                line.verdict = match (is_expected, known) {
                    (true, _) => Verdict::AsExpected,
                    (false, None) => Verdict::Unexpected,
                    (false, Some(_)) => Verdict::Allowed,
                };
                line.why = known.map(|reason| match is_expected {
                    true => format!("a deviation is allowed that there is not: {reason}"),
                    false => reason.to_owned(),
                });
                line.steps = steps;
                if self.options.frames {
                    line.frames = frames;
                }
            }
        }
        line
    }

    fn line(&self, claim: &Claim, verdict: Verdict) -> Line {
        Line {
            number: claim.number,
            chapter: claim.chapter.clone(),
            sentence: claim.sentence.clone(),
            since: claim.since.to_string(),
            evidence: claim.evidence(),
            verdict,
            why: None,
            steps: Vec::new(),
            frames: Vec::new(),
        }
    }
}
