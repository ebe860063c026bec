//! How long to wait before the next attempt at a server, or before the next session.
//!
//! Every delay is random, since all clients of a server lose it at the same moment, and grows with
//! the rounds. This file reads no clock, and does not know what is tried.

use std::time::Duration;

use crate::random::Random;

/// The spread of the attempts within the first round, so that the clients of a lost server do not
/// reach the next one in a single burst.
pub(crate) const SPREAD: Duration = Duration::from_millis(50);

/// The wait of the second round; each later round doubles it.
const BASE: Duration = Duration::from_millis(100);

/// The longest wait. It stays well below any sensible session timeout.
pub(crate) const CAP: Duration = Duration::from_secs(1);

/// The delay before an attempt of this round: short in round 0, then longer and longer.
pub(crate) fn delay(random: &mut Random, round: u32) -> Duration {
    match round {
        0 => random.duration(SPREAD),
        later => {
            let full = BASE.saturating_mul(1 << (later - 1).min(16)).min(CAP);
            full / 2 + random.duration(full / 2)
        }
    }
}
