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

zk_test_support::client_claims!(client, server(ServerVersion::V3_9).await?);
zk_test_support::client_claims!(client_of_3_8, server(ServerVersion::V3_8).await?);
zk_test_support::client_claims!(client_over_tls, encrypted().await?);
zk_test_support::composed_claims!(composed, server(ServerVersion::V3_9).await?);
zk_test_support::composed_claims!(composed_of_3_8, server(ServerVersion::V3_8).await?);
zk_test_support::composed_claims!(composed_over_tls, encrypted().await?);
zk_test_support::operation_claims!(operations, server(ServerVersion::V3_9).await?);
zk_test_support::operation_claims!(operations_of_3_8, server(ServerVersion::V3_8).await?);
zk_test_support::operation_claims!(operations_over_tls, encrypted().await?);
zk_test_support::auth_claims!(auth, server(ServerVersion::V3_9).await?);
zk_test_support::auth_claims!(auth_of_3_8, server(ServerVersion::V3_8).await?);
zk_test_support::auth_claims!(auth_over_tls, encrypted().await?);
zk_test_support::cached_claims!(cached, server(ServerVersion::V3_9).await?);
zk_test_support::cached_claims!(cached_of_3_8, server(ServerVersion::V3_8).await?);
zk_test_support::counter_claims!(counter, server(ServerVersion::V3_9).await?);
zk_test_support::counter_claims!(counter_of_3_8, server(ServerVersion::V3_8).await?);
zk_test_support::tree_cache_claims!(tree_cache, server(ServerVersion::V3_9).await?);
zk_test_support::tree_cache_claims!(tree_cache_of_3_8, server(ServerVersion::V3_8).await?);
zk_test_support::claims_at_once!(
    every_claim_holds_at_once,
    server(ServerVersion::V3_9).await?,
    client_claims,
    composed_claims,
    operation_claims,
    auth_claims,
    cached_claims,
    counter_claims,
    tree_cache_claims,
);
zk_test_support::alone_claims!(alone, Server::start().await?);
zk_test_support::alone_claims!(
    alone_of_3_8,
    Server::with(Config::new().server_version(ServerVersion::V3_8)).await?
);
zk_test_support::lock_claims!(lock, Server::start().await?);
zk_test_support::lock_cost_claims!(lock_costs, Server::start().await?);
zk_test_support::semaphore_claims!(semaphore, Server::start().await?);
zk_test_support::barrier_claims!(barrier, Server::start().await?);
zk_test_support::election_claims!(election, Server::start().await?);
zk_test_support::group_claims!(group, Server::start().await?);
zk_test_support::partitioner_claims!(partitioner, Server::start().await?);

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
