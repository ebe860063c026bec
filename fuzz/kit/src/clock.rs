//! How long something has taken.

use std::time::{Duration, Instant};

/// A clock that was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

#[expect(clippy::disallowed_methods, reason = "the kit measures time, and says how long it took")]
impl Stopwatch {
    /// Starts one.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since.
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
