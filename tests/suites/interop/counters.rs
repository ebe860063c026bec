//! Our counters on one node with Curator's and with kazoo's.

use anyhow::Result;
use zk_client::Client;
use zk_recipes::{Counter, CounterFormat};
use zk_test_support::foreign::Curator;
use zk_test_support::server::Standalone;

use crate::locks::kazoo;

const PATH: &str = "/counters/shared";

/// How often each of two adds at the same time.
const TURNS: i64 = 150;

async fn add(counter: &Counter, n: i64) -> Result<()> {
    for _ in 0..TURNS {
        counter.add(n).await?;
    }
    Ok(())
}

#[tokio::test]
async fn curators_number_and_our_counter_are_one() -> Result<()> {
    let server = Standalone::start().await?;
    let mut curator = Curator::connect(&server.address()).await?;
    let client = Client::connect(&server.address()).await?;
    let counter = Counter::new(&client, PATH)?;

    // Curator makes the node, and each sees what the other has written.
    assert_eq!(curator.does(&format!("a add {PATH} -5000000000 1")).await?, "-5000000000");
    assert_eq!(counter.get_latest().await?, -5_000_000_000);
    assert_eq!(counter.add(7_000_000_000).await?, 2_000_000_000);
    assert_eq!(curator.does(&format!("a value {PATH}")).await?, "2000000000");
    assert!(counter.compare_and_set(2_000_000_000, 0).await?);

    curator.tell(&format!("a add {PATH} 1000 {TURNS}")).await?;
    add(&counter, 1).await?;
    curator.answer("a").await?;
    assert_eq!(counter.get_latest().await?, 1001 * TURNS);

    // We make the node.
    let ours = Counter::new(&client, "/counters/ours")?;
    assert_eq!(ours.reserve(10).await?, 0..10);
    assert_eq!(curator.does("a add /counters/ours 2 1").await?, "12");
    assert_eq!(ours.add(1).await?, 13);
    client.close().await;
    curator.quit().await
}

#[tokio::test]
async fn kazoos_counter_and_ours_are_one() -> Result<()> {
    let server = Standalone::start().await?;
    let client = Client::connect(&server.address()).await?;
    let counter = Counter::new(&client, PATH)?.format(CounterFormat::Decimal);

    // kazoo makes the node, and each sees what the other has written.
    kazoo(&server, &["adds", PATH, "-5000000000", "1", "0"])?.finish().await?;
    assert_eq!(counter.get_latest().await?, -5_000_000_000);
    assert_eq!(counter.add(7_000_000_000).await?, 2_000_000_000);
    kazoo(&server, &["adds", PATH, "1", "1", "2000000000"])?.finish().await?;
    assert!(counter.compare_and_set(2_000_000_001, 0).await?);

    let theirs = kazoo(&server, &["adds", PATH, "1000", &TURNS.to_string()])?;
    add(&counter, 1).await?;
    theirs.finish().await?;
    assert_eq!(counter.get_latest().await?, 1001 * TURNS);

    // We make the node.
    let ours = Counter::new(&client, "/counters/ours")?.format(CounterFormat::Decimal);
    assert_eq!(ours.reserve(10).await?, 0..10);
    kazoo(&server, &["adds", "/counters/ours", "2", "1", "10"])?.finish().await?;
    assert_eq!(ours.add(1).await?, 13);
    client.close().await;
    Ok(())
}
