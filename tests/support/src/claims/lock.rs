//! Claims about the lock on a server: what it costs, what it survives, and what it leaves behind.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use zk_client::{Client, ClientBuilder, CreateOptions, ErrorCode, OpCode};
use zk_recipes::{ErrorKind, Lock, LockTicket, Release};

use crate::claims::target::Target;
use crate::fault::{Fault, Faults};
use crate::server::packets_received;

/// The lock of most claims.
pub const LOCK: &str = "/locks/one";

/// A client whose connections can be broken.
pub async fn connect(servers: &Target, faults: &Faults) -> Result<Client> {
    Ok(builder(servers).connector(faults.clone()).connect(&servers.servers()).await?)
}

fn builder(servers: &Target) -> ClientBuilder {
    servers.builder().session_timeout(Duration::from_secs(4))
}

/// A client whose connections can be broken, and a lock whose folder exists.
async fn used_lock(target: &Target) -> Result<(Faults, Client, Lock)> {
    let faults = Faults::new();
    let client = connect(target, &faults).await?;
    let lock = Lock::new(&client, LOCK)?;
    lock.acquire().await?.release().await?;
    Ok((faults, client, lock))
}

/// The contenders' nodes, after everything that `client` has requested is done.
pub async fn queue(client: &Client) -> Result<Vec<String>> {
    client.sync("/").await?;
    let children = client.get_children(LOCK).await?;
    Ok(children.names.iter().map(str::to_owned).collect())
}

/// Waits until `n` contenders are in the queue.
pub async fn queued(client: &Client, n: usize) -> Result<()> {
    queued_at(client, LOCK, n).await
}

/// Waits until so many nodes are in a folder.
pub async fn queued_at(client: &Client, folder: &str, n: usize) -> Result<()> {
    loop {
        let (children, mut watch) = client.get_children_and_watch(folder).await?;
        if children.names.len() == n {
            return Ok(());
        }
        watch.changed().await?;
    }
}

pub async fn an_uncontended_cycle_is_three_packets_in_two_writes(target: &Target) -> Result<()> {
    let (faults, _client, lock) = used_lock(target).await?;
    let mut cycle = joined(target);
    cycle.push(OpCode::DELETE);
    let (_, frames) = faults.take_sent();
    assert!(frames.ends_with(&cycle), "the first time: {frames:?}");

    let before = packets_received(&target.servers()).await?;
    for _ in 0..100 {
        lock.acquire().await?.release().await?;
    }
    // The four-letter word counts itself; a ping may come in between.
    let packets = packets_received(&target.servers()).await? - before - 1;
    let expected = 100 * cycle.len() as u64;
    assert!((expected..=expected + 1).contains(&packets), "{packets} packets for 100 cycles");
    let (writes, frames) = faults.take_sent();
    assert_eq!(writes, 100 * (cycle.len() - 1), "create and list leave together");
    assert_eq!(frames[..cycle.len()], cycle);
    assert_eq!(frames.len(), 100 * cycle.len());
    Ok(())
}

/// What a contender sends to join the queue.
fn joined(target: &Target) -> Vec<OpCode> {
    let mut sent = vec![target.op(OpCode::CREATE2), OpCode::GET_CHILDREN2];
    sent.extend(target.read_when_created());
    sent
}

/// What a contender sends until it only waits.
fn armed(target: &Target) -> Vec<OpCode> {
    [joined(target), target.set_two_watches().to_vec()].concat()
}

pub async fn a_missing_folder_is_made_alone_and_its_ancestors_only_if_they_are_missing(
    target: &Target,
) -> Result<()> {
    let faults = Faults::new();
    let client = connect(target, &faults).await?;
    let container = target.op(OpCode::CREATE_CONTAINER);
    let (create, list) = (target.op(OpCode::CREATE2), OpCode::GET_CHILDREN2);
    let joined = joined(target);
    let folder_alone = [create, list, container];
    let all = [&folder_alone[..], &[create, list], &[container; 3], &joined].concat();
    let alone = [&folder_alone[..], &joined].concat();
    // Create and list leave together.
    let more = joined.len() - 2;
    // The second folder has the ancestors that were made for the first one.
    for (folder, writes, frames) in [("/a/b/c", 3 + more, all), ("/a/b/d", 2 + more, alone)] {
        let guard = Lock::new(&client, folder)?.acquire().await?;
        assert_eq!(faults.take_sent(), (writes, frames));
        assert!(guard.node().starts_with(&format!("{folder}/_c_")), "{}", guard.node());
        assert_eq!(guard.release().await?, Release::Released);
        faults.take_sent();
    }
    Ok(())
}

pub async fn the_hand_over_costs_the_waiter_no_frame(target: &Target) -> Result<()> {
    let (faults, others) = (Faults::new(), Faults::new());
    let (holder, waiter) = (connect(target, &others).await?, connect(target, &faults).await?);
    let guard = Lock::new(&holder, LOCK)?.acquire().await?;

    let lock = Lock::new(&waiter, LOCK)?;
    let waiting = tokio::spawn(async move { lock.acquire().await });
    queued(&holder, 2).await?;
    let armed = armed(target);
    let mut sent = Vec::new();
    while sent.len() < armed.len() {
        // The waiter's reads are answered when a sync behind them is.
        holder.sync("/").await?;
        sent.extend(faults.take_sent().1);
    }
    assert_eq!(sent, armed);

    let token = guard.token();
    guard.release().await?;
    let guard = waiting.await??;
    assert_eq!(faults.take_sent(), (0, vec![]), "frames sent at the hand-over");
    assert!(guard.token() > token);
    Ok(())
}

pub async fn waiters_get_in_in_order_and_once_each(target: &Target) -> Result<()> {
    let client = connect(target, &Faults::new()).await?;
    let first = Lock::new(&client, LOCK)?.acquire().await?;
    let (told, mut turns) = tokio::sync::mpsc::unbounded_channel();
    for turn in 0..8 {
        let (lock, told) = (Lock::new(&client, LOCK)?, told.clone());
        tokio::spawn(async move {
            let guard = lock.acquire().await?;
            told.send((turn, guard.token()))?;
            guard.release().await?;
            anyhow::Ok(())
        });
        queued(&client, turn + 2).await?;
    }
    drop(told);
    let mut last = first.token();
    first.release().await?;
    for expected in 0..8 {
        let (turn, token) = turns.recv().await.context("a waiter failed")?;
        assert_eq!(turn, expected);
        assert!(token > last);
        last = token;
    }
    assert_eq!(queue(&client).await?.len(), 0);
    Ok(())
}

pub async fn a_release_whose_reply_was_lost_is_unconfirmed_and_done(target: &Target) -> Result<()> {
    let faults = Faults::new();
    let client = connect(target, &faults).await?;
    let lock = Lock::new(&client, LOCK)?;
    for fault in [Fault::LoseReply(OpCode::DELETE), Fault::LoseRequest(OpCode::DELETE)] {
        let guard = lock.acquire().await?;
        faults.arm(fault);
        let error = guard.release().await.expect_err("the reply was lost");
        assert_eq!(error.kind(), ErrorKind::Unconfirmed);
        assert_eq!(queue(&client).await?.len(), 0, "{fault:?}");
    }
    Ok(())
}

/// Polls a waiter until its watches are set, and it only waits.
async fn until_armed<F: Future + Unpin>(
    target: &Target,
    waiting: &mut F,
    faults: &Faults,
    client: &Client,
) -> Result<()> {
    let (armed, mut sent) = (armed(target), Vec::new());
    while !sent.ends_with(&armed) {
        assert!(poll_times(&mut *waiting, 1).await.is_none(), "it does not wait");
        // Its replies have arrived when ours has.
        client.sync("/").await?;
        sent.extend(faults.take_sent().1.into_iter().filter(|op| *op != OpCode::SYNC));
    }
    client.sync("/").await?;
    assert!(poll_times(waiting, 1).await.is_none(), "it does not wait");
    Ok(())
}

pub async fn a_waiter_behind_a_guard_of_its_own_session_is_no_owner_when_that_is_closed(
    target: &Target,
) -> Result<()> {
    // One transaction deletes both nodes, in no defined order, so this needs many rounds.
    for round in 0..50 {
        let faults = Faults::new();
        let client = connect(target, &faults).await?;
        let lock = Lock::new(&client, LOCK)?;
        let guard = lock.acquire().await?;
        let mut waiting = Box::pin(lock.acquire());
        until_armed(target, &mut waiting, &faults, &client).await?;
        let (acquired, ()) = tokio::join!(waiting, client.close());
        assert!(acquired.is_err(), "an owner without a session in round {round}");
        drop(guard);
    }
    Ok(())
}

pub async fn of_two_processes_with_one_ticket_one_gets_the_lock(target: &Target) -> Result<()> {
    for _ in 0..10 {
        one_ticket_at([target; 2]).await?;
    }
    Ok(())
}

/// Two processes read the same ticket, and resume the lock at these servers at the same time.
pub async fn one_ticket_at(servers: [&Target; 2]) -> Result<()> {
    let [one, two] = servers;
    let old = connect(one, &Faults::new()).await?;
    let ticket = Lock::new(&old, LOCK)?.acquire().await?.into_ticket()?.to_secret();
    old.detach().await;
    let resume = |servers: &Target| {
        let (servers, ticket) = (servers.clone(), ticket.clone());
        tokio::spawn(async move {
            let ticket = ticket.parse::<LockTicket>()?;
            let builder = builder(&servers).session(ticket.session());
            let client = builder.connect(&servers.servers()).await?;
            let guard = Lock::new(&client, LOCK)?.resume(&ticket).await;
            anyhow::Ok((client, guard))
        })
    };
    let (one, two) = tokio::join!(resume(one), resume(two));
    let (guard, client, refused, other) = match (one??, two??) {
        ((one, Ok(guard)), (two, Err(error))) | ((two, Err(error)), (one, Ok(guard))) => {
            (guard, one, error, two)
        }
        ((_, one), (_, two)) => bail!("{one:?} and {two:?}"),
    };
    ensure!(refused.kind() == ErrorKind::TicketUsed, "{refused}");
    // Dropping it does not end the session.
    drop(other);
    while let Err(error) = guard.verify().await {
        ensure!(error.client().is_some_and(zk_client::Error::is_connection_loss), "{error}");
    }
    ensure!(queue(&client).await?.len() == 1);
    ensure!(guard.release().await? == Release::Released);
    client.close().await;
    Ok(())
}

pub async fn a_guard_is_released_by_dropping_it_on_a_plain_thread(target: &Target) -> Result<()> {
    let client = connect(target, &Faults::new()).await?;
    let guard = Lock::new(&client, LOCK)?.acquire().await?;
    std::thread::spawn(move || drop(guard)).join().expect("no panic without a runtime");
    assert_eq!(queue(&client).await?.len(), 0);
    Ok(())
}

pub async fn a_guard_keeps_the_session_of_a_dropped_client(target: &Target) -> Result<()> {
    let client = connect(target, &Faults::new()).await?;
    let other = connect(target, &Faults::new()).await?;
    let lock = Lock::new(&client, LOCK)?;
    let guard = lock.acquire().await?;
    drop((client, lock));
    assert_eq!(queue(&other).await?.len(), 1);
    assert_eq!(guard.release().await?, Release::Released);
    Ok(())
}

pub async fn errors_name_the_path_and_the_reason(target: &Target) -> Result<()> {
    let client = connect(target, &Faults::new()).await?;
    let error = Lock::new(&client, "locks").expect_err("a relative path");
    assert!(error.to_string().contains(r#""locks""#), "{error}");

    client.create("/leaf", b"", &CreateOptions::ephemeral()).await?;
    let error = Lock::new(&client, "/leaf")?.acquire().await.expect_err("ephemerals are leaves");
    let code = error.client().and_then(zk_client::Error::code);
    assert_eq!(code, Some(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS));
    Ok(())
}

/// Polls `future` until it is done, `polls` times at most.
async fn poll_times<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        let polled = future.as_mut().poll(cx).map(Some);
        if polled.is_pending() && left == 0 { Poll::Ready(None) } else { polled }
    })
    .await
}

pub async fn acquire_and_release_can_be_dropped_after_any_poll(target: &Target) -> Result<()> {
    let client = connect(target, &Faults::new()).await?;
    let other = connect(target, &Faults::new()).await?;
    let mut finished = [0, 0];
    for contended in [false, true] {
        for polls in 0..24 {
            // A fresh folder each time, so that creating it is part of the sweep too.
            let path = format!("/sweep/{contended}/{polls}");
            let lock = Lock::new(&client, &path)?;
            let held = match contended {
                true => Some(Lock::new(&other, &path)?.acquire().await?),
                false => None,
            };
            // A holder that releases once there is a waiter, so that the hand-over is part of the
            // sweep too.
            let (other_one, folder) = (other.clone(), path.clone());
            let holder = tokio::spawn(async move {
                if held.is_some() {
                    queued_at(&other_one, &folder, 2).await?;
                }
                drop(held);
                anyhow::Ok(())
            });
            let acquired = poll_times(lock.acquire(), polls).await;
            if let Some(guard) = acquired {
                finished[usize::from(contended)] += 1;
                assert!(
                    poll_times(guard?.release(), polls % 3).await.is_none_or(|end| end.is_ok())
                );
            }
            holder.abort();
            drop(holder.await);
            client.sync("/").await?;
            other.sync("/").await?;
            client.sync("/").await?;
            match client.get_children(&path).await {
                Ok(children) => assert!(children.names.is_empty(), "{polls}: {children:?}"),
                Err(error) => assert!(error.is_no_node(), "{polls}: {error}"),
            }
        }
    }
    assert!(finished.iter().all(|times| *times > 0), "no acquire got to its end: {finished:?}");
    Ok(())
}
