//! Level 1: one holder at a time.
//!
//! Write a lock on the client alone. The folder `FOLDER` is there. Nothing goes wrong in this level
//! but that several processes want the lock.

use zk_client::Client;
use zk_gym::{Lock, Result, unwritten};

/// The lock of one process.
#[derive(Debug)]
pub(crate) struct Student;

impl Lock for Student {
    /// What `release` needs: the path of our node.
    type Held = String;

    async fn acquire(&self, _client: &Client) -> Result<Self::Held> {
        // Begin with `client.create(..)`, and see what the gym says.
        unwritten()
    }

    async fn release(&self, client: &Client, held: Self::Held) -> Result<()> {
        client.delete(&held, None).await?;
        Ok(())
    }
}
