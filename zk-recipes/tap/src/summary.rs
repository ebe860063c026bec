//! Latencies by operation and path.
//!
//! A latency is kept as one of a few hundred classes, each an eighth wider than the one before, so
//! that a summary takes little memory however long the tap runs.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use zk_proto::{ErrorCode, OpCode};

/// How many pairs of an operation and a path are told apart; requests beyond are counted under the
/// operation alone.
const PAIRS: usize = 10_000;

/// How many rows the summary shows, the most frequent first.
const ROWS: usize = 40;

/// Classes of latency for each power of two.
const STEPS: u64 = 8;

/// The number of classes: those of 64 powers of two.
const CLASSES: usize = 64 * STEPS as usize;

/// What was measured of one kind of request.
#[derive(Clone, Debug)]
pub struct Latencies {
    count: u64,
    errors: u64,
    max: Duration,
    classes: Vec<u32>,
}

impl Latencies {
    fn new() -> Self {
        Self { count: 0, errors: 0, max: Duration::ZERO, classes: Vec::new() }
    }

    fn add(&mut self, latency: Duration, error: ErrorCode) {
        self.count += 1;
        self.errors += u64::from(error != ErrorCode::OK);
        self.max = self.max.max(latency);
        let class = class(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        if self.classes.len() <= class {
            self.classes.resize(class + 1, 0);
        }
        if let Some(count) = self.classes.get_mut(class) {
            *count = count.saturating_add(1);
        }
    }

    /// The number of replies.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The number of replies with an error.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// The longest latency.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The latency that a part of the replies did not exceed, with an error of up to an eighth;
    /// `part` is from 0 to 1.
    pub fn quantile(&self, part: f64) -> Duration {
        let rank = (self.count as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (class, count) in self.classes.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank.max(1) {
                return Duration::from_micros(end(class)).min(self.max);
            }
        }
        self.max
    }
}

/// The class of a latency in microseconds.
fn class(micros: u64) -> usize {
    let power = u64::from(micros.max(1).ilog2());
    let step = if power < 3 { micros } else { (micros >> (power - 3)) % STEPS };
    let class = if power < 3 { step } else { (power - 2) * STEPS + step };
    usize::try_from(class).unwrap_or(CLASSES).min(CLASSES - 1)
}

/// The greatest latency of a class, in microseconds.
fn end(class: usize) -> u64 {
    let class = class as u64;
    match class.checked_div(STEPS).unwrap_or(0) {
        0 => class,
        power => {
            let width = 1_u64 << (power - 1).min(60);
            (STEPS + class % STEPS).saturating_mul(width).saturating_add(width - 1)
        }
    }
}

/// All latencies.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    latencies: HashMap<(OpCode, String), Latencies>,
    notifications: u64,
}

impl Summary {
    pub(crate) fn add(
        &mut self,
        op: OpCode,
        path: Option<String>,
        latency: Duration,
        error: ErrorCode,
    ) {
        let mut key = (op, path.unwrap_or_default());
        if self.latencies.len() >= PAIRS && !self.latencies.contains_key(&key) {
            key.1 = "(other paths)".to_owned();
        }
        self.latencies.entry(key).or_insert_with(Latencies::new).add(latency, error);
    }

    pub(crate) fn add_notification(&mut self) {
        self.notifications += 1;
    }

    /// What was measured of an operation at a path; the path of an operation without one is empty.
    pub fn of(&self, op: OpCode, path: &str) -> Option<&Latencies> {
        self.latencies.get(&(op, path.to_owned()))
    }

    /// The number of replies that were measured.
    pub fn count(&self) -> u64 {
        self.latencies.values().map(Latencies::count).sum()
    }

    /// The number of watch events.
    pub fn notifications(&self) -> u64 {
        self.notifications
    }
}

/// A table, the most frequent requests first; times are in milliseconds.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<_> = self.latencies.iter().collect();
        rows.sort_by(|(a, x), (b, y)| y.count.cmp(&x.count).then_with(|| a.cmp(b)));
        writeln!(f, "   count  errors   p50 ms   p99 ms   max ms  operation and path")?;
        for ((op, path), latencies) in rows.iter().take(ROWS) {
            let ms = |time: Duration| time.as_secs_f64() * 1000.0;
            writeln!(
                f,
                "{:8} {:7} {:8.3} {:8.3} {:8.3}  {op} {}",
                latencies.count,
                latencies.errors,
                ms(latencies.quantile(0.5)),
                ms(latencies.quantile(0.99)),
                ms(latencies.max),
                path.escape_debug(),
            )?;
        }
        if let Some((_, rest)) = rows.split_at_checked(ROWS)
            && !rest.is_empty()
        {
            let count: u64 = rest.iter().map(|(_, latencies)| latencies.count).sum();
            writeln!(
                f,
                "{count:8}                                     in {} more rows",
                rest.len()
            )?;
        }
        writeln!(f, "{} replies, {} watch events", self.count(), self.notifications)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_latency_is_in_a_class_that_ends_at_most_an_eighth_above_it() {
        let mut before = 0;
        for micros in (0..5000).chain((13..63).flat_map(|n| [(1 << n) - 1, 1 << n, (1 << n) + 7])) {
            let class = class(micros);
            assert!(class >= before, "{micros}");
            before = class;
            assert!(end(class) >= micros && end(class) - micros <= micros / 8, "{micros}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_latencies() {
        let mut summary = Summary::default();
        for micros in 1..=1000 {
            let error = if micros > 990 { ErrorCode::NO_NODE } else { ErrorCode::OK };
            let latency = Duration::from_micros(micros);
            summary.add(OpCode::GET_DATA, Some("/a".to_owned()), latency, error);
        }
        let latencies = summary.of(OpCode::GET_DATA, "/a").unwrap();
        assert_eq!((latencies.count(), latencies.errors()), (1000, 10));
        let near = |part, micros: u64| {
            let quantile = latencies.quantile(part).as_micros() as u64;
            assert!((micros..=micros + micros / 8).contains(&quantile), "{part}: {quantile}");
        };
        near(0.5, 500);
        near(0.99, 990);
        assert_eq!(latencies.quantile(1.0), Duration::from_micros(1000));
        assert!(summary.to_string().contains("getData /a"), "{summary}");
    }

    #[test]
    fn paths_beyond_the_limit_are_counted_together() {
        let mut summary = Summary::default();
        for n in 0..PAIRS + 5 {
            let path = Some(format!("/{n}"));
            summary.add(OpCode::DELETE, path, Duration::ZERO, ErrorCode::OK);
        }
        assert_eq!(summary.of(OpCode::DELETE, "(other paths)").unwrap().count(), 5);
        assert_eq!(summary.count(), PAIRS as u64 + 5);
    }
}
