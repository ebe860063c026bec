//! The textbook lock: the whole algorithm on the client alone, and what it leaves out.
//!
//! ```text
//! cargo run -p zk-recipes --example textbook_lock
//! ```
//!
//! Four tasks, each with a session of its own, add to a number that only one may change at a time.
//! This is to be read. What it ignores, the crate handles:
//!
//! * A create whose answer is lost leaves a node that blocks everybody: `OwnedNode` of `zk-client`
//!   finds it again. So it does with a delete that is lost, and a future that is dropped.
//! * The folder may be missing, or its numbers used up: `src/queue/failed_create.rs`.
//! * Others may name their nodes otherwise, so that names do not sort like their numbers:
//!   `src/node/layout.rs`.
//! * The connection may break while it waits, so that events are missed; our own node may be gone;
//!   a node may be unreadable: `src/queue/sight.rs`. A writer may become a reader:
//!   `src/queue/wait.rs`.
//! * The session may be over without our knowledge: `src/hold/status.rs`.
//! * A holder may be stopped at any moment and go on later: `src/hold/token.rs`.

use zk_client::{Client, CreateOptions, Error};
use zk_embedded::Server;

pub(crate) const FOLDER: &str = "/lock";
const NUMBER: &str = "/number";

/// Returns the path of our node, once it holds the lock. Deleting it releases the lock.
pub(crate) async fn acquire(client: &Client) -> Result<String, Error> {
    // Join: a node that goes with our session, at the end of the queue.
    let stem = format!("{FOLDER}/lock-");
    let ours = client.create(&stem, b"", &CreateOptions::ephemeral().sequential()).await?.path;
    let own_name = ours.rsplit('/').next().unwrap_or_default();
    loop {
        // The queue, in the order of the numbers that the server has appended.
        let list = client.get_children(FOLDER).await?;
        let mut names = list.names.iter().collect::<Vec<_>>();
        names.sort_unstable();
        // Hold: nobody is ahead of us.
        let ahead = names.iter().take_while(|name| **name < own_name);
        let Some(nearest) = ahead.last() else {
            return Ok(ours);
        };
        // Wait: watch the one right ahead, and not the holder, so that a release wakes only one.
        match client.get_data_and_watch(&format!("{FOLDER}/{nearest}")).await {
            Ok((_, mut watcher)) => drop(watcher.changed().await?),
            Err(error) if error.is_no_node() => {}
            Err(error) => return Err(error),
        }
        // It may have been a waiter that gave up: look again.
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let server = Server::start().await?;
    let client = Client::connect(server.address()).await?;
    client.create(FOLDER, b"", &CreateOptions::persistent()).await?;
    client.create(NUMBER, b"0", &CreateOptions::persistent()).await?;
    let mut tasks = tokio::task::JoinSet::new();
    for name in ["Ana", "Ben", "Cho", "Dan"] {
        let client = Client::connect(server.address()).await?;
        tasks.spawn(async move {
            for _ in 0..25 {
                let node = acquire(&client).await?;
                let number = String::from_utf8(client.get_data(NUMBER).await?.data.to_vec())?;
                let next = number.parse::<u32>()? + 1;
                client.set_data(NUMBER, next.to_string().as_bytes(), None).await?;
                client.delete(&node, None).await?;
            }
            println!("{name} has added 25");
            client.close().await;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let number = client.get_data(NUMBER).await?.data;
    println!("4 times 25 is {}", String::from_utf8_lossy(&number));
    client.close().await;
    Ok(())
}
