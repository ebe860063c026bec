//! Waits for the contender directly ahead, and gets in when it is gone.

use zk_client::{Client, Error};

use crate::naive::queue::{nearest_ahead, wait_until_gone};

/// Waits until the lock is ours.
pub(crate) async fn wait(client: &Client, ours: &str) -> Result<(), Error> {
    // Everybody ahead of that one has gone before it, as this is a queue.
    if let Some(nearest) = nearest_ahead(client, ours).await? {
        wait_until_gone(client, &nearest).await?;
    }
    Ok(())
}
