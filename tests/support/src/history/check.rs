//! Finds the problems of a history.
//!
//! A lock must keep beliefs apart and hand out its tokens in order, and the store must accept no
//! write of an older holder after one of a newer holder. The test decides which of these problems a
//! disaster excuses: a stopped holder believes in its lock until it is notified.

use anyhow::{Result, ensure};
use zk_recipes::FencingToken;

use super::{Entry, Event};

/// The findings about a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// How often the lock was entered.
    pub enters: usize,
    /// How many writes were accepted.
    pub accepted: usize,
    /// How many writes were refused.
    pub refused: usize,
    /// What went wrong, in order.
    pub problems: Vec<Problem>,
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Two writers believed at the same time that they held the lock.
    DoubleOwner {
        /// The one that believed it first.
        holder: Belief,
        /// The one that came in.
        intruder: Belief,
    },
    /// A writer entered with a token that is no newer than that of an earlier holder.
    OutOfOrder {
        /// The newest token until then.
        newest: FencingToken,
        /// The one that came in.
        entered: Belief,
    },
    /// A write was accepted although a write with a newer token had been accepted.
    Unfenced {
        /// The newest token until then.
        newest: FencingToken,
        /// The belief of the writer.
        written: Belief,
    },
    /// A write by a writer that had not entered alone, or a leave or a loss by a writer that had
    /// not entered.
    Uninvited(Belief),
}

/// The belief of a writer that it holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belief {
    /// The writer.
    pub writer: String,
    /// The token of its hold.
    pub token: FencingToken,
}

impl Findings {
    /// Fails if there is any problem.
    pub fn ensure_flawless(&self) -> Result<()> {
        ensure!(self.problems.is_empty(), "{self:?}");
        Ok(())
    }
}

/// A belief that has not ended.
struct Held {
    belief: Belief,
    shared: bool,
    /// Set while its writer is stopped: the writers that have come in since.
    paused: Option<Vec<Belief>>,
}

impl Findings {
    fn double_owner(&mut self, holder: &Belief, intruder: &Belief) {
        let (holder, intruder) = (holder.clone(), intruder.clone());
        self.problems.push(Problem::DoubleOwner { holder, intruder });
    }

    /// A stopped writer has continued as if nothing had happened.
    fn believed_on(&mut self, held: &Held) {
        for intruder in held.paused.iter().flatten() {
            self.double_owner(&held.belief, intruder);
        }
    }
}

/// Judges the history of one lock.
///
/// Those who share it may hold it together and come in any order among themselves.
pub fn check(history: &[Entry]) -> Findings {
    let mut findings = Findings::default();
    let mut beliefs: Vec<Held> = Vec::new();
    // The newest token of all holders, and that of the holders that were alone.
    let (mut newest_entered, mut newest_alone, mut newest_written) = (None, None, None);
    for Entry { at: _, writer, event } in history {
        let belief = |token: &FencingToken| Belief { writer: writer.clone(), token: *token };
        match event {
            Event::Enter(token) | Event::EnterShared(token) => {
                findings.enters += 1;
                let shared = matches!(event, Event::EnterShared(_));
                let intruder = belief(token);
                for held in beliefs.iter_mut().filter(|held| !(held.shared && shared)) {
                    match &mut held.paused {
                        Some(intruders) => intruders.push(intruder.clone()),
                        None => findings.double_owner(&held.belief, &intruder),
                    }
                }
                match if shared { newest_alone } else { newest_entered } {
                    Some(newest) if newest >= *token => {
                        let entered = intruder.clone();
                        findings.problems.push(Problem::OutOfOrder { newest, entered });
                    }
                    _ => {}
                }
                newest_entered = newest_entered.max(Some(*token));
                if !shared {
                    newest_alone = newest_alone.max(Some(*token));
                }
                beliefs.push(Held { belief: intruder, shared, paused: None });
            }
            Event::Leave(token) | Event::Lost(token) => {
                let belief = belief(token);
                match beliefs.iter().position(|held| held.belief == belief) {
                    Some(index) => {
                        let held = beliefs.remove(index);
                        if matches!(event, Event::Leave(_)) {
                            findings.believed_on(&held);
                        }
                    }
                    None => findings.problems.push(Problem::Uninvited(belief)),
                }
            }
            Event::Write { accepted: false, .. } => findings.refused += 1,
            Event::Write { token, .. } => {
                findings.accepted += 1;
                let written = belief(token);
                match beliefs.iter_mut().find(|held| held.belief == written && !held.shared) {
                    Some(held) => {
                        findings.believed_on(held);
                        held.paused = None;
                    }
                    None => findings.problems.push(Problem::Uninvited(written.clone())),
                }
                match newest_written {
                    Some(newest) if newest > *token => {
                        findings.problems.push(Problem::Unfenced { newest, written });
                    }
                    _ => newest_written = Some(*token),
                }
            }
            Event::Paused => {
                for held in beliefs.iter_mut().filter(|held| held.belief.writer == *writer) {
                    held.paused = Some(Vec::new());
                }
            }
            Event::Gone => beliefs.retain(|held| held.belief.writer != *writer),
        }
    }
    findings
}
