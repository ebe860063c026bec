//! Writes with a fencing token, which the store compares.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::sleep;
use zk_client::{Client, Error, Zxid};

use crate::naive::queue::{join, wait_for_turn};

/// A store elsewhere, which knows nothing of ZooKeeper.
pub(crate) struct Store {
    pub(crate) balance: Cell<u32>,
    /// The greatest token that it has seen.
    pub(crate) greatest: Cell<Zxid>,
}

impl Store {
    /// Returns true if it was written. In a database, both steps are one transaction.
    fn write(&self, token: Zxid, balance: u32) -> bool {
        if token < self.greatest.get() {
            return false;
        }
        self.greatest.set(token);
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
    // The transaction that created our node. Those of later holders have greater numbers.
    let token = client.get_data(&ours).await?.stat.czxid;
    let balance = store.balance.get();
    sleep(work).await;
    Ok(store.write(token, balance.saturating_sub(amount)))
}
