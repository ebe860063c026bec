//! Level 9: a node that the client never loses track of, and its lease.
//!
//! `create_owned` finds the node again whose reply was lost, and deletes it when it is dropped, at
//! whatever moment. The lease says until when the node is surely there. Two things are left: to
//! look again after anything that may have happened, and to see that an operator deletes our node.

use std::time::Duration;

use zk_client::{Client, CreateOptions, Error, Lease, LeaseState, OwnedNode};
use zk_gym::{FOLDER, Lock, Result};

/// The lock of one process.
#[derive(Debug)]
pub(crate) struct Student;

/// Our node, and until when it is surely there.
#[derive(Debug)]
pub(crate) struct Held {
    node: OwnedNode,
    lease: Lease,
}

impl Lock for Student {
    type Held = Held;

    async fn acquire(&self, client: &Client) -> Result<Self::Held> {
        client.ensure(FOLDER, &CreateOptions::container()).await?;
        let stem = format!("{FOLDER}/{:032x}-lock-", client.unique());
        let options = CreateOptions::ephemeral().sequential();
        let node = client.create_owned(&stem, b"", &options).await?;
        let lease = node.lease(None);
        loop {
            match look(client, node.path()).await {
                Ok((false, _)) => return Err("our node is gone".into()),
                Ok(_) if matches!(lease.state(), LeaseState::Lapsed(_)) => {
                    return Err("the node may be gone".into());
                }
                Ok((true, None)) => return Ok(Held { node, lease }),
                Ok((true, Some(nearest))) => match client.get_data_and_watch(&nearest).await {
                    Ok((_, mut watcher)) => drop(watcher.changed().await?),
                    Err(error) if error.is_no_node() => {}
                    Err(error) => pass(client, error).await?,
                },
                Err(error) => pass(client, error).await?,
            }
        }
    }

    async fn release(&self, _client: &Client, held: Self::Held) -> Result<()> {
        // The client repeats this until it is answered, or the session is over.
        held.node.delete().await?;
        Ok(())
    }

    async fn lost(&self, client: &Client, held: &Self::Held) {
        let is_deleted = async {
            loop {
                match client.get_data_and_watch(held.node.path()).await {
                    Ok((_, mut watcher)) => drop(watcher.changed().await),
                    Err(error) if error.is_no_node() => return,
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        };
        tokio::select! {
            biased;
            _ = held.lease.lapsed() => {}
            () = is_deleted => {}
        }
    }
}

/// Waits a little behind an error that passes, and returns any other one.
async fn pass(client: &Client, error: Error) -> Result<()> {
    if client.state().ended().is_some() || !error.is_transient() {
        return Err(error.into());
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok(())
}

/// Whether our node is in the queue, and the one right ahead of it.
async fn look(client: &Client, ours: &str) -> std::result::Result<(bool, Option<String>), Error> {
    let list = client.get_children(FOLDER).await?;
    let mut nodes = list.names.iter().map(|name| format!("{FOLDER}/{name}")).collect::<Vec<_>>();
    let is_there = nodes.iter().any(|path| path == ours);
    nodes.retain(|path| number(path) < number(ours));
    Ok((is_there, nodes.into_iter().max_by_key(|path| number(path))))
}

/// The number that the server has appended.
fn number(path: &str) -> Option<u32> {
    path.get(path.len().saturating_sub(10)..)?.parse().ok()
}
