//! A reader waits for the writers ahead of it.

use zk_client::{Client, Error};

use crate::naive::queue::{FOLDER, number, wait_until_gone};

/// Waits until the reader whose node is `ours` may read.
pub(crate) async fn wait_to_read(client: &Client, ours: &str) -> Result<(), Error> {
    loop {
        let list = client.get_children(FOLDER).await?;
        let mut writers = list.names.iter().collect::<Vec<_>>();
        writers.retain(|name| name.starts_with("write-"));
        writers.retain(|name| number(name) < number(ours));
        let Some(last) = writers.into_iter().max_by_key(|name| number(name)) else {
            return Ok(());
        };
        wait_until_gone(client, &format!("{FOLDER}/{last}")).await?;
    }
}
