//! Clients leave nothing behind on a real server.

use zk_test_support::server::Standalone;

zk_test_support::leak_claims!(leaks, Standalone::start().await?);
