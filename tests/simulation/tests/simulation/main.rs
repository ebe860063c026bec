//! Runs the locks of all families against all faults, by seeds.
//!
//! `ZK_SIM_SEEDS` is the number of seeds that each family runs; with `ZK_SOAK` it is 10,000 unless
//! that says otherwise. The first seed that fails ends the run and is printed with the command that
//! runs it alone and prints its trace. With `ZK_SIM_COUNT=1` all seeds run, and those that fail are
//! counted, which shows how many seeds it takes to find a defect.
//!
//! The folder `ledgers` says which events the first seeds of each family have brought, since a test
//! in which they do not happen tests less than it should. `ZK_SIM_ACCEPT=1` writes that anew, with
//! the usual number of seeds: read the difference, since what no longer happens is tested no more.

mod faults;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use zk_simulation::Family;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DEFAULT_SEEDS: u64 = 50;
const SOAK_SEEDS: u64 = 10_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

fn is_soak() -> bool {
    std::env::var_os("ZK_SOAK").is_some()
}

/// Runs something, and returns the message of its panic as an error.
fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = panic.downcast_ref::<String>().map(String::as_str).or(text);
        format!("panic: {}", text.unwrap_or_default())
    })
}

/// The family with the name `ZK_SIM_FAMILY`.
fn chosen_family() -> Family {
    let name = std::env::var("ZK_SIM_FAMILY").unwrap_or_else(|_| "Lock".to_owned());
    let family = Family::ALL.into_iter().find(|family| format!("{family:?}") == name);
    family.unwrap_or_else(|| panic!("there is no family {name}"))
}

/// Runs what has these numbers, and returns what failed. Unless all are wanted, it ends soon after
/// the first failure.
fn on_all_cores(
    count: u64,
    wants_all: bool,
    run: impl Fn(u64) -> Option<String> + Sync,
) -> BTreeMap<u64, String> {
    let (next, failed) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores {
            scope.spawn(|| {
                while wants_all || failed.lock().unwrap().is_empty() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    if let Some(failure) = run(number) {
                        failed.lock().unwrap().insert(number, failure);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap()
}

/// Runs the number of seeds that is asked for, in which the events of the ledger must happen.
fn check(family: Family) {
    let usual = if is_soak() { SOAK_SEEDS } else { DEFAULT_SEEDS };
    let seeds = number("ZK_SIM_SEEDS").unwrap_or(usual);
    let counts = Mutex::new(BTreeMap::<&'static str, u64>::new());
    let counting = number("ZK_SIM_COUNT").is_some();
    let failed = on_all_cores(seeds, counting, |seed| {
        let outcome = match caught(|| zk_simulation::run(family, seed, false)) {
            Ok(outcome) => outcome,
            panicked => return panicked.err(),
        };
        for (what, count) in outcome.counts {
            *counts.lock().unwrap().entry(what).or_default() += count;
        }
        outcome.violation
    });
    if counting {
        println!("{family:?}: {} of {seeds} seeds fail", failed.len());
    }
    if let Some((seed, violation)) = failed.first_key_value() {
        panic!(
            "{family:?}, seed {seed}: {violation}\nreplay: ZK_SIM_FAMILY={family:?} \
             ZK_SIM_SEED={seed} cargo test -p zk-simulation replay -- --nocapture"
        );
    }
    let counts = counts.into_inner().unwrap();
    println!("{family:?}, {seeds} seeds:");
    for (what, count) in &counts {
        println!("{count:>9} {what}");
    }
    if seeds >= DEFAULT_SEEDS {
        expect(family, counts.keys().copied().collect(), seeds > DEFAULT_SEEDS);
    }
    let least = if family == Family::Ensemble { 5 } else { 10 };
    assert!(counts["grants"] >= least * seeds, "too few grants");
}

/// Compares what happened with the ledger of a family, or writes it. More seeds may bring more.
fn expect(family: Family, happened: BTreeSet<&str>, are_more: bool) {
    let path = format!("{}/ledgers/{family:?}-seeds.txt", env!("CARGO_MANIFEST_DIR"));
    if number("ZK_SIM_ACCEPT") == Some(1) && !are_more {
        let lines = happened.iter().map(|what| format!("{what}\n"));
        std::fs::write(&path, lines.collect::<String>()).unwrap();
    }
    let ledger = std::fs::read_to_string(&path).unwrap();
    let expected = ledger.lines().collect::<BTreeSet<_>>();
    assert!(expected.is_subset(&happened), "{path}: {:?} never happened", &expected - &happened);
    assert!(are_more || happened == expected, "{path} lacks {:?}", &happened - &expected);
}

#[test]
fn the_lock_holds_whatever_goes_wrong() {
    check(Family::Lock);
}

#[test]
fn the_read_write_lock_holds_whatever_goes_wrong() {
    check(Family::RwLock);
}

#[test]
fn the_reentrant_lock_holds_whatever_goes_wrong() {
    check(Family::ReentrantLock);
}

#[test]
fn a_lock_that_is_left_with_a_ticket_is_resumed_whatever_goes_wrong() {
    check(Family::Ticket);
}

#[test]
fn the_lock_of_a_key_holds_whatever_goes_wrong() {
    check(Family::KeyedLocks);
}

#[test]
fn the_reentrant_read_write_lock_holds_whatever_goes_wrong() {
    check(Family::ReentrantRwLock);
}

#[test]
fn the_lock_holds_where_contenders_requeue_until_something_disturbs_them() {
    check(Family::Requeue);
}

#[test]
fn nobody_has_one_of_several_locks_that_another_one_has_taken_together() {
    check(Family::MultiLock);
}

#[test]
fn the_semaphore_gives_no_more_permits_than_it_has() {
    check(Family::Semaphore);
}

#[test]
fn the_counter_counts_each_add_once_whatever_goes_wrong() {
    check(Family::Counter);
}

#[test]
fn one_leads_at_a_time_and_stops_when_its_term_is_over() {
    check(Family::Election);
}

#[test]
fn each_shard_has_one_worker_whatever_goes_wrong() {
    check(Family::Partitioner);
}

#[test]
fn nobody_passes_a_barrier_that_stands_and_everybody_does_once_it_is_open() {
    check(Family::Barrier);
}

#[test]
fn rounds_of_a_double_barrier_begin_and_end_for_all_parties_together() {
    check(Family::DoubleBarrier);
}

#[test]
fn an_id_has_one_member_and_each_view_is_the_group_at_its_epoch() {
    check(Family::Group);
}

#[test]
fn no_guard_says_that_it_holds_what_another_one_owns() {
    check(Family::Ensemble);
}

#[test]
fn the_tree_in_memory_is_the_server_s_whatever_was_missed() {
    check(Family::TreeCache);
}

#[test]
fn the_value_in_memory_only_moves_forward_and_is_never_current_while_cut_off() {
    check(Family::Cached);
}

#[test]
fn a_seed_decides_everything() {
    let seeds = Family::ALL.into_iter().flat_map(|family| [(family, 1), (family, 2)]);
    // In this one, a guard goes in doubt.
    for (family, seed) in seeds.chain([(Family::Ensemble, 5)]) {
        let run = || zk_simulation::run(family, seed, true).trace.to_string();
        let (one, two) = (run(), run());
        assert!(one.lines().count() > 300, "{family:?}, seed {seed} tells next to nothing");
        let differs = one.lines().zip(two.lines()).find(|(one, two)| one != two);
        assert_eq!(differs, None, "{family:?}, seed {seed}");
        assert_eq!(one.len(), two.len(), "{family:?}, seed {seed}");
    }
}

/// Prints the trace of one seed, `ZK_SIM_SEED`, of one family, `ZK_SIM_FAMILY`.
#[test]
fn replay() {
    let seed = number("ZK_SIM_SEED").unwrap_or_default();
    let family = chosen_family();
    let outcome = zk_simulation::run(family, seed, true);
    println!("{}", outcome.trace);
    assert_eq!(outcome.violation, None, "{family:?}, seed {seed}");
}
