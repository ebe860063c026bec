//! Looks whether anybody has the lock, and takes it if nobody has.

use zk_client::{Client, CreateOptions, Error};

const LOCK: &str = "/lock";

/// Returns true if the caller holds the lock now.
pub(crate) async fn try_acquire(client: &Client) -> Result<bool, Error> {
    if client.exists(LOCK).await?.is_some() {
        return Ok(false);
    }
    match client.create(LOCK, b"", &CreateOptions::ephemeral()).await {
        // The node is there, which is what we wanted.
        Err(error) if error.is_node_exists() => Ok(true),
        created => created.map(|_| true),
    }
}
