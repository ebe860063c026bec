//! Joins the queue, and tries again if the connection breaks.

use zk_client::{Client, CreateOptions, Error};

use crate::naive::queue::{FOLDER, wait_for_turn};

/// Returns the path of our node, once it holds the lock. Deleting it releases the lock.
pub(crate) async fn acquire(client: &Client) -> Result<String, Error> {
    let stem = format!("{FOLDER}/lock-");
    let ours = loop {
        match client.create(&stem, b"", &CreateOptions::ephemeral().sequential()).await {
            Ok(created) => break created.path,
            // The connection is lost: try again on the next one.
            Err(error) if error.is_connection_loss() => {}
            Err(error) => return Err(error),
        }
    };
    wait_for_turn(client, &ours).await?;
    Ok(ours)
}
