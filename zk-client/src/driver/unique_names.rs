//! Names that no other client makes: for nodes whose create may be lost, and for marks.
//!
//! One half of a name is drawn once for each client, so two clients share a name only if they draw
//! the same 64 bits. This file does not know what is named.

use crate::random::Random;

/// Makes names that no other client makes: one half identifies this client.
pub(crate) struct UniqueNames {
    pub(crate) client: u64,
    pub(crate) random: Random,
}

impl UniqueNames {
    /// 128 bits: the half of this client, and 64 new random bits.
    pub(crate) fn next(&mut self) -> u128 {
        (u128::from(self.client) << 64) | u128::from(self.random.next())
    }
}
