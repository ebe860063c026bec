//! A client in a program that has no async code: a runtime with one thread of its own drives the
//! session, and `block_on` waits.

use std::error::Error;

use tokio::runtime::Builder;
use zk_client::{Client, CreateOptions};
use zk_embedded::Server;

fn main() -> Result<(), Box<dyn Error>> {
    // Pings go on in that thread, whatever this thread does.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let server = runtime.block_on(Server::start())?;
    let client = runtime.block_on(Client::connect(server.address()))?;

    // Calls need no runtime; only waiting for their replies does. All ten requests are in flight
    // here.
    let creates = (0..10)
        .map(|n| client.create(&format!("/job-{n}"), b"", &CreateOptions::persistent()))
        .collect::<Vec<_>>();
    for created in creates {
        println!("made {}", runtime.block_on(created)?.path);
    }

    let (children, mut watch) = runtime.block_on(client.get_children_and_watch("/"))?;
    assert_eq!(children.names.len(), 11, "with /zookeeper");
    let deleting = client.delete("/job-3", None);
    let event = runtime.block_on(watch.changed())?;
    println!("told: {} {}", event.kind, event.path);
    runtime.block_on(deleting)?;

    runtime.block_on(client.close());
    Ok(())
}
