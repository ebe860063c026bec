//! The lock and its relatives on a real server: the claims that hold on every server, and the death
//! of that server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use zk_recipes::Lock;
use zk_test_support::claims::target::Target;
use zk_test_support::claims::{
    LOCK, LOCK_COSTS, LOCKS, connect, hold_apart, hold_at_once, one_ticket_at, queue, queued,
};
use zk_test_support::fault::Faults;
use zk_test_support::server::{Ensemble, Standalone};
use zk_test_support::trials::{TRIALS, sweep};

#[tokio::test]
async fn every_claim_holds_on_a_standalone() -> Result<()> {
    hold_at_once(Standalone::start().await?, LOCKS).await
}

#[tokio::test]
async fn locks_cost_what_is_claimed() -> Result<()> {
    hold_apart(Standalone::start, LOCK_COSTS).await
}

#[tokio::test]
async fn every_recipe_works_whichever_request_or_reply_is_lost() -> Result<()> {
    sweep(&Standalone::start().await?.into(), TRIALS).await
}

/// Its connections go from server to server.
#[tokio::test]
async fn a_cached_value_works_in_an_ensemble_whatever_is_lost() -> Result<()> {
    let cached = TRIALS.into_iter().filter(|trial| trial.recipes == "`Cached`");
    sweep(&Ensemble::start(3).await?.into(), cached).await
}

/// Each member alone.
fn targets(ensemble: &Ensemble) -> Vec<Target> {
    ensemble.members().iter().map(|member| Target::new(member.address(), ())).collect()
}

/// A server that lags reports several turns at once.
#[tokio::test]
async fn contenders_at_the_servers_of_an_ensemble_exclude_each_other() -> Result<()> {
    const TURNS: u32 = 100;
    let ensemble = Ensemble::start(3).await?;
    let members = targets(&ensemble);
    let is_held = Arc::new(AtomicBool::new(false));
    let mut contenders = JoinSet::new();
    for server in members.iter().chain(&members[..1]) {
        let client = connect(server, &Faults::new()).await?;
        let (lock, is_held) = (Lock::new(&client, LOCK)?, Arc::clone(&is_held));
        contenders.spawn(async move {
            for _ in 0..TURNS {
                let guard = lock.acquire().await?;
                ensure!(!is_held.swap(true, Ordering::SeqCst), "somebody else holds it");
                tokio::task::yield_now().await;
                is_held.store(false, Ordering::SeqCst);
                drop(guard);
            }
            Ok(())
        });
    }
    while let Some(done) = contenders.join_next().await {
        done??;
    }
    Ok(())
}

#[tokio::test]
async fn of_two_processes_with_one_ticket_at_different_servers_one_gets_the_lock() -> Result<()> {
    let ensemble = Ensemble::start(3).await?;
    let members = targets(&ensemble);
    for round in 0..9 {
        one_ticket_at([&members[round % 3], &members[(round + 1) % 3]]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_lock_is_handed_over_while_the_waiter_is_cut_off() -> Result<()> {
    let mut server = Standalone::start().await?;
    let target = Target::new(server.address(), ());
    let (holder, waiter) =
        (connect(&target, &Faults::new()).await?, connect(&target, &Faults::new()).await?);
    let guard = Lock::new(&holder, LOCK)?.acquire().await?;
    let lock = Lock::new(&waiter, LOCK)?;
    let waiting = tokio::spawn(async move { lock.acquire().await });
    queued(&holder, 2).await?;
    server.kill().await;
    for client in [&holder, &waiter] {
        client.states().wait_for(|state| !state.is_connected()).await?;
    }
    // The guard is dropped while there is no server, so its release is the first request to the
    // next one.
    drop(guard);
    server.restart().await?;
    let guard = waiting.await??;
    assert_eq!(queue(&waiter).await?.len(), 1);
    guard.release().await?;
    Ok(())
}
