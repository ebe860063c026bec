//! Claims about cached values: they follow their node, whatever breaks, on whatever server.

#![expect(missing_docs, reason = "the names are the claims")]

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::watch::Receiver;
use tokio::time::timeout;
use zk_client::{CreateOptions, OpCode};
use zk_recipes::{Cached, Freshness};

use crate::claims::target::Target;
use crate::fault::{Fault, Faults};

/// Runs every claim of this file on the target that `$start` yields: see
/// [`target_claims!`](crate::target_claims).
#[macro_export]
macro_rules! cached_claims {
    ($($given:tt)*) => {
        $crate::target_claims! {
            [$($given)*],
            cached:
            a_cached_value_follows_its_node_through_lost_connections,
        }
    };
}

/// Waits until the value is this one, and current.
async fn becomes(values: &mut Receiver<Cached>, expected: Option<&[u8]>) -> Result<()> {
    let is_expected = |cached: &Cached| {
        let data = cached.node.as_ref().map(|node| &node.data[..]);
        cached.freshness == Freshness::Current && data == expected
    };
    let came = timeout(Duration::from_secs(30), values.wait_for(is_expected)).await;
    let came = came.map(|came| came.map(drop));
    came.with_context(|| format!("{:?} is not {expected:?}", *values.borrow()))?
        .context("nobody follows the node")
}

pub async fn a_cached_value_follows_its_node_through_lost_connections(
    target: &Target,
) -> Result<()> {
    let faults = Faults::over(target.way());
    let builder = target.builder().connector(faults.clone());
    let keeper = builder.keep(&target.servers()).await?;
    let (mut values, following) = Cached::follow(&keeper, "/config/shop")?;
    let following = tokio::spawn(following);
    becomes(&mut values, None).await?;
    let writer = target.connect().await?;
    for n in 0..12 {
        let fault = match n % 3 {
            0 => Fault::LoseReply(OpCode::GET_DATA),
            1 => Fault::LoseRequest(OpCode::GET_DATA),
            _ => Fault::LoseReply(OpCode::EXISTS),
        };
        faults.arm(fault);
        let data = n.to_string();
        match n {
            0 => drop(writer.create_all("/config/shop", b"0", &CreateOptions::persistent()).await?),
            _ => drop(writer.set_data("/config/shop", data.as_bytes(), None).await?),
        }
        becomes(&mut values, Some(data.as_bytes())).await?;
        assert!(n % 3 == 2 || faults.happened(), "{fault:?}");
    }
    writer.delete("/config/shop", None).await?;
    becomes(&mut values, None).await?;
    assert!(faults.happened());
    drop(values);
    following.await??;
    keeper.close().await;
    Ok(())
}
