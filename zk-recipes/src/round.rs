//! Contenders that come round in the same order, turn after turn: what the next turn will look like.
//!
//! Whoever lets go and queues up again in one transaction gets the name that follows its last one.
//! While the others do the same, its number grows by as many as they are, and the one ahead is
//! always the same. So all that it will have to know of its next place is known before it asks for
//! it. Nothing here makes anybody first: what is expected is checked when it has come. Pure: knows no
//! client and no time.

use crate::contender::Contender;
use crate::layout::{Names, Role};

/// Turns in a row that came as expected, before the next one is relied on to do so.
const STEADY: u32 = 16;

/// With fewer contenders the mirror is as good: all that it is told of, each of them must know.
const FEWEST: i32 = 3;

/// What was seen of a contender's turns.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// The number of the last place.
    last: Option<i32>,
    /// What the next turn looks like, if nobody comes or leaves.
    expected: Option<Expected>,
    /// How many in a row came as expected.
    steady: u32,
}

/// A turn that is to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) own: Contender,
    /// The next one ahead of it: no number is in between.
    pub(crate) ahead: Contender,
    /// The place that the one ahead will have when it has let go of that one. It gets this name in
    /// the transaction that deletes `ahead`, and only if that had come to be first. So once this is
    /// created, nobody is ahead of `own`.
    pub(crate) next: Contender,
}

impl Round {
    /// A place was taken by `own`, and this was the nearest one ahead.
    pub(crate) fn turned(&mut self, names: &Names, own: &Contender, ahead: Option<&Contender>) {
        let came = |expected: &Expected| expected.own == *own && Some(&expected.ahead) == ahead;
        let as_expected = self.expected.as_ref().is_some_and(came);
        self.steady = if as_expected { self.steady.saturating_add(1) } else { 0 };
        let last = self.last.replace(own.sequence);
        let others = last.and_then(|last| own.sequence.checked_sub(last));
        let others = others.filter(|others| *others >= FEWEST);
        self.expected = ahead.zip(others).and_then(|(ahead, others)| {
            let is_next_to = ahead.sequence.checked_add(1) == Some(own.sequence);
            let alone = (own.role, ahead.role) == (Role::Exclusive, Role::Exclusive);
            if is_next_to && alone { Expected::after(names, own, ahead, others) } else { None }
        });
    }

    /// A turn was not as expected.
    pub(crate) fn broken(&mut self) {
        *self = Self::default();
    }

    /// Whether the turn after this contender's can be relied on.
    pub(crate) fn is_steady(&self, own: &Contender) -> bool {
        self.last == Some(own.sequence) && self.expected().is_some()
    }

    /// What the next turn will look like, if that can be relied on.
    pub(crate) fn expected(&self) -> Option<&Expected> {
        self.expected.as_ref().filter(|_| self.steady >= STEADY)
    }
}

impl Expected {
    /// The turn after the one of `own`, in a round of so many contenders.
    fn after(names: &Names, own: &Contender, ahead: &Contender, round: i32) -> Option<Self> {
        let own = own.following(names, own.sequence.checked_add(round)?)?;
        let ahead = ahead.following(names, own.sequence.checked_sub(1)?)?;
        let next = ahead.following(names, ahead.sequence.checked_add(round)?)?;
        Some(Self { own, ahead, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    /// Contenders that come round in this order.
    struct Bench {
        names: Names,
        places: Vec<Contender>,
        next: i32,
        round: Round,
    }

    impl Bench {
        fn new(contenders: u8) -> Self {
            let names = Layout::CURATOR.mutex();
            let place = |n: u8| {
                let stem = names.stem(Role::Exclusive, u128::from(n) << 32);
                Contender::parse(&names, &format!("{stem}{n:010}")).unwrap()
            };
            let places = (0..contenders).map(place).collect();
            Self { names, places, next: i32::from(contenders), round: Round::default() }
        }

        /// The first one lets go and queues up again.
        fn pass(&mut self) {
            let first = self.places.remove(0);
            self.places.push(first.following(&self.names, self.next).unwrap());
            self.next += 1;
        }

        /// The last one is ours, and sees whom it has ahead.
        fn turned(&mut self) {
            let [.., ahead, own] = &*self.places else { panic!("too few") };
            self.round.turned(&self.names, own, Some(ahead));
        }

        /// The others have their turns, and then we.
        fn turn(&mut self) {
            (0..self.places.len()).for_each(|_| self.pass());
            self.turned();
        }

        fn turns(&mut self, turns: u32) {
            (0..turns).for_each(|_| self.turn());
        }

        /// Until it can be relied on, beginning with somebody who was never seen.
        fn steady(contenders: u8) -> Self {
            let mut bench = Self::new(contenders);
            bench.turned();
            // The first one gives the length, and the second one the first expectation.
            bench.turns(1 + STEADY);
            bench
        }
    }

    #[test]
    fn the_next_turn_is_known_after_enough_of_them() {
        for contenders in [3, 4, 30] {
            let mut bench = Bench::new(contenders);
            bench.turned();
            for _ in 0..=STEADY {
                assert_eq!(bench.round.expected(), None);
                bench.turn();
            }
            for _ in 0..3 {
                let expected = bench.round.expected().unwrap().clone();
                bench.turn();
                let [.., ahead, own] = &*bench.places else { panic!("too few") };
                assert_eq!((&expected.own, &expected.ahead), (own, ahead));
                let (ahead, mut round) = (ahead.name.clone(), bench.places.len());
                while bench.places.iter().any(|one| one.name == ahead) {
                    bench.pass();
                    round -= 1;
                }
                assert_eq!(round, 1, "the one ahead goes last but for us");
                assert_eq!(bench.places.last(), Some(&expected.next));
                bench.pass();
                bench.turned();
            }
        }
    }

    #[test]
    fn two_need_no_round() {
        let mut bench = Bench::new(2);
        bench.turned();
        bench.turns(100);
        assert_eq!(bench.round.expected(), None);
    }

    #[test]
    fn whoever_comes_or_leaves_ends_the_round() {
        let steady = || {
            let bench = Bench::steady(4);
            assert!(bench.round.is_steady(bench.places.last().unwrap()));
            assert!(!bench.round.is_steady(&bench.places[0]));
            bench
        };
        // Somebody comes: the length is another one.
        let mut bench = steady();
        bench.next += 1;
        bench.turn();
        assert_eq!(bench.round.expected(), None);
        // Somebody leaves.
        let mut bench = steady();
        bench.places.remove(1);
        bench.turn();
        assert_eq!(bench.round.expected(), None);
        // The one ahead comes by another name.
        let mut bench = steady();
        (0..4).for_each(|_| bench.pass());
        let own = bench.places.last().unwrap().clone();
        let stem = bench.names.stem(Role::Exclusive, 7);
        let other = format!("{stem}{:010}", own.sequence - 1);
        let other = Contender::parse(&bench.names, &other).unwrap();
        bench.round.turned(&bench.names, &own, Some(&other));
        assert_eq!(bench.round.expected(), None);
        // Nobody is ahead.
        let mut bench = steady();
        (0..4).for_each(|_| bench.pass());
        let own = bench.places.last().unwrap().clone();
        bench.round.turned(&bench.names, &own, None);
        assert_eq!(bench.round.expected(), None);
        // We are told.
        let mut bench = steady();
        bench.round.broken();
        assert_eq!(bench.round.expected(), None);
    }

    #[test]
    fn a_number_in_between_or_a_reader_leaves_nothing_to_expect() {
        let mut bench = Bench::steady(4);
        let own = bench.places.last().unwrap().clone();
        let [.., far, _, _] = &*bench.places else { panic!("too few") };
        let names = bench.names.clone();
        bench.round.turned(&names, &own, Some(far));
        assert_eq!(bench.round.expected, None);

        let names = Layout::CURATOR.read_write();
        let place = |role, number: u8| {
            let stem = names.stem(role, 7);
            Contender::parse(&names, &format!("{stem}{number:010}")).unwrap()
        };
        for (ahead, own, some) in [
            (Role::Exclusive, Role::Exclusive, true),
            (Role::Shared, Role::Exclusive, false),
            (Role::Exclusive, Role::Shared, false),
        ] {
            let mut round = Round::default();
            round.turned(&names, &place(own, 1), Some(&place(ahead, 0)));
            round.turned(&names, &place(own, 5), Some(&place(ahead, 4)));
            assert_eq!(round.expected.is_some(), some, "{ahead:?} {own:?}");
        }
    }

    #[test]
    fn the_end_of_the_numbers_is_not_passed() {
        let names = Layout::KAZOO.mutex();
        let place = |number: i32| {
            let stem = names.stem(Role::Exclusive, 7);
            Contender::parse(&names, &format!("{stem}{number:010}")).unwrap()
        };
        let mut round = Round::default();
        for last in [i32::MAX - 5, i32::MAX - 1, i32::MIN + 2] {
            let ahead = (last > 0).then(|| place(last - 1));
            let own = Contender { sequence: last, ..place(7) };
            round.turned(&names, &own, ahead.as_ref());
            assert_eq!(round.expected, None);
        }
    }
}
