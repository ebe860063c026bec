//! Level 4: the queue, with a name by which a node is recognised.
//!
//! When the connection was lost, the create may have been carried out all the same. The name has
//! random digits that nobody else has, so that the node is found.

use zk_client::{Client, CreateOptions};
use zk_gym::{FOLDER, Lock, Result};

/// The lock of one process.
#[derive(Debug)]
pub(crate) struct Student;

impl Lock for Student {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<Self::Held> {
        let ours = join(client).await?;
        while let Some(nearest) = nearest_ahead(client, &ours).await? {
            match client.get_data_and_watch(&nearest).await {
                Ok((_, mut watcher)) => drop(watcher.changed().await?),
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(ours)
    }

    async fn release(&self, client: &Client, held: Self::Held) -> Result<()> {
        client.delete(&held, None).await?;
        Ok(())
    }
}

/// Joins the queue with one node. Returns its path.
async fn join(client: &Client) -> Result<String> {
    let stem = format!("{FOLDER}/{:032x}-lock-", client.unique());
    let options = CreateOptions::ephemeral().sequential();
    loop {
        match client.create(&stem, b"", &options).await {
            Ok(created) => return Ok(created.path),
            Err(error) if error.is_connection_loss() => {}
            Err(error) => return Err(error.into()),
        }
        // The next server may not have heard of the create yet.
        client.sync(FOLDER).await?;
        let mut nodes = nodes(client).await?.into_iter();
        if let Some(found) = nodes.find(|path| path.starts_with(&stem)) {
            return Ok(found);
        }
    }
}

/// The node right ahead of ours, or `None` if we are first.
async fn nearest_ahead(client: &Client, ours: &str) -> Result<Option<String>> {
    let mut ahead = nodes(client).await?;
    ahead.retain(|path| number(path) < number(ours));
    Ok(ahead.into_iter().max_by_key(|path| number(path)))
}

async fn nodes(client: &Client) -> std::result::Result<Vec<String>, zk_client::Error> {
    let list = client.get_children(FOLDER).await?;
    Ok(list.names.iter().map(|name| format!("{FOLDER}/{name}")).collect())
}

/// The number that the server has appended.
fn number(path: &str) -> Option<u32> {
    path.get(path.len().saturating_sub(10)..)?.parse().ok()
}
