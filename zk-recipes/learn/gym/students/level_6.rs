//! Level 6: an expired session.
//!
//! Sessions end while the lock is held. `lost` has to return before another process can get the
//! lock: the holder stops its work then. The folder is a container, and may be gone.
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

    /// If the session is over, `client` has a new one.
    async fn release(&self, client: &Client, held: Self::Held) -> Result<()> {
        client.delete(&held, None).await?;
        Ok(())
    }

    /// Returns when the lock is not surely held any more.
    async fn lost(&self, client: &Client, _held: &Self::Held) {
        // To be connected is no proof. What is? `client.clock()` tells the time.
        while client.state().ended().is_none() {
            client.states().changed().await.ok();
        }
    }
}
