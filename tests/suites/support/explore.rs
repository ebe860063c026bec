//! Exhaustive searches.

use zk_test_support::explore::{explore, in_virtual_time, sweep};

#[test]
fn all_combinations_are_run_once() {
    let mut seen = Vec::new();
    let runs = explore(|script| {
        let first = script.choose(2);
        let second = if first == 0 { script.choose(3) } else { 9 };
        seen.push((first, second));
        async {}
    });
    assert_eq!(seen, [(0, 0), (0, 1), (0, 2), (1, 9)]);
    assert_eq!(runs, 4);
}

#[test]
#[should_panic(expected = "within a day")]
fn a_run_that_waits_for_nothing_fails() {
    in_virtual_time(std::future::pending::<()>());
}

#[test]
fn a_sweep_ends_where_the_fault_does() {
    assert_eq!(sweep(|at| async move { at < 7 }), 7);
}
