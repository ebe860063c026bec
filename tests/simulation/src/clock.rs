//! Virtual time, as all that is simulated reads it.

use std::time::Instant;

/// The time now, by the runtime's clock.
#[expect(clippy::disallowed_methods, reason = "the runtime's clock is the simulation's")]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
