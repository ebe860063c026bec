//! A real server for measurements: prints its address, and serves until its input ends.

use std::io::{copy, sink, stdin};

use anyhow::Result;
use zk_test_support::server::{ServerConfig, Standalone};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let config = ServerConfig { java_as_in_production: true, ..ServerConfig::default() };
    let server = Standalone::with(&config).await?;
    println!("{}", server.address());
    // This may block the thread, which has no other work.
    copy(&mut stdin().lock(), &mut sink())?;
    Ok(())
}
