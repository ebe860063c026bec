//! Works while it is connected.

use std::time::Duration;

use tokio::time::sleep;
use zk_client::{Client, Error};

/// Works under the lock: writes once a second, thirty times.
pub(crate) async fn work(client: &Client, write: impl Fn()) -> Result<(), Error> {
    for _ in 0..30 {
        // While we are connected, our session lives, and the lock is ours.
        if !client.state().is_connected() {
            return Ok(());
        }
        write();
        sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}
