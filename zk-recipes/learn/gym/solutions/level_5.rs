//! Level 5: every request is asked again until it is answered, or has left nothing behind.
//!
//! Whatever comes after the create may fail with the connection, so a node is deleted before an
//! error is returned. A delete is repeated until the node is gone: NoNode is the proof.

use zk_client::{Client, CreateOptions, Error};
use zk_gym::{FOLDER, Lock, Result};

/// The lock of one process.
#[derive(Debug)]
pub(crate) struct Student;

impl Lock for Student {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<Self::Held> {
        let stem = format!("{FOLDER}/{:032x}-lock-", client.unique());
        let ours = join(client, &stem).await?;
        loop {
            match wait(client, &ours).await {
                Ok(()) => return Ok(ours),
                // Our node is there all the same: look again on the next connection.
                Err(error) if error.is_connection_loss() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn release(&self, client: &Client, held: Self::Held) -> Result<()> {
        loop {
            match client.delete(&held, None).await {
                Err(error) if error.is_connection_loss() => {}
                Err(error) if !error.is_no_node() => return Err(error.into()),
                // It is gone, by this delete or by one whose reply was lost.
                _ => return Ok(()),
            }
        }
    }
}

/// Joins the queue with one node. Returns its path.
async fn join(client: &Client, stem: &str) -> Result<String> {
    let options = CreateOptions::ephemeral().sequential();
    loop {
        match client.create(stem, b"", &options).await {
            Ok(created) => return Ok(created.path),
            Err(error) if error.is_connection_loss() => {}
            Err(error) => return Err(error.into()),
        }
        let found = loop {
            match find(client, stem).await {
                Err(error) if error.is_connection_loss() => {}
                found => break found?,
            }
        };
        if let Some(found) = found {
            return Ok(found);
        }
    }
}

/// Looks for our node, on a server that has heard of everything before.
async fn find(client: &Client, stem: &str) -> std::result::Result<Option<String>, Error> {
    client.sync(FOLDER).await?;
    Ok(nodes(client).await?.into_iter().find(|path| path.starts_with(stem)))
}

/// Waits until nobody is ahead of us.
async fn wait(client: &Client, ours: &str) -> std::result::Result<(), Error> {
    loop {
        let mut ahead = nodes(client).await?;
        ahead.retain(|path| number(path) < number(ours));
        let Some(nearest) = ahead.into_iter().max_by_key(|path| number(path)) else {
            return Ok(());
        };
        match client.get_data_and_watch(&nearest).await {
            Ok((_, mut watcher)) => drop(watcher.changed().await?),
            Err(error) if error.is_no_node() => {}
            Err(error) => return Err(error),
        }
    }
}

async fn nodes(client: &Client) -> std::result::Result<Vec<String>, Error> {
    let list = client.get_children(FOLDER).await?;
    Ok(list.names.iter().map(|name| format!("{FOLDER}/{name}")).collect())
}

/// The number that the server has appended.
fn number(path: &str) -> Option<u32> {
    path.get(path.len().saturating_sub(10)..)?.parse().ok()
}
