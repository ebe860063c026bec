//! The order in which real servers list names: that of the `java.util.HashSet` that holds them.
//!
//! Names are ordered by their bucket, and within a bucket by their age. A set never loses buckets.
//! Long buckets, which Java turns into trees, are taken for lists: they come only from names that
//! were chosen to collide.

/// The buckets of a set of children before it grows, as a power of two. A node without children has
/// no set.
const CHILDREN: u8 = 3;

/// The same for the nodes of a session.
pub(crate) const EPHEMERALS: u8 = 4;

/// The most buckets that a set has, as a power of two.
const MOST: u8 = 30;

/// The buckets of a set of children that had this many and now holds `names` names.
pub(crate) fn grown(buckets: u8, names: usize) -> u8 {
    grown_from(buckets.max(CHILDREN), names)
}

/// A set grows when more than three quarters of its buckets could be in use.
pub(crate) fn grown_from(buckets: u8, names: usize) -> u8 {
    let fits = |buckets: &u8| names <= (3 << buckets) / 4;
    (buckets..MOST).find(fits).unwrap_or(MOST)
}

/// The buckets of the copy that Java 17 makes of a set of this many names.
pub(crate) fn copied(names: usize) -> u8 {
    let wanted = names * 4 / 3 + 1;
    wanted.next_power_of_two().trailing_zeros().min(MOST.into()) as u8
}

/// The bucket of a name among this many, which are a power of two.
pub(crate) fn bucket(name: &str, buckets: u8) -> u32 {
    let add = |hash: u32, unit: u32| hash.wrapping_mul(31).wrapping_add(unit);
    let hash = match name.is_ascii() {
        true => name.bytes().fold(0, |hash, byte| add(hash, byte.into())),
        false => name.encode_utf16().fold(0, |hash, unit| add(hash, unit.into())),
    };
    (hash ^ hash >> 16) & ((1 << buckets) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_grows_as_javas_does() {
        let sizes = [(0, 3), (6, 3), (7, 4), (12, 4), (13, 5), (24, 5), (25, 6), (100_000, 18)];
        for (names, buckets) in sizes {
            assert_eq!(grown(0, names), buckets, "{names}");
        }
        assert_eq!(grown(5, 1), 5);
        assert_eq!(grown(0, usize::MAX >> 2), MOST);
        assert_eq!([1, 2, 3, 6, 12].map(copied), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn names_have_javas_hashes() {
        let buckets = |name| bucket(name, 16);
        let hash = |hash: u32| (hash ^ hash >> 16) & 0xffff;
        assert_eq!(buckets("hello"), hash(99_162_322));
        assert_eq!(buckets("\u{1f600}"), hash(1_772_899));
        assert_eq!(buckets(""), 0);
    }
}
