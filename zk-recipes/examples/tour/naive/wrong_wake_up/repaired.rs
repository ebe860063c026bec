//! Waits for the contender directly ahead, and looks again when it is gone.

use zk_client::{Client, Error};

use crate::naive::queue::{nearest_ahead, wait_until_gone};

/// Waits until the lock is ours.
pub(crate) async fn wait(client: &Client, ours: &str) -> Result<(), Error> {
    // It may have been a waiter that gave up, with others ahead of it: look again.
    while let Some(nearest) = nearest_ahead(client, ours).await? {
        wait_until_gone(client, &nearest).await?;
    }
    Ok(())
}
