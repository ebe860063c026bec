//! The only place that reads the clock.
//!
//! An [`Instant`] of Linux stands still while the machine is suspended; the servers' clocks do not,
//! and they end sessions by theirs. So this is tokio's clock, which tests may pause, plus the time
//! that the machine was suspended. How long that was is told by a closure, since the standard
//! library does not know. Knows nothing of sessions.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the machine has been suspended since it was booted.
type Suspended = dyn Fn() -> Duration + Send + Sync;

/// A client's clock: what all of its [`Instant`]s are read from.
///
/// It is tokio's clock plus the time that this machine was suspended since the client was made, if
/// the client was told how to know: by the cargo feature `boottime`, on Linux and Android, or by
/// [`ClientBuilder::suspended`](crate::ClientBuilder::suspended). Its instants are to be compared
/// with each other and with nothing else.
///
/// Clones read the same time. It never goes back.
#[derive(Clone)]
pub struct Clock(Arc<Inner>);

struct Inner {
    suspended: Box<Suspended>,
    /// What `suspended` said in the beginning.
    before: Duration,
    /// The longest that was seen since, in nanoseconds: two clocks read one after the other may
    /// seem closer together than they were.
    lag: AtomicU64,
}

impl Clock {
    /// A clock that knows how long the machine was suspended since it was booted.
    pub(crate) fn new(suspended: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let before = suspended();
        Self(Arc::new(Inner { suspended: Box::new(suspended), before, lag: AtomicU64::new(0) }))
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.read().now
    }

    /// Waits until `at`.
    ///
    /// A wait that is cut in two by a suspension ends late, by as much of the suspension as was
    /// left to wait: what must not be late reads [`now`](Self::now).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    ///
    /// As tokio does, outside of a runtime with time enabled.
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
        if now <= longest {
            // As nearly always, and without a word to the other processors.
            return longest;
        }
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(lag.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

/// What a clock showed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) now: Instant,
    /// How far tokio's clock was behind.
    lag: Duration,
}

impl Reading {
    /// When tokio's clock will show what this one shows at `at`, if nothing suspends the machine
    /// before.
    pub(crate) fn alarm(&self, at: Instant) -> tokio::time::Instant {
        at.checked_sub(self.lag).unwrap_or(at).into()
    }

    /// The same for what is still to come.
    pub(crate) fn until(&self, at: Instant) -> Option<tokio::time::Instant> {
        (self.now < at).then(|| self.alarm(at))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("lag", &self.lag()).finish_non_exhaustive()
    }
}

/// What this machine says of its suspensions: with the feature `boottime`, how far the clock that
/// counts them is ahead of the one that does not.
#[cfg(all(feature = "boottime", any(target_os = "linux", target_os = "android")))]
pub(crate) fn suspended() -> Duration {
    use rustix::time::{ClockId, Timespec, clock_gettime};

    let since_boot = |Timespec { tv_sec, tv_nsec }| {
        let seconds = Duration::from_secs(u64::try_from(tv_sec).unwrap_or_default());
        seconds + Duration::from_nanos(u64::try_from(tv_nsec).unwrap_or_default())
    };
    // In this order what passes in between makes the difference smaller and never larger.
    let counting = since_boot(clock_gettime(ClockId::Boottime));
    counting.saturating_sub(since_boot(clock_gettime(ClockId::Monotonic)))
}

/// Nothing is known of suspensions here.
#[cfg(not(all(feature = "boottime", any(target_os = "linux", target_os = "android"))))]
pub(crate) fn suspended() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
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
    fn the_machine_was_not_suspended_since_it_was_asked() {
        let clock = Clock::new(suspended);
        assert!(clock.lag() < Duration::from_secs(1), "{clock:?}");
    }
}
