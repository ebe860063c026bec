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
    /// The last contender of ours that came to be first, unless somebody has a later number.
    first: Option<Contender>,
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

    /// A contender of ours came to be first. Those who came later have taken the next number; but a
    /// name that no server made may have a number that is still to come, and whoever gets that is
    /// not the next one. Such a name is in the last list: a mirror that is told of it loses count.
    pub(crate) fn came_first(&mut self, contender: &Contender) {
        let is_last = self.last.as_ref().is_none_or(|last| last <= contender);
        self.first = is_last.then(|| contender.clone());
    }

    /// The last contender of ours that came to be first, if its number is a measure for the next.
    pub(crate) fn first(&self) -> Option<&Contender> {
        self.first.as_ref()
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
