//! Few requests that make two servers differ.
//!
//! Steps are left out, first many at once and then one by one, as long as the servers differ in the
//! same way; then requests of the remaining steps. Each attempt runs on both servers, below a node
//! of its own. A server that forgets nothing else of an attempt is all that this takes.

use anyhow::Result;

use super::case::Case;
use super::step::Deed;
use super::{Difference, Pair};

/// The smallest case that was found, and how the servers differ in it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Minimised {
    /// The case.
    pub case: Case,
    /// How the servers differ in it.
    pub difference: Difference,
    /// How many runs it took.
    pub runs: usize,
}

/// Leaves out of `case` what is not needed for the servers to differ as in `difference`.
///
/// Returns `None` if they do not differ in this way again, which is so for a race, or where earlier
/// cases matter. Ends after `limit` runs with what it has by then.
///
/// # Errors
///
/// A server that cannot be reached.
pub async fn minimise(
    pair: &mut Pair,
    case: &Case,
    difference: &Difference,
    limit: usize,
) -> Result<Option<Minimised>> {
    let wanted = difference.kind();
    let mut search = Search { pair, wanted, runs: 0, limit };
    let Some(mut best) = search.run(case.clone()).await? else { return Ok(None) };
    let mut size = best.case.steps.len().div_ceil(2);
    while size > 0 {
        let mut changed = false;
        let mut end = best.case.steps.len();
        // From the end, as that is where the fewest others depend on a step.
        while end > 0 {
            let start = end.saturating_sub(size);
            let mut fewer = best.case.clone();
            fewer.steps.drain(start..end);
            if !fewer.steps.is_empty()
                && let Some(found) = search.run(fewer).await?
            {
                best = found;
                changed = true;
            }
            end = start.min(best.case.steps.len());
        }
        size = match (size, changed) {
            (1, true) => 1,
            (size, _) => size / 2,
        };
    }
    let mut place = (0, 0);
    while let Some(step) = best.case.steps.get(place.0) {
        let Deed::Ask(requests) = &step.deed else {
            place = (place.0 + 1, 0);
            continue;
        };
        if requests.len() < 2 || place.1 >= requests.len() {
            place = (place.0 + 1, 0);
            continue;
        }
        let mut fewer = best.case.clone();
        if let Deed::Ask(requests) = &mut fewer.steps[place.0].deed {
            requests.remove(place.1);
        }
        match search.run(fewer).await? {
            Some(found) => best = found,
            None => place.1 += 1,
        }
    }
    best.runs = search.runs;
    Ok(Some(best))
}

struct Search<'a> {
    pair: &'a mut Pair,
    wanted: String,
    runs: usize,
    limit: usize,
}

impl Search<'_> {
    /// Runs a case. If the servers differ in the same way, returns it without the steps behind.
    async fn run(&mut self, mut case: Case) -> Result<Option<Minimised>> {
        if self.runs >= self.limit {
            return Ok(None);
        }
        self.runs += 1;
        let found = self.pair.run(&case).await?;
        Ok(found.filter(|found| found.kind() == self.wanted).map(|difference| {
            case.steps.truncate(difference.step + 1);
            Minimised { case, difference, runs: 0 }
        }))
    }
}
