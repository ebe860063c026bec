//! Level 1: one node, which belongs to whoever creates it.
//!
//! The server decides: of two creates of the same node one succeeds. The others wait until the node
//! is gone, and try again. All of them are woken by each release, which is the next level.

use zk_client::{Client, CreateOptions};
use zk_gym::{FOLDER, Lock, Result};

/// The lock of one process.
#[derive(Debug)]
pub(crate) struct Student;

impl Lock for Student {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<Self::Held> {
        let node = format!("{FOLDER}/holder");
        loop {
            match client.create(&node, b"", &CreateOptions::ephemeral()).await {
                Ok(created) => return Ok(created.path),
                Err(error) if error.is_node_exists() => {}
                Err(error) => return Err(error.into()),
            }
            match client.get_data_and_watch(&node).await {
                Ok((_, mut watcher)) => drop(watcher.changed().await?),
                // It was deleted between the create and the look.
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn release(&self, client: &Client, held: Self::Held) -> Result<()> {
        client.delete(&held, None).await?;
        Ok(())
    }
}
