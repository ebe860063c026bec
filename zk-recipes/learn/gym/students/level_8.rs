//! Level 8: a stopped holder.
//!
//! Take money from a store under a lock. Processes stand still for longer than their sessions live,
//! and go on where they were. They cannot know it. The store takes tokens.

use zk_client::Client;
use zk_gym::{Result, Store, Withdraw, unwritten};

/// The program of one process.
#[derive(Debug)]
pub(crate) struct Student;

impl Withdraw for Student {
    async fn withdraw(&self, _client: &Client, store: &Store, amount: u32) -> Result<bool> {
        // Acquire the lock here.
        let balance = store.balance();
        store.work().await;
        store.set_balance(balance.saturating_sub(amount));
        // Release it here, and return true if the balance was written.
        unwritten()
    }
}
