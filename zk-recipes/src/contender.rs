//! Who is ahead: the one decision that every lock rests on, as a pure function.
//!
//! The set ahead of a contender is fixed when its node is created, since later ones get higher
//! numbers, and only shrinks from then on. Knows no client and no time.

use crate::layout;

/// A child of the lock's folder that waits for the lock or holds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Contender {
    pub(crate) sequence: i32,
    pub(crate) name: String,
}

impl Contender {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        layout::sequence(name).map(|sequence| Self { sequence, name: name.to_owned() })
    }
}

/// Everybody ahead of `own`, lowest first; `None` if `own` is not among the children.
pub(crate) fn ahead<'n>(
    own: &Contender,
    children: impl IntoIterator<Item = &'n str>,
) -> Option<Vec<Contender>> {
    let mut present = false;
    let mut ahead = Vec::new();
    for contender in children.into_iter().filter_map(Contender::parse) {
        present |= contender == *own;
        if contender < *own {
            ahead.push(contender);
        }
    }
    ahead.sort_unstable();
    present.then_some(ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(own: &str, children: &[&str], expected: Option<&[&str]>) {
        let own = Contender::parse(own).unwrap();
        let ahead = ahead(&own, children.iter().copied());
        let names = ahead.map(|all| all.into_iter().map(|one| one.name).collect::<Vec<_>>());
        assert_eq!(
            names.as_deref(),
            expected
                .map(|names| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
                .as_deref()
        );
    }

    const A1: &str = "_c_f-lock-0000000001";
    const B2: &str = "_c_a-lock-0000000002";
    const C3: &str = "_c_c-lock-0000000003";

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
}
