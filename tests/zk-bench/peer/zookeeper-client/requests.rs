//! The crate `zookeeper-client`, for `tests/figures --peers`.

use zk_bench::loops::Result;
use zk_bench::requests::{self, Peer};
use zookeeper_client::{Acls, Client, CreateMode};

#[derive(Clone)]
struct Theirs(Client);

impl Peer for Theirs {
    async fn connect(address: &str) -> Result<Self> {
        Ok(Self(Client::connect(address).await?))
    }

    async fn create(&self, path: &str, data: &[u8]) -> Result<()> {
        let everybody = CreateMode::Persistent.with_acls(Acls::anyone_all());
        self.0.create(path, data, &everybody).await?;
        Ok(())
    }

    async fn set(&self, path: &str, data: &[u8]) -> Result<()> {
        self.0.set_data(path, data, None).await?;
        Ok(())
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.0.delete(path, None).await?;
        Ok(())
    }

    async fn event(&self, path: &str, data: &[u8]) -> Result<()> {
        let (_, _, watcher) = self.0.get_and_watch_data(path).await?;
        self.0.set_data(path, data, None).await?;
        watcher.changed().await;
        Ok(())
    }
}

fn main() -> Result<()> {
    requests::main::<Theirs>()
}
