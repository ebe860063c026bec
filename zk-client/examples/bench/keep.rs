//! How much memory kept replies take besides their data.

use tokio::task::JoinSet;
use zk_bench::meter::{Memory, Meter};
use zk_bench::options::Options;
use zk_bench::report::{Report, rounded};
use zk_client::{Client, Error, Node};

use crate::{NODE, Result};

pub(crate) async fn run(client: &Client, options: &Options) -> Result<()> {
    let ops = options.ops.unwrap_or(1_000_000);
    // Memory that is allocated once is not counted.
    read(client, options.depth, options.depth as u64 * 10).await?;
    let before = Memory::look()?.now;
    let meter = Meter::start();
    let nodes = read(client, options.depth, ops).await?;
    let spent = meter.stop();
    let grown = Memory::look()?.now.saturating_sub(before) as f64;
    let count = nodes.iter().map(Vec::len).sum::<usize>();
    let payload = nodes.iter().flatten().map(|node| node.data.len()).sum::<usize>() as f64;
    let handles = (count * size_of::<Node>()) as f64;

    let mut report = Report::new("keep", options, count as u64, spent);
    report.put("bytes_per_node", rounded(grown / count as f64));
    report.put("handle_bytes", size_of::<Node>());
    report.put("times_payload_besides_handles", rounded((grown - handles) / payload));
    report.print()?;
    drop(nodes);
    Ok(())
}

/// Each task keeps what it read.
async fn read(client: &Client, depth: usize, ops: u64) -> Result<Vec<Vec<Node>>> {
    let each = usize::try_from(ops)?.div_ceil(depth);
    let mut tasks = JoinSet::new();
    for _ in 0..depth {
        let client = client.clone();
        tasks.spawn(async move {
            let mut nodes = Vec::with_capacity(each);
            for _ in 0..each {
                nodes.push(client.get_data(NODE).await?);
            }
            Ok::<_, Error>(nodes)
        });
    }
    let mut all = Vec::with_capacity(depth);
    while let Some(nodes) = tasks.join_next().await {
        all.push(nodes??);
    }
    Ok(all)
}
