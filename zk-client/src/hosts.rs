//! Which server to try next, and how long to wait before.
//!
//! Servers are shuffled once and tried in turn. Every wait is random, since all clients of a
//! server lose it at the same moment. Seeded and clockless: the same seed makes the same choices.

use std::time::Duration;

use crate::config::Host;

/// Spread of the attempts within the first round, so that a lost server's clients do not arrive at
/// the next one in a single burst.
const SPREAD: Duration = Duration::from_millis(50);

/// The wait of the second round; each later one doubles it.
const BASE: Duration = Duration::from_millis(100);

/// The longest wait. It stays well below any sensible session timeout.
const CAP: Duration = Duration::from_secs(1);

/// SplitMix64: small, fast and good enough for shuffles, jitter and names.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if there is none.
    fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    fn duration(&mut self, bound: Duration) -> Duration {
        Duration::from_micros(self.below(bound.as_micros() as u64))
    }

    /// The wait before an attempt of a round: next to nothing in the first, and then ever longer.
    pub(crate) fn wait(&mut self, round: u32) -> Duration {
        match round {
            0 => self.duration(SPREAD),
            later => {
                let full = BASE.saturating_mul(1 << (later - 1).min(16)).min(CAP);
                full / 2 + self.duration(full / 2)
            }
        }
    }
}

/// The rotation through the servers.
#[derive(Debug)]
pub(crate) struct Hosts {
    hosts: Vec<Host>,
    next: usize,
    /// Attempts since the last connection that lived, or since the start.
    attempts: u32,
    started: bool,
    random: Random,
}

impl Hosts {
    pub(crate) fn new(mut hosts: Vec<Host>, seed: u64) -> Self {
        let mut random = Random::new(seed);
        for end in (1..hosts.len()).rev() {
            hosts.swap(end, random.below(end as u64 + 1) as usize);
        }
        Self { hosts, next: 0, attempts: 0, started: false, random }
    }

    /// The server to try, and the wait before it. `None` only if there are no servers at all.
    pub(crate) fn next(&mut self) -> Option<(Host, Duration)> {
        let host = self.hosts.get(self.next)?.clone();
        let round = self.attempts / u32::try_from(self.hosts.len()).unwrap_or(u32::MAX);
        let delay = match round {
            0 if !std::mem::replace(&mut self.started, true) => Duration::ZERO,
            round => self.random.wait(round),
        };
        self.next = (self.next + 1) % self.hosts.len();
        self.attempts = self.attempts.saturating_add(1);
        Some((host, delay))
    }

    /// A connection was good for a while: the rounds start anew.
    pub(crate) fn lived(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three(seed: u64) -> Hosts {
        let host = |name: &str| Host { name: name.to_owned(), port: 1 };
        Hosts::new(vec![host("a"), host("b"), host("c")], seed)
    }

    fn names(hosts: &mut Hosts, n: usize) -> String {
        (0..n).map(|_| hosts.next().unwrap().0.name).collect()
    }

    #[test]
    fn every_server_is_tried_in_each_round() {
        for seed in 0..20 {
            let round = names(&mut three(seed), 6);
            let (first, second) = round.split_at(3);
            assert_eq!(first, second);
            let mut sorted = first.chars().collect::<Vec<_>>();
            sorted.sort_unstable();
            assert_eq!(sorted, ['a', 'b', 'c']);
        }
    }

    #[test]
    fn seeds_shuffle_and_repeat() {
        let orders = (0..20).map(|seed| names(&mut three(seed), 3));
        assert!(orders.collect::<std::collections::HashSet<_>>().len() > 3);
        assert_eq!(names(&mut three(7), 9), names(&mut three(7), 9));
    }

    #[test]
    fn waits_grow_with_the_rounds_and_stay_below_the_cap() {
        let mut hosts = three(1);
        let waits = (0..30).map(|_| hosts.next().unwrap().1).collect::<Vec<_>>();
        assert_eq!(waits[0], Duration::ZERO);
        assert!(waits[1..3].iter().all(|wait| *wait <= SPREAD));
        for (round, base) in [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (9, 1000)] {
            let full = Duration::from_millis(base);
            for wait in &waits[round * 3..round * 3 + 3] {
                assert!((full / 2..=full).contains(wait), "round {round}: {wait:?}");
            }
        }
    }

    #[test]
    fn a_success_starts_the_rounds_anew_but_keeps_the_spread() {
        let mut hosts = three(1);
        names(&mut hosts, 12);
        hosts.lived();
        let waits = (0..50).map(|_| {
            hosts.lived();
            hosts.next().unwrap().1
        });
        let waits = waits.collect::<Vec<_>>();
        assert!(waits.iter().all(|wait| *wait <= SPREAD));
        assert!(waits.iter().any(|wait| *wait > SPREAD / 4));
    }
}
