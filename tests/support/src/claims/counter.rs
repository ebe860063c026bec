//! Claims about counters: each call counts once, whatever is lost, on whatever server.

use anyhow::Result;
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
