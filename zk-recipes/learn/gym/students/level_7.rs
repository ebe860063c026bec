//! Level 7: a reader and a writer.
//!
//! Many readers or one writer hold the lock, in the order in which they came. Processes die or
//! close their sessions.

use zk_client::Client;
use zk_gym::{Result, RwLock, unwritten};

/// The lock of one process.
#[derive(Debug)]
pub(crate) struct Student;

impl RwLock for Student {
    type Held = String;

    async fn read(&self, _client: &Client) -> Result<Self::Held> {
        unwritten()
    }

    async fn write(&self, _client: &Client) -> Result<Self::Held> {
        unwritten()
    }

    async fn release(&self, client: &Client, held: Self::Held) -> Result<()> {
        client.delete(&held, None).await?;
        Ok(())
    }
}
