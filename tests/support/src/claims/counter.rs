//! Claims about counters: each call counts once, whatever is lost, on whatever server.

use anyhow::Result;
use zk_client::Client;
use zk_recipes::Counter;

use crate::claims::target::Target;

const PATH: &str = "/counters/one";

pub async fn a_counter_reads_the_latest_value_from_every_server(target: &Target) -> Result<()> {
    let clients = target.connect_to_each().await?;
    let counters = clients.iter().map(|client| Counter::new(client, PATH));
    let counters = counters.collect::<Result<Vec<_>, _>>()?;
    for turn in 0..60 {
        let writer = &counters[turn % counters.len()];
        let value = writer.add(1).await?;
        for reader in &counters {
            assert_eq!(reader.get_latest().await?, value);
        }
    }
    Ok(())
}

pub async fn writers_at_all_servers_get_numbers_of_their_own(target: &Target) -> Result<()> {
    const TURNS: usize = 40;
    let mut clients = target.connect_to_each().await?;
    clients.push(target.connect().await?);
    let count = |client: Client| async move {
        let counter = Counter::new(&client, PATH)?;
        let mut numbers = Vec::new();
        for _ in 0..TURNS {
            numbers.extend(counter.reserve(2).await?);
        }
        anyhow::Ok(numbers)
    };
    let writers = clients.into_iter().map(|client| tokio::spawn(count(client)));
    let mut all = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        all.extend(writer.await??);
    }
    all.sort_unstable();
    assert_eq!(all, (0..all.len() as i64).collect::<Vec<_>>());
    Ok(())
}
