//! Claims about barriers on a server: who waits, and who goes on.

#![expect(missing_docs, reason = "the names are the claims")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use zk_recipes::{Barrier, DoubleBarrier};

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
        admin.open().await?;
        admin.close().await?;
        waiting.await?;
    }
    ensure!(!barrier.is_open().await?);
    one.close().await;
    two.close().await;
    Ok(())
}

pub async fn parties_begin_and_end_each_round_together(target: &Target) -> Result<()> {
    const PARTIES: usize = 4;
    const ROUNDS: usize = 10;
    let done = Arc::new(AtomicUsize::new(0));
    let mut parties = JoinSet::new();
    for _ in 0..PARTIES {
        let client = connect(target, &Faults::new()).await?;
        let barrier = DoubleBarrier::new(&client, PATH, PARTIES as u32)?;
        let done = Arc::clone(&done);
        parties.spawn(async move {
            let mut numbers = Vec::new();
            for turn in 0..ROUNDS {
                let mut round = barrier.enter().await?;
                numbers.push(round.number());
                // Ours is missing still.
                let before = done.fetch_add(1, Ordering::SeqCst);
                ensure!((turn * PARTIES..(turn + 1) * PARTIES).contains(&before), "{before}");
                round.leave().await?;
                let after = done.load(Ordering::SeqCst);
                ensure!(after == (turn + 1) * PARTIES, "{after} after turn {turn}");
            }
            client.close().await;
            Ok(numbers)
        });
    }
    let all = parties.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    for numbers in &all {
        ensure!(*numbers == all[0] && numbers.is_sorted_by(|one, next| one < next), "{all:?}");
    }
    Ok(())
}
