//! Level 2: the herd.
//!
//! Whatever happens to the lock may wake only one of those who wait for it. And they may not ask
//! again and again: a waiter sends eight requests at most while nothing changes in the folder.
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
