//! Claims about barriers on a server: who waits, and who goes on.

#![expect(missing_docs, reason = "the names are the claims")]

use std::pin::pin;

use anyhow::{Result, ensure};
use zk_recipes::Barrier;

use crate::claims::lock::connect;
use crate::explore::poll_once;
use crate::fault::Faults;

/// Runs every claim of this file on the new, empty server that `$start` yields each time.
#[macro_export]
macro_rules! barrier_claims {
    ($server:ident, $start:expr) => {
        $crate::claims!(
            $server,
            $start,
            |server| &server.address(),
            barrier:
            whoever_waits_goes_on_when_the_barrier_is_opened,
            whoever_waits_goes_on_although_it_is_closed_again_at_once,
        );
    };
}

const PATH: &str = "/barriers/one";

pub async fn whoever_waits_goes_on_when_the_barrier_is_opened(address: &str) -> Result<()> {
    let (one, two) =
        (connect(address, &Faults::new()).await?, connect(address, &Faults::new()).await?);
    let (admin, barrier) = (Barrier::new(&one, PATH)?, Barrier::new(&two, PATH)?);
    barrier.wait().await?;
    admin.close().await?;
    ensure!(!barrier.is_open().await?);
    {
        let mut waiting = pin!(barrier.wait());
        ensure!(poll_once(waiting.as_mut()).is_pending());
        // Its reply comes behind that of the wait, which has set the watch.
        two.sync("/").await?;
        ensure!(poll_once(waiting.as_mut()).is_pending());
        admin.open().await?;
        waiting.await?;
    }
    one.close().await;
    two.close().await;
    Ok(())
}

pub async fn whoever_waits_goes_on_although_it_is_closed_again_at_once(
    address: &str,
) -> Result<()> {
    let (one, two) =
        (connect(address, &Faults::new()).await?, connect(address, &Faults::new()).await?);
    let (admin, barrier) = (Barrier::new(&one, PATH)?, Barrier::new(&two, PATH)?);
    admin.close().await?;
    {
        let mut waiting = pin!(barrier.wait());
        ensure!(poll_once(waiting.as_mut()).is_pending());
        two.sync("/").await?;
        admin.open().await?;
        admin.close().await?;
        waiting.await?;
    }
    ensure!(!barrier.is_open().await?);
    one.close().await;
    two.close().await;
    Ok(())
}
