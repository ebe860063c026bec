//! Level 7: one queue with two kinds of nodes.
//!
//! A writer waits for everybody ahead of it, and a reader for the writers ahead of it. Nobody waits
//! for one that is behind, so there can be no circle.

use zk_client::{Client, CreateOptions};
use zk_gym::{FOLDER, Result, RwLock};

/// The lock of one process.
#[derive(Debug)]
pub(crate) struct Student;

impl RwLock for Student {
    type Held = String;

    async fn read(&self, client: &Client) -> Result<Self::Held> {
        acquire(client, "read-", |name| name.starts_with("write-")).await
    }

    async fn write(&self, client: &Client) -> Result<Self::Held> {
        acquire(client, "write-", |_| true).await
    }

    async fn release(&self, client: &Client, held: Self::Held) -> Result<()> {
        client.delete(&held, None).await?;
        Ok(())
    }
}

/// Joins the queue, and waits for those ahead that matter.
async fn acquire(client: &Client, stem: &str, matters: fn(&str) -> bool) -> Result<String> {
    let options = CreateOptions::ephemeral().sequential();
    let ours = client.create(&format!("{FOLDER}/{stem}"), b"", &options).await?.path;
    loop {
        let list = client.get_children(FOLDER).await?;
        let mut ahead = list.names.iter().filter(|name| matters(name)).collect::<Vec<_>>();
        ahead.retain(|name| number(name) < number(&ours));
        let Some(nearest) = ahead.into_iter().max_by_key(|name| number(name)) else {
            return Ok(ours);
        };
        match client.get_data_and_watch(&format!("{FOLDER}/{nearest}")).await {
            Ok((_, mut watcher)) => drop(watcher.changed().await?),
            Err(error) if error.is_no_node() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The number that the server has appended.
fn number(path: &str) -> Option<u32> {
    path.get(path.len().saturating_sub(10)..)?.parse().ok()
}
