//! Level 8: a token with every access to the store.
//!
//! The transaction that created our node has a greater number than those of earlier holders. The
//! store refuses smaller ones. It has to see ours before we read: otherwise an earlier holder could
//! still write between our read and our write.

use zk_client::{Client, CreateOptions};
use zk_gym::{FOLDER, Result, Store, Withdraw};

/// The program of one process.
#[derive(Debug)]
pub(crate) struct Student;

impl Withdraw for Student {
    async fn withdraw(&self, client: &Client, store: &Store, amount: u32) -> Result<bool> {
        let options = CreateOptions::ephemeral().sequential();
        let ours = client.create(&format!("{FOLDER}/lock-"), b"", &options).await?.path;
        while let Some(nearest) = nearest_ahead(client, &ours).await? {
            match client.get_data_and_watch(&nearest).await {
                Ok((_, mut watcher)) => drop(watcher.changed().await?),
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let token = client.get_data(&ours).await?.stat.czxid;
        let mut is_written = false;
        if let Some(balance) = store.balance_with(token) {
            store.work().await;
            is_written = store.set_balance_with(token, balance.saturating_sub(amount));
        }
        // The money is taken, whatever becomes of our node: it goes with our session.
        client.delete(&ours, None).await.ok();
        Ok(is_written)
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
