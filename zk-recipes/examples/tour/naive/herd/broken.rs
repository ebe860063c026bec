//! Everybody watches the lock, and runs for it when it is free.

use zk_client::{Client, CreateOptions, Error};

use crate::naive::queue::wait_until_gone;

const LOCK: &str = "/lock/holder";

/// Returns the path of our node, once it holds the lock. Deleting it releases the lock.
pub(crate) async fn acquire(client: &Client) -> Result<String, Error> {
    loop {
        match client.create(LOCK, b"", &CreateOptions::ephemeral()).await {
            Ok(created) => return Ok(created.path),
            Err(error) if error.is_node_exists() => {}
            Err(error) => return Err(error),
        }
        // Somebody holds it. When that node goes, try again.
        wait_until_gone(client, LOCK).await?;
    }
}
