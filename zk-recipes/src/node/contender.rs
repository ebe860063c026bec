//! Decides who is ahead, the one decision on which every lock rests, as a pure function.
//!
//! A contender waits for all contenders with lower sequence numbers, except that readers do not
//! wait for readers. Nodes that are created later get higher numbers. So once a contender has its
//! node, nobody joins the contenders ahead of it; they only leave, or become readers where they
//! are.

use crate::node::layout::{NodeNaming, Role, is_numbered};

/// A child of the lock's folder that waits for the lock or holds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Contender {
    pub(crate) sequence: i32,
    pub(crate) role: Role,
    pub(crate) name: String,
}

impl Contender {
    pub(crate) fn parse(naming: &NodeNaming, name: &str) -> Option<Self> {
        let (role, sequence) = naming.parse(name)?;
        Some(Self { sequence, role, name: name.to_owned() })
    }

    /// True if this contender must wait for the one with this role, sequence number and name.
    pub(crate) fn waits_for(&self, role: Role, sequence: i32, name: &str) -> bool {
        let is_ahead = (sequence, role, name) < (self.sequence, self.role, self.name.as_str());
        is_ahead && (role, self.role) != (Role::Shared, Role::Shared)
    }
}

/// What a contender that is in a listing learns from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The last two contenders ahead, the nearest one first.
    pub(crate) nearest: Vec<Contender>,
    /// How many contenders there are ahead of those.
    pub(crate) farther: usize,
    /// True if there are other contenders, whether ahead or behind.
    pub(crate) has_others: bool,
    /// A child that looks like a contender of another layout.
    pub(crate) foreign: Option<String>,
}

impl Standing {
    /// Reads a listing. `None` if `own` is not listed.
    pub(crate) fn of<'n>(
        own: &Contender,
        naming: &NodeNaming,
        children: impl IntoIterator<Item = &'n str>,
    ) -> Option<Self> {
        let (mut is_listed, mut has_others, mut foreign) = (false, false, None);
        let mut ahead = Vec::new();
        for name in children {
            if name == own.name {
                is_listed = true;
            } else if let Some((role, sequence)) = naming.parse(name) {
                has_others = true;
                if own.waits_for(role, sequence, name) {
                    ahead.push((sequence, role, name));
                }
            } else if foreign.is_none() && is_numbered(name) {
                foreign = Some(name.to_owned());
            }
        }
        ahead.sort_unstable();
        let nearest = ahead.iter().rev().take(2).map(|&(sequence, role, name)| Contender {
            sequence,
            role,
            name: name.to_owned(),
        });
        let nearest = nearest.collect::<Vec<_>>();
        let farther = ahead.len() - nearest.len();
        is_listed.then_some(Self { nearest, farther, has_others, foreign })
    }

    /// True if nobody is ahead.
    pub(crate) fn is_first(&self) -> bool {
        self.nearest.is_empty() && self.farther == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Layout;

    fn check_in(naming: &NodeNaming, own: &str, children: &[&str], expected: Option<&[&str]>) {
        let own = Contender::parse(naming, own).unwrap();
        let standing = Standing::of(&own, naming, children.iter().copied());
        let expected = expected.map(|ahead| {
            let nearest = ahead.iter().rev().take(2);
            Standing {
                nearest: nearest.map(|name| Contender::parse(naming, name).unwrap()).collect(),
                farther: ahead.len().saturating_sub(2),
                has_others: children
                    .iter()
                    .any(|one| *one != own.name && Contender::parse(naming, one).is_some()),
                foreign: children
                    .iter()
                    .find(|one| is_numbered(one) && Contender::parse(naming, one).is_none())
                    .map(|one| (*one).to_owned()),
            }
        });
        assert_eq!(standing, expected);
    }

    fn check(own: &str, children: &[&str], expected: Option<&[&str]>) {
        check_in(&Layout::CURATOR.mutex(), own, children, expected);
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

    #[test]
    fn readers_wait_for_the_writers_ahead_alone() {
        let naming = Layout::CURATOR.read_write();
        let (r1, w2, r3, w4, r5) = (
            "_c_e-__READ__0000000001",
            "_c_d-__WRIT__0000000002",
            "_c_c-__READ__0000000003",
            "_c_b-__WRIT__0000000004",
            "_c_a-__READ__0000000005",
        );
        let all = [w4, r5, r3, w2, r1];
        check_in(&naming, r1, &all, Some(&[]));
        check_in(&naming, w2, &all, Some(&[r1]));
        check_in(&naming, r3, &all, Some(&[w2]));
        check_in(&naming, w4, &all, Some(&[r1, w2, r3]));
        check_in(&naming, r5, &all, Some(&[w2, w4]));
        check_in(&naming, r3, &[r1, r3, w4, r5], Some(&[]));
    }
}
