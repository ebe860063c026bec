//! Level 3: a crash.
//!
//! Processes die or close their sessions, while they hold the lock and while they wait. This
//! process may be the one that dies, and it may be the one that wakes up.
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
