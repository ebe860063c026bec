//! Claims about barriers on a server: who waits, and who goes on.

use std::pin::pin;

use anyhow::{Result, ensure};
use zk_recipes::Barrier;

use crate::claims::lock::connect;
use crate::claims::target::Target;
use crate::explore::poll_once;
use crate::fault::Faults;

const PATH: &str = "/barriers/one";

pub async fn whoever_waits_goes_on_although_it_is_closed_again_at_once(
    target: &Target,
) -> Result<()> {
    let (one, two) =
        (connect(target, &Faults::new()).await?, connect(target, &Faults::new()).await?);
    let (admin, barrier) = (Barrier::new(&one, PATH)?, Barrier::new(&two, PATH)?);
    admin.close().await?;
    {
        let mut waiting = pin!(barrier.wait());
        ensure!(poll_once(waiting.as_mut()).is_pending());
        two.sync("/").await?;
        ensure!(poll_once(waiting.as_mut()).is_pending());
        admin.open().await?;
        admin.close().await?;
        waiting.await?;
    }
    ensure!(!barrier.is_open().await?);
    one.close().await;
    two.close().await;
    Ok(())
}
