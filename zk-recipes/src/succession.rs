//! Who was first before: whether the next place can go by its number alone.
//!
//! Whoever takes the place of a contender that was first, in one transaction and with the next
//! number, is first like that was: see [`Contender::succeeds`]. This remembers which contender that
//! is, and how long it has gone on like that. Pure: knows no client and no time.

use crate::contender::Contender;

/// Turns in a row that nobody else wanted, before nobody is expected.
const ALONE: u32 = 16;

/// What a client's next place in a queue can go by.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    /// The last contender of ours that came to be first, until another was asked for in its place:
    /// so the name that follows its own is given once.
    first: Option<Contender>,
    /// Whether nobody had a later number then.
    was_last: bool,
    /// Who was the last in the last list.
    last: Option<Contender>,
    /// How many in a row were first at once and needed nothing to tell them so.
    alone: u32,
    /// Whether anybody wanted to be told of a holder's node since the last of them.
    heeded: bool,
}

impl Succession {
    /// The queue was listed, and this was the last in it.
    pub(crate) fn listed(&mut self, last: Option<Contender>) {
        self.last = last;
    }

    /// A contender of ours came to be first.
    pub(crate) fn came_first(&mut self, contender: &Contender) {
        self.was_last = self.measures(contender);
        self.first = Some(contender.clone());
    }

    /// Whether a contender's number is a measure for the next. Those who came later have taken the
    /// next number; but a name that no server made may have a number that is still to come, and
    /// whoever gets that is not the next one. Such a name is in the last list: a mirror that is told of it
    /// loses count.
    pub(crate) fn measures(&self, contender: &Contender) -> bool {
        self.last.as_ref().is_none_or(|last| last <= contender)
    }

    /// Another place was asked for in the place of this one, whatever becomes of it.
    pub(crate) fn replaced(&mut self, old: &Contender) {
        self.first.take_if(|first| first == old);
    }

    /// The last contender of ours that came to be first, if it was not replaced.
    pub(crate) fn first(&self) -> Option<&Contender> {
        self.first.as_ref()
    }

    /// Whether its number is a measure for the next.
    pub(crate) fn first_measures(&self) -> bool {
        self.was_last
    }

    /// Somebody wants to be told of a holder's node.
    pub(crate) fn heed(&mut self) {
        self.heeded = true;
    }

    /// A place was taken, and was first `by_number` alone or not.
    pub(crate) fn taken(&mut self, by_number: bool) {
        let heeded = std::mem::take(&mut self.heeded);
        self.alone = if by_number && !heeded { self.alone.saturating_add(1) } else { 0 };
    }

    /// Whether the last place was first by its number alone: so may be the next.
    pub(crate) fn goes_on(&self) -> bool {
        self.alone > 0
    }

    /// Whether that went on for so long that nobody else is expected. Then a watch would tell of
    /// ourselves alone, at the price of its events.
    pub(crate) fn is_settled(&self) -> bool {
        self.alone >= ALONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Role;

    fn contender(sequence: i32) -> Contender {
        Contender { sequence, role: Role::Exclusive, name: format!("x-lock-{sequence:010}") }
    }

    #[test]
    fn a_place_is_replaced_once() {
        let mut succession = Succession::default();
        succession.came_first(&contender(1));
        assert_eq!(succession.first(), Some(&contender(1)));
        succession.replaced(&contender(0));
        assert_eq!(succession.first(), Some(&contender(1)), "that was another one");
        succession.replaced(&contender(1));
        assert_eq!(succession.first(), None);
        succession.came_first(&contender(2));
        assert_eq!(succession.first(), Some(&contender(2)));
    }

    #[test]
    fn a_later_number_in_the_last_list_spoils_the_measure() {
        let mut succession = Succession::default();
        for (last, measures) in [(None, true), (Some(4), true), (Some(5), true), (Some(6), false)] {
            succession.listed(last.map(contender));
            assert_eq!(succession.measures(&contender(5)), measures, "{last:?}");
            succession.came_first(&contender(5));
            assert_eq!(succession.first_measures(), measures, "{last:?}");
        }
    }
}
