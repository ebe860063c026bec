//! Level 9: everything.
//!
//! All faults of the gym: see `Fault` in zk-recipes/learn/gym/src/fault.rs. The future of `acquire`
//! may be dropped while it waits. The client has more than `create`: look at `create_owned`.

use zk_client::Client;
use zk_gym::{Lock, Result, unwritten};

/// The lock of one process.
#[derive(Debug)]
pub(crate) struct Student;

impl Lock for Student {
    type Held = String;

    async fn acquire(&self, _client: &Client) -> Result<Self::Held> {
        unwritten()
    }

    async fn release(&self, client: &Client, held: Self::Held) -> Result<()> {
        client.delete(&held, None).await?;
        Ok(())
    }

    async fn lost(&self, _client: &Client, _held: &Self::Held) {
        std::future::pending().await
    }
}
