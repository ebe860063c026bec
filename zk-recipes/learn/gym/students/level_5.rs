//! Level 5: a cut.
//!
//! The connection breaks in front of any frame, or behind it. `acquire` may return an error, and is
//! called again. `release` is called only once.
//!
//! Begin with what has passed the level before.

use zk_client::Client;
use zk_gym::{Lock, Result, unwritten};

/// The lock of one process.
#[derive(Debug)]
pub(crate) struct Student;

impl Lock for Student {
    type Held = String;

    async fn acquire(&self, _client: &Client) -> Result<Self::Held> {
        unwritten()
    }

    async fn release(&self, client: &Client, held: Self::Held) -> Result<()> {
        client.delete(&held, None).await?;
        Ok(())
    }
}
