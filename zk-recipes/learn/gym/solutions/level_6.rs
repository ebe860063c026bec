//! Level 6: a deadline, which counts from the last request that a majority has answered.
//!
//! A write once a second is the proof that the session lives. Without a new one the holder stops a
//! session timeout after it asked for the last one, since nobody can tell it. Names are random, so
//! a late release finds nothing to delete.

use std::time::{Duration, Instant};

use zk_client::{Client, CreateOptions};
use zk_gym::{FOLDER, Lock, Result};

/// The lock of one process.
#[derive(Debug)]
pub(crate) struct Student;

/// What a holder remembers: its node, and when it asked for it.
#[derive(Debug)]
pub(crate) struct Held {
    node: String,
    asked: Instant,
}

impl Lock for Student {
    type Held = Held;

    async fn acquire(&self, client: &Client) -> Result<Self::Held> {
        client.ensure(FOLDER, &CreateOptions::container()).await?;
        let options = CreateOptions::ephemeral().sequential();
        let stem = format!("{FOLDER}/{:032x}-lock-", client.unique());
        let node = client.create(&stem, b"", &options).await?.path;
        while let Some(nearest) = nearest_ahead(client, &node).await? {
            match client.get_data_and_watch(&nearest).await {
                Ok((_, mut watcher)) => drop(watcher.changed().await?),
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The wait was long, and our node may be gone by now: only a write proves that it is not.
        let asked = client.clock().now();
        client.set_data(&node, b"", None).await?;
        Ok(Held { node, asked })
    }

    async fn release(&self, client: &Client, held: Self::Held) -> Result<()> {
        loop {
            match client.delete(&held.node, None).await {
                Err(error) if error.is_connection_loss() => {}
                Err(error) if !error.is_no_node() => return Err(error.into()),
                // It is gone, perhaps with its session.
                _ => return Ok(()),
            }
        }
    }

    async fn lost(&self, client: &Client, held: &Self::Held) {
        let mut asked = held.asked;
        loop {
            let deadline = asked + client.session_timeout();
            asked = client.clock().now();
            let proof = async {
                let proof = client.set_data(&held.node, b"", None).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                proof
            };
            let proof = tokio::select! {
                biased;
                () = client.clock().sleep_until(deadline) => return,
                proof = proof => proof,
            };
            if proof.is_err() {
                return;
            }
        }
    }
}

/// The node right ahead of ours, or `None` if we are first.
async fn nearest_ahead(client: &Client, ours: &str) -> Result<Option<String>> {
    let list = client.get_children(FOLDER).await?;
    let mut ahead = list.names.iter().map(|name| format!("{FOLDER}/{name}")).collect::<Vec<_>>();
    if !ahead.iter().any(|path| path == ours) {
        return Err("our node is gone".into());
    }
    ahead.retain(|path| number(path) < number(ours));
    Ok(ahead.into_iter().max_by_key(|path| number(path)))
}

/// The number that the server has appended.
fn number(path: &str) -> Option<u32> {
    path.get(path.len().saturating_sub(10)..)?.parse().ok()
}
