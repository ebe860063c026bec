//! Everybody takes a number, and watches the contender directly ahead.

use zk_client::{Client, Error};

use crate::naive::queue::{join, nearest_ahead, wait_until_gone};

/// Returns the path of our node, once it holds the lock. Deleting it releases the lock.
pub(crate) async fn acquire(client: &Client) -> Result<String, Error> {
    let ours = join(client, "lock-").await?;
    loop {
        let Some(nearest) = nearest_ahead(client, &ours).await? else {
            return Ok(ours);
        };
        // Somebody is ahead of us. When that node goes, look again.
        wait_until_gone(client, &nearest).await?;
    }
}
