//! Claims about partitioners on a server: who works on what, and that nobody works beside another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zk_client::Client;
use zk_recipes::{Error, Partitioner, Shard};

use crate::claims::lock::connect;
use crate::claims::target::Target;
use crate::fault::Faults;

const SHARDS: [&str; 4] = ["a", "b", "c", "d"];

/// Longer than any change takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who works on each shard.
type Working = Arc<watch::Sender<BTreeMap<String, &'static str>>>;

/// A member with its session. It leaves when `stop` is used.
struct Member {
    client: Client,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), Error>>,
}

impl Member {
    async fn join(target: &Target, id: &'static str, working: &Working) -> Result<Self> {
        let client = connect(target, &Faults::new()).await?;
        let partitioner = Partitioner::new(&client, "/service/queues", SHARDS)?;
        let (stop, stopped) = oneshot::channel();
        let working = Arc::clone(working);
        let running = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            let work = async |shard: Shard| {
                let name = shard.name().to_owned();
                working.send_modify(|working| {
                    assert_eq!(working.insert(name.clone(), id), None, "{shard:?} has a worker");
                });
                shard.stopping().await;
                // The last step of the work.
                drop(shard.fenced(()).await);
                working.send_modify(|working| working.retain(|one, _| *one != name));
            };
            partitioner.run_until(id, stopped, work).await
        });
        Ok(Self { client, stop, running })
    }

    async fn leave(self) -> Result<()> {
        drop(self.stop);
        self.running.await??;
        self.client.close().await;
        Ok(())
    }
}

/// Waits until these members have so many shards.
async fn have(working: &Working, expected: &[(&'static str, usize)]) -> Result<()> {
    let is_so = |working: &BTreeMap<String, &'static str>| {
        let mut loads = BTreeMap::<_, usize>::new();
        working.values().for_each(|who| *loads.entry(*who).or_default() += 1);
        loads.into_iter().eq(expected.iter().copied())
    };
    let mut seen = working.subscribe();
    timeout(PATIENCE, seen.wait_for(is_so)).await??;
    Ok(())
}

pub async fn shards_are_divided_among_those_who_are_there(target: &Target) -> Result<()> {
    let working = Working::new(watch::Sender::default());
    let ana = Member::join(target, "ana", &working).await?;
    have(&working, &[("ana", 4)]).await?;
    let ben = Member::join(target, "ben", &working).await?;
    have(&working, &[("ana", 2), ("ben", 2)]).await?;
    ana.leave().await?;
    have(&working, &[("ben", 4)]).await?;
    ben.leave().await?;
    assert!(working.borrow().is_empty());
    Ok(())
}
