//! Releases by deleting a node that nobody else can have.

use zk_client::{Client, CreateOptions, Error};

use crate::naive::queue::{FOLDER, join, wait_for_turn};

/// Returns the path of our node, once it holds the lock.
pub(crate) async fn acquire(client: &Client) -> Result<String, Error> {
    client.ensure(FOLDER, &CreateOptions::container()).await?;
    let stem = format!("{:032x}-lock-", client.unique());
    let ours = join(client, &stem).await?;
    wait_for_turn(client, &ours).await?;
    Ok(ours)
}

/// Releases the lock.
pub(crate) async fn release(client: &Client, ours: &str) -> Result<(), Error> {
    match client.delete(ours, None).await {
        // It has gone with its session.
        Err(error) if error.is_no_node() => Ok(()),
        deleted => deleted,
    }
}
