//! Nodes, versions and a watch: the basic use of a client.

use zk_client::{Client, CreateOptions, ErrorCode, EventType};
use zk_embedded::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(server.address()).await?;

    let created = client.create("/motd", b"hello", &CreateOptions::persistent()).await?;
    println!("made {} in transaction {}", created.path, created.czxid);

    // The read sets the watch, so no change can slip in between.
    let (node, mut watch) = client.get_data_and_watch("/motd").await?;
    println!("it says {:?} at version {}", node.data, node.stat.version);

    client.set_data("/motd", b"bye", Some(node.stat.version)).await?;
    let event = watch.changed().await?;
    assert_eq!(event.kind, EventType::NODE_DATA_CHANGED);
    println!("told: {} {}", event.kind, event.path);

    // A client that read before that write cannot overwrite it.
    match client.set_data("/motd", b"hi", Some(node.stat.version)).await {
        Err(refused) if refused.code() == Some(ErrorCode::BAD_VERSION) => println!("{refused}"),
        other => return Err(format!("the version has moved on, and yet: {other:?}").into()),
    }

    client.close().await;
    Ok(())
}
