//! Our locks in one queue with the lock of the crate `zookeeper-client`. It runs only with
//! `ZK_SOAK=1`, since to build that crate takes longer than most of what runs here.

use std::env;

use anyhow::{Context, Result};
use tokio::process::Command;
use zk_test_support::foreign::Program;
use zk_test_support::server::Standalone;

use crate::locks::{Counter, TURNS, done, ours};

#[tokio::test]
async fn the_lock_of_zookeeper_client_and_ours_never_hold_together() -> Result<()> {
    if env::var_os("ZK_SOAK").is_none() {
        return Ok(());
    }
    let peer = env::var_os("ZK_INTEROP_PEER")
        .context("ZK_INTEROP_PEER is not set; tests/run builds interop/peer_lock.rs and sets it")?;
    let (server, counter) = (Standalone::start().await?, Counter::new()?);
    let kinds = ["kind=lock", "kind=reentrant tasks=2"];
    let ours = ours(&server, "/locks/count", &counter, &kinds)?;
    let mut command = Command::new(peer);
    command.args([&server.address(), "/locks/count", counter.path()?, &TURNS.to_string()]);
    Program::start(command)?.finish().await?;
    done(ours).await?;
    assert_eq!(counter.value()?, 4 * TURNS);
    Ok(())
}
