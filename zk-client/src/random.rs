//! Random numbers: a generator whose seed repeats its choices, and seeds for it.
//!
//! They spread load and make names. They are not secret, and a simulation gives its own seed.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// SplitMix64: small, fast and random enough for shuffles, jitter and names.
///
/// A crate for these ten lines would be the 25th of a default build of the locks. To see how many
/// there are: `cargo tree -p zk-recipes -e normal --prefix none --no-dedupe | sort -u`.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns true with a probability of `part` in `whole`.
    pub(crate) fn is_within(&mut self, part: usize, whole: usize) -> bool {
        self.below(whole as u64) < part as u64
    }

    /// A random number below `bound`; 0 if there is none.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// A random duration below `bound`, in whole microseconds.
    pub(crate) fn duration(&mut self, bound: Duration) -> Duration {
        Duration::from_micros(self.below(bound.as_micros() as u64))
    }

    /// Puts the items into a random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}

/// A random number: the standard library keys its hash maps with the operating system's randomness.
pub(crate) fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}
