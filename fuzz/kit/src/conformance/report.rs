//! What came of a run, and how it is printed: as text, as JSON, or as a page.

use serde::Serialize;

use super::claim::Number;

/// What came of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Verdict {
    /// The server did what Apache's does.
    AsExpected,
    /// It did not.
    Unexpected,
    /// It did not, and a list allows that.
    Allowed,
    /// The claim is about something that this server does not have.
    Skipped,
    /// The time was over before.
    NotRun,
}

impl Verdict {
    /// Whether the verdict makes the run fail.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Unexpected | Self::NotRun)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AsExpected => "as expected",
            Self::Unexpected => "UNEXPECTED",
            Self::Allowed => "allowed",
            Self::Skipped => "skipped",
            Self::NotRun => "NOT RUN",
        }
    }
}

/// A step of a claim.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StepLine {
    /// The client's letter, and what it did. `$` is the claim's own folder.
    pub step: String,
    /// What Apache's server answers.
    pub expected: String,
    /// What this one answered.
    pub got: String,
    /// Whether these agree.
    pub is_expected: bool,
}

/// A claim, and what came of it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Line {
    /// Its number.
    #[serde(serialize_with = "as_text")]
    pub number: Number,
    /// The chapter's title.
    pub chapter: String,
    /// The claim.
    pub sentence: String,
    /// Since which release of Apache's this is so.
    pub since: String,
    /// Where the expectation comes from.
    pub evidence: String,
    /// What came of it.
    pub verdict: Verdict,
    /// Why it was skipped, or what the list of allowed deviations says of it.
    pub why: Option<String>,
    /// The steps that were run.
    pub steps: Vec<StepLine>,
    /// Every frame, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<String>,
}

/// What came of a run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The server's address.
    pub server: String,
    /// The server that it is compared with, such as `apache-3.9.3`.
    pub like: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The claims in their order.
    pub claims: Vec<Line>,
    /// Nodes that could not be deleted.
    pub left_behind: Vec<String>,
}

fn as_text<S: serde::Serializer>(number: &Number, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(number)
}

impl Report {
    /// How many claims have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|line| line.verdict == verdict).count()
    }

    /// Whether all is as expected or allowed, and nothing was left behind.
    pub fn is_good(&self) -> bool {
        self.left_behind.is_empty() && !self.claims.iter().any(|line| line.verdict.is_bad())
    }

    /// The numbers of the claims with this verdict.
    pub fn numbers(&self, verdict: Verdict) -> Vec<String> {
        let lines = self.claims.iter().filter(|line| line.verdict == verdict);
        lines.map(|line| line.number.to_string()).collect()
    }
}
