//! Who is ahead: the one decision that every lock rests on, as a pure function.
//!
//! The set ahead of a contender is fixed when its node is created, since later ones get higher
//! numbers, and only shrinks from then on. Readers do not count for readers. Knows no client and
//! no time.

use std::fmt::Write as _;

use crate::layout::{Names, Role};

/// A child of the lock's folder that waits for the lock or holds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Contender {
    pub(crate) sequence: i32,
    pub(crate) role: Role,
    pub(crate) name: String,
}

impl Contender {
    pub(crate) fn parse(names: &Names, name: &str) -> Option<Self> {
        let (role, sequence) = names.parse(name)?;
        Some(Self { sequence, role, name: name.to_owned() })
    }

    /// Whether this one, whose create was one transaction with the delete of `first`, is first like
    /// that was: of those who were there before `first`, nobody was in its way, and the number tells
    /// that nobody came in between. The folder is the same, since it was never empty.
    pub(crate) fn succeeds(&self, first: &Self) -> bool {
        let as_strict = first.role == Role::Exclusive || self.role == Role::Shared;
        as_strict && first.sequence.checked_add(1) == Some(self.sequence)
    }

    /// The place with this number of whoever lets go of this one, which had come to be first, and
    /// queues up again in one transaction; `None` for those who name theirs otherwise.
    pub(crate) fn following(&self, names: &Names, sequence: i32) -> Option<Self> {
        let mut name = names.following(self.role, &self.name)?;
        // Lower ones are written otherwise.
        let number = u32::try_from(sequence).ok()?;
        // Writing to a string does not fail.
        write!(name, "{number:010}").ok()?;
        Some(Self { sequence, role: self.role, name })
    }

    /// Whether `other` must wait for this one.
    pub(crate) fn blocks(&self, other: &Self) -> bool {
        self < other && (self.role, other.role) != (Role::Shared, Role::Shared)
    }
}

/// Everybody whom `own` must wait for, lowest first; `None` if `own` is not among the children.
pub(crate) fn ahead<'n>(
    names: &Names,
    own: &Contender,
    children: impl IntoIterator<Item = &'n str>,
) -> Option<Vec<Contender>> {
    let mut present = false;
    let mut ahead = Vec::new();
    for name in children {
        if name == own.name {
            present = true;
        } else if let Some(other) = Contender::parse(names, name).filter(|one| one.blocks(own)) {
            ahead.push(other);
        }
    }
    ahead.sort_unstable();
    present.then_some(ahead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    fn check_in(names: &Names, own: &str, children: &[&str], expected: Option<&[&str]>) {
        let own = Contender::parse(names, own).unwrap();
        let ahead = ahead(names, &own, children.iter().copied());
        let ahead = ahead.map(|all| all.into_iter().map(|one| one.name).collect::<Vec<_>>());
        let expected = expected.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(ahead, expected);
    }

    fn check(own: &str, children: &[&str], expected: Option<&[&str]>) {
        check_in(&Layout::CURATOR.mutex(), own, children, expected);
    }

    const A1: &str = "_c_f-lock-0000000001";
    const B2: &str = "_c_a-lock-0000000002";
    const C3: &str = "_c_c-lock-0000000003";

    #[test]
    fn only_the_next_number_succeeds_and_no_writer_a_reader() {
        let names = Layout::CURATOR.read_write();
        let all = |number| ["__WRIT__", "__READ__"].map(|marker| format!("x-{marker}{number}"));
        let parse = |name: String| Contender::parse(&names, &name).unwrap();
        let [writer, reader] = all("0000000007").map(parse);
        let [next_writer, next_reader] = all("0000000008").map(parse);
        assert!(next_writer.succeeds(&writer) && next_reader.succeeds(&writer));
        assert!(!next_writer.succeeds(&reader) && next_reader.succeeds(&reader));
        for other in ["0000000006", "0000000007", "0000000009", "-000000008"] {
            for other in all(other).map(parse) {
                assert!(!other.succeeds(&writer) && !other.succeeds(&reader), "{other:?}");
            }
        }
        let [last, _] = all("2147483647").map(parse);
        let [lowest, _] = all("-2147483648").map(parse);
        assert!(!lowest.succeeds(&last));
    }

    #[test]
    fn the_lowest_number_holds_whatever_its_name() {
        check(A1, &[C3, B2, A1], Some(&[]));
        check(B2, &[C3, B2, A1], Some(&[A1]));
        check(C3, &[C3, B2, A1], Some(&[A1, B2]));
    }

    #[test]
    fn a_node_that_is_not_listed_owns_nothing() {
        check(A1, &[B2, C3], None);
        check(A1, &[], None);
    }

    #[test]
    fn children_that_are_no_contenders_do_not_count() {
        check(B2, &["config", "lock-x", "é", B2], Some(&[]));
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        check(
            "lock-0000000000",
            &["lock-0000000000", "lock--000000001"],
            Some(&["lock--000000001"]),
        );
        check("lock--000000002", &["lock--000000001", "lock--000000002"], Some(&[]));
    }

    #[test]
    fn readers_wait_for_the_writers_ahead_alone() {
        let names = Layout::CURATOR.read_write();
        let (r1, w2, r3, w4, r5) = (
            "_c_e-__READ__0000000001",
            "_c_d-__WRIT__0000000002",
            "_c_c-__READ__0000000003",
            "_c_b-__WRIT__0000000004",
            "_c_a-__READ__0000000005",
        );
        let all = [w4, r5, r3, w2, r1];
        check_in(&names, r1, &all, Some(&[]));
        check_in(&names, w2, &all, Some(&[r1]));
        check_in(&names, r3, &all, Some(&[w2]));
        check_in(&names, w4, &all, Some(&[r1, w2, r3]));
        check_in(&names, r5, &all, Some(&[w2, w4]));
        check_in(&names, r3, &[r1, r3, w4, r5], Some(&[]));
    }
}
