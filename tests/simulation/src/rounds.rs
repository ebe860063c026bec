//! Counts the turns of contenders that come round in the same order, and what each of them took.

use std::collections::BTreeMap;

use zk_embedded::SessionId;

use super::frames::Requests;
use super::journal::{Grant, contender};

/// Turns like the one before, in a row, from which on the next may be relied on to be like them.
const STEADY: u32 = 16;

/// Who had which turn.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// Who got each number last.
    owners: BTreeMap<i64, SessionId>,
    /// The last turn of each process.
    turns: BTreeMap<usize, Turn>,
}

/// A turn.
#[derive(Debug)]
struct Turn {
    number: i64,
    /// Whose it was, the numbers since the one before, and who was the next one ahead.
    like: (SessionId, i64, Option<SessionId>),
    /// How many before it were like it.
    steady: u32,
}

impl Rounds {
    /// Somebody gets a number.
    pub(super) fn sits(&mut self, number: Option<i64>, session: Option<SessionId>) {
        self.owners.extend(number.zip(session));
    }

    /// Somebody gets the lock, and has asked for this since its last turn. Says what is to be counted.
    pub(super) fn turn(&mut self, grant: &Grant, asked: Requests) -> Vec<&'static str> {
        let number = contender(&grant.node).map_or(0, |(number, _)| number);
        let last = self.turns.remove(&grant.process);
        let length = last.as_ref().map_or(0, |last| number - last.number);
        let like = (grant.session, length, self.owners.get(&(number - 1)).copied());
        let steady = last.filter(|last| last.like == like).map_or(0, |last| last.steady + 1);
        self.turns.insert(grant.process, Turn { number, like, steady });
        let mut counts = Vec::new();
        if steady > STEADY {
            counts.push("steady grants");
        }
        match asked {
            Requests { multis: 1, set_watches: 0, lists: 0, others: 0 } => {
                counts.push("grants for a multi");
            }
            Requests { multis: 1, set_watches: 1, lists: 0, others: 0 } => {
                counts.push("grants for a multi and its watches");
            }
            _ => {}
        }
        counts
    }
}
