//! Level 2: a queue, in which each watches the one right ahead.
//!
//! The server appends a number to each name. The lowest number holds the lock, and a release wakes
//! only the next one.

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
        // Nobody leaves the queue before its turn here. In level 3 this has to be a loop.
        if let Some(nearest) = nearest_ahead(client, &ours).await? {
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
