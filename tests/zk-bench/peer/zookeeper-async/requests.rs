//! The crate `zookeeper-async`, for `tests/figures --peers`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use zk_bench::loops::Result;
use zk_bench::requests::{self, Peer};
use zookeeper_async::{Acl, CreateMode, ZooKeeper};

#[derive(Clone)]
struct Theirs(Arc<ZooKeeper>);

impl Peer for Theirs {
    async fn connect(address: &str) -> Result<Self> {
        let client = ZooKeeper::connect(address, Duration::from_secs(10), |_| ()).await?;
        Ok(Self(Arc::new(client)))
    }

    async fn create(&self, path: &str, data: &[u8]) -> Result<()> {
        let everybody = Acl::open_unsafe().clone();
        self.0.create(path, data.to_vec(), everybody, CreateMode::Persistent).await?;
        Ok(())
    }

    async fn set(&self, path: &str, data: &[u8]) -> Result<()> {
        self.0.set_data(path, data.to_vec(), None).await?;
        Ok(())
    }

    async fn delete(&self, path: &str) -> Result<()> {
        Ok(self.0.delete(path, None).await?)
    }

    async fn event(&self, path: &str, data: &[u8]) -> Result<()> {
        let (fired, event) = oneshot::channel();
        self.0.get_data_w(path, |event| drop(fired.send(event))).await?;
        self.set(path, data).await?;
        event.await?;
        Ok(())
    }
}

fn main() -> Result<()> {
    requests::main::<Theirs>()
}
