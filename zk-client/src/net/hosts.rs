//! Which server to try next, and how long to wait before.
//!
//! The servers are shuffled once and tried in turn. Every wait is random, since all clients of a
//! server lose it at the same moment. When the list of servers changes, the choice of the clients
//! that move is random too, so that each server gets its share of the clients. This file reads no
//! clock, and the same seed makes the same choices.

use std::collections::HashSet;
use std::time::Duration;

use crate::config::Host;
use crate::net::backoff;
use crate::random::Random;

/// The rotation through the servers.
#[derive(Debug)]
pub(crate) struct Hosts {
    hosts: Vec<Host>,
    next: usize,
    /// The server that was tried last. The client may be connected to it.
    current: Option<Host>,
    /// Attempts since the last connection that lasted, or since the start.
    attempts: u32,
    started: bool,
    random: Random,
}

impl Hosts {
    pub(crate) fn new(mut hosts: Vec<Host>, seed: u64) -> Self {
        let mut random = Random::new(seed);
        random.shuffle(&mut hosts);
        Self { hosts, next: 0, current: None, attempts: 0, started: false, random }
    }

    /// All servers, in the order of the rotation.
    pub(crate) fn all(&self) -> &[Host] {
        &self.hosts
    }

    /// Replaces the servers. Returns whether a client that is `connected` must move, or a client
    /// that is not must give up the server that it is trying.
    ///
    /// If every client of the old servers does the same, each new server gets its share of clients,
    /// and no more clients move than necessary (ZOOKEEPER-1355). With s servers before and n
    /// afterwards, of which k remain:
    ///
    /// * n > s: a client of a server that remains leaves it for a new one with a probability of 1 -
    ///   s/n; a client of a server that is removed takes a new one.
    /// * n <= s: a client of a server that remains does not move. A client of a server that is
    ///   removed takes one that remains with a probability of k(s - n) / n(s - k), which fills
    ///   these up to their share, and otherwise a new one.
    ///
    /// Setting the same servers again changes nothing: neither which clients move, nor the waits.
    pub(crate) fn replace(&mut self, mut hosts: Vec<Host>, connected: bool) -> bool {
        if hosts.iter().collect::<HashSet<_>>() == self.hosts.iter().collect() {
            return false;
        }
        self.random.shuffle(&mut hosts);
        self.attempts = 0;
        let before = std::mem::take(&mut self.hosts);
        let here = self.current.as_ref();
        let here = here.and_then(|here| hosts.iter().position(|host| host == here));
        if !connected {
            (self.hosts, self.next) = (hosts, 0);
            return here.is_none() && self.current.is_some();
        }
        let (was, is) = (before.len(), hosts.len());
        let (old, new): (Vec<_>, Vec<_>) =
            hosts.iter().cloned().partition(|host| before.contains(host));
        let stays = here.is_some() && (is <= was || self.random.is_within(was, is));
        if let Some(here) = here.filter(|_| stays) {
            (self.hosts, self.next) = (hosts, (here + 1) % is.max(1));
            return false;
        }
        // How often an old server comes first in the new order.
        let (part, whole) = match is > was {
            true => (0, 1),
            false => (old.len() * (was - is), is * was.saturating_sub(old.len())),
        };
        let (mut old, mut new) = (old.into_iter(), new.into_iter());
        while self.hosts.len() < is {
            let (first, second) = match self.random.is_within(part, whole) {
                true => (&mut old, &mut new),
                false => (&mut new, &mut old),
            };
            self.hosts.extend(first.next().or_else(|| second.next()));
        }
        self.next = 0;
        true
    }

    /// Tries this server next. The rounds are not reset: the server may report that it serves
    /// writes, and accept no client.
    pub(crate) fn prefer(&mut self, host: &Host) {
        if let Some(next) = self.hosts.iter().position(|known| known == host) {
            self.next = next;
        }
    }

    /// Returns the server to try, and the wait before it. `None` only if there are no servers at
    /// all.
    pub(crate) fn next(&mut self) -> Option<(Host, Duration)> {
        let host = self.hosts.get(self.next)?.clone();
        let round = self.attempts / u32::try_from(self.hosts.len()).unwrap_or(u32::MAX);
        let delay = match round {
            0 if !std::mem::replace(&mut self.started, true) => Duration::ZERO,
            round => backoff::delay(&mut self.random, round),
        };
        self.next = (self.next + 1) % self.hosts.len();
        self.attempts = self.attempts.saturating_add(1);
        self.current = Some(host.clone());
        Some((host, delay))
    }

    /// Notes that a connection lasted: the rounds start anew.
    pub(crate) fn lived(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::net::backoff::{CAP, SPREAD};

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
        assert!(orders.collect::<HashSet<_>>().len() > 3);
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

    /// Simulates 10,000 clients of the servers `from` when the servers become `to`. Returns the
    /// share of each new server in thousandths, and how many clients moved, also in thousandths.
    fn shares(from: &str, to: &str) -> (BTreeMap<String, u32>, u32) {
        const CLIENTS: u32 = 10_000;
        let hosts = |names: &str| {
            let host = |name: char| Host { name: name.to_string(), port: 1 };
            names.chars().map(host).collect::<Vec<_>>()
        };
        let (mut shares, mut moved) = (BTreeMap::new(), 0);
        for seed in 0..CLIENTS {
            let mut client = Hosts::new(hosts(from), seed.into());
            let mut at = client.next().unwrap().0;
            let moves = client.replace(hosts(to), true);
            if moves {
                let before = std::mem::replace(&mut at, client.next().unwrap().0);
                assert!(at != before, "seed {seed} moves to where it was");
                moved += 1;
            }
            *shares.entry(at.name).or_insert(0) += 1;
        }
        shares.values_mut().for_each(|share| *share /= CLIENTS / 1000);
        (shares, moved / (CLIENTS / 1000))
    }

    #[test]
    fn every_server_has_its_share_after_a_change_and_few_clients_move() {
        for (from, to, moving) in [
            ("abc", "abcde", 400),
            ("abcde", "abc", 400),
            ("abc", "abd", 333),
            ("abc", "def", 1000),
            ("abc", "abdef", 600),
            ("abcde", "abf", 600),
            ("abc", "abc", 0),
            ("a", "ab", 500),
            ("abc", "d", 1000),
            ("abcdef", "abgh", 667),
        ] {
            let (shares, moved) = shares(from, to);
            let names: String = shares.keys().map(String::as_str).collect();
            assert_eq!(names, to, "{from} to {to}: {shares:?}");
            let fair = 1000 / to.len() as u32;
            for share in shares.values() {
                assert!(share.abs_diff(fair) <= 20, "{from} to {to}: {shares:?}");
            }
            assert!(moved.abs_diff(moving) <= 20, "{from} to {to}: {moved} moved");
        }
    }

    #[test]
    fn after_a_change_every_server_is_tried_and_no_other() {
        for seed in 0..50 {
            for connected in [false, true] {
                let mut hosts = three(seed);
                names(&mut hosts, 1 + seed as usize % 5);
                let named = |name: &str| Host { name: name.to_owned(), port: 1 };
                hosts.replace(vec![named("b"), named("c"), named("d"), named("e")], connected);
                let mut round = names(&mut hosts, 4).chars().collect::<Vec<_>>();
                round.sort_unstable();
                assert_eq!(round, ['b', 'c', 'd', 'e']);
            }
        }
    }

    #[test]
    fn a_server_that_is_being_tried_is_given_up_if_it_is_gone() {
        let mut hosts = three(1);
        let mut all = hosts.all().to_vec();
        all.push(Host { name: "d".to_owned(), port: 1 });
        assert!(!hosts.replace(all.clone(), false), "nothing is being tried");
        let tried = hosts.next().unwrap().0;
        all.push(Host { name: "e".to_owned(), port: 1 });
        assert!(!hosts.replace(all.clone(), false));
        let others = all.into_iter().filter(|host| *host != tried).collect();
        assert!(hosts.replace(others, false));
    }

    /// Each clone of a client may set the same servers, or one clone may set them repeatedly.
    #[test]
    fn the_same_servers_again_change_nothing() {
        let named = |name: &str| Host { name: name.to_owned(), port: 1 };
        let six = ["a", "b", "c", "d", "e", "f"].map(named).to_vec();
        let mut moved = 0;
        for seed in 0..50 {
            let mut hosts = three(seed);
            names(&mut hosts, 1);
            moved += u32::from(hosts.replace(six.clone(), true));
            let order = hosts.all().to_vec();
            // Also while the client moves, or looks for a server.
            for connected in [true, false] {
                assert!(!hosts.replace(six.iter().rev().cloned().collect(), connected));
            }
            assert_eq!(hosts.all(), order);
        }
        assert!((10..40).contains(&moved), "{moved} of 50");
        let mut hosts = three(1);
        names(&mut hosts, 12);
        hosts.replace(hosts.all().to_vec(), false);
        assert!(hosts.next().unwrap().1 > SPREAD, "the rounds go on");
    }

    #[test]
    fn a_preferred_server_is_next() {
        let mut hosts = three(1);
        names(&mut hosts, 2);
        hosts.prefer(&Host { name: "b".to_owned(), port: 1 });
        assert_eq!(names(&mut hosts, 1), "b");
    }

    #[test]
    fn a_preferred_server_that_lets_nobody_in_is_tried_ever_more_slowly() {
        let mut hosts = three(1);
        let b = Host { name: "b".to_owned(), port: 1 };
        let waits = (0..30).map(|_| {
            hosts.prefer(&b);
            hosts.next().unwrap().1
        });
        assert!(waits.last().unwrap() >= CAP / 2);
    }
}
