//! Works until the last proof that its session lives is too old.

use std::time::Duration;

use tokio::time::sleep;
use zk_client::{Client, Error};

use crate::naive::queue::FOLDER;

/// Works under the lock: writes once a second, thirty times.
pub(crate) async fn work(client: &Client, write: impl Fn()) -> Result<(), Error> {
    // We have just created our node, which was a write.
    let mut deadline = client.clock().now() + client.session_timeout();
    for _ in 0..30 {
        // Only a majority of the servers can answer a write. If it does, our session lived when
        // we asked, and lives for a session timeout from then on.
        let asked = client.clock().now();
        let proof = client.set_data(FOLDER, b"", None);
        deadline = tokio::select! {
            proof = proof => proof.map(|_| asked + client.session_timeout())?,
            () = client.clock().sleep_until(deadline) => return Ok(()),
        };
        write();
        sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}
