//! What the holders of a lock did and believed, as the store that the lock protects has seen it.
//!
//! The order of a [`History`] is the order in which one [`Store`] took the lines in, whoever sent
//! them: whoever has its answer stands before whatever is sent afterwards, in any process. So two
//! beliefs that overlap in it did overlap. What the history should have been is up to [`check`].

mod check;
mod store;

use std::fmt;

use tokio::time::Instant;
use zk_recipes::FencingToken;

pub use check::{Findings, Problem, check};
pub use store::{Ledger, Mode, Store};

/// All that happened, oldest first.
pub type History = Vec<Entry>;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When the store took it in.
    pub at: Instant,
    /// Who says so: a name that no other connection has.
    pub writer: String,
    /// What it was.
    pub event: Event,
}

/// What a holder said or did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// From now on it believes that it holds the lock.
    Enter(FencingToken),
    /// From now on it believes that it holds the lock, with others that say the same.
    EnterShared(FencingToken),
    /// From now on it does not, for it is about to release the lock.
    Leave(FencingToken),
    /// From now on it does not, for it has been told or has found out that it lost the lock.
    Lost(FencingToken),
    /// A write.
    Write {
        /// The token that came with it.
        token: FencingToken,
        /// What was written.
        value: u64,
        /// Whether the store took it.
        accepted: bool,
    },
    /// It has been stopped from outside. Until it says something it believes nothing, and what it
    /// says first should be that it lost the lock, if somebody else came in meanwhile.
    Paused,
    /// Its connection has ended, and with it whatever it believed.
    Gone,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at: _, writer, event } = self;
        match event {
            Event::Enter(token) => write!(f, "{writer} enters with {token}"),
            Event::EnterShared(token) => write!(f, "{writer} enters shared with {token}"),
            Event::Leave(token) => write!(f, "{writer} leaves with {token}"),
            Event::Lost(token) => write!(f, "{writer} has lost {token}"),
            Event::Write { token, value, accepted } => {
                let answer = if *accepted { "accepted" } else { "refused" };
                write!(f, "{writer} writes {value} with {token}: {answer}")
            }
            Event::Paused => write!(f, "{writer} is stopped"),
            Event::Gone => write!(f, "{writer} is gone"),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a history tells when things happened")]
fn now() -> Instant {
    Instant::now()
}
