//! The queue of the textbook lock, for the broken locks whose fault is elsewhere.
//!
//! A contender is a node whose name ends with the ten digits that the server has appended. Here
//! nothing is broken.

use zk_client::{Client, CreateOptions, Error};

pub(crate) const FOLDER: &str = "/lock";

/// Joins the queue with a node that ends with our session. Returns its path.
pub(crate) async fn join(client: &Client, stem: &str) -> Result<String, Error> {
    let options = CreateOptions::ephemeral().sequential();
    Ok(client.create(&format!("{FOLDER}/{stem}"), b"", &options).await?.path)
}

/// The path of the contender directly ahead of ours, or `None` if we are first.
pub(crate) async fn nearest_ahead(client: &Client, ours: &str) -> Result<Option<String>, Error> {
    let list = client.get_children(FOLDER).await?;
    let ahead = list.names.iter().filter(|name| number(name) < number(ours));
    Ok(ahead.max_by_key(|name| number(name)).map(|name| format!("{FOLDER}/{name}")))
}

/// Waits until nobody is ahead of us.
pub(crate) async fn wait_for_turn(client: &Client, ours: &str) -> Result<(), Error> {
    while let Some(nearest) = nearest_ahead(client, ours).await? {
        wait_until_gone(client, &nearest).await?;
    }
    Ok(())
}

/// Waits until this node is deleted, or until it changes in another way.
pub(crate) async fn wait_until_gone(client: &Client, node: &str) -> Result<(), Error> {
    match client.get_data_and_watch(node).await {
        Ok((_, mut watcher)) => watcher.changed().await.map(drop),
        Err(error) if error.is_no_node() => Ok(()),
        Err(error) => Err(error),
    }
}

/// The number that the server has appended to the name.
pub(crate) fn number(name: &str) -> Option<u32> {
    name.get(name.len().saturating_sub(10)..)?.parse().ok()
}
