//! Identities on real servers.

use anyhow::Result;
use zk_tests::claims::auth::super_digest;
use zk_tests::server::{ServerConfig, Standalone};

zk_tests::auth_claims!(real, with_super_user().await?);

async fn with_super_user() -> Result<Standalone> {
    let name = "zookeeper.DigestAuthenticationProvider.superDigest".to_owned();
    let properties = vec![(name, super_digest())];
    Standalone::with(&ServerConfig { properties, ..ServerConfig::default() }).await
}
