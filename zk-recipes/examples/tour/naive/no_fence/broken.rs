//! Reads the balance under the lock, and writes it under the lock.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::sleep;
use zk_client::{Client, Error};

use crate::naive::queue::{join, wait_for_turn};

/// A store elsewhere, which knows nothing of ZooKeeper.
pub(crate) struct Store {
    pub(crate) balance: Cell<u32>,
}

impl Store {
    /// Returns true if it was written.
    fn write(&self, balance: u32) -> bool {
        self.balance.set(balance);
        true
    }
}

/// Takes `amount` from the balance, after some work. Returns true if it was written.
pub(crate) async fn withdraw(
    client: &Client,
    store: &Store,
    amount: u32,
    work: Duration,
) -> Result<bool, Error> {
    let ours = join(client, "lock-").await?;
    wait_for_turn(client, &ours).await?;
    let balance = store.balance.get();
    sleep(work).await;
    Ok(store.write(balance.saturating_sub(amount)))
}
