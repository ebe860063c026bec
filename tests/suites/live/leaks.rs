//! Clients leave nothing behind on a real server.

use zk_tests::server::Standalone;

zk_tests::leak_claims!(leaks, Standalone::start().await?);
