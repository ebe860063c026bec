//! What is claimed of the client and the lock on real servers, on the embedded one: the same tests,
//! over TCP, without Java.

use zk_embedded::{Config, Release, Server};
use zk_tests::claims::auth::super_digest;

zk_tests::client_claims!(client, Server::start().await?);
zk_tests::client_claims!(client_of_3_8, Server::with(before_3_9()).await?);
zk_tests::operation_claims!(operations, Server::with(extended(Config::new())).await?);
zk_tests::operation_claims!(operations_of_3_8, Server::with(extended(before_3_9())).await?);
zk_tests::lock_claims!(lock, Server::start().await?);

zk_tests::auth_claims!(auth, Server::with(Config::new().super_digest(super_digest())).await?);

/// Nodes with a time to live are not allowed everywhere.
fn extended(config: Config) -> Config {
    config.extended_types(true)
}

fn before_3_9() -> Config {
    Config::new().release(Release::V3_8)
}
