//! Reads on a server that has lost its ensemble; the client moves to another as soon as it can.

use zk_client::{Client, CreateOptions, ErrorCode, SessionState};
use zk_embedded::{Config, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Two servers with the same node: the first one has lost its quorum, the other is down.
    let config = || Config::new().local_sessions(true);
    let (first, other) = (Server::with(config()).await?, Server::with(config()).await?);
    for server in [&first, &other] {
        let client = Client::connect(server.address()).await?;
        client.create("/motd", b"hello", &CreateOptions::persistent()).await?;
        client.close().await;
    }
    first.set_read_only(true);
    other.set_serving(false);

    let servers = format!("{},{}", first.address(), other.address());
    let client = Client::builder().allow_read_only(true).connect(&servers).await?;
    let (node, mut watch) = client.get_data_and_watch("/motd").await?;
    println!("{:?}, it says {:?}", client.state(), node.data);
    assert_eq!(client.state(), SessionState::ConnectedReadOnly);

    // A write fails at once: waiting for a server that can apply it might take forever.
    match client.set_data("/motd", b"bye", None).await {
        Err(refused) if refused.code() == Some(ErrorCode::NOT_READ_ONLY) => println!("{refused}"),
        other => return Err(format!("it cannot write, and yet: {other:?}").into()),
    }
    assert!(client.session().is_none(), "the ensemble knows nothing of this client");

    println!("the other server comes back");
    other.set_serving(true);
    client.states().wait_for(|state| *state == SessionState::Connected).await?;
    client.set_data("/motd", b"bye", None).await?;
    println!("{:?}, told: {}", client.state(), watch.changed().await?.kind);
    assert!(client.session().is_some());

    client.close().await;
    Ok(())
}
