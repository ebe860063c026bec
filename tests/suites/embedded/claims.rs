//! The claims about the client and the lock that are tested on real servers, on the embedded
//! server: the same tests over TCP, without Java.

use std::sync::Arc;

use anyhow::Result;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use zk_client::TlsConnector;
use zk_embedded::{Config, Server, ServerVersion};
use zk_test_support::claims::equipped_embedded as equipped;
use zk_test_support::claims::target::Target;
use zk_test_support::tls::{Authority, Front};
use zk_test_support::trials::{TRIALS, sweep};

zk_test_support::client_claims!(client, server(ServerVersion::V3_9).await?);
zk_test_support::client_claims!(client_of_3_8, server(ServerVersion::V3_8).await?);
zk_test_support::client_claims!(client_over_tls, encrypted().await?);
zk_test_support::claims_at_once!(
    every_claim_holds_at_once,
    server(ServerVersion::V3_9).await?,
    client_claims,
);
zk_test_support::alone_claims!(alone, Server::start().await?);
zk_test_support::alone_claims!(
    alone_of_3_8,
    Server::with(Config::new().server_version(ServerVersion::V3_8)).await?
);
zk_test_support::lock_claims!(lock, Server::start().await?);
zk_test_support::lock_cost_claims!(lock_costs, Server::start().await?);

async fn server(version: ServerVersion) -> Result<Server> {
    Ok(Server::with(equipped(Config::new().server_version(version))).await?)
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
async fn every_recipe_works_whichever_request_or_reply_is_lost() -> Result<()> {
    sweep(&server(ServerVersion::V3_9).await?.into(), TRIALS).await
}
