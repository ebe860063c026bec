//! What clients leave behind on a real server, which is nothing.

use zk_tests::server::Standalone;

zk_tests::leak_claims!(leaks, Standalone::start().await?);
