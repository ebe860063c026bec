//! Reads and writes with a fencing token, which the store compares.

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
    /// The balance, unless a later holder has been here.
    fn read(&self, token: Zxid) -> Option<u32> {
        self.admits(token).then(|| self.balance.get())
    }

    /// Returns true if it was written. In a database, both steps are one transaction.
    fn write(&self, token: Zxid, balance: u32) -> bool {
        self.admits(token).then(|| self.balance.set(balance)).is_some()
    }

    /// Remembers the greatest token. Returns true if this is the greatest.
    fn admits(&self, token: Zxid) -> bool {
        self.greatest.set(self.greatest.get().max(token));
        self.greatest.get() == token
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
    let Some(balance) = store.read(token) else { return Ok(false) };
    sleep(work).await;
    Ok(store.write(token, balance.saturating_sub(amount)))
}
