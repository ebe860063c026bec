//! The lock during failures of servers, networks and processes, checked by the store that it
//! protects.
//!
//! In each test the contenders share one queue, with every kind of lock that may be in it together,
//! and with many tasks of one process. Contenders are processes, unless only the network fails.
//! Every wait is for an event and bounded; the sleeps are the schedule of a failure. `ZK_SOAK`
//! makes the tests longer.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zk_client::{Client, CreateOptions};
use zk_recipes::{ErrorKind, Guard, Lock};
use zk_test_support::contender::{self, Contender};
use zk_test_support::history::{Entry, Event, History, Ledger, Mode, Store, check, problems};
use zk_test_support::peer::Clock;
use zk_test_support::relay::Relay;
use zk_test_support::server::{Ensemble, ServerConfig, Standalone};

const LOCK: &str = "/locks/chaos";
/// The session timeout of contenders that must survive all failures.
const PATIENT: Duration = Duration::from_secs(20);

/// A count, which is larger in a soak.
fn times(usually: u32) -> u32 {
    if std::env::var_os("ZK_SOAK").is_some() { 20 * usually } else { usually }
}

fn with_tick(tick_time: Duration) -> ServerConfig {
    // Clients get the timeout that they request, up to `PATIENT`.
    ServerConfig { tick_time, max_session_timeout: Some(PATIENT), ..ServerConfig::default() }
}

fn contender(servers: &str, session_timeout: Duration, arguments: &[&str]) -> Result<Contender> {
    let mut all = vec![
        format!("servers={servers}"),
        format!("path={LOCK}"),
        format!("timeout={}", session_timeout.as_millis()),
    ];
    all.extend(arguments.iter().map(|it| (*it).to_owned()));
    contender::start(env!("CARGO_BIN_EXE_contender"), &all)
}

/// Contenders `0`, `1`, .. that take turns until told to stop, each ready to begin.
async fn rivals(
    servers: &str,
    count: usize,
    session_timeout: Duration,
    store: &Store,
) -> Result<Vec<Contender>> {
    let plain = vec!["kind=lock"; count];
    rivals_of(&plain, servers, session_timeout, store).await
}

/// Like `rivals`, for contenders of different kinds.
async fn rivals_of(
    kinds: &[&str],
    servers: &str,
    session_timeout: Duration,
    store: &Store,
) -> Result<Vec<Contender>> {
    let store = format!("store={}", store.address());
    let mut rivals = Vec::new();
    for (name, kind) in kinds.iter().enumerate() {
        let name = format!("name={name}");
        let arguments = kind.split(' ').chain([&*store, &*name]).collect::<Vec<_>>();
        let mut rival = contender(servers, session_timeout, &arguments)?;
        rival.says("ready").await?;
        rivals.push(rival);
    }
    Ok(rivals)
}

/// Lets contenders finish their turns, and waits until all have ended successfully.
async fn stop(contenders: Vec<Contender>) -> Result<()> {
    let mut stopping = JoinSet::new();
    for mut contender in contenders {
        contender.tell("stop").await?;
        stopping.spawn(contender.done());
    }
    while let Some(done) = stopping.join_next().await {
        done??;
    }
    Ok(())
}

/// The number of times that each writer has entered.
fn entries(history: &History) -> HashMap<&str, usize> {
    let mut entries = HashMap::new();
    for entry in history {
        if let Event::Enter(_) | Event::EnterShared(_) = entry.event {
            *entries.entry(entry.writer.as_str()).or_default() += 1;
        }
    }
    entries
}

/// Prints how often each writer has entered, and fails if there is a problem.
fn judge(what: &str, store: &Store) -> Result<()> {
    let history = store.history();
    println!("{what}: {:?}", entries(&history));
    check(&history)
}

/// Waits until each of the writers has entered `turns` more times.
async fn progress(store: &Store, writers: usize, turns: usize) -> Result<()> {
    let before = store.history();
    let before = entries(&before);
    let more = |history: &History| {
        let now = entries(history);
        let had = |writer: &str| before.get(writer).copied().unwrap_or(0);
        now.iter().filter(|(writer, count)| **count >= had(writer) + turns).count() >= writers
    };
    let progress = timeout(2 * PATIENT, store.wait_for(more)).await;
    progress.with_context(|| {
        let history = store.history();
        format!("not all got in: {:?}; {:?}", entries(&history), problems(&history))
    })?
}

async fn client(servers: &str, session_timeout: Duration) -> Result<Client> {
    let builder = Client::builder().session_timeout(session_timeout);
    Ok(builder.connect(servers).await?)
}

/// Waits until the lock's folder has `count` nodes.
async fn queued(client: &Client, count: usize) -> Result<()> {
    loop {
        let (children, mut watch) = client.get_children_and_watch(LOCK).await?;
        if children.names.len() == count {
            return Ok(());
        }
        watch.changed().await?;
    }
}

async fn release(guard: Guard) -> Result<()> {
    match guard.release().await {
        Ok(_) => Ok(()),
        // The client keeps trying to release it.
        Err(error) if error.kind() == ErrorKind::Unconfirmed => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test]
async fn two_holders_at_once_are_found_out() -> Result<()> {
    let server = Standalone::start().await?;
    let store = Store::start(Mode::Recording).await?;
    let mut holders = Vec::new();
    // Two locks protect one store, which has the same effect as a broken lock.
    for name in ["first", "second"] {
        let arguments = [
            format!("servers={}", server.address()),
            format!("path=/locks/{name}"),
            format!("name={name}"),
            format!("store={}", store.address()),
            "hold=told".to_owned(),
            "turns=1".to_owned(),
        ];
        let mut holder = contender::start(env!("CARGO_BIN_EXE_contender"), &arguments)?;
        holder.says("held").await?;
        holders.push(holder);
    }
    for mut holder in holders.into_iter().rev() {
        holder.tell("go").await?;
        holder.done().await?;
    }
    let problems = problems(&store.history());
    let [intrusion, write] = &problems[..] else { panic!("{problems:?}") };
    assert!(intrusion.starts_with("second:"), "{intrusion}");
    assert!(intrusion.contains(" entered beside first:"), "{intrusion}");
    assert!(write.starts_with("first:") && write.contains(" wrote after "), "{write}");
    Ok(())
}

/// Kills leaders while contenders of these kinds, with `tasks` tasks in all, compete for the lock.
async fn leader_kills(what: &str, kinds: &[&str], tasks: usize) -> Result<()> {
    let mut ensemble = Ensemble::with(&with_tick(Duration::from_millis(200)), 3).await?;
    let store = Store::start(Mode::Recording).await?;
    let rivals = rivals_of(kinds, &ensemble.connect_string(), PATIENT, &store).await?;
    for _ in 0..times(2) {
        progress(&store, tasks, 10).await?;
        let leader = ensemble.wait_for_quorum().await?;
        ensemble.members_mut()[leader].kill().await;
        progress(&store, tasks, 10).await?;
        ensemble.members_mut()[leader].restart().await?;
    }
    stop(rivals).await?;
    judge(&format!("leader_kill, {what}"), &store)
}

#[tokio::test]
async fn leader_kills_make_no_double_owner() -> Result<()> {
    let kinds = ["kind=lock", "kind=lock", "kind=reentrant tasks=4", "kind=reentrant tasks=4"];
    leader_kills("exclusive", &kinds, 10).await
}

#[tokio::test]
async fn leader_kills_make_no_writer_beside_readers() -> Result<()> {
    let kinds = ["kind=rw", "kind=rw", "kind=reentrant-rw tasks=4", "kind=reentrant-rw tasks=4"];
    leader_kills("read/write", &kinds, 10).await
}

#[tokio::test]
async fn a_stopped_holder_knows_at_once_that_it_lost_the_lock_and_is_refused() -> Result<()> {
    let session_timeout = Duration::from_secs(1);
    let server = Standalone::with(&with_tick(Duration::from_millis(200))).await?;
    let store = Store::start(Mode::Fenced).await?;
    let store_argument = format!("store={}", store.address());
    let arguments = ["name=stopped", "hold=told", "lost=write", &store_argument];
    let mut stopped = contender(&server.address(), session_timeout, &arguments)?;
    stopped.says("held").await?;
    let kinds = ["kind=lock", "kind=reentrant tasks=3"];
    let rivals = rivals_of(&kinds, &server.address(), PATIENT, &store).await?;

    stopped.pause().await?;
    store.paused("stopped");
    sleep(3 * session_timeout).await;
    progress(&store, 4, 10).await?;
    stopped.tell("go").await?;
    stopped.tell("stop").await?;
    stopped.resume()?;
    stopped.says("lost").await?;
    stopped.says("refused").await?;
    stopped.done().await?;
    progress(&store, 4, 10).await?;
    stop(rivals).await?;

    let is_refused = |entry: &&Entry| matches!(entry.event, Event::Write { accepted: false, .. });
    assert_eq!(store.history().iter().filter(is_refused).count(), 1);
    judge("sigstop_holder", &store)
}

/// A lock lingers unused in one process while other processes, with other sessions, contend for it.
async fn lingering_lock(what: &str, disturb: Disturbance) -> Result<()> {
    let session_timeout = Duration::from_secs(1);
    let server = Standalone::with(&with_tick(Duration::from_millis(200))).await?;
    let mut relay = Relay::to(&server.address())?;
    let store = Store::start(Mode::Recording).await?;
    let store_argument = format!("store={}", store.address());
    let arguments =
        ["kind=reentrant", "linger=60000", "rest=told", "name=lingering", &store_argument];
    let mut lingering = contender(&relay.address()?, session_timeout, &arguments)?;
    for _ in 0..times(2) {
        // The contender has had a turn, and its process keeps the lock.
        lingering.says("rests").await?;
        match disturb {
            Disturbance::Stop => lingering.pause().await?,
            Disturbance::Cut => relay.cut(),
        }
        let rivals = rivals(&server.address(), 2, PATIENT, &store).await?;
        progress(&store, 2, 10).await?;
        match disturb {
            Disturbance::Stop => lingering.resume()?,
            Disturbance::Cut => relay.mend(),
        }
        // Its next turn is in a new session, and it waits in the queue like any other contender.
        lingering.tell("go").await?;
        progress(&store, 3, 1).await?;
        stop(rivals).await?;
    }
    lingering.says("rests").await?;
    lingering.tell("stop").await?;
    lingering.done().await?;
    judge(&format!("lingering_lock, {what}"), &store)
}

#[derive(Clone, Copy)]
enum Disturbance {
    Stop,
    Cut,
}

#[tokio::test]
async fn a_stopped_process_does_not_use_its_lingering_lock_again() -> Result<()> {
    lingering_lock("stopped", Disturbance::Stop).await
}

#[tokio::test]
async fn a_process_that_was_cut_off_does_not_use_its_lingering_lock_again() -> Result<()> {
    lingering_lock("cut off", Disturbance::Cut).await
}

#[tokio::test]
async fn clients_killed_while_they_create_leave_no_ghosts() -> Result<()> {
    /// By then the create has usually been answered.
    const LATEST_KILL_MICROS: u64 = 1_500;
    let (tick, session_timeout) = (Duration::from_millis(500), Duration::from_secs(1));
    let server = Standalone::with(&with_tick(tick)).await?;
    let client = client(&server.address(), PATIENT).await?;
    client.create("/locks", b"", &CreateOptions::persistent()).await?;
    client.create(LOCK, b"", &CreateOptions::persistent()).await?;
    let rounds = times(250);
    for _ in 0..rounds {
        let mut contender =
            contender(&server.address(), session_timeout, &["start=told", "hold=told"])?;
        contender.says("ready").await?;
        contender.tell("go").await?;
        // The kill is usually early, because the request leaves soon. The thread sleeps, because
        // Tokio's timer has a resolution of one millisecond and there is no other work to do.
        let latest = fastrand::u64(1..LATEST_KILL_MICROS);
        std::thread::sleep(Duration::from_micros(fastrand::u64(..latest)));
        contender.kill().await?;
    }
    timeout(session_timeout + 2 * tick, queued(&client, 0)).await.context("a ghost")??;

    let folder = client.exists(LOCK).await?.context("the folder")?;
    // Each node was created and deleted.
    let created = u32::try_from(folder.cversion)? / 2;
    println!("client_kill_in_create: {created} of {rounds} had created");
    ensure!((1..rounds).contains(&created), "all kills came before or behind the create");
    Lock::new(&client, LOCK)?.acquire().await?.release().await?;
    client.close().await;
    Ok(())
}

#[tokio::test]
async fn a_storm_of_reconnects_keeps_the_order() -> Result<()> {
    const WAITERS: usize = 10;
    let hold = Duration::from_millis(250);
    let server = Standalone::with(&with_tick(Duration::from_millis(200))).await?;
    let mut relay = Relay::to(&server.address())?;
    let store = Store::start(Mode::Recording).await?;
    let observer = client(&server.address(), PATIENT).await?;
    let first = Lock::new(&observer, LOCK)?.acquire().await?;

    let mut waiters = JoinSet::new();
    for name in 0..WAITERS {
        let client = client(&relay.address()?, PATIENT).await?;
        let mut ledger = Ledger::connect(store.address(), &name.to_string()).await?;
        waiters.spawn(async move {
            let lock = Lock::new(&client, LOCK)?;
            for _ in 0..times(3) {
                let guard = lock.acquire().await?;
                ledger.tell("enter", guard.token()).await?;
                sleep(hold).await;
                ledger.tell("write", guard.token()).await?;
                ledger.tell("leave", guard.token()).await?;
                release(guard).await?;
            }
            client.close().await;
            anyhow::Ok(())
        });
        queued(&observer, 2 + name).await?;
    }
    let packets = server.packets_received().await?;
    first.release().await?;
    let mut drops = 0;
    let storm = async {
        loop {
            sleep(Duration::from_secs(1)).await;
            relay.cut();
            relay.mend();
            drops += 1;
        }
    };
    let all_done = async {
        while let Some(done) = waiters.join_next().await {
            done??;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        () = storm => {} // It never ends.
        done = timeout(4 * PATIENT * times(1), all_done) => done.context("not all got in")??,
    }
    let packets = server.packets_received().await? - packets;
    let history = store.history();
    println!("reconnect_storm: {drops} drops, {packets} packets");
    // A drop costs each session a handshake, its watch and a read or two, but not one read per
    // waiter.
    let waiters = u64::try_from(WAITERS)?;
    ensure!(packets <= 8 * waiters * (drops + u64::from(times(3))), "{packets} packets");
    judge("reconnect_storm", &store)?;
    let entered = history.iter().filter(|it| matches!(it.event, Event::Enter(_)));
    let order = entered.take(WAITERS).map(|it| it.writer.parse().context("a name"));
    assert_eq!(order.collect::<Result<Vec<usize>>>()?, (0..WAITERS).collect::<Vec<_>>());
    observer.close().await;
    Ok(())
}

#[tokio::test]
async fn every_waiter_gets_in_while_servers_restart() -> Result<()> {
    const RIVALS: usize = 6;
    let mut ensemble = Ensemble::with(&with_tick(Duration::from_millis(200)), 3).await?;
    let store = Store::start(Mode::Recording).await?;
    let rivals = rivals(&ensemble.connect_string(), RIVALS, PATIENT, &store).await?;
    for _ in 0..times(1) {
        for member in 0..3 {
            progress(&store, RIVALS, 5).await?;
            ensemble.members_mut()[member].restart().await?;
            ensemble.wait_for_all().await?;
        }
    }
    progress(&store, RIVALS, 5).await?;
    stop(rivals).await?;
    judge("rolling_restart", &store)
}

#[tokio::test]
async fn a_session_that_ends_with_2000_locks_hands_over_all() -> Result<()> {
    const LOCKS: usize = 2_000;
    let tick = Duration::from_millis(200);
    let session_timeout = Duration::from_secs(10);
    let server = Standalone::with(&with_tick(tick)).await?;
    let mut relay = Relay::to(&server.address())?;
    let holder = client(&relay.address()?, session_timeout).await?;
    let waiter = client(&server.address(), PATIENT).await?;
    let acquire_all = |client: &Client| {
        let mut all = JoinSet::new();
        for index in 0..LOCKS {
            let client = client.clone();
            all.spawn(
                async move { Lock::new(&client, &format!("/herd/{index}"))?.acquire().await },
            );
        }
        all
    };
    let mut held = Vec::new();
    let mut acquiring = acquire_all(&holder);
    while let Some(guard) = acquiring.join_next().await {
        held.push(guard??);
    }
    let mut waiting = acquire_all(&waiter);
    let both = format!("zk_ephemerals_count\t{}", 2 * LOCKS);
    while !server.four_letter("mntr").await?.lines().any(|line| line == both) {
        tokio::task::yield_now().await;
    }

    relay.cut();
    let clock = Clock::start();
    let mut moments = Vec::new();
    let all_in = async {
        while let Some(guard) = waiting.join_next().await {
            moments.push((clock.elapsed(), guard??));
        }
        anyhow::Ok(())
    };
    timeout(session_timeout + PATIENT, all_in).await.context("not all got in")??;
    let since_first = |index: usize| moments[index].0 - moments[0].0;
    println!(
        "expiry_herd: the first after {:?}, half within {:?} of it, 99 % within {:?}, all within \
         {:?}",
        moments[0].0,
        since_first(LOCKS / 2),
        since_first(LOCKS * 99 / 100),
        since_first(LOCKS - 1),
    );
    waiter.close().await;
    Ok(())
}

#[tokio::test]
async fn a_dropped_runtime_frees_the_lock_with_its_session() -> Result<()> {
    let (tick, session_timeout) = (Duration::from_millis(500), Duration::from_secs(2));
    let server = Standalone::with(&with_tick(tick)).await?;
    let address = server.address();
    let holder = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let guard = runtime.block_on(async {
            let client = client(&address, session_timeout).await?;
            anyhow::Ok(Lock::new(&client, LOCK)?.acquire().await?)
        })?;
        drop(runtime);
        // No driver is left to release it.
        drop(guard);
        anyhow::Ok(())
    });
    let client = client(&server.address(), PATIENT).await?;
    tokio::task::spawn_blocking(|| holder.join()).await?.expect("no panic")?;
    queued(&client, 1).await?;
    let guard = timeout(session_timeout + 2 * tick, Lock::new(&client, LOCK)?.acquire()).await;
    guard.context("too late")??.release().await?;
    client.close().await;
    Ok(())
}

#[tokio::test]
async fn aborted_tasks_leave_the_queue_at_once() -> Result<()> {
    let server = Standalone::start().await?;
    let client = client(&server.address(), PATIENT).await?;
    let lock = Lock::new(&client, LOCK)?;
    lock.acquire().await?.release().await?;
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let lock = lock.clone();
        tasks.spawn(async move {
            let _guard = lock.acquire().await?;
            std::future::pending::<()>().await;
            anyhow::Ok(())
        });
    }
    queued(&client, 50).await?;
    tasks.abort_all();
    timeout(PATIENT / 10, queued(&client, 0)).await.context("too late")??;
    client.close().await;
    Ok(())
}

/// Checks that the waiter behind a process that ends in this way gets the lock within this time.
async fn ends(end: &str, session_timeout: Duration, within: Duration) -> Result<()> {
    let server = Standalone::with(&with_tick(Duration::from_millis(500))).await?;
    let arguments = [end, "hold=told", "turns=1"];
    let mut holder = contender(&server.address(), session_timeout, &arguments)?;
    holder.says("held").await?;
    let client = client(&server.address(), PATIENT).await?;
    let lock = Lock::new(&client, LOCK)?;
    let waiter = tokio::spawn(async move { lock.acquire().await });
    queued(&client, 2).await?;
    holder.tell("go").await?;
    holder.done().await?;
    timeout(within, waiter).await.context("too late")???.release().await?;
    client.close().await;
    Ok(())
}

#[tokio::test]
async fn a_process_that_just_exits_frees_the_lock_with_its_session() -> Result<()> {
    let session_timeout = Duration::from_secs(2);
    ends("end=exit", session_timeout, session_timeout + Duration::from_secs(1)).await
}

#[tokio::test]
async fn a_process_that_closes_its_client_frees_the_lock_at_once() -> Result<()> {
    ends("end=close", PATIENT, PATIENT / 10).await
}
