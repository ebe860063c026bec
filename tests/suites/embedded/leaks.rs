//! Clients leave nothing behind on the embedded server.

use zk_embedded::{Config, Server, ServerVersion};

zk_test_support::leak_claims!(leaks, Server::start().await?);
zk_test_support::leak_claims!(
    leaks_of_3_8,
    Server::with(Config::new().server_version(ServerVersion::V3_8)).await?
);
