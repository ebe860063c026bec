//! Numbers that look random, and that a seed decides.

use std::ops::Range;
use std::time::Duration;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The source of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Another source, which is independent of this one.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.within(0..end as u64) as usize
    }

    /// Eight random bits.
    pub fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    /// A number in this range.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// A number of whole milliseconds in this range.
    pub fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    /// A random number of whole milliseconds, below `most` (at least 1 ms).
    pub fn time(&mut self, most: Duration) -> Duration {
        self.millis(0..(most.as_millis() as u64).max(1))
    }

    /// True in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.within(0..100) < percent
    }

    /// One of these, or `None` if there are none.
    pub fn pick<T: Clone>(&mut self, among: &[T]) -> Option<T> {
        let count = among.len() as u64;
        (count > 0).then(|| among[self.within(0..count) as usize].clone())
    }
}
