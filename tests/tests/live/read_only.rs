//! A member of a real ensemble that has lost the others and serves reads alone.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::timeout;
use zk_client::{Client, CreateOptions, ErrorCode, SessionState};
use zk_tests::server::{Ensemble, ServerConfig};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_client_reads_where_the_quorum_is_gone_and_leaves_when_it_is_back() -> Result<()> {
    let mut config = ServerConfig::default();
    config.properties.push(("readonlymode.enabled".to_owned(), "true".to_owned()));
    // Since 3.7 there is no read-only session without these.
    config.lines.push("localSessionsEnabled=true".to_owned());
    config.lines.push("localSessionsUpgradingEnabled=true".to_owned());
    let mut ensemble = Ensemble::with(&config, 3).await?;
    ensemble.wait_for_all().await?;
    let servers = ensemble.connect_string();
    let writer = Client::connect(&servers).await?;
    writer.create("/a", b"1", &CreateOptions::persistent()).await?;
    // Whoever is left has it.
    let left = ensemble.members()[0].address();
    Client::connect(&left).await?.sync("/a").await?;
    writer.close().await;
    ensemble.members_mut()[1].kill().await;
    ensemble.members_mut()[2].kill().await;

    let strict = Client::builder().connect_timeout(Duration::from_secs(3)).connect(&left).await;
    ensure!(strict.is_err(), "nobody asked for reads alone");
    let builder = Client::builder().allow_read_only(true).connect_timeout(PATIENCE);
    let client = builder.connect(&servers).await?;
    ensure!(client.state() == SessionState::ConnectedReadOnly, "{:?}", client.state());
    let (node, mut watch) = client.get_data_and_watch("/a").await?;
    ensure!(node.data == "1");
    for error in [
        client.set_data("/a", b"2", None).await.map(drop),
        client.sync("/a").await,
        client.create("/b", b"", &CreateOptions::ephemeral()).await.map(drop),
    ] {
        let code = error.err().and_then(|error| error.code());
        ensure!(code == Some(ErrorCode::NOT_READ_ONLY), "{code:?}");
    }
    ensure!(client.session().is_none());

    // Two of three are a quorum: the read-only server ends, or another one is found first.
    ensemble.members_mut()[1].restart().await?;
    let mut states = client.states();
    let connected = states.wait_for(|state| *state == SessionState::Connected);
    timeout(PATIENCE, connected).await.context("it never leaves")??;
    client.set_data("/a", b"2", None).await?;
    timeout(PATIENCE, watch.changed()).await.context("the watch was left behind")??;
    client.create("/mine", b"", &CreateOptions::ephemeral()).await?;
    ensure!(client.session().is_some());
    client.close().await;
    Ok(())
}
