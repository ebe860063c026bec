//! Claims about trees in memory: they are the server's, whatever was missed, on whatever server.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::timeout;
use zk_client::{Client, CreateOptions, OpCode};
use zk_recipes::{TreeCache, TreeLimits};

use crate::claims::target::Target;
use crate::fault::{Fault, Faults};

const ROOT: &str = "/services";

/// Waits until the tree has all that this client wrote, and compares it with the server.
async fn equals(tree: &TreeCache, client: &Client) -> Result<()> {
    let reached = timeout(Duration::from_secs(30), tree.wait_for_zxid(client.last_zxid())).await;
    reached.with_context(|| format!("{tree:?} does not come to {}", client.last_zxid()))??;
    let mut to_read = vec![ROOT.to_owned()];
    while let Some(path) = to_read.pop() {
        let children = match client.get_children(&path).await {
            Ok(children) => children,
            Err(error) if error.is_no_node() => {
                ensure!(tree.get(&path).is_none(), "{path} is gone");
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let node = client.get_data(&path).await?;
        let shown = tree.get(&path).with_context(|| format!("{path} is missing"))?;
        ensure!(shown.data[..] == node.data[..], "{path} is {shown:?} and not {node:?}");
        ensure!((shown.czxid, shown.mzxid) == (node.stat.czxid, node.stat.mzxid));
        let mut names = children.names.iter().collect::<Vec<_>>();
        names.sort_unstable();
        ensure!(tree.children(&path).unwrap_or_default() == names, "the children of {path}");
        to_read.extend(names.iter().map(|name| format!("{path}/{name}")));
    }
    Ok(())
}

pub async fn a_tree_in_memory_is_the_server_s_through_lost_connections(
    target: &Target,
) -> Result<()> {
    let faults = Faults::over(target.way());
    let keeper = target.builder().connector(faults.clone()).keep(&target.servers()).await?;
    let (tree, following) = TreeCache::follow(&keeper, ROOT, TreeLimits::default())?;
    let following = tokio::spawn(following);
    let persistent = CreateOptions::persistent();
    let writer = target.connect().await?;
    equals(&tree, &writer).await?;
    for turn in 0..12 {
        let fault = match turn % 2 {
            0 => Fault::LoseReply(OpCode::GET_DATA),
            _ => Fault::LoseRequest(OpCode::GET_DATA),
        };
        faults.arm(fault);
        for n in 0..10 {
            let path = format!("{ROOT}/{}/{n}", turn % 4);
            match (turn + n) % 4 {
                0 => drop(writer.delete_all(&path).await?),
                _ => {
                    // Not there the first time, and there the next.
                    drop(writer.create_all(&path, b"new", &persistent).await);
                    writer.set_data(&path, turn.to_string().as_bytes(), None).await?;
                }
            }
        }
        equals(&tree, &writer).await?;
        ensure!(faults.happened(), "{fault:?}");
    }
    writer.delete_all(ROOT).await?;
    equals(&tree, &writer).await?;
    ensure!(tree.get(ROOT).is_none());
    drop(tree);
    following.await??;
    keeper.close().await;
    Ok(())
}
