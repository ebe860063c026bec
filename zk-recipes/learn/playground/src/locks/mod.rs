//! The locks, as a contender's process acquires them.

use crate::kind::Kind;
use crate::locks::holding::{Acquired, Memory};
use crate::locks::seat::Seat;

pub(crate) mod seat;

pub(crate) mod holding;

pub(crate) mod plain;

pub(crate) mod recipes;

/// Acquires the lock, and waits as long as that takes.
pub(crate) async fn acquire(seat: Seat, memory: Memory) -> Result<Acquired, String> {
    match seat.kind {
        Kind::Textbook | Kind::Case(..) => {
            plain::acquire(&seat).await.map_err(|error| error.to_string())
        }
        _ => recipes::acquire(&seat, memory.lock).await.map_err(|error| error.to_string()),
    }
}
