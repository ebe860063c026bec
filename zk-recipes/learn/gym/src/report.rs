//! Results as JSON, for a class: what was examined, what came of it, and why.

use serde::Serialize;

use crate::cost::Costs;
use crate::record::Break;
use crate::search::Counts;
use crate::verdict::{Finding, Verdict};

/// The version of the format.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Report<'v> {
    version: u32,
    levels: Vec<Line<'v>>,
}

/// The result of a level.
#[derive(Serialize)]
struct Line<'v> {
    level: usize,
    title: &'v str,
    /// `passed`, `broken`, `unwritten` or `hangs`.
    result: &'static str,
    runs: &'v Counts,
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<Why<'v>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_turn: Option<Costs>,
}

/// Why a level is not passed.
#[derive(Serialize)]
struct Why<'v> {
    kind: Break,
    text: &'v str,
    reason: &'v str,
    contenders: usize,
    faults: &'v [String],
    faults_not_fired: &'v [String],
    requests: usize,
    run: &'v [String],
}

/// The results of some levels as JSON.
pub fn report(verdicts: &[Verdict]) -> String {
    let levels = verdicts.iter().map(line).collect();
    let text = serde_json::to_string_pretty(&Report { version: VERSION, levels });
    text.unwrap_or_default() + "\n"
}

fn line(verdict: &Verdict) -> Line<'_> {
    let (result, broken, requests_per_turn) = match &verdict.result {
        Finding::Unwritten => ("unwritten", None, None),
        Finding::Hangs => ("hangs", None, None),
        Finding::Passed(costs) => ("passed", None, Some(*costs)),
        Finding::Broken(broken) => {
            let why = Why {
                kind: broken.kind,
                text: &broken.text,
                reason: &broken.reason,
                contenders: broken.contenders,
                faults: &broken.faults,
                faults_not_fired: &broken.not_fired,
                requests: broken.requests,
                run: &broken.lines,
            };
            ("broken", Some(why), None)
        }
    };
    let Verdict { level, counts, .. } = verdict;
    let (number, title) = (level.number, level.title);
    Line { level: number, title, result, runs: counts, broken, requests_per_turn }
}
