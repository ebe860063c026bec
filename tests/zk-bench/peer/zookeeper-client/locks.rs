//! The same races with the lock of the crate `zookeeper-client`, for `tests/figures-locks` and
//! `tests/figures --table`.

use std::env;
use std::sync::Arc;

use tokio::task::JoinSet;
use zk_bench::options::{self, Options};
use zk_bench::pause::Pause;
use zk_bench::race::{self, Turns};
use zk_bench::server::Server;
use zookeeper_client::{Acls, Client, CreateMode, Error, LockOptions, LockPrefix};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Result<()> {
    let options = Options::parse(options::RACE, env::args().skip(1))?;
    let workload = options.workload.as_deref().ok_or("which workload?")?;
    match &options.contender {
        Some(folder) => {
            options.pin_client()?;
            options.runtime()?.block_on(contend(folder, &options))
        }
        None => Ok(race::run(workload, &options, &Server::start(&options)?)?),
    }
}

async fn contend(folder: &str, options: &Options) -> Result<()> {
    let client = Client::connect(&options.server.to_string()).await?;
    let turns = Turns::start(options)?;
    let mut tasks = JoinSet::new();
    let result = format!("{folder}-result");
    let writes = options.workload.as_deref() == Some("contend");
    if writes {
        let everybody = CreateMode::Persistent.with_acls(Acls::anyone_all());
        match client.create(&result, b"", &everybody).await {
            Ok(_) | Err(Error::NodeExists) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let result = writes.then_some(result);
    for _ in 0..options.tasks {
        let pause = Pause::new(options.pause)?;
        let (client, folder, turns) = (client.clone(), folder.to_owned(), Arc::clone(&turns));
        tasks.spawn(fight(client, folder, turns, result.clone(), pause));
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}

async fn fight(
    client: Client,
    folder: String,
    turns: Arc<Turns>,
    result: Option<String>,
    mut pause: Pause,
) -> Result<()> {
    let everybody = Acls::anyone_all();
    let folders = CreateMode::Persistent.with_acls(everybody);
    let options = LockOptions::new(everybody).with_ancestor_options(folders)?;
    while turns.go_on() {
        let asked = turns.asked();
        let prefix = LockPrefix::new_curator(&folder, "lock-")?;
        let guard = client.lock(prefix, b"", options.clone()).await?;
        turns.count(asked);
        if let Some(result) = &result {
            client.set_data(result, b"done", None).await?;
        }
        drop(guard);
        pause.wait().await?;
    }
    Ok(())
}
