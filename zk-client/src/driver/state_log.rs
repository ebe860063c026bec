//! Every state of a session in order, for readers that each go at their own pace.
//!
//! All readers share one log of the last states, so the driver writes each state once and never
//! waits. A reader that falls behind the log learns how many states it has missed; the last entry
//! never leaves the log. This file knows states, and nothing of what causes them.

use std::collections::VecDeque;

use crate::model::event::SessionState;

/// Many times the number of states that a client passes while a reader does something else.
pub(crate) const CAPACITY: usize = 64;

/// The last states of a session.
#[derive(Debug)]
pub(crate) struct StateLog {
    /// The number of the first state that is kept.
    first: u64,
    states: VecDeque<SessionState>,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Next(SessionState),
    /// This many states have left the log unread.
    Missed(u64),
    Nothing,
}

impl StateLog {
    pub(crate) fn new(state: SessionState) -> Self {
        Self { first: 0, states: VecDeque::from([state]) }
    }

    pub(crate) fn push(&mut self, state: SessionState) {
        if self.states.len() == CAPACITY {
            self.states.pop_front();
            self.first += 1;
        }
        self.states.push_back(state);
    }

    /// The cursor of a new reader: the current state.
    pub(crate) fn latest(&self) -> u64 {
        self.first + self.states.len().saturating_sub(1) as u64
    }

    /// Reads the entry at this cursor, and moves the cursor on.
    pub(crate) fn read(&self, cursor: &mut u64) -> Found {
        match cursor.checked_sub(self.first) {
            None => {
                let missed = self.first - *cursor;
                *cursor = self.first;
                Found::Missed(missed)
            }
            Some(index) => match self.states.get(index as usize) {
                Some(state) => {
                    *cursor += 1;
                    Found::Next(*state)
                }
                None => Found::Nothing,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_told_every_state_or_how_many_it_missed() {
        let (up, down) = (SessionState::Connected, SessionState::Disconnected);
        let mut log = StateLog::new(SessionState::Connecting);
        let mut at = log.latest();
        assert_eq!(log.read(&mut at), Found::Next(SessionState::Connecting));
        assert_eq!(log.read(&mut at), Found::Nothing);
        for n in 0..CAPACITY {
            log.push(if n % 2 == 0 { up } else { down });
        }
        let mut late = at - 1;
        assert_eq!(log.read(&mut late), Found::Missed(1));
        for n in 0..CAPACITY {
            let state = if n % 2 == 0 { up } else { down };
            assert_eq!(log.read(&mut at), Found::Next(state));
            assert_eq!(log.read(&mut late), Found::Next(state));
        }
        assert_eq!(log.read(&mut at), Found::Nothing);
        (0..CAPACITY + 9).for_each(|_| log.push(up));
        log.push(SessionState::Expired);
        assert_eq!(log.read(&mut at), Found::Missed(10));
        let mut told = Vec::new();
        while let Found::Next(state) = log.read(&mut at) {
            told.push(state);
        }
        assert_eq!(told.len(), CAPACITY);
        assert_eq!(told.last(), Some(&SessionState::Expired));
        let mut new = log.latest();
        assert_eq!(log.read(&mut new), Found::Next(SessionState::Expired));
    }
}
