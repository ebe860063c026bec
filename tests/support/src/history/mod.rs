//! The actions and beliefs of the holders of a lock, as seen by the store that the lock protects.
//!
//! The order of a [`History`] is the order in which one [`Store`] received the lines, from any
//! process. A line whose reply has arrived stands before every line that is sent afterwards. So two
//! beliefs that overlap in the history did overlap. [`check`] judges the history.

mod check;
mod store;

use zk_recipes::FencingToken;

pub use check::{check, problems};
pub use store::{Ledger, Mode, Store};

/// All entries, oldest first.
pub type History = Vec<Entry>;

/// One entry of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its sender: a name that no other connection has.
    pub writer: String,
    /// What happened.
    pub event: Event,
}

/// What a holder reported or did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The holder believes from now on that it holds the lock.
    Enter(FencingToken),
    /// The holder believes from now on that it holds the lock, with others that report the same.
    EnterShared(FencingToken),
    /// The holder no longer believes it, because it is about to release the lock.
    Leave(FencingToken),
    /// The holder no longer believes it, because it was notified or has found out that it lost the
    /// lock.
    Lost(FencingToken),
    /// A write.
    Write {
        /// The token that was sent with it.
        token: FencingToken,
        /// Whether the store accepted it.
        accepted: bool,
    },
    /// The holder was stopped from outside. Until it reports something it believes nothing. If
    /// another writer came in meanwhile, its first report should be that it lost the lock.
    Paused,
    /// The connection has ended, and with it all beliefs of the holder.
    Gone,
}

/// True if this writer has written.
pub fn has_written(history: &History, writer: &str) -> bool {
    has_said(history, writer, |event| matches!(event, Event::Write { .. }))
}

/// True if this writer has found out that it lost the lock.
pub fn has_lost(history: &History, writer: &str) -> bool {
    has_said(history, writer, |event| matches!(event, Event::Lost(_)))
}

fn has_said(history: &History, writer: &str, event: fn(&Event) -> bool) -> bool {
    history.iter().any(|entry| entry.writer == writer && event(&entry.event))
}
