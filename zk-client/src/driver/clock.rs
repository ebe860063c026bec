//! The only place that reads the clock.
//!
//! On Linux an [`Instant`] stands still while the machine is suspended. The servers' clocks go on,
//! and servers end sessions by their own clocks. So this clock is tokio's clock, which tests may
//! pause, plus the time that the machine was suspended. The standard library cannot measure that
//! time, so a closure returns it. This file knows nothing of sessions.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the machine has been suspended, counted from any fixed moment.
type Suspended = dyn Fn() -> Duration + Send + Sync;

/// The clock of a client: all of its [`Instant`]s are read from it.
///
/// It shows the time of tokio's clock plus the time for which this machine was suspended since the
/// client was made. On Linux and Android the clock counts suspensions by default, by
/// `CLOCK_BOOTTIME`.
///
/// **On other systems it does not count them.** Where [`Instant`] stands still during a suspension,
/// as on macOS, deadlines are too late by its length: after a suspension a [`Lease`](crate::Lease)
/// may report that it is valid although the ensemble has ended the session. Pass
/// [`ClientBuilder::suspend_time`](crate::ClientBuilder::suspend_time) a function that returns the
/// time, or do not rely on leases on machines that are suspended.
///
/// Compare its instants only with each other. Clones read the same time. The time never goes back.
#[derive(Clone)]
pub struct Clock(Arc<Inner>);

struct Inner {
    suspended: Box<Suspended>,
    /// What `suspended` returned when the clock was made.
    before: Duration,
    /// The longest suspension that was seen since then, in nanoseconds.
    lag: AtomicU64,
}

/// A difference between two clocks that is smaller than this is no suspension. They are read one
/// after the other, so their difference varies although neither has stopped.
const TOLERANCE: Duration = Duration::from_millis(1);

impl Clock {
    /// A clock that counts suspensions as this machine's kernel reports them.
    pub(crate) fn of_this_machine() -> Self {
        Self::new(suspended)
    }

    /// A clock that calls `suspended` to learn how long the machine has been suspended.
    pub(crate) fn new(suspended: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        // A thread that is preempted between the two reads of `suspended` gets a value that is too
        // small.
        let before = suspended().max(suspended()).max(suspended());
        Self(Arc::new(Inner { suspended: Box::new(suspended), before, lag: AtomicU64::new(0) }))
    }

    /// Returns the time.
    pub fn now(&self) -> Instant {
        self.read().now
    }

    /// Waits until `at`.
    ///
    /// If a suspension interrupts the wait, it ends late, by as much of the suspension as was left
    /// to wait. Code that must not be late reads [`now`](Self::now).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    ///
    /// Panics, as tokio does, outside of a runtime with time enabled.
    pub async fn sleep_until(&self, at: Instant) {
        while let Some(alarm) = self.read().until(at) {
            tokio::time::sleep_until(alarm).await;
        }
    }

    /// The time, on both clocks.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub(crate) fn read(&self) -> Reading {
        let tokio = tokio::time::Instant::now();
        let lag = self.lag();
        Reading { now: tokio.into_std() + lag, lag }
    }

    /// How far tokio's clock has fallen behind.
    fn lag(&self) -> Duration {
        let Inner { suspended, before, lag } = &*self.0;
        let now = suspended().saturating_sub(*before);
        let longest = Duration::from_nanos(lag.load(Ordering::Relaxed));
        if now < longest + TOLERANCE {
            // The usual case, without a write to memory that other processors read.
            return longest;
        }
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(lag.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

/// One reading of the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) now: Instant,
    /// How far tokio's clock was behind.
    lag: Duration,
}

impl Reading {
    /// The time on tokio's clock at which this clock shows `at`, if the machine is not suspended
    /// before.
    pub(crate) fn alarm(&self, at: Instant) -> tokio::time::Instant {
        at.checked_sub(self.lag).unwrap_or(at).into()
    }

    /// The same, if `at` is still to come.
    pub(crate) fn until(&self, at: Instant) -> Option<tokio::time::Instant> {
        (self.now < at).then(|| self.alarm(at))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("lag", &self.lag()).finish_non_exhaustive()
    }
}

/// How long this machine has been suspended, counted from a fixed moment: how far Linux's clock
/// that counts suspensions is ahead of the one that does not.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn suspended() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    // In this order, the time between the two reads makes the difference smaller, never larger.
    let counting = clock_gettime(ClockId::Boottime);
    difference(counting, clock_gettime(ClockId::Monotonic))
}

/// How far `counting` is ahead, plus a constant: a container's time namespace may shift each of the
/// clocks once, so that the other one is ahead.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn difference(counting: rustix::time::Timespec, other: rustix::time::Timespec) -> Duration {
    const YEARS: Duration = Duration::from_secs(1 << 32);
    let since_boot = |time: rustix::time::Timespec| {
        let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default());
        seconds + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or_default())
    };
    (YEARS + since_boot(counting)).saturating_sub(since_boot(other))
}

/// This system's suspensions are not counted.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn suspended() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sleep_ends_when_the_clock_says_so() {
        let suspended = Arc::new(AtomicU64::new(100));
        let told = Arc::clone(&suspended);
        let clock = Clock::new(move || Duration::from_secs(told.load(Ordering::Relaxed)));
        let start = clock.now();
        let seconds = Duration::from_secs;
        clock.sleep_until(start + seconds(3)).await;
        assert_eq!(clock.now() - start, seconds(3), "what was before it does not count");

        suspended.store(105, Ordering::Relaxed);
        assert_eq!(clock.now() - start, seconds(8));
        clock.sleep_until(start + seconds(10)).await;
        assert_eq!(clock.now() - start, seconds(10), "two seconds of tokio's clock later");

        suspended.store(101, Ordering::Relaxed);
        assert_eq!(clock.now() - start, seconds(10), "it never goes back");
    }

    #[test]
    fn what_two_clocks_differ_by_when_read_one_after_the_other_is_no_suspension() {
        let ahead = Arc::new(AtomicU64::new(1_000_000));
        let told = Arc::clone(&ahead);
        let clock = Clock::new(move || Duration::from_micros(told.load(Ordering::Relaxed)));
        for (micros, lag) in [(999_000, 0), (1_000_900, 0), (3_000_000, 2_000), (3_000_900, 2_000)]
        {
            ahead.store(micros, Ordering::Relaxed);
            assert_eq!(clock.lag(), Duration::from_millis(lag));
        }
    }

    #[test]
    fn the_machine_was_not_suspended_since_it_was_asked() {
        let clock = Clock::of_this_machine();
        assert!(clock.lag() < Duration::from_secs(1), "{clock:?}");
    }

    /// Linux counts a suspension in the first of the two clocks, and stops the second.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn linux_counts_suspensions_whichever_of_its_clocks_is_ahead() {
        use rustix::time::Timespec;

        let at = |tv_sec| Timespec { tv_sec, tv_nsec: 5 };
        for (boottime, monotonic) in [(1_000, 1_000), (5_000, 1_000), (1_000, 5_000)] {
            let clocks = Arc::new(Mutex::new((at(boottime), at(monotonic))));
            let read = Arc::clone(&clocks);
            let clock = Clock::new(move || {
                let (counting, other) = *read.lock().unwrap();
                difference(counting, other)
            });
            assert_eq!(clock.lag(), Duration::ZERO);
            // A second passes, and then the machine is suspended for 20.
            *clocks.lock().unwrap() = (at(boottime + 21), at(monotonic + 1));
            assert_eq!(clock.lag(), Duration::from_secs(20));
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[tokio::test]
    async fn a_client_counts_the_suspensions_of_linux_by_default() {
        let (client, _driver) = crate::Client::builder().split("127.0.0.1:1").unwrap();
        let Inner { suspended, before, .. } = &*client.clock().0;
        assert!(!before.is_zero(), "the kernel was asked");
        assert!(suspended().abs_diff(*before) < Duration::from_secs(1), "and is asked again");
    }
}
