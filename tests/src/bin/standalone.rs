//! A real server for whoever measures: says its address, and serves until its input ends.

use std::io::{copy, sink, stdin};

use anyhow::Result;
use zk_tests::server::{ServerConfig, Standalone};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let config = ServerConfig { java_as_in_production: true, ..ServerConfig::default() };
    let server = Standalone::with(&config).await?;
    println!("{}", server.address());
    // Nothing else is to be done meanwhile.
    copy(&mut stdin().lock(), &mut sink())?;
    Ok(())
}
