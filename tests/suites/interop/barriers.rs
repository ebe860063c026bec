//! Our barriers at one node with kazoo's.

use anyhow::{Result, ensure};
use zk_client::Client;
use zk_recipes::Barrier;
use zk_test_support::server::Standalone;

use crate::locks::kazoo;

const PATH: &str = "/barriers/one";

#[tokio::test]
async fn kazoos_barrier_and_ours_open_and_close_each_other() -> Result<()> {
    let server = Standalone::start().await?;
    let client = Client::connect(&server.address()).await?;
    let barrier = Barrier::new(&client, PATH)?;
    kazoo(&server, &["closes", PATH])?.finish().await?;
    ensure!(!barrier.is_open().await?);
    let opens = async { kazoo(&server, &["opens", PATH])?.finish().await };
    let (waited, opened) = tokio::join!(barrier.wait(), opens);
    waited.map_err(anyhow::Error::from).and(opened)?;
    barrier.close().await?;
    kazoo(&server, &["stopped", PATH])?.finish().await?;
    barrier.open().await?;
    kazoo(&server, &["passes", PATH])?.finish().await?;
    client.close().await;
    Ok(())
}
