//! The claims about the client and the lock that are tested on real servers, on the embedded
//! server: the same tests over TCP, without Java.

use std::sync::Arc;

use anyhow::Result;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use zk_client::TlsConnector;
use zk_embedded::{Config, Server, ServerVersion};
use zk_test_support::claims::target::Target;
use zk_test_support::claims::{ALONE, CLIENT, LOCK_COSTS, LOCKS, hold_apart, hold_at_once};
use zk_test_support::tls::{Authority, Front};
use zk_test_support::trials::{TRIALS, sweep};

async fn server(version: ServerVersion) -> Result<Server> {
    // All claims at once may have more connections than the 60 of the default.
    let config = Config::new().extended_types(true).max_connections_per_host(0);
    Ok(Server::with(config.server_version(version)).await?)
}

/// A server behind TLS.
async fn encrypted() -> Result<Target> {
    let authority = Authority::new("root")?;
    let server = Arc::new(server(ServerVersion::V3_9).await?);
    let shown = authority.sign("server", &["zk.test"])?;
    let front = Front::new(&server, &shown, None, &[&TLS12, &TLS13])?;
    let connector = TlsConnector::new(authority.trusted())?.over(front);
    let target = Target::new(server.address().to_owned(), server);
    Ok(target.reached("zk.test", connector))
}

#[tokio::test]
async fn every_claim_holds_at_once() -> Result<()> {
    hold_at_once(server(ServerVersion::V3_9).await?, CLIENT).await
}

#[tokio::test]
async fn every_claim_holds_at_once_in_the_manner_of_3_8() -> Result<()> {
    hold_at_once(server(ServerVersion::V3_8).await?, CLIENT).await
}

#[tokio::test]
async fn every_claim_holds_at_once_over_tls() -> Result<()> {
    hold_at_once(encrypted().await?, CLIENT).await
}

#[tokio::test]
async fn each_claim_about_a_server_alone_holds() -> Result<()> {
    for version in [ServerVersion::V3_8, ServerVersion::V3_9] {
        let start = async || Ok(Server::with(Config::new().server_version(version)).await?);
        hold_apart(start, ALONE).await?;
    }
    Ok(())
}

#[tokio::test]
async fn every_claim_about_locks_holds_at_once() -> Result<()> {
    hold_at_once(server(ServerVersion::V3_9).await?, LOCKS).await
}

#[tokio::test]
async fn locks_cost_what_is_claimed() -> Result<()> {
    hold_apart(async || Ok(Server::start().await?), LOCK_COSTS).await
}

#[tokio::test]
async fn every_recipe_works_whichever_request_or_reply_is_lost() -> Result<()> {
    sweep(&server(ServerVersion::V3_9).await?.into(), TRIALS).await
}
