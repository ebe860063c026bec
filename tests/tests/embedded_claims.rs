//! What is claimed of the client and the lock on real servers, on the embedded one: the same tests,
//! over TCP, without Java.

use std::sync::Arc;

use anyhow::Result;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use zk_client::TlsConnector;
use zk_embedded::{Config, Release, Server};
use zk_tests::claims::auth::super_digest;
use zk_tests::claims::target::Target;
use zk_tests::tls::{Authority, Front};

zk_tests::client_claims!(client, Server::start().await?);
zk_tests::client_claims!(client_of_3_8, Server::with(before_3_9()).await?);
zk_tests::client_claims!(client_over_tls, encrypted().await?);
zk_tests::operation_claims!(operations, Server::with(extended(Config::new())).await?);
zk_tests::operation_claims!(operations_of_3_8, Server::with(extended(before_3_9())).await?);
zk_tests::composed_claims!(composed, Server::start().await?);
zk_tests::composed_claims!(composed_over_tls, encrypted().await?);
zk_tests::composed_claims!(composed_of_3_8, Server::with(before_3_9()).await?);
zk_tests::lock_claims!(lock, Server::start().await?);

zk_tests::auth_claims!(auth, Server::with(Config::new().super_digest(super_digest())).await?);

/// A server behind TLS.
async fn encrypted() -> Result<Target> {
    let authority = Authority::new("root")?;
    let server = Arc::new(Server::start().await?);
    let shown = authority.sign("server", &["zk.test"])?;
    let front = Front::new(&server, &shown, None, &[&TLS12, &TLS13])?;
    let connector = TlsConnector::new(authority.trusted())?.over(front);
    let target = Target::new(server.address().to_owned(), server);
    Ok(target.reached("zk.test", connector))
}

/// Nodes with a time to live are not allowed everywhere.
fn extended(config: Config) -> Config {
    config.extended_types(true)
}

fn before_3_9() -> Config {
    Config::new().release(Release::V3_8)
}
