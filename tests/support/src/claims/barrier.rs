//! Claims about barriers on a server: who waits, and who goes on.

#![expect(missing_docs, reason = "the names are the claims")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use zk_client::Zxid;
use zk_proto::OpCode;
use zk_recipes::{Barrier, DoubleBarrier, Loss};

use crate::claims::lock::connect;
use crate::claims::target::Target;
use crate::explore::poll_once;
use crate::fault::{Fault, Faults};

/// Runs every claim of this file on the target that `$start` yields: see
/// [`target_claims!`](crate::target_claims).
#[macro_export]
macro_rules! barrier_claims {
    ($($given:tt)*) => {
        $crate::target_claims! {
            [$($given)*],
            barrier:
            whoever_waits_goes_on_when_the_barrier_is_opened,
            whoever_waits_goes_on_although_it_is_closed_again_at_once,
            parties_begin_and_end_each_round_together,
            a_party_whose_session_ends_inside_has_left_for_the_others,
            a_round_takes_place_once_although_requests_and_replies_are_lost,
        }
    };
}

const PATH: &str = "/barriers/one";

pub async fn whoever_waits_goes_on_when_the_barrier_is_opened(target: &Target) -> Result<()> {
    let (one, two) =
        (connect(target, &Faults::new()).await?, connect(target, &Faults::new()).await?);
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

pub async fn a_party_whose_session_ends_inside_has_left_for_the_others(
    target: &Target,
) -> Result<()> {
    let (one, two) =
        (connect(target, &Faults::new()).await?, connect(target, &Faults::new()).await?);
    let barriers = (DoubleBarrier::new(&one, PATH, 2)?, DoubleBarrier::new(&two, PATH, 2)?);
    let (mut first, mut second) = tokio::try_join!(barriers.0.enter(), barriers.1.enter())?;
    ensure!(first.number() == second.number());
    two.close().await;
    first.leave().await?;
    ensure!(matches!(second.leave().await.unwrap_err().loss(), Some(Loss::SessionOver(_))));
    {
        // What is left of the round lets nobody in.
        let mut alone = pin!(barriers.0.enter());
        ensure!(poll_once(alone.as_mut()).is_pending());
        for _ in 0..3 {
            one.sync("/").await?;
            ensure!(poll_once(alone.as_mut()).is_pending());
        }
    }
    ensure!(one.get_children(PATH).await?.names.is_empty());
    one.close().await;
    Ok(())
}

pub async fn a_round_takes_place_once_although_requests_and_replies_are_lost(
    target: &Target,
) -> Result<()> {
    let (faults, others) = (Faults::new(), Faults::new());
    let (one, two) = (connect(target, &faults).await?, connect(target, &others).await?);
    let barriers = (DoubleBarrier::new(&one, PATH, 2)?, DoubleBarrier::new(&two, PATH, 2)?);
    let (mut number, mut happened) = (Zxid(0), 0);
    for op in [target.op(OpCode::CREATE2), OpCode::GET_CHILDREN2, OpCode::GET_DATA, OpCode::MULTI] {
        for fault in [Fault::LoseReply(op), Fault::LoseRequest(op)] {
            faults.arm(fault);
            let (mut first, mut second) = tokio::try_join!(barriers.0.enter(), barriers.1.enter())?;
            ensure!(first.number() == second.number() && first.number() > number);
            number = first.number();
            tokio::try_join!(first.leave(), second.leave())?;
            happened += u32::from(faults.happened());
        }
    }
    ensure!(happened >= 6, "{happened} faults");
    one.sync("/").await?;
    ensure!(one.get_children(PATH).await?.names.is_empty());
    one.close().await;
    two.close().await;
    Ok(())
}
