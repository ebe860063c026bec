//! The hash of a path in the table of watches. It takes a fifth of the work of the standard hash,
//! and clients that choose the names of nodes can predict it as little.
//!
//! Every seven bytes are a coefficient of a polynomial over the field of 2^61 - 1 elements, and the
//! hash is the value of the polynomial at a secret random point. Different polynomials of degree n
//! have the same value at n points at most, so hardly any point makes two paths collide, even if an
//! attacker has chosen the paths. This is proven for whole values, and only likely for those of
//! their bits that a table uses.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The order of the field, a Mersenne prime.
const ORDER: u64 = (1 << BITS) - 1;

const BITS: u32 = 61;

/// How many bytes make a number that is always below the order.
const WORD: usize = 7;

/// The golden ratio, whose bits have no pattern.
const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes the hashes of one table, with a secret point of its own.
#[derive(Clone)]
pub(crate) struct Keyed {
    point: u64,
}

impl Default for Keyed {
    fn default() -> Self {
        Self { point: RandomState::new().hash_one(()) % ORDER }
    }
}

impl BuildHasher for Keyed {
    type Hasher = Polynomial;

    #[inline]
    fn build_hasher(&self) -> Polynomial {
        // A first coefficient other than 0, so that those behind it count even if they are 0.
        Polynomial { point: self.point, value: 1 }
    }
}

/// The value of the polynomial for the coefficients so far.
pub(crate) struct Polynomial {
    point: u64,
    /// At most 1 above the order.
    value: u64,
}

impl Polynomial {
    #[inline]
    fn push(&mut self, coefficient: u64) {
        let product = u128::from(self.value + coefficient) * u128::from(self.point);
        let sum = (product as u64 & ORDER) + (product >> BITS) as u64;
        self.value = (sum & ORDER) + (sum >> BITS);
    }
}

impl Hasher for Polynomial {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<WORD>();
        for [a, b, c, d, e, f, g] in words {
            self.push(u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, 0]));
        }
        // The 1 in front marks how many bytes there are.
        self.push(rest.iter().fold(1, |word, byte| (word << 8) | u64::from(*byte)));
    }

    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.push(byte.into());
    }

    /// A table uses the lowest bits and the highest, so these are made of all bits.
    #[inline]
    fn finish(&self) -> u64 {
        let mixed = u128::from(self.value) * u128::from(MIXER);
        mixed as u64 ^ (mixed >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// A fixed point, so that each run has the same hashes.
    const POINT: u64 = 0x0123_4567_89ab_cdef;

    fn hash(path: &str) -> u64 {
        Keyed { point: POINT }.hash_one(path)
    }

    #[test]
    fn every_byte_counts_with_its_place_and_so_does_the_length() {
        let long = "/some/path/that/is/long";
        let mut paths = (0..=long.len())
            .map(|end| long.chars().take(end).collect::<String>())
            .collect::<Vec<_>>();
        paths.extend((1..20).map(|n| "\0".repeat(n)));
        for at in 0..long.len() {
            for other in ['\0', '\u{1}', '~'] {
                let other = |(n, byte)| if n == at { other } else { byte };
                paths.push(long.chars().enumerate().map(other).collect());
            }
        }
        let hashes = paths.iter().map(|path| hash(path)).collect::<HashSet<_>>();
        assert_eq!(hashes.len(), paths.len());
    }

    #[test]
    fn names_that_count_fill_a_table_as_evenly_as_chance_does() {
        const BUCKETS: usize = 1 << 13;
        for name in ["/n/", "/locks/invoices/_c_6f0e7d5c-lock-00000", "/a/b/c/d/"] {
            let hashes = (0..BUCKETS).map(|n| hash(&format!("{name}{n:05}"))).collect::<Vec<_>>();
            let buckets = hashes.iter().map(|hash| hash % BUCKETS as u64).collect::<HashSet<_>>();
            // By chance 63 of 100 buckets are used.
            assert!(buckets.len() * 100 > BUCKETS * 55, "{name}: {}", buckets.len());
            let tags = hashes.iter().map(|hash| hash >> 57).collect::<HashSet<_>>();
            assert_eq!(tags.len(), 128, "{name}");
        }
    }

    #[test]
    fn each_table_has_a_point_of_its_own() {
        let hashes = (0..8).map(|_| Keyed::default().hash_one("/a")).collect::<HashSet<_>>();
        assert_eq!(hashes.len(), 8);
    }
}
