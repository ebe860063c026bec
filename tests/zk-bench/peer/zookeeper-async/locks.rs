//! The lock of the crate `zookeeper-async` without contenders, for `tests/figures --table`.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use zk_bench::loops::Result;
use zk_bench::options::{self, Options};
use zk_bench::pause::Pause;
use zk_bench::race::{self, Turns};
use zk_bench::server::Server;
use zookeeper_async::ZooKeeper;
use zookeeper_async::recipes::shared_lock::lock;

fn main() -> Result<()> {
    let options = Options::parse(options::RACE, env::args().skip(1))?;
    let workload = options.workload.as_deref().ok_or("which workload?")?;
    match &options.contender {
        Some(folder) => options.runtime()?.block_on(cycle(folder, &options)),
        None => Ok(race::run(workload, &options, &Server::start(&options)?)?),
    }
}

async fn cycle(folder: &str, options: &Options) -> Result<()> {
    let address = options.server.to_string();
    let client = ZooKeeper::connect(&address, Duration::from_secs(10), |_| ()).await?;
    let client = Arc::new(client);
    let turns = Turns::start(options)?;
    let mut pause = Pause::new(options.pause)?;
    while turns.go_on() {
        let asked = turns.asked();
        let guard = lock(Arc::clone(&client), folder.to_owned()).await?;
        turns.count(asked);
        drop(guard);
        pause.wait().await?;
    }
    Ok(())
}
