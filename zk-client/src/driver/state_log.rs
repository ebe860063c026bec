//! Every state of a session, one after the other, for readers that each go at their own pace.
//!
//! All readers share one log of the last states, so the driver writes each of them once and never
//! waits. Whoever falls behind the log is told how much it has missed; the last entry never leaves
//! it. Knows states, and nothing of what makes them.

use std::collections::VecDeque;

use crate::model::event::SessionState;

/// Many times what a client goes through while a reader does something else.
pub(crate) const CAPACITY: usize = 64;

/// The last states of a session.
#[derive(Debug)]
pub(crate) struct StateLog {
    /// The number of the first that is kept.
    first: u64,
    states: VecDeque<SessionState>,
}

/// What a reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Next(SessionState),
    /// So many are gone.
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

    /// Where a reader begins: with the state of now.
    pub(crate) fn latest(&self) -> u64 {
        self.first + self.states.len().saturating_sub(1) as u64
    }

    /// What comes at this place, which then moves on.
    pub(crate) fn read(&self, at: &mut u64) -> Found {
        match at.checked_sub(self.first) {
            None => {
                let missed = self.first - *at;
                *at = self.first;
                Found::Missed(missed)
            }
            Some(index) => match self.states.get(index as usize) {
                Some(state) => {
                    *at += 1;
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
