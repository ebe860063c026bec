//! Joins the queue, and looks for its node if the connection breaks.

use zk_client::{Client, CreateOptions, Error};

use crate::naive::queue::{FOLDER, wait_for_turn};

/// Returns the path of our node, once it holds the lock. Deleting it releases the lock.
pub(crate) async fn acquire(client: &Client) -> Result<String, Error> {
    let stem = format!("{FOLDER}/{:032x}-lock-", client.unique());
    let ours = loop {
        match client.create(&stem, b"", &CreateOptions::ephemeral().sequential()).await {
            Ok(created) => break created.path,
            // The connection is lost, and the node may be there all the same: look for it.
            Err(error) if error.is_connection_loss() => {
                client.sync(FOLDER).await?;
                let list = client.get_children(FOLDER).await?;
                let mut paths = list.names.iter().map(|name| format!("{FOLDER}/{name}"));
                if let Some(found) = paths.find(|path| path.starts_with(&stem)) {
                    break found;
                }
            }
            Err(error) => return Err(error),
        }
    };
    wait_for_turn(client, &ours).await?;
    Ok(ours)
}
