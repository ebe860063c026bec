//! The crate `tokio-zookeeper`, for `tests/figures --peers`.

use tokio_zookeeper::{Acl, CreateMode, ZooKeeper};
use zk_bench::loops::Result;
use zk_bench::requests::{self, Peer};

#[derive(Clone)]
struct Theirs(ZooKeeper);

impl Peer for Theirs {
    async fn connect(address: &str) -> Result<Self> {
        // The stream is of the events that nobody waits for.
        let (client, _) = ZooKeeper::connect(&address.parse()?).await?;
        Ok(Self(client))
    }

    async fn create(&self, path: &str, data: &[u8]) -> Result<()> {
        let everybody = Acl::open_unsafe();
        self.0.create(path, data.to_vec(), everybody, CreateMode::Persistent).await??;
        Ok(())
    }

    async fn set(&self, path: &str, data: &[u8]) -> Result<()> {
        self.0.set_data(path, None, data.to_vec()).await??;
        Ok(())
    }

    async fn delete(&self, path: &str) -> Result<()> {
        Ok(self.0.delete(path, None).await??)
    }

    async fn event(&self, path: &str, data: &[u8]) -> Result<()> {
        let watched = self.0.with_watcher().get_data(path).await?;
        let (event, _, _) = watched.ok_or("no node")?;
        self.set(path, data).await?;
        event.await?;
        Ok(())
    }
}

fn main() -> Result<()> {
    requests::main::<Theirs>()
}
