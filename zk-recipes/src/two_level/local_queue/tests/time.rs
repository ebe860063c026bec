//! How long a node is kept: while it is held, and while it is not used.

use super::*;

#[test]
fn one_that_comes_when_its_node_is_lost_or_old_waits_for_another() {
    for (is_lost, longest, late, again) in [
        (true, None, 0, true),
        (false, None, 60, false),
        (false, Some(30), 30, false),
        (false, Some(30), 31, true),
    ] {
        let seconds = Duration::from_secs;
        let mut bench = Bench::with(Bounds { longest: longest.map(seconds), ..BOUNDS });
        let one = bench.lock(1);
        bench.stops_polling(one);
        bench.grant();
        bench.wait(seconds(late));
        bench.state.is_lost = is_lost;
        bench.state.can_hand_on = !is_lost;
        bench.poll(one);
        assert_eq!((bench.told(one).is_none(), bench.released == 1), (again, again));
        bench.state.is_lost = false;
        if again {
            bench.grant();
            assert_eq!(bench.told(one), entered(0, 1));
        }
    }
}

#[test]
fn nothing_is_handed_on_for_longer_than_that() {
    for (time, passes) in [(30, true), (31, false)] {
        let longest = Some(Duration::from_secs(30));
        let bounds = Bounds { longest, time: Duration::MAX, ..BOUNDS };
        let mut bench = Bench::with(bounds);
        bench.lock(1);
        let two = bench.lock(2);
        bench.grant();
        bench.wait(Duration::from_secs(time));
        bench.leave(1);
        assert_eq!((bench.enters(two), bench.released == 0), (passes, passes));
    }
}

#[test]
fn an_unused_node_is_taken_again_unless_it_may_be_lost_or_others_want_it() {
    for (can_hand_on, has_remote_waiters) in
        [(true, false), (true, true), (false, false), (false, true)]
    {
        let mut bench = Bench::with(Bounds { linger: Duration::from_secs(60), ..BOUNDS });
        bench.state.has_remote_waiters = false;
        let one = bench.lock(1);
        bench.grant();
        assert_eq!(bench.told(one), entered(0, 1));
        bench.leave(1);
        assert_eq!(bench.released, 0, "it lingers");
        // Within the bounds of a hand-over, which is not what this is.
        bench.wait(Duration::from_millis(100));
        (bench.state.can_hand_on, bench.state.has_remote_waiters) =
            (can_hand_on, has_remote_waiters);
        let two = bench.lock(2);
        let is_kept = can_hand_on && !has_remote_waiters;
        assert_eq!((bench.enters(two), bench.released == 0), (is_kept, is_kept));
        assert_eq!(bench.acquiring.is_some(), !is_kept, "otherwise it queues up anew");
    }
}

#[test]
fn an_unused_node_goes_when_its_time_is_over() {
    let mut bench = Bench::with(Bounds { linger: Duration::from_secs(60), ..BOUNDS });
    bench.state.has_remote_waiters = false;
    bench.lock(1);
    bench.grant();
    bench.leave(1);
    for (seconds, gone) in [(59, 0), (1, 1)] {
        bench.wait(Duration::from_secs(seconds));
        let action = bench.queue.decide(bench.state);
        bench.carry_out(action);
        assert_eq!(bench.released, gone);
    }
}
