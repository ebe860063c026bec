//! Closed loops: the requests that the tasks repeat.

use zk_bench::loops;
use zk_bench::options::Options;
use zk_bench::report::rounded;
use zk_bench::server::Server;
use zk_client::{Client, CreateOptions};

use crate::{CROWD, NODE, Result, watch};

/// The work of each task.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Get,
    Set(Vec<u8>),
    Children,
    CreateDelete,
    /// To read and watch, write, and wait for the event.
    Event(Vec<u8>),
}

pub(crate) async fn run(
    work: Work,
    client: &Client,
    server: &Server,
    options: &Options,
) -> Result<()> {
    let watchers = watch::set(client, 0..options.watches).await?;
    let task = |n| Task { work: work.clone(), client: client.clone(), own: format!("{NODE}/{n}") };
    let outcome = loops::run(task, server, options).await?;
    drop(watchers);

    let name = match work {
        Work::Get => "get",
        Work::Set(_) => "set",
        Work::Children => "children",
        Work::CreateDelete => "create-delete",
        Work::Event(_) => "event",
    };
    let mut report = outcome.report(name, options);
    if let Work::Children = work {
        let names = (outcome.ops.max(1) * options.children.max(1) as u64) as f64;
        report.put("children", options.children);
        report.put("cpu_ns_per_name", rounded(outcome.spent.cpu.as_secs_f64() * 1e9 / names));
    }
    Ok(report.print()?)
}

/// One of the tasks.
struct Task {
    work: Work,
    client: Client,
    /// A node that no other task touches.
    own: String,
}

impl loops::Work for Task {
    async fn operate(&self) -> Result<()> {
        let Self { work, client, own } = self;
        match work {
            Work::Get => drop(client.get_data(NODE).await?),
            Work::Set(data) => drop(client.set_data(NODE, data, None).await?),
            Work::Children => drop(client.get_children(CROWD).await?),
            Work::CreateDelete => {
                client.create(own, b"", &CreateOptions::persistent()).await?;
                client.delete(own, None).await?;
            }
            Work::Event(data) => {
                let (_, mut watch) = client.get_data_and_watch(NODE).await?;
                client.set_data(NODE, data, None).await?;
                watch.changed().await?;
            }
        }
        Ok(())
    }
}
