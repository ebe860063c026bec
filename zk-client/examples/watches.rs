//! Changes as they happen, once or repeatedly, and what a client receives that was disconnected.

use zk_client::{Client, CreateOptions, EventType, StreamEvent, WatchMode};
use zk_embedded::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let (client, other) =
        tokio::try_join!(Client::connect(server.address()), Client::connect(server.address()))?;
    let node = CreateOptions::persistent();
    client.create("/jobs", b"", &node).await?;

    // One change: of the node's data, of its children, or of its existence.
    let (_, mut one) = client.exists_and_watch("/jobs/1").await?;
    // Every change of a tree, from now on.
    let mut all = client.watch("/jobs", WatchMode::PersistentRecursive).await?;
    other.create("/jobs/1", b"", &node).await?;
    other.set_data("/jobs/1", b"begun", None).await?;
    println!("the watcher: {}", one.changed().await?.kind);
    for kind in [EventType::NODE_CREATED, EventType::NODE_DATA_CHANGED] {
        match all.next().await? {
            StreamEvent::Changed(event) if event.kind == kind => {
                println!("the stream:  {} {} by {:?}", event.kind, event.path, event.zxid);
            }
            event => return Err(format!("{kind} was next, and not {event:?}").into()),
        }
    }

    // After a disconnect, a watcher receives the change that it missed, and a stream reports that
    // it may have missed some.
    let (_, mut gone) = client.get_data_and_watch("/jobs/1").await?;
    let session = client.session().ok_or("a session")?.id;
    server.partition(session);
    other.delete("/jobs/1", None).await?;
    server.disconnect(session);
    server.heal();
    let event = gone.changed().await?;
    println!("the watcher: {}, missed: {}", event.kind, event.missed);
    assert!(event.missed);
    loop {
        match all.next().await? {
            StreamEvent::Rearmed => break println!("the stream:  armed again, so look again"),
            event => println!("the stream:  {event:?}"),
        }
    }
    assert!(client.get_children("/jobs").await?.names.is_empty());

    // No watcher is left, so the client removes the watches on the server.
    drop(all);
    client.sync("/").await?;
    assert_eq!(server.watch_count(), 0);
    println!("watches at the server: {}", server.watch_count());
    Ok(())
}
