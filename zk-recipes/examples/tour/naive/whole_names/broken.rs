//! Names tell who waits, and the first name in the list holds the lock.

use zk_client::{Client, Error};

use crate::naive::queue::{FOLDER, join, wait_until_gone};

/// Returns the path of our node, once it holds the lock. Deleting it releases the lock.
pub(crate) async fn acquire(client: &Client, name: &str) -> Result<String, Error> {
    let ours = join(client, &format!("{name}-lock-")).await?;
    loop {
        let list = client.get_children(FOLDER).await?;
        let mut names = list.names.iter().collect::<Vec<_>>();
        names.sort_unstable();
        let ahead = names.into_iter().take_while(|name| !ours.ends_with(name));
        let Some(nearest) = ahead.last() else {
            return Ok(ours);
        };
        wait_until_gone(client, &format!("{FOLDER}/{nearest}")).await?;
    }
}
