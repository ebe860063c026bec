//! The clock that `zk` and its watchdog share: the time since the machine was started.
//!
//! On Linux it goes on while the machine is suspended, as the time of the servers does.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The time since the machine was started.
pub(crate) fn now() -> Duration {
    let now = clock_gettime(CLOCK);
    // This clock is never negative.
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}
