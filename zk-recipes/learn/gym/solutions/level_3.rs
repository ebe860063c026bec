//! Level 3: the queue again. Nodes go with the sessions of those who die.
//!
//! A wake-up is a reason to look again, and no more: the one right ahead may have been a waiter.

use zk_client::{Client, CreateOptions};
use zk_gym::{FOLDER, Lock, Result};

/// The lock of one process.
#[derive(Debug)]
pub(crate) struct Student;

impl Lock for Student {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<Self::Held> {
        let options = CreateOptions::ephemeral().sequential();
        let ours = client.create(&format!("{FOLDER}/lock-"), b"", &options).await?.path;
        // It may have been a waiter that died, with others ahead of it: look again.
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

/// The node right ahead of ours, or `None` if we are first.
async fn nearest_ahead(client: &Client, ours: &str) -> Result<Option<String>> {
    let list = client.get_children(FOLDER).await?;
    let mut ahead = list.names.iter().map(|name| format!("{FOLDER}/{name}")).collect::<Vec<_>>();
    ahead.retain(|path| number(path) < number(ours));
    Ok(ahead.into_iter().max_by_key(|path| number(path)))
}

/// The number that the server has appended.
fn number(path: &str) -> Option<u32> {
    path.get(path.len().saturating_sub(10)..)?.parse().ok()
}
