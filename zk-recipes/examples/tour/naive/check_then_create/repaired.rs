//! Takes the lock by the create alone, which succeeds for one caller.

use zk_client::{Client, CreateOptions, Error};

const LOCK: &str = "/lock";

/// Returns true if the caller holds the lock now.
pub(crate) async fn try_acquire(client: &Client) -> Result<bool, Error> {
    match client.create(LOCK, b"", &CreateOptions::ephemeral()).await {
        // Another create came first: the server has decided, and we have not got the lock.
        Err(error) if error.is_node_exists() => Ok(false),
        created => created.map(|_| true),
    }
}
