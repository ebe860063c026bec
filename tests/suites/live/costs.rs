//! The cost of locks on a real server: requests per acquisition, as the server counts them.
//!
//! The counts include packets that the locks do not cause: the four-letter word that reads the
//! count is a packet, and each idle session pings. The bounds leave room only for these. The tests
//! also find contenders that wait too long, by the tokens, which show the order in which the server
//! and each process have granted the lock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_client::{Client, CreateOptions};
use zk_recipes::{FencingToken, Lock, Options, Owner, ReentrantLock};
use zk_test_support::contender;
use zk_test_support::server::{ServerConfig, Standalone};

const LOCK: &str = "/locks/costs";
/// The session timeout of all clients. Sessions ping when they have been idle for a third of it.
const SESSION: Duration = Duration::from_secs(30);
/// How long a stuck test may take.
const DEADLINE: Duration = Duration::from_secs(25);

async fn server() -> Result<Standalone> {
    let config = ServerConfig { max_session_timeout: Some(SESSION), ..ServerConfig::default() };
    Standalone::with(&config).await
}

async fn client(server: &Standalone) -> Result<Client> {
    Ok(Client::builder().session_timeout(SESSION).connect(&server.address()).await?)
}

async fn clients(server: &Standalone, count: usize) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(client(server).await?);
    }
    Ok(clients)
}

/// The number of packets that the server has received during `work`, without the one that reads the
/// count.
async fn packets<T>(
    server: &Standalone,
    work: impl Future<Output = Result<T>>,
) -> Result<(u64, T)> {
    let before = server.packets_received().await?;
    let done = timeout(DEADLINE, work).await.context("it takes too long")??;
    Ok((server.packets_received().await? - before - 1, done))
}

/// Waits for all tasks, and fails with the first one that fails.
async fn all<T: 'static>(mut tasks: JoinSet<Result<T>>) -> Result<()> {
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn per(packets: u64, acquisitions: u64) -> f64 {
    packets as f64 / acquisitions as f64
}

#[tokio::test]
async fn a_free_lock_costs_a_create_a_list_and_a_delete() -> Result<()> {
    const TURNS: u64 = 500;
    let server = server().await?;
    let lock = Lock::new(&client(&server).await?, LOCK)?;
    lock.acquire().await?.release().await?;
    let turns = async {
        for _ in 0..TURNS {
            lock.acquire().await?.release().await?;
        }
        Ok(())
    };
    let (packets, ()) = packets(&server, turns).await?;
    println!("uncontended: {:.3} requests per acquisition", per(packets, TURNS));
    ensure!((3 * TURNS..=3 * TURNS + 1).contains(&packets), "{packets} packets, {TURNS} turns");
    Ok(())
}

#[tokio::test]
async fn a_requeue_costs_a_transaction_and_a_list() -> Result<()> {
    const TURNS: u64 = 500;
    let server = server().await?;
    let guard = Lock::new(&client(&server).await?, LOCK)?.acquire().await?;
    let turns = async {
        let mut guard = guard;
        let mut token = guard.token();
        for _ in 0..TURNS {
            guard = guard.requeue().await?;
            ensure!(token < guard.token(), "{token} before {}", guard.token());
            token = guard.token();
        }
        Ok(guard)
    };
    let (packets, guard) = packets(&server, turns).await?;
    // One more packet is allowed for a ping.
    ensure!((2 * TURNS..=2 * TURNS + 1).contains(&packets), "{packets} packets, {TURNS} turns");
    guard.release().await?;
    Ok(())
}

#[tokio::test]
async fn four_that_fight_cost_five_requests_each_at_most() -> Result<()> {
    const TURNS: u64 = 300;
    const RIVALS: u64 = 4;
    let server = server().await?;
    let mut locks = Vec::new();
    for client in clients(&server, RIVALS.try_into()?).await? {
        locks.push(Lock::new(&client, LOCK)?);
    }
    locks[0].acquire().await?.release().await?;
    let fight = async {
        let mut rivals = JoinSet::new();
        for lock in locks {
            rivals.spawn(async move {
                for _ in 0..TURNS {
                    lock.acquire().await?.release().await?;
                }
                Ok(())
            });
        }
        all(rivals).await
    };
    let (packets, ()) = packets(&server, fight).await?;
    let turns = RIVALS * TURNS;
    println!("four rivals: {:.3} requests per acquisition", per(packets, turns));
    // Each turn costs a create, a listing, the watches, another listing for the third contender
    // ahead, and a delete. Each rival may also ping once.
    ensure!(packets <= 5 * turns + RIVALS, "{packets} packets, {turns} turns");
    Ok(())
}

#[tokio::test]
async fn a_queue_of_200_clients_costs_each_of_them_six_requests_at_most() -> Result<()> {
    const CLIENTS: u64 = 200;
    const TURNS: u64 = 5;
    let server = server().await?;
    let clients = clients(&server, CLIENTS.try_into()?).await?;
    Lock::new(&clients[0], LOCK)?.acquire().await?.release().await?;
    let fight = async {
        let mut waiters = JoinSet::new();
        for client in clients.clone() {
            waiters.spawn(async move {
                let lock = Lock::new(&client, LOCK)?;
                for _ in 0..TURNS {
                    lock.acquire().await?.release().await?;
                }
                Ok(())
            });
        }
        all(waiters).await
    };
    let (packets, ()) = packets(&server, fight).await?;
    let turns = CLIENTS * TURNS;
    println!("200 clients: {:.3} requests per acquisition", per(packets, turns));
    // Each turn costs a create, a listing, the watches, a listing when the last but one contender
    // ahead has gone, and a delete. One more request is for contenders that find that more have
    // gone while they list.
    ensure!(packets <= 6 * turns, "{packets} packets, {turns} turns");
    Ok(())
}

#[tokio::test]
async fn tasks_of_two_processes_share_their_requests() -> Result<()> {
    const PROCESSES: u64 = 2;
    const TASKS: u64 = 32;
    const TURNS: u64 = 40;
    let server = server().await?;
    let arguments = [
        format!("servers={}", server.address()),
        format!("path={LOCK}"),
        "kind=reentrant".to_owned(),
        format!("tasks={TASKS}"),
        format!("turns={TURNS}"),
        "start=told".to_owned(),
        // Long enough for each process to notice the other during its turn.
        "hold=1".to_owned(),
    ];
    let mut processes = Vec::new();
    for _ in 0..PROCESSES {
        let mut process = contender::start(env!("CARGO_BIN_EXE_contender"), &arguments)?;
        process.says("ready").await?;
        processes.push(process);
    }
    let fight = async {
        for process in &mut processes {
            process.tell("go").await?;
        }
        for process in processes {
            process.done().await?;
        }
        Ok(())
    };
    let (packets, ()) = packets(&server, fight).await?;
    let turns = PROCESSES * TASKS * TURNS;
    println!("2 x 32 tasks: {:.3} requests per acquisition", per(packets, turns));
    // A create, a listing, the watches, a read of the process's own node and a delete, for 33
    // turns.
    ensure!(100 * packets <= 17 * turns, "{packets} packets, {turns} turns");
    // The processes alternated, with 33 acquisitions for each node.
    ensure!(packets >= turns / 33, "{packets} packets");
    Ok(())
}

/// Each task writes while it holds the lock and records the transaction of that write. So the test
/// knows which tasks held the lock after the creation of the stranger's node.
#[tokio::test]
async fn a_stranger_waits_for_a_bounded_number_of_a_busy_processs_tenures() -> Result<()> {
    const TASKS: usize = 100;
    const PASSES: u32 = 8;
    const ROUNDS: usize = 20;
    let server = server().await?;
    // Only the number of passes ends the process's turn.
    let options = Options::new().local_handoffs(PASSES).local_handoff_time(DEADLINE);
    let busy = client(&server).await?;
    busy.create("/tenures", b"", &CreateOptions::persistent()).await?;
    let lock = ReentrantLock::with_options(&busy, LOCK, options)?;
    let tenures = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (busy, lock, tenures) = (busy.clone(), lock.clone(), Arc::clone(&tenures));
        tasks.spawn(async move {
            let me = Owner::new();
            loop {
                let guard = lock.acquire(&me).await?;
                let written = busy.set_data("/tenures", b"", None).await?.mzxid;
                tenures.lock().expect("no panic").push((guard.token(), written.0));
                guard.release().await?;
            }
        });
    }
    let stranger = Lock::new(&client(&server).await?, LOCK)?;
    let strangers = async {
        let mut granted = Vec::new();
        for _ in 0..ROUNDS {
            let guard = stranger.acquire().await?;
            granted.push(guard.token());
            guard.release().await?;
        }
        anyhow::Ok(granted)
    };
    let granted = tokio::select! {
        granted = timeout(DEADLINE, strangers) => granted.context("the stranger starves")??,
        failed = tasks.join_next() => return failed.context("no task")??,
    };
    let tenures = tenures.lock().expect("no panic");
    let waited = |stranger: &FencingToken| {
        let ahead = |(token, written): &&(FencingToken, i64)| {
            token < stranger && *written > stranger.czxid()
        };
        tenures.iter().filter(ahead).count()
    };
    let waited = granted.iter().map(waited).collect::<Vec<_>>();
    println!("tenures of {TASKS} tasks that a stranger waited for: {waited:?}");
    let bound = usize::try_from(PASSES)? + 1;
    ensure!(waited.iter().all(|tenures| *tenures <= bound), "{waited:?}");
    // The stranger has waited for some of them.
    ensure!(waited.iter().any(|tenures| *tenures > 0), "{waited:?}");
    Ok(())
}
