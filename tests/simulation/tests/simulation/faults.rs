//! Runs each family with every fault at frames of a few turns, on links of several latencies, and
//! with pairs of faults at pairs of frames.
//!
//! The bound: the frames are those of a run without faults, until each contender had two turns, or
//! the work is shared evenly. Without `ZK_SOAK` these are 40 at most, spread over the run. Pairs
//! are of faults that strike alone. `ZK_SIM_PAIRS` is the number of pairs that each family runs,
//! spread evenly over all of its pairs. With `ZK_SOAK` it runs all of them, unless that is set: for
//! all families together these are 87 million, which would take two cores about ten hours.
//! `ZK_SIM_FAMILY` chooses one family. A run that fails is printed with the command that runs it
//! alone and prints its trace, and with one that makes a page of it. With `ZK_SIM_COUNT` the others
//! run all the same.
//!
//! The folder `ledgers` says of each family which requests it sends without faults, and what more
//! happens, and what users are told, when a fault strikes. `ZK_SIM_ACCEPT=1` writes that anew: read
//! the difference, since it says what the change costs and what users will see.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write};
use std::sync::Mutex;

use zk_simulation::planned::{self, Course, Fault, Strike};
use zk_simulation::{Family, Outcome, Servers};

use super::{caught, chosen_family, is_soak, number, on_all_cores};

const DEFAULT_PAIRS: usize = 200;

/// At most so many frames of a run are struck at, unless there is time for all of them.
const FRAMES: usize = 40;

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

/// What happened with each fault.
type Events = BTreeMap<Fault, BTreeSet<&'static str>>;

/// The latencies at which pairs run on Apache's servers.
const OF_PAIRS: [u64; 2] = [2, 100];

#[test]
fn every_family_holds_with_any_fault_and_with_pairs_of_faults() {
    let chosen = std::env::var_os("ZK_SIM_FAMILY").map(|_| chosen_family());
    let is_wanted = |family: &Family| match chosen {
        Some(chosen) => chosen == *family,
        None => family.works_on(Servers::Apache),
    };
    for family in Family::ALL.into_iter().filter(is_wanted) {
        let runs = search(family);
        assert!(runs > 2500, "{family:?}: {runs} runs");
    }
}

/// Searches for faults that break a family. Returns how many runs there were.
fn search(family: Family) -> usize {
    let (mut runs, events) = (0, Mutex::new(Events::new()));
    for road in ROADS.into_iter().filter(|(servers, _)| family.works_on(*servers)) {
        let mut run = |count: usize, faults: &(dyn Fn(usize) -> Vec<Strike> + Sync)| {
            let struck = run_all(family, road, count, faults, runs, |faults, course| {
                if let ([one], LEDGER) = (faults, road) {
                    let happened = course.outcome.counts.into_keys();
                    events.lock().unwrap().entry(one.fault).or_default().extend(happened);
                }
            });
            assert!(struck.len() > count / 2, "too few faults strike");
            runs += count;
            struck
        };
        run(1, &|_| Vec::new());
        let strikes = all_strikes(family, road);
        let struck = run(strikes.len(), &|n| vec![strikes[n]]);
        let strikes = struck.into_iter().map(|n| strikes[n]).collect::<Vec<_>>();
        if road.0 == Servers::Apache && OF_PAIRS.contains(&road.1) {
            let all = strikes.len() * strikes.len().saturating_sub(1) / 2;
            let wanted = wanted_pairs(all);
            run(wanted, &|n| pair(&strikes, n * all / wanted));
        }
    }
    // Runs that fail are not in it, and a soak strikes where no ledger looks.
    if number("ZK_SIM_COUNT").is_none() && !is_soak() {
        ledger(family, &events.into_inner().unwrap());
    }
    runs
}

/// Compares the ledger of a family with what happened, or writes it.
fn ledger(family: Family, events: &Events) {
    let (servers, latency) = LEDGER;
    let Course { outcome, requests, .. } = planned::run(family, servers, latency, &[], false);
    let (costs, usual) = (listed(&requests), listed(&outcome.counts));
    let mut ledger = format!("requests: {costs}\nwithout faults: {usual}\n");
    for (fault, events) in events {
        let more = events.iter().filter(|event| !outcome.counts.contains_key(*event)).copied();
        let more = more.collect::<Vec<_>>();
        let more = if more.is_empty() { "nothing else".to_owned() } else { more.join(", ") };
        writeln!(ledger, "{fault:?}: {more}").unwrap();
    }
    let path = format!("{}/ledgers/{family:?}.txt", env!("CARGO_MANIFEST_DIR"));
    if number("ZK_SIM_ACCEPT") == Some(1) {
        std::fs::write(&path, &ledger).unwrap();
    }
    assert_eq!(ledger, std::fs::read_to_string(&path).unwrap_or_default(), "{path}");
}

/// How often each of these was there, as text.
fn listed<K: Display>(counts: &BTreeMap<K, u64>) -> String {
    let each = counts.iter().map(|(what, count)| format!("{count} {what}"));
    each.collect::<Vec<_>>().join(", ")
}

/// Runs so many sets of faults until one fails. Returns the numbers of those of which all faults
/// struck, in order, after their runs were noted.
fn run_all(
    family: Family,
    road: (Servers, u64),
    count: usize,
    faults: impl Fn(usize) -> Vec<Strike> + Sync,
    runs: usize,
    note: impl Fn(&[Strike], Course) + Sync,
) -> Vec<usize> {
    let counting = number("ZK_SIM_COUNT").is_some();
    let struck = Mutex::new(Vec::new());
    let failed = on_all_cores(count as u64, counting, |n| {
        let faults = faults(n as usize);
        let course = match run(family, road, &faults) {
            Ok(course) => course,
            Err(failure) => return Some(failure),
        };
        if course.struck == faults.len() {
            struck.lock().unwrap().push(n as usize);
            note(&faults, course);
        }
        None
    });
    let mut struck = struck.into_inner().unwrap();
    struck.sort_unstable();
    let (size, all, (servers, latency)) = (faults(0).len(), struck.len(), road);
    println!(
        "{family:?}, {servers:?}, {latency} ms: {count} runs with {size} faults, {all} of them \
         with all struck"
    );
    if counting {
        failed.values().for_each(|failure| println!("{failure}"));
        println!("{family:?}: {} of {count} runs fail", failed.len());
    } else if let Some((n, failure)) = failed.first_key_value() {
        panic!("after {} runs: {failure}", runs + *n as usize);
    }
    struck
}

fn run(family: Family, road: (Servers, u64), strikes: &[Strike]) -> Result<Course, String> {
    let (servers, latency) = road;
    let run = || planned::run(family, servers, latency, strikes, false);
    let violation = match caught(run) {
        Ok(Course { outcome: Outcome { violation: Some(violation), .. }, .. }) => violation,
        Ok(course) => return Ok(course),
        Err(panic) => panic,
    };
    let faults = strikes.iter().map(Strike::to_string).collect::<Vec<_>>().join(" ");
    Err(format!(
        "{family:?}, {servers:?}, {latency} ms, '{faults}': {violation}\nreplay: \
         ZK_SIM_FAMILY={family:?} ZK_SIM_SERVERS={servers:?} ZK_SIM_LATENCY={latency} \
         ZK_SIM_FAULTS='{faults}' cargo test -p zk-simulation trace_of_faults -- --nocapture\n\
         as a page, unless it panics: cargo run --release --example simulated -- {family:?} \
         {servers:?} {latency} '{faults}' page.html"
    ))
}

/// All single faults at the frames of a run without faults.
fn all_strikes(family: Family, (servers, latency): (Servers, u64)) -> Vec<Strike> {
    let frames = planned::run(family, servers, latency, &[], false).frames;
    let at = |(frame, what)| {
        // With its connection the operator would lose its session for good.
        let spares = move |fault: &Fault| servers == Servers::Apache || *fault != Fault::Restart;
        let faults = Fault::ALL.into_iter().filter(move |it| it.suits(what) && spares(it));
        faults.map(move |fault| Strike { fault, frame })
    };
    let all = frames.len();
    let most = if is_soak() { all } else { all.min(FRAMES) };
    // Of requests and replies in turn both have to be struck, whatever the distance is.
    let beside = |n: usize| if all < 2 * most { 0 } else { n % 2 };
    let spread = (0..most).map(|n| n * all / most + beside(n));
    spread.map(|n| (n, frames[n])).flat_map(at).collect()
}

/// How many of all pairs run.
fn wanted_pairs(all: usize) -> usize {
    let usual = if is_soak() { all } else { DEFAULT_PAIRS.div_ceil(OF_PAIRS.len()) };
    let wanted = number("ZK_SIM_PAIRS").map(|wanted| (wanted as usize).div_ceil(OF_PAIRS.len()));
    wanted.unwrap_or(usual).clamp(1, all)
}

/// The pair with this number, of all pairs of different faults, the earlier frame first. A fault
/// comes in as many pairs as there are faults before it, behind the pairs of all of these.
fn pair(strikes: &[Strike], number: usize) -> Vec<Strike> {
    let later = (8 * number + 1).isqrt().div_ceil(2);
    vec![strikes[number - later * (later - 1) / 2], strikes[later]]
}

/// Prints the trace of a run with `ZK_SIM_FAULTS`, of one family, `ZK_SIM_FAMILY`.
#[test]
fn trace_of_faults() {
    let family = chosen_family();
    let faults = std::env::var("ZK_SIM_FAULTS").unwrap_or_default();
    let strikes = faults.split_whitespace().map(|one| one.parse().expect("faults"));
    let strikes = strikes.collect::<Vec<Strike>>();
    let latency = number("ZK_SIM_LATENCY").unwrap_or(2);
    let servers = match std::env::var("ZK_SIM_SERVERS").as_deref() {
        Ok("Keeper") => Servers::Keeper,
        _ => Servers::Apache,
    };
    let course = planned::run(family, servers, latency, &strikes, true);
    println!("{}", course.outcome.trace);
    assert_eq!(course.outcome.violation, None, "{family:?}, {faults}");
    assert_eq!(course.struck, strikes.len(), "{family:?}, {faults}: a fault does not strike");
}
