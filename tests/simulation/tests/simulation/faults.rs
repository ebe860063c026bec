//! Runs each family with every fault at every frame of a few turns, on links of several latencies,
//! and with pairs of faults at pairs of frames.
//!
//! The bound: the frames are the first 64 at most of a run without faults, until each contender had
//! a turn, and pairs are of faults that strike alone. `ZK_SIM_PAIRS` is the number of pairs that
//! each family runs, spread evenly over all of them; with `ZK_SOAK` all pairs run, unless that says
//! otherwise. `ZK_SIM_FAMILY` chooses one family. A run that fails is printed with the command that
//! runs it alone and prints its trace, and with one that makes a page of it. With `ZK_SIM_COUNT`
//! the others run all the same.
//!
//! The folder `ledgers` says of each family which requests it sends without faults, and what more
//! happens, and what users are told, when a fault strikes. `ZK_SIM_ACCEPT=1` writes that anew: read
//! the difference, since it says what the change costs and what users will see.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use zk_simulation::planned::{self, Course, Fault, Strike};
use zk_simulation::{Family, Outcome, Servers};

use super::{number, on_all_cores, panic_message};

const DEFAULT_PAIRS: usize = 200;

/// At most so many frames are struck at.
const FRAMES: usize = 64;

/// The servers, and the latencies of links in milliseconds, in one direction.
const ROADS: [(Servers, u64); 5] = [
    (Servers::Apache, 0),
    (Servers::Apache, 2),
    (Servers::Apache, 100),
    (Servers::Apache, 300),
    (Servers::Keeper, 2),
];

/// The servers, and the latency, of the ledgers.
const LEDGER: (Servers, u64) = (Servers::Apache, 2);

/// The latencies at which pairs run on Apache's servers.
const OF_PAIRS: [u64; 2] = [2, 100];

#[test]
fn every_family_holds_with_any_fault_and_with_pairs_of_faults() {
    let chosen = std::env::var("ZK_SIM_FAMILY").ok();
    let is_chosen = |family: &Family| chosen.as_ref().is_none_or(|it| *it == format!("{family:?}"));
    let families = Family::ALL.into_iter().filter(is_chosen).collect::<Vec<_>>();
    assert!(!families.is_empty(), "there is no family {chosen:?}");
    for family in families {
        let runs = Search { family, runs: 0, events: Mutex::default() }.run();
        assert!(runs > 1000, "{family:?}: {runs} runs");
    }
}

/// A search for faults that break a family.
struct Search {
    family: Family,
    runs: usize,
    /// What happened with each fault, as the ledger has it.
    events: Mutex<BTreeMap<Fault, BTreeSet<&'static str>>>,
}

impl Search {
    /// Returns how many runs there were.
    fn run(mut self) -> usize {
        let family = self.family;
        for road in ROADS.into_iter().filter(|(servers, _)| family.works_on(*servers)) {
            self.run_all(road, 1, |_| Vec::new());
            let strikes = all_strikes(self.family, road);
            let struck = self.run_all(road, strikes.len(), |n| vec![strikes[n]]);
            assert!(struck.len() > strikes.len() / 2, "too few faults strike");
            let strikes = struck.into_iter().map(|n| strikes[n]).collect::<Vec<_>>();
            if road.0 == Servers::Apache && OF_PAIRS.contains(&road.1) {
                let of = strikes.len() * (strikes.len() - 1) / 2;
                let wanted = pairs_wanted().map_or(of, |all| of.min(all.div_ceil(OF_PAIRS.len())));
                let struck =
                    self.run_all(road, wanted, |n| pair(&strikes, n * of / wanted).to_vec());
                assert!(struck.len() > wanted / 2, "too few pairs strike");
            }
        }
        self.ledger();
        self.runs
    }

    /// Compares the ledger of this family with what happened, or writes it.
    fn ledger(&self) {
        let Course { outcome, requests, .. } =
            planned::run(self.family, LEDGER.0, LEDGER.1, &[], false);
        let mut ledger = format!(
            "requests: {}\nwithout faults: {}\n",
            listed(&requests),
            listed(&outcome.counts)
        );
        for (fault, events) in &*self.events.lock().unwrap() {
            let more = events.iter().filter(|event| !outcome.counts.contains_key(*event)).copied();
            let more = more.collect::<Vec<_>>();
            let more = if more.is_empty() { "nothing else".to_owned() } else { more.join(", ") };
            writeln!(ledger, "{fault:?}: {more}").unwrap();
        }
        let path = format!("{}/ledgers/{:?}.txt", env!("CARGO_MANIFEST_DIR"), self.family);
        if number("ZK_SIM_ACCEPT").is_some() {
            std::fs::write(&path, &ledger).unwrap();
        }
        assert_eq!(ledger, std::fs::read_to_string(&path).unwrap_or_default(), "{path}");
    }

    /// Runs numbered sets of faults until one fails. Returns the numbers of those that all struck.
    fn run_all(
        &mut self,
        road: (Servers, u64),
        count: usize,
        faults: impl Fn(usize) -> Vec<Strike> + Sync,
    ) -> Vec<usize> {
        let (family, counting) = (self.family, number("ZK_SIM_COUNT").is_some());
        let struck = Mutex::new(Vec::new());
        let failed = on_all_cores(count as u64, counting, |n| {
            let (n, faults) = (n as usize, faults(n as usize));
            let ran = run(family, road, &faults);
            let course = match ran {
                Ok(course) => course,
                Err(failure) => return Some(failure),
            };
            if course.struck == faults.len() {
                struck.lock().unwrap().push(n);
                if let ([one], true) = (&faults[..], road == LEDGER) {
                    let mut events = self.events.lock().unwrap();
                    events.entry(one.fault).or_default().extend(course.outcome.counts.keys());
                }
            }
            None
        });
        let mut struck = struck.into_inner().unwrap();
        struck.sort_unstable();
        let (size, all) = (faults(0).len(), struck.len());
        let (servers, latency) = road;
        println!(
            "{family:?}, {servers:?}, {latency} ms: {count} runs with {size} faults, {all} of them \
             with all struck"
        );
        if counting {
            failed.values().for_each(|failure| println!("{failure}"));
            println!("{family:?}: {} of {count} runs fail", failed.len());
        } else if let Some((n, failure)) = failed.first_key_value() {
            panic!("after {} runs: {failure}", self.runs + *n as usize);
        }
        self.runs += count;
        struck
    }
}

/// How often each of these was there, as text.
fn listed<K: Display>(counts: &BTreeMap<K, u64>) -> String {
    let each = counts.iter().map(|(what, count)| format!("{count} {what}"));
    each.collect::<Vec<_>>().join(", ")
}

fn run(
    family: Family,
    (servers, latency): (Servers, u64),
    strikes: &[Strike],
) -> Result<Course, String> {
    let run = || planned::run(family, servers, latency, strikes, false);
    // A panic leaves no trace for a page.
    let (violation, has_page) = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Course { outcome: Outcome { violation: Some(violation), .. }, .. }) => (violation, true),
        Ok(course) => return Ok(course),
        Err(panic) => (panic_message(&*panic), false),
    };
    let faults = strikes.iter().map(Strike::to_string).collect::<Vec<_>>().join(" ");
    let page = match has_page {
        true => format!(
            "\nas a page: cargo run --release --example simulated -- {family:?} {servers:?} \
             {latency} '{faults}' page.html"
        ),
        false => String::new(),
    };
    Err(format!(
        "{family:?}, {servers:?}, {latency} ms, '{faults}': {violation}\nreplay: \
         ZK_SIM_FAMILY={family:?} ZK_SIM_SERVERS={servers:?} ZK_SIM_LATENCY={latency} \
         ZK_SIM_FAULTS='{faults}' cargo test -p zk-simulation trace_of_faults -- --nocapture{page}"
    ))
}

/// All single faults at the frames of a run without faults.
fn all_strikes(family: Family, (servers, latency): (Servers, u64)) -> Vec<Strike> {
    let frames = planned::run(family, servers, latency, &[], false).frames;
    let at = |(frame, what)| {
        let faults = Fault::ALL.into_iter().filter(move |fault| fault.suits(what));
        // With its connection the operator would lose its session for good.
        let spares = move |fault: &Fault| servers == Servers::Apache || *fault != Fault::Restart;
        let faults = faults.filter(spares);
        faults.map(move |fault| Strike { fault, frame })
    };
    frames.into_iter().take(FRAMES).enumerate().flat_map(at).collect()
}

/// Pair number `n` of all pairs of different faults, the earlier frame first.
fn pair(strikes: &[Strike], n: usize) -> [Strike; 2] {
    let later = (1 + 8 * n).isqrt().div_ceil(2);
    let earlier = n - later * (later - 1) / 2;
    [strikes[earlier], strikes[later]]
}

fn pairs_wanted() -> Option<usize> {
    match number("ZK_SIM_PAIRS") {
        None if std::env::var_os("ZK_SOAK").is_some() => None,
        wanted => Some(wanted.map_or(DEFAULT_PAIRS, |wanted| wanted.max(1) as usize)),
    }
}

/// Prints the trace of a run with `ZK_SIM_FAULTS`, of one family, `ZK_SIM_FAMILY`.
#[test]
fn trace_of_faults() {
    let name = std::env::var("ZK_SIM_FAMILY").unwrap_or_else(|_| "Lock".to_owned());
    let family = Family::ALL.into_iter().find(|family| format!("{family:?}") == name);
    let faults = std::env::var("ZK_SIM_FAULTS").unwrap_or_default();
    let strikes = faults.split_whitespace().map(|one| one.parse().expect("faults"));
    let strikes = strikes.collect::<Vec<Strike>>();
    let latency = number("ZK_SIM_LATENCY").unwrap_or(2);
    let servers = match std::env::var("ZK_SIM_SERVERS").as_deref() {
        Ok("Keeper") => Servers::Keeper,
        _ => Servers::Apache,
    };
    let course = planned::run(family.expect("a family"), servers, latency, &strikes, true);
    println!("{}", course.outcome.trace);
    assert_eq!(course.outcome.violation, None, "{name}, {faults}");
    assert_eq!(course.struck, strikes.len(), "{name}, {faults}: a fault does not strike");
}

#[test]
fn all_pairs_are_numbered_once() {
    let strikes = (0..5).map(|frame| Strike { fault: Fault::Cut, frame }).collect::<Vec<_>>();
    let frames = |n| pair(&strikes, n).map(|strike| strike.frame);
    let pairs = (0..10).map(frames).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(pairs.len(), 10);
    assert!(pairs.iter().all(|[earlier, later]| earlier < later));
}
