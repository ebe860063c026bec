//! What is to happen in a run: who contends, when, on which links, and what goes wrong.
//!
//! The same plan always gives the same run.

use std::time::Duration;

use crate::fault::Strike;

/// The session timeout of every process.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(6);

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    Write,
}

/// A process that wants the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) mode: Mode,
    /// When it starts, in milliseconds.
    pub(crate) start: u64,
    /// How long it holds the lock, in milliseconds.
    pub(crate) hold: u64,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Decides the names that clients draw, and how long frames take.
    pub(crate) seed: u64,
    /// How long a frame takes at least, and how much may come on top, in milliseconds.
    pub(crate) latency: u64,
    pub(crate) jitter: u64,
    pub(crate) contenders: Vec<Contender>,
    /// How often each of them wants the lock.
    pub(crate) turns: u32,
    pub(crate) strikes: Vec<Strike>,
    /// True if the folder is a container, which the server removes while it is empty.
    pub(crate) has_container: bool,
    /// True if a change may wake only one of those who wait, and they may not go on asking.
    pub(crate) forbids_waste: bool,
    /// True if faults strike only at replies to creates.
    pub(crate) strikes_creates: bool,
    /// True if faults strike a moment behind their frames, when processes have read them.
    pub(crate) strikes_later: bool,
    /// True if the session of the holder ends, whoever's the frame is.
    pub(crate) strikes_holders: bool,
}

impl Plan {
    /// How long it may take until everybody had their turns.
    pub(crate) fn patience(&self) -> Duration {
        let held = self.contenders.iter().map(|one| one.start + one.hold).sum::<u64>();
        15 * TIMEOUT + Duration::from_millis(held) * self.turns
    }
}
