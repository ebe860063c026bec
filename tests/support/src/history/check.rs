//! Finds the problems of a history.
//!
//! A lock must keep beliefs apart and hand out its tokens in order, and the store must accept no
//! write of an older holder after one of a newer holder. The test decides which of these problems a
//! disaster excuses: a stopped holder believes in its lock until it is notified.

use std::fmt;

use anyhow::{Result, ensure};
use zk_recipes::FencingToken;

use super::{Entry, Event};

/// The belief of a writer that it holds the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Belief<'h> {
    writer: &'h str,
    token: FencingToken,
}

impl fmt::Display for Belief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.writer, self.token)
    }
}

/// A belief that has not ended.
struct Held<'h> {
    belief: Belief<'h>,
    shared: bool,
    /// Set while its writer is stopped: the writers that have come in since.
    paused: Option<Vec<Belief<'h>>>,
}

impl Held<'_> {
    fn beside(&self, intruder: &Belief<'_>) -> String {
        format!("{intruder} entered beside {}", self.belief)
    }

    /// The problems if a writer that was stopped has continued as if nothing had happened.
    fn believed_on(&mut self) -> Vec<String> {
        let intruders = self.paused.take().unwrap_or_default();
        intruders.iter().map(|intruder| self.beside(intruder)).collect()
    }
}

/// Fails if there is any problem in the history of one lock, or nothing in it.
pub fn check(history: &[Entry]) -> Result<()> {
    ensure!(!history.is_empty(), "nobody has told anything");
    let problems = problems(history);
    ensure!(problems.is_empty(), "{problems:?}");
    Ok(())
}

/// The rules that were broken in the history of one lock, in order:
///
/// * `WRITER:TOKEN entered beside WRITER:TOKEN`: two writers believed at the same time that they
///   held the lock.
/// * `WRITER:TOKEN entered after TOKEN`, which is no older.
/// * `WRITER:TOKEN wrote after TOKEN`, which is newer, and the write was accepted.
/// * `WRITER:TOKEN was not inside`: a write by a writer that had not entered alone, or a leave or a
///   loss by a writer that had not entered.
///
/// Those who share the lock may hold it together and come in any order among themselves.
pub fn problems(history: &[Entry]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut beliefs: Vec<Held<'_>> = Vec::new();
    // The newest token of all holders, and that of the holders that were alone.
    let (mut newest_entered, mut newest_alone, mut newest_written) = (None, None, None);
    for Entry { writer, event } in history {
        match *event {
            Event::Enter(token) | Event::EnterShared(token) => {
                let shared = matches!(event, Event::EnterShared(_));
                let belief = Belief { writer, token };
                for held in beliefs.iter_mut().filter(|held| !(held.shared && shared)) {
                    match &mut held.paused {
                        Some(intruders) => intruders.push(belief),
                        None => problems.push(held.beside(&belief)),
                    }
                }
                let newest = if shared { newest_alone } else { newest_entered };
                let newest = newest.filter(|newest| *newest >= token);
                problems.extend(newest.map(|newest| format!("{belief} entered after {newest}")));
                newest_entered = newest_entered.max(Some(token));
                if !shared {
                    newest_alone = newest_alone.max(Some(token));
                }
                beliefs.push(Held { belief, shared, paused: None });
            }
            Event::Leave(token) | Event::Lost(token) => {
                let belief = Belief { writer, token };
                match beliefs.iter().position(|held| held.belief == belief) {
                    Some(index) => {
                        let mut held = beliefs.remove(index);
                        if matches!(event, Event::Leave(_)) {
                            problems.extend(held.believed_on());
                        }
                    }
                    None => problems.push(format!("{belief} was not inside")),
                }
            }
            Event::Write { token, accepted: true } => {
                let belief = Belief { writer, token };
                match beliefs.iter_mut().find(|held| held.belief == belief && !held.shared) {
                    Some(held) => problems.extend(held.believed_on()),
                    None => problems.push(format!("{belief} was not inside")),
                }
                let newer = newest_written.filter(|newest| *newest > token);
                problems.extend(newer.map(|newest| format!("{belief} wrote after {newest}")));
                newest_written = newest_written.max(Some(token));
            }
            Event::Paused => {
                for held in beliefs.iter_mut().filter(|held| held.belief.writer == writer) {
                    held.paused = Some(Vec::new());
                }
            }
            Event::Write { accepted: false, .. } => {}
            Event::Gone => beliefs.retain(|held| held.belief.writer != writer),
        }
    }
    problems
}
